"""Staging: a planned batch by whichever engine suits it, and the next one of a backlog ahead, in a thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ledger.database import Session, open_ledger
from offset_ledger.ledger.fencing import alone_at
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.engine import Engine, EngineChoice
from offset_ledger.model.states import BatchKind
from offset_ledger.plan.step import plan_ahead
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.stage.step import Reader

log = logging.getLogger(__name__)

_PLAN_SECONDS = 10.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, step: str) -> Iterator[None]:
        """Let the time of the block count for ``step``, also if it raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = time.monotonic() - began


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
    from offset_ledger.repair.redrive import stage_redrive  # these import pyarrow: not where nothing is new
    from offset_ledger.stage.step import StagedBatch, next_stage, stage

    if batch.kind is BatchKind.REDRIVE:
        with clock.time("stage"):
            staged = stage_redrive(pipeline, batch.batch_id, origin, session)
    else:
        choice = next_stage(session, pipeline, batch.batch_id)
        if isinstance(choice, StagedBatch):
            staged = choice
        else:
            say(f"staging {choice}")
            reader = _reader(pipeline, choice, clock, stopped or Event())
            with clock.time("stage"):
                staged = stage(reader, pipeline, batch.batch_id, origin, session)
    verb = "already staged:" if staged.done else "staged"
    rows, refused, skipped = counted(staged.counts.rows, "row"), staged.counts.refused, staged.counts.skipped
    say(f"{verb} {rows}, {refused:,} refused, {skipped:,} skipped")


def _reader(pipeline: Pipeline, choice: EngineChoice, clock: Clock, stopped: Event) -> Reader:
    from offset_ledger.stage.readers import ProcessReader, SparkReader
    from offset_ledger.stage.session import staging_session

    if choice.engine is Engine.PROCESS:
        return ProcessReader(choice, stopped)
    with clock.time("session"):
        return SparkReader(staging_session(pipeline.spark), choice)


class StagingAhead:
    """Plans and stages the batch after the open one while that is validated and committed, with sessions of its own.

    At the end of the ``with`` block it is waited for; after anything but an error of this package, such as Ctrl-C, only
    until it stops. Whatever it has done by then, the next run goes on with it.
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
        if self._error:
            log.warning("the batch ahead: %s", self._error)

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
