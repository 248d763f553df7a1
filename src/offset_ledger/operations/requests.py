"""Requests: what a run was asked for becomes a batch, a decision, or a reason why there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger import batches
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.decisions import decide
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.requests import open_request
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.overlap import limited
from offset_ledger.model.questions import QuestionKind
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import State
from offset_ledger.operations.log_change import accept_topic
from offset_ledger.operations.losses import loss_question, skip_lost
from offset_ledger.operations.tombstones import approve as approve_tombstones
from offset_ledger.plan.step import PlannedBatch, plan, plan_replay
from offset_ledger.plan.window import look_up, missed, nothing_in


def plan_request(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    """Do what was asked, up to a planned batch; without one, the message says what was done or why nothing is left.

    Raises:
        LostRange: a person has to decide first; ``loss_question`` has the numbers.
        StateConflict, UnknownBatch, OffsetExpired, TerminalError: it cannot be done.
    """
    return _HOW[request.action](pipeline, request, origin)


def wanted_ranges(pipeline: Pipeline, request: Request) -> tuple[tuple[OffsetRange, ...], str]:
    """The ranges of a window or of the form, within the limit, and what has to be said about them."""
    if request.action is RunAction.RANGES:
        found: Sequence[OffsetRange] = request.ranges
        notes = []
    else:
        assert request.since is not None
        assert request.until is not None
        window = look_up(pipeline, request.since, request.until, request.scan)
        if not window.ranges:
            return (), nothing_in(pipeline, window)
        found, notes = window.ranges, [f"records of {window}", *([window.lost] if window.lost else [])]
        notes += [missed(window)] if window.missed else []
    cut = limited(found, request.limit)
    if (left := total_width(found) - total_width(cut)) > 0:
        notes.append(f"{left:,} offsets beyond the limit are left out")
    return cut, "; ".join(notes)


def _next(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    return plan(pipeline, origin, request.limit, take_rejected=True)


def _again(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    """Read ranges again: resume the open batch of this run and request, whatever a window means now, or plan one."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        if found := open_request(cursor, pipeline.name, request.kind, origin, request.key):
            return PlannedBatch(found, True, 0, f"resuming {found}, which this run has planned before")
    wanted, notes = wanted_ranges(pipeline, request)
    if not wanted:
        return PlannedBatch(None, False, 0, notes)
    why = "; ".join(filter(None, [request.why, notes])) or None
    planned = plan_replay(pipeline, wanted, origin, request.kind, why, request.key)
    message = f"{planned.message}; {notes}" if notes else planned.message
    return PlannedBatch(planned.batch, False, 0, message)


def _approve(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    found = _decided(pipeline, request, origin, State.VALIDATED, lambda b: b.approved or b.state is State.COMMITTED)
    return PlannedBatch(found, True, 0, f"approved {found}")


def _abandon(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    found = _decided(pipeline, request, origin, State.ABANDONED, lambda b: b.state is State.ABANDONED)
    return PlannedBatch(None, False, 0, f"abandoned {found}; a head batch's ranges are planned again by the next run")


def _decided(
    pipeline: Pipeline, request: Request, origin: Origin, after: State, done: Callable[[Batch], bool]
) -> Batch:
    """The batch after the decision, or as it is where an earlier attempt of this run has decided already."""
    assert request.batch_id is not None
    assert request.why is not None
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            found = batches.read_batch_of(cursor, pipeline.name, request.batch_id)
        return found if done(found) else decide(session, found.batch_id, after, origin, request.why)


def _skip(pipeline: Pipeline, request: Request, origin: Origin) -> PlannedBatch:
    assert request.why is not None
    question = loss_question(pipeline)
    if question and question.kind is QuestionKind.UNREAD_TOMBSTONES:
        approved = approve_tombstones(pipeline, origin, request.why, question)
        return PlannedBatch(None, False, 0, f"approved {approved}; the next run goes on with it")
    if question and question.kind is not QuestionKind.LOST_RANGE:
        return PlannedBatch(None, False, 0, f"accepted {accept_topic(pipeline, origin, request.why, question)}")
    committed = skip_lost(pipeline, origin, request.why)
    lost = ", ".join(map(str, committed.batch.ranges))
    return PlannedBatch(None, False, 0, f"{committed.batch} records {committed.total.skipped:,} lost offsets: {lost}")


_HOW: dict[RunAction, Callable[[Pipeline, Request, Origin], PlannedBatch]] = {
    RunAction.NEXT: _next,
    RunAction.WINDOW: _again,
    RunAction.RANGES: _again,
    RunAction.APPROVE: _approve,
    RunAction.ABANDON: _abandon,
    RunAction.SKIP: _skip,
}
