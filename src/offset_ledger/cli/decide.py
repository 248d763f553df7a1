"""The verbs of decisions: about batches, losses, quarantined records, and what has changed beside them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.completer import complete_batches
from offset_ledger.cli.output import batch_data, batch_line
from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_connection, add_why, pipeline_of, say
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.model.states import State
    from offset_ledger.operations.remerge import Restated


def add_arguments(verb: ArgumentParser) -> None:
    """Which batch, why, and where the ledger is."""
    about = "the id of a batch, which status and batches show"
    complete_batches(verb.add_argument("batch_id", type=int, metavar="BATCH", help=about))
    add_why(verb, "batch")
    add_connection(verb, "postgres_default")


def decide_batch(arguments: Namespace, state: State) -> Outcome:
    """Move the batch to ``state``, with the reason given."""
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.decisions import decide
    from offset_ledger.model.batch import current_origin

    with connect(get_connection(arguments.connection)) as session:
        batch = decide(session, arguments.batch_id, state, current_origin(), arguments.why)
    return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch}")


def add_approve(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "approve",
        "let a rejected batch commit what was validated",
        run_approve,
        example='offset-ledger approve 42 --why "checked with the producer"',
    )
    add_arguments(verb)


def run_approve(arguments: Namespace) -> Outcome:
    """Let a rejected batch commit what was validated."""
    from offset_ledger.model.states import State

    return decide_batch(arguments, State.VALIDATED)


def add_abandon(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "abandon",
        "abandon an open batch; its offsets are planned again",
        run_abandon,
        example='offset-ledger abandon 42 --why "wrong limits in the pipeline file"',
    )
    add_arguments(verb)


def run_abandon(arguments: Namespace) -> Outcome:
    """Give an open batch up."""
    from offset_ledger.model.states import State

    return decide_batch(arguments, State.ABANDONED)


def add_skip(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "approve a loss: offsets, or tombstones, that were removed before they were read"
    verb = verbs.add_for_pipeline(
        "skip",
        summary,
        run_skip,
        Topics.ONE,
        example='offset-ledger skip flights --why "these days were loaded from the archive"',
    )
    add_why(verb, "batch that records the loss")


def run_skip(arguments: Namespace) -> Outcome:
    """Approve a loss."""
    from offset_ledger.model.batch import current_origin
    from offset_ledger.model.questions import QuestionKind
    from offset_ledger.operations.losses import loss_question, skip_lost
    from offset_ledger.operations.tombstones import approve_tombstones
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    question = loss_question(pipeline)
    if question and question.kind is QuestionKind.UNREAD_TOMBSTONES:
        batch = approve_tombstones(pipeline, current_origin(), arguments.why, question)
        return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch} continues with the next ingest")
    committed = skip_lost(pipeline, current_origin(), arguments.why)
    mirror(pipeline)
    lost = ", ".join(map(str, committed.batch.ranges))
    text = (
        f"batch {committed.batch.batch_id} records {counted(committed.total.skipped, 'lost offset')} as skipped: {lost}"
    )
    return Outcome({"batch_id": committed.batch.batch_id, "skipped": committed.total.skipped}, text)


def add_dismiss(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "dismiss quarantined records that will never be loaded; no redrive takes them"
    verb = verbs.add_for_pipeline(
        "dismiss",
        summary,
        run_dismiss,
        Topics.ONE,
        example='offset-ledger dismiss flights --partition 0 --offset 17 18 --why "test records"',
    )
    verb.add_argument("--partition", type=int, help="of the records named by --offset")
    verb.add_argument("--offset", type=int, nargs="+", metavar="O", help="one or more offsets of that partition")
    verb.add_argument("--reason", help="all records refused for this reason code; see: quarantine PIPELINE")
    verb.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    add_why(verb, "decision")
    verb.add_argument("--undo", action="store_true", help="take the dismissal of these records back")


def run_dismiss(arguments: Namespace) -> Outcome:
    """Dismiss quarantined records, or undo that."""
    from offset_ledger.ledger.redrive import Selection
    from offset_ledger.model.batch import current_origin
    from offset_ledger.operations.redrive import dismiss, parse_choice

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since)
    offsets = None if arguments.offset is None else tuple(arguments.offset)
    selection = Selection(arguments.partition, offsets, choice.reason, choice.since)
    done = dismiss(pipeline, selection, current_origin(), arguments.why, arguments.undo)
    data = {"dismissal_id": done.dismissal_id, "records": done.records, "undone": arguments.undo}
    return Outcome(data, done.message)


def add_accept_topic(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "continue with a recreated topic, a truncated log, or without one of several topics that was deleted"
    verb = verbs.add_for_pipeline(
        "accept-topic",
        summary,
        run_accept_topic,
        Topics.ONE,
        example='offset-ledger accept-topic flights --why "recreated with more partitions"',
    )
    add_why(verb, "decision")


def run_accept_topic(arguments: Namespace) -> Outcome:
    """Continue with a recreated topic or a truncated log, or without a deleted topic."""
    from offset_ledger.model.batch import current_origin
    from offset_ledger.operations.accept_topic import accept_topic
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    accepted = accept_topic(pipeline, current_origin(), arguments.why)
    if accepted.starts:
        mirror(pipeline, backwards=True)
    data = {"log_id": accepted.log_id, "starts": accepted.starts}
    return Outcome(data, f"{pipeline.name} accepted {accepted}")


def add_accept_schema(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "leave the columns as they are although the next records have a schema that does not fit them"
    verb = verbs.add_for_pipeline(
        "accept-schema",
        summary,
        run_accept_schema,
        example='offset-ledger accept-schema flights --why "nobody needs the new field"',
    )
    add_why(verb, "decision")


def run_accept_schema(arguments: Namespace) -> Outcome:
    """Leave the columns as they are."""
    from offset_ledger.model.batch import current_origin
    from offset_ledger.operations.accept_topic import accept_schema

    pipeline = pipeline_of(arguments)
    accepted = [str(each) for each in accept_schema(pipeline, current_origin(), arguments.why)]
    return Outcome({"accepted": accepted}, f"{pipeline.name} goes on with its columns; accepted: {'; '.join(accepted)}")


def add_accept_table(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "continue with a table that was emptied, restored or corrected on purpose"
    verb = verbs.add_for_pipeline(
        "accept-table",
        summary,
        run_accept_table,
        Topics.TOGETHER,
        example='offset-ledger accept-table flights --why "emptied for a new start"',
    )
    add_why(verb, "count of the table")


def run_accept_table(arguments: Namespace) -> Outcome:
    """Go on with the table as it is."""
    from offset_ledger.model.batch import current_origin
    from offset_ledger.operations.accept_topic import accept_table

    pipeline = pipeline_of(arguments)
    event_ids = accept_table(pipeline, current_origin(), arguments.why)
    table = f"{pipeline.target.schema}.{pipeline.target.table}"
    text = f"{pipeline.name} accepted {table} with {event_ids:,} event ids, rows and delete markers together"
    return Outcome({"table": table, "event_ids": event_ids}, text)


def add_remerge(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "order all rows of a table by Kafka's timestamps, and replay what the topic still has"
    verb = verbs.add_for_pipeline(
        "remerge", summary, run_remerge, example='offset-ledger remerge flights --why "publish_at is the timestamp now"'
    )
    add_why(verb, "decision")


def run_remerge(arguments: Namespace) -> Outcome:
    """Order all rows by Kafka's timestamps."""
    from offset_ledger.model.batch import current_origin
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
