"""The engines: the slices of a batch, read and staged by this process, or by tasks of Spark on any executor.

Each slice that a task has done is in the manifest, so progress is read there; a failed job becomes the error that its
text names.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from threading import Event, Thread
from typing import TYPE_CHECKING, ClassVar

from offset_ledger.base.garbage_collection import rare_collections
from offset_ledger.base.progress import progress
from offset_ledger.errors import (
    BrokerUnavailable,
    IncompleteStaging,
    OffsetLedgerError,
    SparkFailed,
    SparkUnavailable,
    TransientError,
    one_line,
    revive,
)
from offset_ledger.model.batch import Attempt, Batch, EngineChoice
from offset_ledger.model.ranges import total_width
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.spark.same_code import for_same_code
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.connection import takes_token, with_token
from offset_ledger.postgres.ledger.database import connect, named_sql, rows
from offset_ledger.steps.stage.record_batches import slice_reader
from offset_ledger.steps.stage.runs import Run, SharedSlices, runs_of, shares_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from offset_ledger.steps.stage.slices import SliceTask

log = logging.getLogger(__name__)

_THREADS = 2  # one decodes while the other waits for Postgres
_LOCAL = re.compile(r"local\[(\d+)")
_UNKNOWN_SLOTS = 8  # of a server that does not say how many cores it has


@dataclass(frozen=True, slots=True)
class ProcessReader:
    """The reader of slices in this process, two at a time; once it is ``stopped`` it begins no other one."""

    choice: EngineChoice
    stopped: Event = field(default_factory=Event)
    transient: ClassVar[type[TransientError]] = BrokerUnavailable

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice and return how many there were.

        Raises:
            LostRange, UnknownTopic: the log does not have the ranges, by the broker that was asked.
            BrokerUnavailable, DatabaseUnavailable, Fenced: as for a slice.
            IncompleteStaging: it was stopped.
        """
        from offset_ledger.steps.stage.slices import stage_slices

        runs = runs_of(batch.ranges, 1, pipeline.limits.records_per_slice)
        shared, over = deque(runs), Event()
        with (
            progress(total_width(batch.ranges), "staged", unit="offsets") as advance,
            rare_collections(),
            ExitStack() as opened,  # outside of the pool: a consumer is closed once no thread reads by it
            ThreadPoolExecutor(_THREADS) as pool,
            ExitStack() as ending,
        ):
            ending.callback(over.set)  # after an error none begins another slice
            readers = [slice_reader(kafka, pipeline.source.topic, opened) for _ in runs[:_THREADS]]
            parts = [
                pool.submit(stage_slices, task, each, SharedSlices(shared, over, self.stopped), advance)
                for each in readers
            ]
            for part in wait(parts, return_when=FIRST_EXCEPTION).done:
                part.result()
        if self.stopped.is_set():
            raise IncompleteStaging(f"{batch} was stopped while it was staged; the next run stages it")
        return sum(map(len, runs))


@dataclass(frozen=True, slots=True)
class SparkReader:
    """The reader of slices by tasks of this Spark session."""

    spark: SparkSession
    choice: EngineChoice
    transient: ClassVar[type[TransientError]] = SparkFailed

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice and return how many there were; all of them have committed when this returns.

        Raises:
            LostRange, UnknownTopic: the log does not have the ranges, by the broker that was asked.
            SparkFailed, SparkUnavailable, BrokerUnavailable, DatabaseUnavailable, Fenced: by what failed the Spark job.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if takes_token(task.database):  # executors cannot ask for one
            task = replace(task, database=with_token(task.database))
        with slices_shown(task.database, task.tables.attempt, total_width(batch.ranges)):
            try:
                slots = task_slots(self.spark)
                runs = runs_of(batch.ranges, slots, pipeline.limits.records_per_slice)
                shares = shares_of(runs, slots)
                job = _Job(kafka, pipeline.source.topic, task, shares)
                # A server outlives releases of the package; other executors belong to this process, or get its code
                # with the job.
                run = job.run if is_classic(self.spark) else for_same_code(job.run)
                self.spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, "id bigint").collect()
            except (Py4JJavaError, PySparkException) as error:
                known = classify(error)
                log.log(logging.ERROR if type(known) is SparkFailed else logging.DEBUG, "%s", error)
                raise known from error
        return sum(map(len, runs))


@dataclass(frozen=True, slots=True)
class _Job:
    """The job of Spark that stages a batch; it is pickled."""

    kafka: Connection
    topic: str
    task: SliceTask
    shares: Sequence[Run]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage the shares that have these numbers, on an executor."""
        from offset_ledger.steps.stage.slices import stage_slices

        for batch in batches:
            for number in batch.column("id").to_pylist():
                with rare_collections(), ExitStack() as opened:
                    reader = slice_reader(self.kafka, self.topic, opened)
                    slices = SharedSlices(deque([self.shares[number]]), Event())
                    stage_slices(self.task, reader, slices, lambda _: None)
            yield batch


_ASKED = ("spark.executor.instances", "spark.executor.cores", "spark.cores.max")


def task_slots(spark: SparkSession) -> int:
    """Return how many tasks the session runs at the same time, or will when its executors have come."""
    if not is_classic(spark):
        local = _LOCAL.match(spark.conf.get("spark.master", "") or "")
        return int(local[1]) if local else _UNKNOWN_SLOTS
    context = spark.sparkContext
    asked = {name: int(context.getConf().get(name, "0")) for name in _ASKED}
    executors = asked["spark.executor.instances"] * max(1, asked["spark.executor.cores"])
    return max(context.defaultParallelism, executors, asked["spark.cores.max"])


_SECONDS = 2.0


def is_classic(spark: SparkSession) -> bool:
    """Return whether the driver is of this process, and not a Spark Connect server."""
    return hasattr(spark, "_jsparkSession")


@contextmanager
def slices_shown(database: Connection, attempt: Attempt, total: int) -> Iterator[None]:
    """Show how many of ``total`` offsets are in slices that have committed, while the block runs.

    A short stage is never counted, and one that cannot be counted goes on uncounted.
    """
    done = Event()

    def watch() -> None:
        if done.wait(_SECONDS):
            return
        shown = 0
        try:
            with connect(database, timeout=0) as session:
                while not done.wait(_SECONDS):
                    ((staged,),) = rows(session, named_sql("staging/staged_offsets"), asdict(attempt))
                    advance(staged - shown)
                    shown = staged
        except OffsetLedgerError as error:
            log.debug("progress is not shown any more: %s", error)

    with progress(total, "staged", unit="offsets") as advance:
        thread = Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(_SECONDS)  # it may wait for a server that hangs


# An error that a task raised crosses from its Python worker as text.
_OURS = re.compile(r"offset_ledger\.errors\.(\w+): (.+)")
# The answer of a Spark Connect server then; a restarted server knows no earlier session.
_SERVER_GONE = ("StatusCode.UNAVAILABLE", "INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_")


def classify(error: BaseException) -> OffsetLedgerError:
    """The error to raise for a failed job, in one line."""
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    if any(name in text for name in _SERVER_GONE):
        return SparkUnavailable(
            "the Spark Connect server went away, or was started again, while it staged; nothing was committed; stage "
            f"the batch again ({one_line(text, 200)})"
        )
    ours = _OURS.findall(text)  # the last one was raised, those before are its causes
    if ours and (raised := revive(ours[-1][0], ours[-1][1].strip())):
        return raised
    cause = next((line.strip() for line in text.splitlines() if line.startswith("Caused by:")), "")
    first = cause or next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return SparkFailed(f"the Spark job failed: {first[:300]}; nothing was committed; see the log above")
