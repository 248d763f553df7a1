"""The verbs by which a person decides, with a reason that the ledger keeps."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of, say


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    for name, summary, run in (
        ("approve", "let a rejected batch commit what was judged", approve_tombstones),
        ("abandon", "give an open batch up; its ranges are planned again", abandon),
    ):
        made = verbs.add(name, summary, run)
        made.add_argument("batch_id", type=int, metavar="BATCH")
        made.add_argument("--why", required=True, help="kept with the batch")
        made.add_argument("--connection", default="postgres_default", help="Airflow connection id (postgres_default)")

    lost = "approve the loss of offsets that retention, or of tombstones that compaction, removed before they were read"
    verbs.of_pipeline("skip", lost, skip).add_argument(
        "--why", required=True, help="kept with the batch that records the loss"
    )
    another = "go on with a recreated topic, or with a log that was cut off, from where it can be read on"
    verbs.of_pipeline("accept-topic", another, accept_topic).add_argument(
        "--why", required=True, help="kept with the decision"
    )
    ordered = "order all rows of a table by Kafka's timestamps, and replay what the topic still has"
    verbs.of_pipeline("remerge", ordered, remerge).add_argument("--why", required=True, help="kept with the decision")
    table = "go on with the table as it is, after it was emptied, restored or corrected on purpose"
    verbs.of_pipeline("accept-table", table, accept_table).add_argument(
        "--why", required=True, help="kept with the count of the table"
    )


def approve_tombstones(arguments: Namespace) -> Outcome:
    """Let a rejected batch commit what was judged."""
    from offset_ledger.model.states import State

    return _decide(arguments, State.VALIDATED)


def abandon(arguments: Namespace) -> Outcome:
    """Give an open batch up."""
    from offset_ledger.model.states import State

    return _decide(arguments, State.ABANDONED)


def _decide(arguments: Namespace, after: Any) -> Outcome:
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.decisions import decide
    from offset_ledger.ledger.open import open_ledger_at
    from offset_ledger.ledger.origin import current_origin

    with open_ledger_at(get_connection(arguments.connection)) as session:
        batch = decide(session, arguments.batch_id, after, current_origin(), arguments.why)
    return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch}")


def skip(arguments: Namespace) -> Outcome:
    """Approve a loss."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.model.questions import QuestionKind
    from offset_ledger.operations.losses import loss_question, skip_lost
    from offset_ledger.operations.tombstones import approve_tombstones
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    question = loss_question(pipeline)
    if question and question.kind is QuestionKind.UNREAD_TOMBSTONES:
        batch = approve_tombstones(pipeline, current_origin(), arguments.why, question)
        return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch} goes on with the next ingest")
    committed = skip_lost(pipeline, current_origin(), arguments.why)
    mirror(pipeline)
    lost = ", ".join(str(r) for r in committed.batch.ranges)
    text = f"batch {committed.batch.batch_id} records {committed.total.skipped:,} lost offsets as skipped: {lost}"
    return Outcome({"batch_id": committed.batch.batch_id, "skipped": committed.total.skipped}, text)


def accept_topic(arguments: Namespace) -> Outcome:
    """Go on with a recreated topic, or with a log that was cut off."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.accept_topic import accept_topic as accept
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    accepted = accept(pipeline, current_origin(), arguments.why)
    mirror(pipeline, backwards=True)
    found = {"log_id": accepted.log_id, "starts": accepted.starts}
    return Outcome(found, f"{pipeline.name} accepted {accepted}")


def remerge(arguments: Namespace) -> Outcome:
    """Order all rows by Kafka's timestamps."""
    from offset_ledger.cli.batches import line, summary
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.remerge import replay_parts, restate_rows

    pipeline = pipeline_of(arguments)
    restated = restate_rows(pipeline, current_origin(), arguments.why)
    if restated.rows is not None:
        say(f"{restated.rows:,} rows of {pipeline.name} got Kafka's timestamp as their publish_at")
    done = []
    for each in replay_parts(pipeline, restated.parts, current_origin(), arguments.why, say):
        done.append(summary(each))
        say(line(each))
    gone = ", ".join(map(str, restated.gone))
    data = {"restated": restated.rows, "replayed": done, "gone": [str(r) for r in restated.gone]}
    ordered = f"the rows of {pipeline.name} are ordered by Kafka's timestamps"
    nothing = restated.rows is None and not done
    text = f"nothing to remerge: {ordered}" if nothing else f"{ordered}; {len(done)} batches replayed"
    return Outcome(data, f"{text}; not in the topic any more, so not looked at again: {gone}" if gone else text)


def accept_table(arguments: Namespace) -> Outcome:
    """Go on with the table as it is."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.accept_table import accept_table as accept

    pipeline = pipeline_of(arguments)
    event_ids = accept(pipeline, current_origin(), arguments.why)
    table = f"{pipeline.target.schema}.{pipeline.target.table}"
    text = f"{pipeline.name} accepted {table} with {event_ids:,} event ids, rows and delete markers together"
    return Outcome({"table": table, "event_ids": event_ids}, text)
