"""Ingest: all steps from plan to report in one process, without Airflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import BatchRejected, OffsetLedgerError
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.engine import Engine
from offset_ledger.model.states import BatchKind, State
from offset_ledger.plan.step import PlannedBatch, plan
from offset_ledger.plan.topics import find_pipelines
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.commit.step import Committed
    from offset_ledger.stage.step import StagedBatch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ingested:
    """One committed batch and the seconds of each step."""

    committed: Committed
    seconds: dict[str, float] = field(default_factory=dict)


def ingest(
    pipeline: Pipeline, origin: Origin, until_drained: bool, say: Callable[[str], None], limit: int | None = None
) -> Iterator[Ingested]:
    """Commit head batches of at most ``limit`` offsets: one, or with ``until_drained`` all until nothing is new.

    Of several topics each has its own batches. A topic that cannot go on does not keep the others from it; its error
    is raised at the end.
    """
    failed: list[OffsetLedgerError] = []
    for of_topic in find_pipelines(pipeline):
        try:
            yield from _ingest(of_topic, origin, until_drained, say, limit)
        except OffsetLedgerError as error:
            if not pipeline.source.several:
                raise
            say(f"{of_topic.name}: {type(error).__name__}: {error}")
            failed.append(error)
    if failed:
        raise failed[0]


def _ingest(
    pipeline: Pipeline, origin: Origin, until_drained: bool, say: Callable[[str], None], limit: int | None
) -> Iterator[Ingested]:
    while True:
        began = time.monotonic()
        planned = plan(pipeline, origin, limit)
        say(planned.message)
        if planned.batch is None:
            return
        yield run_batch(pipeline, planned, origin, say, time.monotonic() - began)
        if not until_drained:
            return


def run_batch(
    pipeline: Pipeline, planned: PlannedBatch, origin: Origin, say: Callable[[str], None], plan_seconds: float = 0.0
) -> Ingested:
    """Take a planned batch through every step; a redrive needs no Spark session.

    Raises:
        BatchRejected: the quality gate rejected it; nothing was merged.
    """
    from offset_ledger.commit.step import commit  # these import pyarrow: not where nothing is new
    from offset_ledger.report.consumer_group import mirror
    from offset_ledger.report.step import report

    assert planned.batch is not None
    batch_id = planned.batch.batch_id
    clock = Clock({"plan": plan_seconds})
    if planned.batch.kind is BatchKind.REDRIVE:
        from offset_ledger.operations.redrive import stage_redrive

        staged = clock.time("stage", lambda: stage_redrive(pipeline, batch_id, origin))
    else:
        staged = _stage(pipeline, batch_id, origin, clock, say)
    verb = "already staged:" if staged.done else "staged"
    rows, refused, skipped = counted(staged.counts.rows, "row"), staged.counts.refused, staged.counts.skipped
    say(f"{verb} {rows}, {refused:,} refused, {skipped:,} skipped")
    clock.time("validate", lambda: validate_or_raise(pipeline, batch_id, origin))
    committed = clock.time("commit", lambda: commit(pipeline, batch_id, origin))
    clock.time("report", lambda: report(pipeline, batch_id))
    clock.time("mirror", lambda: mirror(pipeline))
    if pipeline.quality.dead_letter_topic:
        clock.time("dead letters", lambda: _deliver(pipeline, say))
    return Ingested(committed, clock.seconds)


def validate_or_raise(pipeline: Pipeline, batch_id: int, origin: Origin) -> Batch:
    """Validate a staged batch and return it if it passed; a rejected one gets its report.

    Raises:
        BatchRejected: the gate rejected it; nothing was merged.
    """
    from offset_ledger.report.step import report
    from offset_ledger.validate.step import validate

    batch, _ = validate(pipeline, batch_id, origin)
    if batch.state is State.REJECTED:
        page = report(pipeline, batch_id) or "its report"
        raise BatchRejected(
            f"batch {batch_id} of {pipeline.name} is rejected: {batch.reasons}; nothing was merged and no cursor "
            f"moved; see {page}, then run: offset-ledger approve {batch_id} --why ..., or offset-ledger abandon "
            f"{batch_id} --why ..."
        )
    return batch


def _stage(pipeline: Pipeline, batch_id: int, origin: Origin, clock: Clock, say: Callable[[str], None]) -> StagedBatch:
    from offset_ledger.stage.process_reader import ProcessReader
    from offset_ledger.stage.session import staging_session
    from offset_ledger.stage.spark_reader import SparkReader
    from offset_ledger.stage.step import StagedBatch, next_stage, stage

    choice = next_stage(pipeline, batch_id)
    if isinstance(choice, StagedBatch):
        return choice
    say(f"staging {choice}")
    if choice.engine is Engine.PROCESS:
        return clock.time("stage", lambda: stage(ProcessReader(choice), pipeline, batch_id, origin))
    spark = clock.time("session", lambda: staging_session(pipeline.spark))
    return clock.time("stage", lambda: stage(SparkReader(spark, choice), pipeline, batch_id, origin))


def _deliver(pipeline: Pipeline, say: Callable[[str], None]) -> None:
    """Deliver dead letters; a failure leaves them in the outbox and does not affect the batch."""
    from offset_ledger.operations.dead_letters import deliver

    try:
        say(str(deliver(pipeline)))
    except OffsetLedgerError as error:
        say(f"dead letters wait in the outbox: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    def time(self, step: str, run: Callable[[], T]) -> T:
        """Run it and return its result; its time counts for ``step``, also if it raises."""
        began = time.monotonic()
        try:
            return run()
        finally:
            self.seconds[step] = time.monotonic() - began
