"""``stack``: the local servers."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.verbs import Outcome, Verbs, say
from offset_ledger.extras import require

if TYPE_CHECKING:
    from offset_ledger.local.stack import PartStatus


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add("stack", "start, stop or show the local servers", run, example="offset-ledger stack up --airflow")
    verb.add_argument("action", choices=["up", "down", "status"], help="start, stop or show the servers")
    verb.add_argument("--brokers", type=int, choices=[1, 3], help="Kafka brokers (default: what runs, or one)")
    verb.add_argument("--airflow", action="store_true", help="Airflow too")
    verb.add_argument("--registry", action="store_true", help="a schema registry too")
    verb.add_argument(
        "--spark",
        choices=["connect", "standalone", "none"],
        help="what stages batches: a Spark Connect server (default with --airflow), a cluster of a master and two "
        "workers, or neither: a session of each command's own (default without --airflow)",
    )


def run(arguments: Namespace) -> Outcome:
    """Start, stop or show the local servers."""
    require("local", "the local stack")
    from offset_ledger.local import stack
    from offset_ledger.stage.cds_archive import make_archive

    if arguments.action == "down":
        stopped = stack.down(say=say)
        return Outcome({"stopped": stopped}, "stopped" if stopped else "nothing was running")
    if arguments.action == "up":
        stack.up(
            brokers=arguments.brokers,
            airflow=arguments.airflow,
            say=say,
            meanwhile=make_archive,
            spark=stack.SparkKind(arguments.spark) if arguments.spark else None,
            registry=arguments.registry,
        )
    parts = stack.status()
    return Outcome([asdict(part) for part in parts], _text(parts))


def _text(parts: tuple[PartStatus, ...]) -> str:
    from tabulate import tabulate

    if not parts:
        return "no local stack; start one with: offset-ledger stack up"
    rows = [(p.name, "running" if p.running else "stopped", p.pid or "", p.address, p.detail) for p in parts]
    return tabulate(rows, headers=["server", "state", "pid", "address", "detail"])
