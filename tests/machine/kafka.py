"""Kafka as a value: the topics of the model's state behind what the steps ask a cluster, and the reader of slices.

One place is replaced: what :func:`offset_ledger.outside.kafka.client.connect_kafka` makes. All questions of plan,
stage and of what people do come through it, and all records through the
:class:`~offset_ledger.steps.stage.step.Reader` that ``stage`` is given; decoding, COPY, manifest and everything after
it are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import pyarrow as pa

from offset_ledger.errors import BrokerUnavailable, LostRange, OffsetExpired, TransientError, UnknownTopic
from offset_ledger.model.batch import Batch, Engine, EngineChoice
from offset_ledger.model.moments import FirstAt
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.steps.stage.record_batches import record_batch
from offset_ledger.steps.stage.slices import SliceTask, slice_writer
from tests.machine.pipelines import HEADER, LETTERS, moment, text_of, topic_name, value_of
from tests.model.rules import World
from tests.model.state import Log, State, Topic

CLUSTER = "cluster"
KEPT_MS = 12 * 3600 * 1000  # tombstones: half of what a tick of the model is
Now = Callable[[], State]


def topic_id(topic: int, number: int) -> str:
    """Kafka's topic id."""
    return f"topic{topic}-{number}"


@dataclass(frozen=True)
class Cluster:
    """Stands for a client of a cluster: it answers by the state of the model."""

    world: World
    now: Now
    letters: Callable[[], int]
    answered: Callable[[], None] = lambda: None

    def close(self) -> None:
        """All that was asked is answered."""
        self.answered()

    def check_version(self) -> None:
        """New enough."""

    def snapshot(self, topic: str, read_before: bool = False) -> TopicSnapshot:
        """The topic as it is now."""
        if topic == LETTERS:
            end = self.letters()
            return TopicSnapshot(CLUSTER, topic, LETTERS, False, (PartitionSnapshot(0, 0, end, end, 0),), KEPT_MS)
        t, found = self._topic(topic)
        partitions = tuple(
            PartitionSnapshot(p, log.start, log.stable, len(log.records), log.era) for p, log in enumerate(found.logs)
        )
        return TopicSnapshot(CLUSTER, topic, topic_id(t, found.id), self.world.compacted, partitions, KEPT_MS)

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Where these leader epochs end."""
        _, found = self._topic(topic)
        return {p: found.logs[p].end_of(era) for p, era in epochs.items() if p < len(found.logs)}

    def settings(self, topic: str, *names: str) -> dict[str, str]:
        """Settings of the topic: what is older than now may be gone."""
        return dict.fromkeys(names, "0")

    def offsets_at(self, topic: str, since: datetime) -> dict[int, int | None]:
        """Per partition the first offset whose record is of that moment or later."""
        return {p: first.offset if first else None for p, first in self.first_at(topic, since).items()}

    def first_at(self, topic: str, since: datetime) -> dict[int, FirstAt | None]:
        """The same with the timestamps of these records."""
        _, found = self._topic(topic)
        later = ([at for at in _moments(log) if at.timestamp >= since] for log in found.logs)
        return {p: next(iter(some), None) for p, some in enumerate(later)}

    def _topic(self, name: str) -> tuple[int, Topic]:
        for t, topic in enumerate(self.now().topics):
            if topic_name(t) == name and topic.id:
                return t, topic
        raise UnknownTopic(name)


def _moments(log: Log) -> list[FirstAt]:
    return [FirstAt(offset, moment(record.timestamp)) for offset, record in log.read(log.start, log.stable)]


@dataclass(frozen=True)
class LogReader:
    """Reads slices from the model's log, in sessions of their own as tasks of Spark, one after the other."""

    world: World
    now: Now
    choice: ClassVar[EngineChoice] = EngineChoice(Engine.PROCESS, "the log is a value")
    transient: ClassVar[type[TransientError]] = BrokerUnavailable

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice; the number of slices."""
        slices = [
            (r.partition, at, min(at + self.world.width, r.until_offset))
            for r in batch.ranges
            for at in range(r.from_offset, r.until_offset, self.world.width)
        ]
        t = int(pipeline.source.topic[1:])
        for number, (partition, start, end) in enumerate(slices):
            with slice_writer(task) as writer:
                writer.write(number, self._records(t, partition, start, end))
        return len(slices)

    def _records(self, t: int, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        log: Log = self.now().log(t, partition)
        if log.start > start:
            raise OffsetExpired(f"the log starts at {log.start}")
        if log.stable < end:
            raise LostRange(f"the log is stable up to {log.stable}")
        if records := list(log.read(start, end)):
            yield record_batch(
                partition,
                offsets=[offset for offset, _ in records],
                keys=[f"k{record.key}".encode() for _, record in records],
                values=[value_of(record, self.world.compacted) for _, record in records],
                timestamps=[int(moment(record.timestamp).timestamp() * 1000) for _, record in records],
                headers=[[(HEADER, text_of(record).encode())] for _, record in records],
            )
