"""Ingest: all steps from plan to report in one process, without Airflow; and what follows a commit, there as here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offset_ledger.base.units import counted
from offset_ledger.errors import BatchRejected, OffsetLedgerError
from offset_ledger.model.batch import Batch, Engine, Origin
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.spark.session import check_session, staging_session
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, open_ledger
from offset_ledger.postgres.ledger.fencing import alone_at
from offset_ledger.steps.plan.step import PlannedBatch, batch_limit, plan, plan_ahead
from offset_ledger.steps.plan.topics import find_pipelines

if TYPE_CHECKING:
    from offset_ledger.steps.commit.step import Committed
    from offset_ledger.steps.stage.step import Reader

log = logging.getLogger(__name__)

_PLAN_SECONDS = 10.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, step: str) -> Iterator[None]:
        """Count the time of the block for ``step``, also if it raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Ingested:
    """One committed batch and the seconds of each step."""

    committed: Committed
    seconds: dict[str, float] = field(default_factory=dict)


class StagingAhead:
    """The stager of the next batch while the open one is validated and committed, with sessions of its own.

    At the end of the ``with`` block it is waited for; after anything but an error of this package, such as Ctrl-C, only
    until it stops. Whatever it has done by then, the next run continues from there.
    """

    def __init__(
        self, pipeline: Pipeline, origin: Origin, limit: int | None, say: Callable[[str], None], take_over: bool
    ) -> None:
        self._pipeline, self._origin, self._limit, self._take_over = pipeline, origin, limit, take_over
        self._say = say
        self._thread: Thread | None = None
        self._clock = Clock()
        self._error: BaseException | None = None
        self._planned, self._stopped = Event(), Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind and not issubclass(kind, OffsetLedgerError):
            self._stopped.set()
        try:
            if self._thread:
                self._thread.join(_STOP_SECONDS if self._stopped.is_set() else None)
        finally:
            self._stopped.set()
        if error := self._error:
            log.warning("the batch ahead: %s", error.named if isinstance(error, OffsetLedgerError) else error)

    def start(self) -> None:
        """Begin, and return when the batch is planned: the gate locks the one that it is planned after."""
        self._clock, self._error = Clock(), None
        self._planned.clear()
        self._thread = Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()
        self._planned.wait(_PLAN_SECONDS)

    def finish(self) -> dict[str, float]:
        """Wait until the batch is staged, and return the seconds of the steps; raises what they have raised."""
        if self._thread:
            self._thread.join()
            self._thread = None
        if error := self._error:
            self._error = None
            raise error
        seconds, self._clock = self._clock.seconds, Clock()
        return {f"{step} ahead": of_step for step, of_step in seconds.items()}

    def _say_ahead(self, line: str) -> None:
        self._say(f"ahead: {line}")

    def _run(self) -> None:
        try:
            with open_ledger(self._pipeline) as session:
                with self._clock.time("plan"):
                    planned = plan_ahead(self._pipeline, self._origin, self._limit, session)
                self._planned.set()
                if planned.batch is None:
                    log.info(planned.message)
                    return
                self._say_ahead(planned.message)
                connection = get_connection(self._pipeline.target.connection)
                with alone_at(connection, planned.batch.batch_id, self._origin, self._take_over):
                    given = (self._origin, self._say_ahead, self._clock, session, self._stopped)
                    stage_batch(self._pipeline, planned.batch, *given)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._planned.set()


def ingest(
    pipeline: Pipeline,
    origin: Origin,
    until_drained: bool,
    say: Callable[[str], None],
    limit: int | None = None,
    take_over: bool = False,
) -> Iterator[Ingested]:
    """Commit head batches of at most ``limit`` offsets: one, or with ``until_drained`` all until nothing is new.

    While one of several is validated and committed, the next is planned and staged. An error there is raised when the
    one before it is committed. Each of several topics has its own batches. A topic that cannot go on does not stop the
    others; its error is raised at the end.
    """
    check_session(pipeline)
    failed: list[OffsetLedgerError] = []
    for of_topic in find_pipelines(pipeline):
        try:
            with StagingAhead(of_topic, origin, limit, say, take_over) as ahead:
                while True:
                    clock = Clock(ahead.finish())
                    with open_ledger(of_topic) as session:
                        with clock.time("plan"):
                            planned = plan(of_topic, origin, limit, session=session)
                        say(planned.message)
                        if planned.batch is None:
                            break
                        more = planned.resumed or planned.waiting >= batch_limit(of_topic, limit)
                        staged = ahead.start if until_drained and more else None
                        done = run_batch(of_topic, planned, origin, say, clock, take_over, session, staged)
                    yield done
                    if not until_drained:
                        break
        except OffsetLedgerError as error:
            if not pipeline.source.several:
                raise
            log.warning("%s: %s", of_topic.name, error.named)
            failed.append(error)
    if failed:
        raise failed[0]


def run_batch(
    pipeline: Pipeline,
    planned: PlannedBatch,
    origin: Origin,
    say: Callable[[str], None],
    clock: Clock | None = None,
    take_over: bool = False,
    session: Session | None = None,
    staged: Callable[[], None] | None = None,
) -> Ingested:
    """Take a planned batch through every step; ``staged`` is called when it is.

    Raises:
        BatchInUse: another run has it, and is alive; with ``take_over`` that one is fenced.
        BatchRejected: the quality gate rejected it; nothing was merged.
    """
    from offset_ledger.steps.commit.step import commit  # imports pyarrow: not where nothing is new

    assert planned.batch is not None
    batch_id, clock = planned.batch.batch_id, clock or Clock({"plan": 0.0})
    alone = alone_at(get_connection(pipeline.target.connection), batch_id, origin, take_over)
    with alone, open_ledger(pipeline, session) as session:
        stage_batch(pipeline, planned.batch, origin, say, clock, session)
        if staged:
            staged()
        with clock.time("validate"):
            validate_or_raise(pipeline, batch_id, origin, session)
        with clock.time("commit"):
            committed = commit(pipeline, batch_id, origin, session)
        finish(pipeline, batch_id, clock, session=session)
    if pipeline.quality.dead_letter_topic:
        from offset_ledger.steps.report.dead_letters import deliver

        with clock.time("dead letters"):
            try:
                say(str(deliver(pipeline)))
            except OffsetLedgerError as error:  # it does not affect the batch
                log.warning("dead letters wait in the outbox: %s", error.named)
    return Ingested(committed, clock.seconds)


def stage_batch(
    pipeline: Pipeline,
    batch: Batch,
    origin: Origin,
    say: Callable[[str], None],
    clock: Clock,
    session: Session,
    stopped: Event | None = None,
) -> None:
    """Stage a planned batch, unless all of it is staged; a redrive needs no engine.

    Once ``stopped`` is set, the engine of this process begins no other slice.
    """
    from offset_ledger.steps.run.redrive import stage_redrive  # these import pyarrow: not where nothing is new
    from offset_ledger.steps.stage.readers import ProcessReader, SparkReader
    from offset_ledger.steps.stage.step import StagedBatch, next_stage, stage

    if batch.kind is BatchKind.REDRIVE:
        with clock.time("stage"):
            staged = stage_redrive(pipeline, batch.batch_id, origin, session)
    else:
        choice = next_stage(session, pipeline, batch.batch_id)
        if isinstance(choice, StagedBatch):
            staged = choice
        else:
            say(f"staging {choice}")
            reader: Reader = ProcessReader(choice, stopped or Event())
            if choice.engine is Engine.SPARK:
                with clock.time("session"):
                    reader = SparkReader(staging_session(pipeline.spark), choice)
            with clock.time("stage"):
                staged = stage(reader, pipeline, batch.batch_id, origin, session)
    verb = "already staged:" if staged.done else "staged"
    rows, refused, skipped = counted(staged.counts.rows, "row"), staged.counts.refused, staged.counts.skipped
    say(f"{verb} {rows}, {refused:,} refused, {skipped:,} skipped")


def finish(
    pipeline: Pipeline,
    batch_id: int,
    clock: Clock | None = None,
    measure: Callable[[Pipeline, int, Session], None] | None = None,
    session: Session | None = None,
) -> Path | None:
    """Do what follows every commit, in this order: set the consumer group, send metrics, and write the pages.

    ``measure`` sends the metrics. All of it may be done again, and only a ledger that is away is an error. Returns the
    page of the batch; None if it could not be written.

    Raises:
        DatabaseUnavailable: worth another try.
    """
    from offset_ledger.steps.report.consumer_group import mirror
    from offset_ledger.steps.report.step import report

    clock = clock or Clock()
    with open_ledger(pipeline, session) as session:
        with clock.time("mirror"):
            mirror(pipeline, session=session)
        if measure:
            measure(pipeline, batch_id, session)
        with clock.time("report"):
            return report(pipeline, batch_id, session)


def validate_or_raise(pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None) -> Batch:
    """Validate a staged batch and return it; one that the gate rejects gets its report, and BatchRejected is raised."""
    from offset_ledger.steps.report.step import report
    from offset_ledger.steps.validate.step import validate

    batch, _ = validate(pipeline, batch_id, origin, session)
    if batch.state is State.REJECTED:
        page = report(pipeline, batch_id, session) or "its report"
        raise BatchRejected(
            f"batch {batch_id} of {pipeline.name} is rejected: {batch.reasons}; nothing was merged and no cursor "
            f"moved; see {page}, then run: offset-ledger batch approve {batch_id} --why ..., or "
            f"offset-ledger batch abandon {batch_id} --why ..."
        )
    return batch
