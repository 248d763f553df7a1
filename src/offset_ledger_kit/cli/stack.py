"""``stack``: the local servers."""

from argparse import Namespace
from dataclasses import asdict

from offset_ledger.base.extras import require
from offset_ledger.interfaces.cli.verbs import Option, Outcome, say, verb


@verb(
    Option("action", choices=["up", "down", "status"], help="start, stop or show the servers"),
    Option("--brokers", type=int, choices=[1, 3], help="Kafka brokers (default: what runs, or one)"),
    Option("--airflow", action="store_true", help="Airflow too"),
    Option("--registry", action="store_true", help="a schema registry too"),
    Option(
        "--spark",
        choices=["connect", "standalone", "none"],
        help="what stages batches: a Spark Connect server (default with --airflow), a cluster of a master and two "
        "workers, or neither: a session of each command's own (default without --airflow)",
    ),
    example="offset-ledger stack up --airflow",
)
def run_stack(arguments: Namespace) -> Outcome:
    """Start, stop or show the local servers."""
    require("local", "the local stack")
    from tabulate import tabulate

    from offset_ledger_kit.sandbox import stack

    if arguments.action == "down":
        stopped = stack.down(say=say)
        return Outcome({"stopped": stopped}, "stopped" if stopped else "nothing was running")
    if arguments.action == "up":
        stack.up(
            brokers=arguments.brokers,
            airflow=arguments.airflow,
            say=say,
            spark=stack.SparkKind(arguments.spark) if arguments.spark else None,
            registry=arguments.registry,
        )
    parts = stack.status()
    if not parts:
        return Outcome([], "no local stack; start one with: offset-ledger stack up")
    rows = [(p.name, "running" if p.running else "stopped", p.pid or "", p.address, p.detail) for p in parts]
    text = tabulate(rows, headers=["server", "state", "pid", "address", "detail"])
    return Outcome([asdict(part) for part in parts], text)
