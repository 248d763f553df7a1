"""How far the job of a stage is: a line in the log every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_LINE = "staged %d of %d slices, %d running"


def progress(spark: SparkSession, every: float = 5.0) -> AbstractContextManager[None]:
    """Log it while the block runs, whose job is run by a session of this process or of a Spark Connect server."""
    return _asked(spark, every) if is_classic(spark) else _reported(spark, every)


def is_classic(spark: SparkSession) -> bool:
    """Whether the driver is of this process, and not a Spark Connect server."""
    return hasattr(spark, "_jsparkSession")


@contextmanager
def _asked(spark: SparkSession, every: float) -> Iterator[None]:
    done = threading.Event()
    tracker: Any = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not done.wait(every):
            for stage_id in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage_id)
                if info:
                    log.info(_LINE, info.numCompletedTasks, info.numTasks, info.numActiveTasks)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _reported(spark: SparkSession, every: float) -> Iterator[None]:
    """A server reports by itself, every two seconds."""
    last = time.monotonic()

    def report(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ARG001
        nonlocal last
        if done or time.monotonic() - last < every:
            return
        last = time.monotonic()
        for stage in stages or ():
            if not stage.done:
                log.info(_LINE, stage.num_completed_tasks, stage.num_tasks, inflight_tasks)

    spark.registerProgressHandler(report)
    try:
        yield
    finally:
        spark.removeProgressHandler(report)
