"""``python -m tests.witness``: replay the ledger of the local stack through the model; exits 1 if it is not allowed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import stack_home
from tests.witness.ledger import Line
from tests.witness.replay import Counts, NotAllowedError, witness


def witness_of(database: Connection) -> Counts:
    """Replay a ledger as it is at one moment, while others go on writing it.

    Raises:
        NotAllowedError: the model does not allow its history.
    """
    with connect(database, "witness") as session:
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with transaction(session) as cursor:

            def query(text: str) -> Sequence[Line]:
                cursor.execute(text)
                return [dict(row) for row in cursor.fetchall()]

            return witness(query)


def main() -> int:
    """Run from the command line."""
    stack = local.load(stack_home())
    if stack is None:
        print("there is no local stack: start one with make demo, or offset-ledger stack up", file=sys.stderr)
        return 2
    claim = "the model allows every step of the ledger's history"
    try:
        counts = witness_of(stack.postgres.connection())
    except NotAllowedError as story:
        print(f"WRONG {claim}: {story}")
        return 1
    print(f"{'ok  ' if counts.events else 'WRONG'} {claim}: {counts}")
    return 0 if counts.events else 1


if __name__ == "__main__":
    sys.exit(main())
