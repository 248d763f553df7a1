"""``init``: a pipeline file and a first suite, proposed from the records of a topic."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.verbs import Outcome, Verbs, add_connection, from_1, say
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.operations.init.run import Initialized


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "propose a pipeline file and a suite for a topic, from a sample of its records"
    verb = verbs.add(
        "init", summary, run, example="offset-ledger init --topic shop.orders --output dags/pipelines/orders.yaml"
    )
    verb.add_argument("--topic", required=True, help="the Kafka topic")
    add_connection(verb, "kafka_default")
    verb.add_argument("--registry", metavar="CONNECTION", help="Airflow connection id of the records' schema registry")
    verb.add_argument("--name", help="of the pipeline (default: the last part of the topic's)")
    verb.add_argument("--table", metavar="SCHEMA.TABLE", help="the target table (default: public.<name>)")
    verb.add_argument("--records", type=from_1, default=1000, help="how many records to sample (1000)")
    verb.add_argument("--output", metavar="FILE", help="default: dags/pipelines/<name>.yaml; - prints it")
    verb.add_argument("--force", action="store_true", help="overwrite files that are there")


def run(arguments: Namespace) -> Outcome:
    """Propose a pipeline file."""
    from offset_ledger.operations.init.run import PRINTED, initialize

    a = arguments
    done = initialize(a.topic, a.connection, a.registry, a.records, a.name, a.table, a.output, a.force)
    if arguments.output == PRINTED:
        for doubt in done.proposal.doubts:
            say(doubt)
        return Outcome(_data(done), done.proposal.text.rstrip("\n"))
    return Outcome(_data(done), _text(done))


def _data(done: Initialized) -> dict[str, Any]:
    return {
        "pipeline": done.name,
        "records": done.records,
        "written": [str(path) for path in done.written],
        "file": done.proposal.text,
        "suite": done.proposal.suite,
        "unsure": list(done.proposal.doubts),
    }


def _text(done: Initialized) -> str:
    path = done.written[0]
    lines = [f"wrote {' and '.join(map(str, done.written))}, from {counted(done.records, 'record')}; to be looked at:"]
    lines += [f"  {doubt}" for doubt in done.proposal.doubts]
    lines += ["next:", *(f"  offset-ledger {verb}" for verb in (f"check {path}", f"preview {path}"))]
    return "\n".join([*lines, f"  offset-ledger ingest {path} --dry-run"])
