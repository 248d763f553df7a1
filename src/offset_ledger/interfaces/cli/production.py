"""The verbs of operators: ``metrics``, ``notify``, ``prune`` and the Spark Connect server."""

import threading
from argparse import ArgumentTypeError, Namespace
from dataclasses import asdict
from pathlib import Path

from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.cli.verbs import (
    PIPELINE,
    OneOf,
    Option,
    Outcome,
    Topics,
    name_and_value,
    pipeline_of,
    say,
    verb,
)
from offset_ledger.model.batch import current_origin
from offset_ledger.operations.repair.prune_ages import KINDS
from offset_ledger.outside.spark.home import CONNECT_HOST, CONNECT_PORT

_DEFAULT = "127.0.0.1:9464"


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise ArgumentTypeError(f"should be a port from 1 to 65535, found {text!r}")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ArgumentTypeError(f"should be HOST:PORT, such as {_DEFAULT}, found {text!r}")
    return host.strip("[]"), int(port)


@verb(
    OneOf(
        Option("--listen", type=_address, default=_address(_DEFAULT), metavar="HOST:PORT", help=f"where ({_DEFAULT})"),
        Option("--once", action="store_true", help="print what a scrape would get, and end"),
    ),
    example="offset-ledger serve metrics --listen 0.0.0.0:9464",
)
def run_metrics(arguments: Namespace) -> Outcome:
    """Export the metrics of all pipelines to Prometheus, until it is stopped."""
    from offset_ledger.interfaces.exporter.serve import exposition, parsed, serve
    from offset_ledger.operations.status.reader import pipelines_folder

    folder = pipelines_folder(Path("dags"))
    if arguments.once:
        text = exposition(folder)
        return Outcome(parsed(text), text.rstrip())
    host, port = serve(folder, *arguments.listen)
    say(f"metrics of the pipelines in {folder}: http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    threading.Event().wait()
    raise AssertionError("nothing sets the event")


@verb(PIPELINE, topics=Topics.TOGETHER, example="offset-ledger notify flights")
def run_notify(arguments: Namespace) -> Outcome:
    """Send a test message through every notifier of the pipeline file.

    Raises:
        ConfigurationError: the file has no ``notify``, or a notifier failed.
    """
    from offset_ledger.interfaces.airflow.notify import message, send
    from offset_ledger.model.notices import trial

    pipeline = pipeline_of(arguments)
    if not pipeline.notify:
        raise ConfigurationError(f"{pipeline.path} has no notify section; add one, see docs/notify.md")
    notice = trial(pipeline.name, "")
    values = message(pipeline.name, notice.cause, notice.subject, notice.body, notice.link)
    errors = {each.notifier.label: send(each.notifier, values) for each in pipeline.notify}
    failed = [f"{label}: {error}" for label, error in errors.items() if error]
    if failed:
        raise ConfigurationError(f"not sent by {'; '.join(failed)}; correct the connection or the entry")
    return Outcome({"pipeline": pipeline.name, "sent": list(errors)}, "\n".join(f"sent by {each}" for each in errors))


_KEPT = {
    "age": "by the clock of their worker they ended later",
    "decision": "a person decided about them",
    "quarantine": "records of theirs are in quarantine; redrive or dismiss them, and prune again later",
}


@verb(
    PIPELINE,
    Option("--older-than", required=True, metavar="AGE", help="since it ended, such as 90d"),
    Option(
        "--keep",
        action="append",
        default=[],
        metavar="KIND=AGE",
        help=f"another age for one of {', '.join(KINDS)}, such as audits=365d, or one for deletes: delete markers "
        "stay unless there is one; may be repeated",
    ),
    Option("--dry-run", action="store_true", help="count what would be removed, and remove nothing"),
    example="offset-ledger prune flights --older-than 90d --dry-run",
)
def run_prune(arguments: Namespace) -> Outcome:
    """Remove history by age from the ledger; what verify needs is kept as sums."""
    from offset_ledger.operations.repair.prune import prune_history
    from offset_ledger.operations.repair.prune_ages import Ages

    ages = Ages.parse(arguments.older_than, arguments.keep)
    pruned = prune_history(pipeline_of(arguments), ages, current_origin(), arguments.dry_run)
    what = {"batches": pruned.batches, "quarantined records": pruned.records, "results of audits": pruned.audits}
    what |= {"notifications": pruned.notifications, "schemas": pruned.schemas, "quality pages": pruned.pages}
    what |= {"daily reports": pruned.daily_reports} | ({"delete markers": pruned.deletes} if ages.deletes else {})
    counts = ", ".join(f"{count:,} {name}" for name, count in what.items())
    lines = [f"would remove {counts}" if arguments.dry_run else f"removed {counts}"]
    lines += [f"kept {count:,} old batches: {_KEPT[reason]}" for reason, count in sorted(pruned.kept.items())]
    return Outcome({**asdict(pruned), "dry_run": arguments.dry_run}, "\n".join(lines))


@verb(
    Option("--host", default=CONNECT_HOST, help=f"address to listen on ({CONNECT_HOST})"),
    Option("--port", type=_port, default=CONNECT_PORT, help=f"port to listen on ({CONNECT_PORT})"),
    Option("--master", default="local[2,3]", help="Spark's master; 2 cores, each task tried 3 times: local[2,3]"),
    Option("--memory", default="1g", help="heap of the server (1g)"),
    Option("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"),
    example="offset-ledger serve spark --master 'local[2,3]' --memory 2g",
)
def run_spark_server(arguments: Namespace) -> Outcome:
    """Run a Spark Connect server that stages batches, until it is stopped."""
    from offset_ledger.outside.spark.scratch import scratch
    from offset_ledger.outside.spark.server import SparkServer, become_server

    conf = dict(map(name_and_value, arguments.set))
    server = SparkServer(arguments.host, arguments.port, arguments.master, arguments.memory, conf)
    with scratch(inherited=True) as folder:
        become_server(server, folder)
    raise AssertionError("exec returned")
