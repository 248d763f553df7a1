"""``remerge``: the order of all rows becomes that of Kafka's timestamps."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.output import batch_data, batch_line
from offset_ledger.cli.verbs import Outcome, Verbs, add_why, pipeline_of, say
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.operations.remerge import Restated


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "order all rows of a table by Kafka's timestamps, and replay what the topic still has"
    verb = verbs.add_for_pipeline(
        "remerge", summary, run, example='offset-ledger remerge flights --why "publish_at is the timestamp now"'
    )
    add_why(verb, "decision")


def run(arguments: Namespace) -> Outcome:
    """Order all rows by Kafka's timestamps."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.remerge import replay_parts, restate_rows

    pipeline = pipeline_of(arguments)
    restated = restate_rows(pipeline, current_origin(), arguments.why)
    if restated.rows is not None:
        say(f"{counted(restated.rows, 'row')} of {pipeline.name} got Kafka's timestamp as their publish_at")
    done = []
    for batch in replay_parts(pipeline, restated.parts, current_origin(), arguments.why, say):
        done.append(batch_data(batch))
        say(batch_line(batch))
    data = {"restated": restated.rows, "replayed": done, "gone": [str(r) for r in restated.gone]}
    return Outcome(data, _text(pipeline.name, restated, done))


def _text(pipeline: str, restated: Restated, done: list[dict[str, Any]]) -> str:
    ordered = f"the rows of {pipeline} are ordered by Kafka's timestamps"
    unchanged = restated.rows is None and not done
    text = f"nothing to remerge: {ordered}" if unchanged else f"{ordered}; {counted(len(done), 'batch')} replayed"
    gone = ", ".join(map(str, restated.gone))
    return f"{text}; not in the topic any more, so not read again: {gone}" if gone else text
