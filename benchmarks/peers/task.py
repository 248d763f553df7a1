"""What one contender is asked to do, and how it answers. Imports the standard library only: peers have an environment
of their own, without this project.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULT = "RESULT "
COLUMNS = {
    "event_id": "text",
    "publish_at": "timestamptz",
    "customer": "text",
    "status": "text",
    "quantity": "integer",
    "account": "bigint",
    "amount": "numeric(12,2)",
    "paid": "boolean",
    "city": "text",
}


@dataclass(frozen=True)
class Task:
    """One topic into one table. ``table`` is ``schema.name`` and exists, unless the contender makes its own."""

    bootstrap: str
    postgres: dict[str, Any]
    topic: str
    partitions: int
    records: int
    wide: bool
    table: str
    scratch: str
    variant: str
    java: str
    jars: dict[str, list[str]]
    last: list[tuple[str, str]]
    """Event id and publish_at of the last record of each partition."""
    faucet: str = ""
    superuser: dict[str, Any] = field(default_factory=dict)
    """For libpq, of the superuser in the database of the tables: who alone may end all of its old work."""

    @property
    def columns(self) -> dict[str, str]:
        """Names and types, in the order of the table."""
        return {**COLUMNS, "pad": "text"} if self.wide else COLUMNS

    @property
    def name(self) -> str:
        """The table without its schema."""
        return self.table.split(".")[1]

    @property
    def dsn(self) -> str:
        """For libpq."""
        return " ".join(f"{name}={value}" for name, value in self.postgres.items())

    @property
    def jdbc(self) -> str:
        """For Java."""
        p = self.postgres
        login = f"user={p['user']}&password={p['password']}"
        return f"jdbc:postgresql://{p['host']}:{p['port']}/{p['dbname']}?{login}&reWriteBatchedInserts=true"

    @property
    def server(self) -> str:
        """What follows the scheme of a URL."""
        p = self.postgres
        return f"{p['user']}:{p['password']}@{p['host']}:{p['port']}/{p['dbname']}"

    def write(self, path: Path) -> None:
        """Keep it for the contender's process."""
        path.write_text(json.dumps(asdict(self)))


Work = Callable[[Task], Callable[[], Any]]
"""Starts the session, and returns what is to be timed: from the first read until every row is visible."""


def answer(work: Work) -> None:
    """The ``main`` of a contender: session and work timed apart, the result as the last line of stdout."""
    task = Task(**json.loads(Path(sys.argv[1]).read_text()))
    began = time.perf_counter()
    run = work(task)
    ready = time.perf_counter()
    details = run()
    done = time.perf_counter()
    found = {"session": ready - began, "seconds": done - ready, "done": done, "details": details or {}}
    print(RESULT + json.dumps(found), flush=True)


def merge_statement(task: Task, staging: str) -> str:
    """The newest state of each event in ``staging`` into the table, unless the table has a newer one."""
    names = list(task.columns)
    changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != "event_id")
    return (
        f"INSERT INTO {task.table} AS t ({', '.join(names)}) "
        f"SELECT DISTINCT ON (event_id) {', '.join(names)} FROM {staging} ORDER BY event_id, publish_at DESC "
        f"ON CONFLICT (event_id) DO UPDATE SET {changed} WHERE EXCLUDED.publish_at > t.publish_at"
    )
