"""The verbs of decisions: about batches, losses, quarantined records, and what has changed beside them."""

from argparse import Namespace

from offset_ledger.base.progress import live
from offset_ledger.base.units import counted
from offset_ledger.interfaces.cli.output import batch_data, batch_line, show
from offset_ledger.interfaces.cli.verbs import (
    BATCH,
    PIPELINE,
    TAKE_OVER,
    Option,
    Outcome,
    Topics,
    connection,
    from_0,
    pipeline_of,
    say,
    since,
    verb,
    why,
)
from offset_ledger.model.batch import current_origin
from offset_ledger.model.states import State
from offset_ledger.outside.connections import get_connection

_BATCH = (BATCH, why("batch"), connection("postgres_default"))


def _decide_batch(arguments: Namespace, state: State) -> Outcome:
    from offset_ledger.postgres.ledger.database import connect
    from offset_ledger.postgres.ledger.decisions import decide

    with connect(get_connection(arguments.connection)) as session:
        batch = decide(session, arguments.batch_id, state, current_origin(), arguments.why)
    return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch}")


@verb(*_BATCH, example='offset-ledger batch approve 42 --why "checked with the producer"')
def run_approve(arguments: Namespace) -> Outcome:
    """Approve a rejected batch, so that it commits what was validated."""
    return _decide_batch(arguments, State.VALIDATED)


@verb(*_BATCH, example='offset-ledger batch abandon 42 --why "wrong limits in the pipeline file"')
def run_abandon(arguments: Namespace) -> Outcome:
    """Abandon an open batch; its offsets are planned again."""
    return _decide_batch(arguments, State.ABANDONED)


@verb(
    PIPELINE,
    why("batch that records the loss"),
    topics=Topics.ONE,
    example='offset-ledger accept loss flights --why "these days were loaded from the archive"',
)
def run_skip(arguments: Namespace) -> Outcome:
    """Approve a loss (offsets, or tombstones, that were removed before they were read), or accept a changed topic."""
    from offset_ledger.steps.decide.answers import loss_question, settle

    pipeline = pipeline_of(arguments)
    if question := loss_question(pipeline):
        say(question.text)
    settled = settle(pipeline, question, current_origin(), arguments.why)
    return Outcome(settled.data, settled.message)


@verb(
    PIPELINE,
    Option("--partition", type=from_0, help="of the records named by --offset"),
    Option("--offset", type=from_0, nargs="+", metavar="O", help="one or more offsets of that partition"),
    Option("--reason", help="all records refused for this reason code; see: quarantine list PIPELINE"),
    since("only records quarantined since"),
    why("decision"),
    Option("--undo", action="store_true", help="take the dismissal of these records back"),
    topics=Topics.ONE,
    example='offset-ledger quarantine dismiss flights --partition 0 --offset 17 18 --why "test records"',
)
def run_dismiss(arguments: Namespace) -> Outcome:
    """Dismiss quarantined records that will never be loaded; no redrive takes them."""
    from offset_ledger.postgres.ledger.redrive import Selection
    from offset_ledger.steps.run.redrive import dismiss, parse_choice

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since)
    offsets = None if arguments.offset is None else tuple(arguments.offset)
    selection = Selection(arguments.partition, offsets, choice.reason, choice.since)
    done = dismiss(pipeline, selection, current_origin(), arguments.why, arguments.undo)
    data = {"dismissal_id": done.dismissal_id, "records": done.records, "undone": arguments.undo}
    return Outcome(data, done.message)


@verb(
    PIPELINE,
    why("decision"),
    topics=Topics.ONE,
    example='offset-ledger accept topic flights --why "recreated with more partitions"',
)
def run_accept_topic(arguments: Namespace) -> Outcome:
    """Continue with a recreated topic, a truncated log, or without one of several topics that was deleted."""
    from offset_ledger.steps.decide.answers import settle_topic

    settled = settle_topic(pipeline_of(arguments), None, current_origin(), arguments.why)
    return Outcome(settled.data, settled.message)


@verb(PIPELINE, why("decision"), example='offset-ledger accept schema flights --why "nobody needs the new field"')
def run_accept_schema(arguments: Namespace) -> Outcome:
    """Leave the columns as they are although the next records have a schema that does not fit them."""
    from offset_ledger.steps.decide.answers import settle_schema

    settled = settle_schema(pipeline_of(arguments), None, current_origin(), arguments.why)
    return Outcome(settled.data, settled.message)


@verb(
    PIPELINE,
    why("count of the table"),
    topics=Topics.TOGETHER,
    example='offset-ledger accept table flights --why "emptied for a new start"',
)
def run_accept_table(arguments: Namespace) -> Outcome:
    """Continue with a table that was emptied, restored or corrected on purpose."""
    from offset_ledger.steps.decide.accept_topic import accept_table

    pipeline = pipeline_of(arguments)
    event_ids = accept_table(pipeline, current_origin(), arguments.why)
    table = pipeline.target.name
    text = f"{pipeline.name} accepted {table} with {event_ids:,} event ids, rows and delete markers together"
    return Outcome({"table": table, "event_ids": event_ids}, text)


_NAME = Option("pipeline", metavar="PIPELINE", help="its name in the ledger; of several topics that of the file")
_OF_LEDGER = (why("renaming"), connection("postgres_default"))


@verb(
    _NAME,
    Option("new", metavar="NEW", help="the name that its file has from now on"),
    *_OF_LEDGER,
    topics=Topics.TOGETHER,
    example='offset-ledger rename orders shop_orders --why "one prefix for each team"',
)
def run_rename(arguments: Namespace) -> Outcome:
    """Rename a pipeline in the ledger; its file, with the new name, continues at the next offset."""
    from offset_ledger.operations.rename import rename_pipeline
    from offset_ledger.postgres.ledger.database import open_ledger_at

    old, new = arguments.pipeline, arguments.new
    with open_ledger_at(get_connection(arguments.connection)) as session:
        rename_pipeline(session, old, new, current_origin(), arguments.why)
    text = f"pipeline {old} is called {new} now; write pipeline: {new} in its file before its next run"
    return Outcome({"pipeline": new, "former": old}, text)


@verb(
    _NAME,
    Option("--with-quarantine", action="store_true", help="although records wait in quarantine"),
    *_OF_LEDGER,
    topics=Topics.TOGETHER,
    example='offset-ledger forget orders --why "it was a trial"',
)
def run_forget(arguments: Namespace) -> Outcome:
    """Forget a pipeline whose file and rows are gone: its name and its table are free, its history stays."""
    from offset_ledger.operations.rename import forget_pipeline
    from offset_ledger.postgres.ledger.database import open_ledger_at

    name, reason = arguments.pipeline, arguments.why
    with open_ledger_at(get_connection(arguments.connection)) as session:
        kept_as = forget_pipeline(session, name, current_origin(), reason, arguments.with_quarantine)
    text = f"pipeline {name} is forgotten; the ledger keeps its history as {kept_as}"
    return Outcome({"pipeline": name, "kept_as": kept_as}, text)


@verb(
    PIPELINE,
    TAKE_OVER,
    why("decision"),
    example='offset-ledger remerge flights --why "publish_at is the timestamp now"',
)
def run_remerge(arguments: Namespace) -> Outcome:
    """Order all rows of a table by Kafka, as the pipeline file says now, and replay what the topic still has."""
    from offset_ledger.postgres.ledger.row_order import words_for
    from offset_ledger.steps.run.remerge import replay_parts, restate_rows

    pipeline = pipeline_of(arguments)
    restated = restate_rows(pipeline, current_origin(), arguments.why)
    if restated.rows is not None:
        say(f"{counted(restated.rows, 'row')} of {pipeline.name} got Kafka's timestamp as their publish_at")
    done = []
    for batch in replay_parts(pipeline, restated.parts, current_origin(), arguments.why, live, arguments.take_over):
        done.append(batch_data(batch))
        if not arguments.json:
            show(batch_line(batch))
    data = {"restated": restated.rows, "replayed": done, "gone": [str(r) for r in restated.gone]}
    ordered = f"the rows of {pipeline.name} are ordered by {words_for(pipeline.record)}"
    unchanged = restated.rows is None and not done
    text = f"nothing to remerge: {ordered}" if unchanged else f"{ordered}; {counted(len(done), 'batch')} replayed"
    gone = ", ".join(map(str, restated.gone))
    return Outcome(data, f"{text}; not in the topic any more, so not read again: {gone}" if gone else text)
