"""Requests: what a run is asked to do becomes a batch, a decision, or a reason why there is nothing to do."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from offset_ledger.config.model import Pipeline
from offset_ledger.decisions.answers import settle
from offset_ledger.decisions.losses import loss_question
from offset_ledger.errors import ConfigurationError, ContradictoryRequest, UnknownBatch
from offset_ledger.ledger import batches
from offset_ledger.ledger.batches import open_request
from offset_ledger.ledger.database import Session, open_ledger, transaction
from offset_ledger.ledger.decisions import decide
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.overlap import limited
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import State
from offset_ledger.plan.step import PlannedBatch, plan, plan_replay, resume
from offset_ledger.plan.topics import find_pipelines, with_news
from offset_ledger.plan.window import look_up, missed, nothing_in
from offset_ledger.run.ingest import Ingested, run_batch
from offset_ledger.units import counted


def plan_request(pipeline: Pipeline, request: Request, origin: Origin, session: Session | None = None) -> PlannedBatch:
    """Do what is requested, up to a planned batch; without one, the message says what was done or why nothing is left.

    Raises:
        LostRange: a person has to decide first; ``loss_question`` has the numbers.
        StateConflict, UnknownBatch, OffsetExpired, TerminalError: it cannot be done.
    """
    match request.action:
        case RunAction.NEXT:
            return plan(pipeline, origin, request.limit, take_rejected=True, session=session)
        case RunAction.WINDOW | RunAction.RANGES:
            return _plan_again(pipeline, request, origin, take_rejected=True)
        case RunAction.APPROVE:
            batch = _decide(pipeline, request, origin, State.VALIDATED)
            return PlannedBatch(batch, True, 0, f"approved {batch}")
        case RunAction.ABANDON:
            batch = _decide(pipeline, request, origin, State.ABANDONED)
            message = f"abandoned {batch}; a head batch's ranges are planned again by the next run"
            return PlannedBatch(None, False, 0, message)
        case RunAction.SKIP:
            assert request.why is not None
            settled = settle(pipeline, loss_question(pipeline), origin, request.why)
            return PlannedBatch(None, False, 0, settled.message)


def replay(pipeline: Pipeline, request: Request, origin: Origin, say: Callable[[str], None]) -> Ingested:
    """Plan what the request names, or resume what an earlier call left open, and take it through every step.

    Raises:
        ConfigurationError: there is nothing to read in it.
        OffsetExpired, BatchRejected, TransientError: as the steps.
    """
    planned = _plan_again(pipeline, request, origin, take_rejected=False)
    if planned.batch is None:
        raise ConfigurationError(planned.message)
    say(planned.message)
    return run_batch(pipeline, planned, origin, say)


def requested_topics(pipeline: Pipeline, request: Request) -> tuple[Pipeline, ...]:
    """The pipelines of a file with several topics that the request is for; without those that have nothing new.

    Raises:
        ContradictoryRequest: it has to name a topic, or names one that the file does not read.
        UnknownBatch: the batch to decide about is of another file.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    if request.batch_id is not None:
        with open_ledger(pipeline) as session, transaction(session) as cursor:
            batch = batches.read_batch(cursor, request.batch_id)
        file, _, topic = batch.pipeline.partition("@")
        if file != pipeline.file or not topic:
            raise UnknownBatch(f"batch {request.batch_id} is of pipeline {batch.pipeline}, not of {pipeline.name}")
        return (pipeline.of_topic(topic),)
    if request.topic is None and request.action in (RunAction.RANGES, RunAction.SKIP):
        raise ContradictoryRequest(f"action {request.action} is for one topic, and the pipeline reads several; name it")
    if request.topic is None:
        pipelines = find_pipelines(pipeline)
        return with_news(pipelines) if request.action is RunAction.NEXT and not request.dry_run else pipelines
    if not pipeline.source.reads(request.topic):
        reads = pipeline.source.topic_names
        raise ContradictoryRequest(f"pipeline {pipeline.name} does not read topic {request.topic}; it reads {reads}")
    return (pipeline.of_topic(request.topic),)


def wanted_ranges(pipeline: Pipeline, request: Request) -> tuple[tuple[OffsetRange, ...], str]:
    """The ranges of a window or of the form, within the limit, and notes about them."""
    if request.action is RunAction.RANGES:
        ranges: Sequence[OffsetRange] = request.ranges
        notes = []
    else:
        assert request.since is not None
        assert request.until is not None
        window = look_up(pipeline, request.since, request.until, request.scan)
        if not window.ranges:
            return (), nothing_in(pipeline, window)
        ranges, notes = window.ranges, [f"records of {window}", *([window.lost] if window.lost else [])]
        notes += [missed(window)] if window.missed else []
    if request.fill:
        notes.append("rows whose state is one of these records are written again")
    within_limit = limited(ranges, request.limit)
    if (left := total_width(ranges) - total_width(within_limit)) > 0:
        notes.append(f"left out, beyond the limit: {counted(left, 'offset')}")
    return within_limit, "; ".join(notes)


def _plan_again(pipeline: Pipeline, request: Request, origin: Origin, *, take_rejected: bool) -> PlannedBatch:
    """Read ranges again: resume the open batch of this run and request, or plan one.

    A batch that is resumed keeps its ranges, even if the window would give others now.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        if batch := open_request(cursor, pipeline.name, request.kind, origin, request.key):
            return resume(cursor, batch, origin, take_rejected)
    wanted, notes = wanted_ranges(pipeline, request)
    if not wanted:
        return PlannedBatch(None, False, 0, notes)
    why = "; ".join(filter(None, [request.why, notes])) or None
    planned = plan_replay(pipeline, wanted, origin, request.kind, why, request.key)
    return replace(planned, message=f"{planned.message}; {notes}") if notes else planned


def _decide(pipeline: Pipeline, request: Request, origin: Origin, after: State) -> Batch:
    """The batch after the decision, or as it is if an earlier attempt of this run has already decided."""
    assert request.batch_id is not None
    assert request.why is not None
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            batch = batches.read_batch_of(cursor, pipeline.name, request.batch_id)
        approved = after is State.VALIDATED and (batch.approved or batch.state is State.COMMITTED)
        done = approved or batch.state is after is State.ABANDONED
        return batch if done else decide(session, batch.batch_id, after, origin, request.why)
