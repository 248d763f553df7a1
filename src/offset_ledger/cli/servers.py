"""The verbs about servers: the local stack and the ledger's schema."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from tabulate import tabulate

from offset_ledger.cli.verbs import Outcome, Verbs, say


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    made = verbs.add("stack", "start, stop or show the local servers", stack)
    made.add_argument("action", choices=["up", "down", "status"])
    made.add_argument("--brokers", type=int, choices=[1, 3], help="Kafka brokers (default: what runs, or one)")
    made.add_argument("--airflow", action="store_true", help="Airflow too")

    made = verbs.add("migrate", "create or upgrade the ledger", migrate)
    made.add_argument("--connection", default="postgres_default", help="Airflow connection id (postgres_default)")


def stack(arguments: Namespace) -> Outcome:
    """Start, stop or show the local servers."""
    from offset_ledger.local import stack as local
    from offset_ledger.stage.cds_archive import make_archive

    if arguments.action == "up":
        local.up(brokers=arguments.brokers, airflow=arguments.airflow, say=say, meanwhile=make_archive)
    elif arguments.action == "down":
        stopped = local.down(say=say)
        return Outcome({"stopped": stopped}, "stopped" if stopped else "nothing was running")
    parts = local.status()
    rows = [(p.name, "running" if p.running else "stopped", p.pid or "", p.address, p.detail) for p in parts]
    data = [asdict(p) for p in parts]
    if not parts:
        return Outcome(data, "no local stack; start one with: offset-ledger stack up")
    return Outcome(data, tabulate(rows, headers=["server", "state", "pid", "address", "detail"]))


def migrate(arguments: Namespace) -> Outcome:
    """Create or upgrade the ledger."""
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.migrate import migrate as apply

    with connect(get_connection(arguments.connection)) as session:
        applied = apply(session)
    return Outcome({"applied": applied}, "\n".join(f"applied {name}" for name in applied) or "the ledger is up to date")
