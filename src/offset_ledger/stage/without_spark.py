"""The read of a batch without Spark: by the process of its task, and by others beside it if the batch is large."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.config.spark_application import Spark
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import BrokerUnavailable, ConfigurationError
from offset_ledger.kafka.connection import reads_by_librdkafka
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import total_width
from offset_ledger.postgres_connection import takes_token
from offset_ledger.progress import progress
from offset_ledger.stage.runs import Run, SharedSlices, runs_of
from offset_ledger.stage.slice_process import slice_process
from offset_ledger.stage.slice_reader import WriteSlices, slice_reader
from offset_ledger.stage.topic_check import losses_checked

if TYPE_CHECKING:
    from offset_ledger.stage.slices import SliceTask

MIN_OFFSETS_ELSEWHERE = 1_000_000
"""From so many on a batch is given to Spark where that has other machines, unless the pipeline file says otherwise."""
_MAX_PROCESSES = 4  # unless the pipeline file says otherwise
_OFFSETS_PER_PROCESS = 100_000  # another process costs half a second of CPU before it reads
_THREADS = 2  # of a process that is alone: one decodes while the other waits for Postgres


def takes_spark(pipeline: Pipeline, batch: Batch) -> bool:
    """Whether Spark is to read the batch, or has to, because librdkafka cannot log in."""
    wanted = _is_for_spark(pipeline.spark, total_width(batch.ranges))
    return wanted or not reads_by_librdkafka(get_connection(pipeline.source.connection))


def _is_for_spark(spark: Spark, offsets: int) -> bool:
    if spark.min_offsets is not None:
        return offsets >= spark.min_offsets
    return offsets >= MIN_OFFSETS_ELSEWHERE and _is_elsewhere(spark.connection)


def _is_elsewhere(conn_id: str) -> bool:
    """Whether the connection leads to a cluster or a server: a local Spark has the cores that this process has too."""
    from offset_ledger.stage.remote_session import is_remote
    from offset_ledger.stage.submission import is_local

    try:
        connection = get_connection(conn_id)
    except ConfigurationError:  # there is none: Spark would be local
        return False
    return is_remote(connection) or not is_local(connection)


def read_slices(
    kafka: Connection,
    batch: Batch,
    check_topic: Callable[[Batch], object],
    pipeline: Pipeline,
    task: SliceTask,
) -> int:
    """Stage every slice and return how many there were.

    Raises:
        LostRange: the topic does not have the ranges any more.
        UnreadableTimestamp: a record has one that Postgres cannot represent.
        UnreadableRecord: Spark may read it.
        BrokerUnavailable, IncompleteStaging: worth another try.
    """
    offsets = total_width(batch.ranges)
    processes = 1 if takes_token(task.database) else process_count(offsets, pipeline.limits.processes)
    kinds = [slice_reader, *[slice_process] * (processes - 1)] if processes > 1 else [slice_reader] * _THREADS
    runs = runs_of(batch.ranges, processes, pipeline.limits.records_per_slice)
    with (
        progress(offsets, "staged", unit="offsets") as advance,
        losses_checked(partial(check_topic, batch), BrokerUnavailable),
    ):
        _share(deque(runs), [each(kafka, pipeline.source.topic, task, advance) for each in kinds[: len(runs)]])
    return sum(map(len, runs))


def process_count(offsets: int, limit: int | None) -> int:
    """How many processes stage so many offsets: one for each core, if each has enough to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(limit or min(_MAX_PROCESSES, cores), offsets // _OFFSETS_PER_PROCESS))


def _share(runs: deque[Run], workers: list[AbstractContextManager[WriteSlices]]) -> None:
    """Let each worker take the next run until none is left; after an error none begins another slice."""
    over = Event()
    with ThreadPoolExecutor(len(workers)) as pool, ExitStack() as opened:
        writes = [opened.enter_context(worker) for worker in workers]
        opened.callback(over.set)
        parts = [pool.submit(write, SharedSlices(runs, over)) for write in writes]
        for part in wait(parts, return_when=FIRST_EXCEPTION).done:
            part.result()
