"""``spark-server``: a Spark Connect server for the task stage, in the foreground."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Verbs, name_and_value
from offset_ledger.local.layout import DEFAULT_PORTS, HOST


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "spark-server",
        "run a Spark Connect server that stages batches, until it is stopped",
        run,
        example="offset-ledger spark-server --master 'local[2,3]' --memory 2g",
    )
    port = DEFAULT_PORTS["spark"]
    verb.add_argument("--host", default=HOST, help=f"address to listen on ({HOST})")
    verb.add_argument("--port", type=int, default=port, help=f"port to listen on ({port})")
    verb.add_argument(
        "--master", default="local[2,3]", help="Spark's master; 2 cores, each task tried 3 times: local[2,3]"
    )
    verb.add_argument("--memory", default="1g", help="heap of the server (1g)")
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")


def run(arguments: Namespace) -> Outcome:
    """Become the server."""
    from offset_ledger.stage.scratch import scratch
    from offset_ledger.stage.spark_server import SparkServer, become_server

    conf = dict(map(name_and_value, arguments.set))
    server = SparkServer(arguments.host, arguments.port, arguments.master, arguments.memory, conf)
    with scratch(inherited=True) as folder:
        become_server(server, folder)
    raise AssertionError("exec returned")
