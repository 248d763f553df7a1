"""``migrate``: the ledger's schema."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Verbs, add_connection


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add("migrate", "create or upgrade the ledger in Postgres", run, example="offset-ledger migrate")
    add_connection(verb, "postgres_default")


def run(arguments: Namespace) -> Outcome:
    """Create or upgrade the ledger."""
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.migrate import migrate

    with connect(get_connection(arguments.connection)) as session:
        applied = migrate(session)
    return Outcome({"applied": applied}, "\n".join(f"applied {name}" for name in applied) or "the ledger is up to date")
