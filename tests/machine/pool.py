"""Sessions that are used again: a new one costs Postgres more than all statements of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_UNKNOWN

from offset_ledger.postgres.ledger import sessions

_IDLE = "SELECT set_config('application_name', 'in the pool', false), pg_advisory_unlock_all()"
_NAME = "SELECT set_config('application_name', %s, false)"


class Pooled(sessions.Session):
    """A session that is rolled back and kept where another one would be closed, unless the server has ended it."""

    idle: ClassVar[list[Pooled]] = []
    made_for: tuple[Any, ...] = ()

    def close(self) -> None:
        try:
            self.rollback()
            self.end("ROLLBACK")
            self._ask(_IDLE)
        except psycopg2.Error:
            super().close()
        else:
            self.idle.append(self)

    def is_taken(self, name: str) -> bool:
        """Whether the session is still there, and has this name now."""
        try:
            self._ask(_NAME, name)
        except psycopg2.Error:
            super().close()
        return self.info.transaction_status != TRANSACTION_STATUS_UNKNOWN

    def _ask(self, statement: str, *arguments: str) -> None:
        self.autocommit = True
        with self.cursor() as cursor:
            cursor.execute(statement, arguments or None)
        self.autocommit = False


def open_session(arguments: Mapping[str, Any]) -> sessions.Session:
    """Return what ``sessions.open_session`` does, or one of before with the same arguments."""
    made_for = tuple(sorted((key, str(value)) for key, value in arguments.items() if key != "application_name"))
    while same := [each for each in Pooled.idle if each.made_for == made_for]:
        Pooled.idle.remove(same[-1])
        if same[-1].is_taken(arguments["application_name"]):
            return same[-1]
    session = sessions.open_session({**arguments, "connection_factory": Pooled})
    assert isinstance(session, Pooled)
    session.made_for = made_for
    return session
