"""The slices of a batch, read and staged by tasks of Spark: each is a reader of its own, on whichever executor."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection
from offset_ledger.cycles import rare_collections
from offset_ledger.errors import SparkFailed, TransientError
from offset_ledger.model.batch import Batch
from offset_ledger.model.engine import EngineChoice
from offset_ledger.model.ranges import total_width
from offset_ledger.postgres_connection import takes_token, with_token
from offset_ledger.stage.progress import is_classic, slices_shown
from offset_ledger.stage.runs import Run, SharedSlices, runs_of, shares_of
from offset_ledger.stage.same_code import for_same_code
from offset_ledger.stage.slice_reader import slice_reader
from offset_ledger.stage.spark_failures import classify

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from offset_ledger.stage.slices import SliceTask

log = logging.getLogger(__name__)

_LOCAL = re.compile(r"local\[(\d+)")
_UNKNOWN_SLOTS = 8  # of a server that does not say how many cores it has


@dataclass(frozen=True, slots=True)
class SparkReader:
    """Reads the slices of a batch by tasks of this session."""

    spark: SparkSession
    choice: EngineChoice
    transient: ClassVar[type[TransientError]] = SparkFailed

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice and return how many there were; all of them have committed when this returns.

        Raises:
            LostRange, UnknownTopic: the log does not have the ranges, by the broker that was asked.
            SparkFailed, SparkUnavailable, BrokerUnavailable, DatabaseUnavailable, Fenced: by what failed the Spark job.
        """
        if takes_token(task.database):  # executors cannot ask for one
            task = replace(task, database=with_token(task.database))
        shown = slices_shown(task.database, task.tables.attempt, total_width(batch.ranges))
        with shown, _failures_classified():
            slots = task_slots(self.spark)
            runs = runs_of(batch.ranges, slots, pipeline.limits.records_per_slice)
            _run_tasks(self.spark, kafka, pipeline.source.topic, shares_of(runs, slots), task)
        return sum(map(len, runs))


def task_slots(spark: SparkSession) -> int:
    """How many tasks the session runs at the same time, or will when its executors have come."""
    if not is_classic(spark):
        local = _LOCAL.match(spark.conf.get("spark.master", "") or "")
        return int(local[1]) if local else _UNKNOWN_SLOTS
    context = spark.sparkContext
    asked = {name: int(context.getConf().get(name, "0")) for name in _ASKED}
    executors = asked["spark.executor.instances"] * max(1, asked["spark.executor.cores"])
    return max(context.defaultParallelism, executors, asked["spark.cores.max"])


_ASKED = ("spark.executor.instances", "spark.executor.cores", "spark.cores.max")


def _run_tasks(spark: SparkSession, kafka: Connection, topic: str, shares: Sequence[Run], task: SliceTask) -> None:
    def on_executor(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                with rare_collections(), slice_reader(kafka, topic, task, lambda _: None) as write:
                    write(SharedSlices(deque([shares[number]]), Event()))
            yield batch

    # A server outlives releases of the package; other executors belong to this process, or get its code with the job.
    job = on_executor if is_classic(spark) else for_same_code(on_executor)
    spark.range(0, len(shares), 1, len(shares)).mapInArrow(job, "id bigint").collect()


@contextmanager
def _failures_classified() -> Iterator[None]:
    """Raise this package's errors for those of Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        known = classify(error)
        log.log(logging.ERROR if type(known) is SparkFailed else logging.DEBUG, "%s", error)
        raise known from error
