"""The slices of a batch, read and staged by this process."""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection
from offset_ledger.cycles import rare_collections
from offset_ledger.errors import BrokerUnavailable, TransientError
from offset_ledger.model.batch import Batch
from offset_ledger.model.engine import EngineChoice
from offset_ledger.model.ranges import total_width
from offset_ledger.progress import progress
from offset_ledger.stage.record_batches import slice_reader
from offset_ledger.stage.runs import SharedSlices, runs_of

if TYPE_CHECKING:
    from offset_ledger.stage.slices import SliceTask

_THREADS = 2  # one decodes while the other waits for Postgres


@dataclass(frozen=True, slots=True)
class ProcessReader:
    """Reads the slices of a batch in this process, two at a time."""

    choice: EngineChoice
    transient: ClassVar[type[TransientError]] = BrokerUnavailable

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice and return how many there were.

        Raises:
            LostRange, UnknownTopic: the log does not have the ranges, by the broker that was asked.
            BrokerUnavailable, DatabaseUnavailable, Fenced: as for a slice.
        """
        from offset_ledger.stage.slices import stage_slices

        runs = runs_of(batch.ranges, 1, pipeline.limits.records_per_slice)
        shared, over = deque(runs), Event()
        with (
            progress(total_width(batch.ranges), "staged", unit="offsets") as advance,
            rare_collections(),
            ThreadPoolExecutor(_THREADS) as pool,
            ExitStack() as opened,
        ):
            readers = [slice_reader(kafka, pipeline.source.topic, opened) for _ in runs[:_THREADS]]
            opened.callback(over.set)  # after an error none begins another slice
            parts = [pool.submit(stage_slices, task, each, SharedSlices(shared, over), advance) for each in readers]
            for part in wait(parts, return_when=FIRST_EXCEPTION).done:
                part.result()
        return sum(map(len, runs))
