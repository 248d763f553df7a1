"""Requests: each becomes a batch, a decision, or a reason why there is nothing to do; a dry run writes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tabulate import tabulate

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, ContradictoryRequest, UnknownBatch
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange, Overlap, limited, overlaps, total_width
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.snapshot import check_identity, check_replay
from offset_ledger.model.states import BatchKind, State
from offset_ledger.model.windows import RecordWindow, find_window
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.offsets import record_times
from offset_ledger.outside.spark.session import check_session
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import Cursor, Session, open_ledger, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.decide.answers import loss_question, settle
from offset_ledger.steps.plan import head
from offset_ledger.steps.plan.step import (
    PlannedBatch,
    batch_limit,
    first_start,
    plan,
    plan_replay,
    resume,
    snapshot_topic,
)
from offset_ledger.steps.plan.topics import find_pipelines, with_backlog
from offset_ledger.steps.run.ingest import Ingested, run_batch


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


def replay(
    pipeline: Pipeline, request: Request, origin: Origin, say: Callable[[str], None], take_over: bool = False
) -> Ingested:
    """Plan what the request names, or resume what an earlier call left open, and take it through every step.

    Raises:
        ConfigurationError: there is nothing to read in it.
        OffsetExpired, BatchInUse, BatchRejected, TransientError: as the steps.
    """
    check_session(pipeline)
    planned = _plan_again(pipeline, request, origin, take_rejected=False)
    if planned.batch is None:
        raise ConfigurationError(planned.message)
    say(planned.message)
    return run_batch(pipeline, planned, origin, say, take_over=take_over)


def requested_topics(pipeline: Pipeline, request: Request) -> tuple[Pipeline, ...]:
    """The pipelines of a file with several topics that the request is for; without those that have nothing new.

    Raises:
        ContradictoryRequest: it has to name a topic, or names one that the file does not read.
        UnknownBatch: the batch to decide about is of another file.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
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
        of_file = find_pipelines(pipeline)
        return with_backlog(of_file) if request.action is RunAction.NEXT and not request.dry_run else of_file
    if not pipeline.source.reads(request.topic):
        reads = pipeline.source.topic_names
        raise ContradictoryRequest(f"pipeline {pipeline.name} does not read topic {request.topic}; it reads {reads}")
    return (pipeline.of_topic(request.topic),)


def _look_up(pipeline: Pipeline, since: datetime, until: datetime, scan: bool) -> RecordWindow:
    """Return the offsets of the timestamps ``[since, until)`` up to the last stable ones, and those that are gone.

    Kafka's index finds the first record at or after a moment, so records that came late are left out, and named as far
    as the ledger knows them. With ``scan`` they are part of the window.

    Raises:
        TopicRecreated: the topic is another one than the cursors belong to.
    """
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        starts, ends = kafka.first_at(topic, since), kafka.first_at(topic, until)
        snapshot = kafka.snapshot(topic)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
        before = batches.read_before(cursor, pipeline.name, since, until, snapshot)
    return find_window(since, until, snapshot, starts, ends, before, scan)


def _wanted_ranges(pipeline: Pipeline, request: Request) -> tuple[tuple[OffsetRange, ...], str]:
    """The ranges of a window or of the form, within the limit, and notes about them."""
    if request.action is RunAction.RANGES:
        ranges: Sequence[OffsetRange] = request.ranges
        notes = []
    else:
        assert request.since is not None
        assert request.until is not None
        window = _look_up(pipeline, request.since, request.until, request.scan)
        late = f"{window.missed} that came late; a full scan (--scan, or scan in the form) reads them too"
        if not window.ranges:
            nothing = f"topic {pipeline.source.topic} has no record in {window}"
            nothing += f": {window.lost}" if window.lost else ""
            with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
                times = kafka.ask(lambda admin: record_times(admin, pipeline.source.topic))
            there = "its first record is of {}, its newest of {}"
            nothing += f"; {there.format(*map(datetime.isoformat, times)) if times else 'it is empty'}"
            return (), f"by its index, {nothing}; {late}" if window.missed else nothing
        ranges, notes = window.ranges, [f"records of {window}", *([window.lost] if window.lost else [])]
        notes += [late] if window.missed else []
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
        if batch := batches.open_request(cursor, pipeline.name, request.kind, origin, request.key):
            return resume(cursor, batch, origin, take_rejected)
    if request.fill and not pipeline.has_coordinates:
        raise ConfigurationError(
            f"pipeline {pipeline.name} appends rows without their offsets (bookkeeping: beside), so nothing says which "
            "row to fill; leave fill out, or read the topic again with another name and table"
        )
    wanted, notes = _wanted_ranges(pipeline, request)
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


@dataclass(frozen=True, slots=True)
class Preview:
    """The batch that would be planned."""

    kind: BatchKind
    lines: tuple[Overlap, ...]
    notes: str

    @property
    def data(self) -> dict[str, Any]:
        """The preview as JSON values."""
        return {
            "kind": str(self.kind),
            "notes": self.notes,
            "offsets": sum(line.wanted.width for line in self.lines),
            "committed": sum(line.committed for line in self.lines),
            "ranges": [
                {
                    "partition": line.wanted.partition,
                    "from": line.wanted.from_offset,
                    "until": line.wanted.until_offset,
                    "offsets": line.wanted.width,
                    "committed": line.committed,
                    "batches": list(line.batch_ids),
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        rows = [[*list(each.values())[:-1], ", ".join(map(str, each["batches"]))] for each in self.data["ranges"]]
        head = ["partition", "from", "until", "offsets", "committed before", "by batches"]
        title = f"dry run of a {self.kind} batch: nothing was planned"
        return "\n".join(filter(None, [title, self.notes, tabulate(rows, headers=head) if rows else "nothing to read"]))


def preview(pipeline: Pipeline, request: Request) -> Preview:
    """Return what the request would read, and how much of it was committed before; raises what the plan would."""
    if request.action is RunAction.NEXT:
        return _preview_next(pipeline, request.limit)
    wanted, notes = _wanted_ranges(pipeline, request)
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
        check_replay(wanted, snapshot)
        return Preview(request.kind, _lines(cursor, pipeline, wanted), notes)


def _preview_next(pipeline: Pipeline, limit: int | None) -> Preview:
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            resumed = batches.open_head(cursor, pipeline.name)
        snapshot, at_timestamp = snapshot_topic(pipeline, cursors)
        with transaction(session) as cursor:
            if resumed:
                lines = _lines(cursor, pipeline, resumed.ranges)
                return Preview(BatchKind.HEAD, lines, f"{resumed} would be resumed")
            new = head.start_offsets(cursors, snapshot, first_start(cursor, pipeline), at_timestamp)
            starts = {**(cursors.next_offsets if cursors else {}), **new}
            waiting, heads = head.backlogs(starts, snapshot), batches.count_heads(cursor, pipeline.name)
            ranges = head.plan_head(waiting, batch_limit(pipeline, limit), heads)
            notes = f"{counted(sum(b.width for b in waiting) - total_width(ranges), 'offset')} left for later"
            if not ranges:
                notes = f"nothing new: {head.nothing_new(starts, snapshot, heads == 0)}"
            return Preview(BatchKind.HEAD, _lines(cursor, pipeline, ranges), notes)


def _lines(cursor: Cursor, pipeline: Pipeline, wanted: tuple[OffsetRange, ...]) -> tuple[Overlap, ...]:
    return overlaps(wanted, batches.committed_ranges(cursor, pipeline.name, wanted))
