"""Where a sample of records begins: at the cursors, at the pipeline's start, or where a person says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.config.source import StartAt
from offset_ledger.connections import get_connection
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable, OffsetExpired, TerminalError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import open_ledger_at, read_only, transaction
from offset_ledger.model.snapshot import Cursors, PartitionSnapshot, TopicSnapshot
from offset_ledger.plan.head import backlogs, start_offsets
from offset_ledger.plan.step import snapshot_topic

_TIMEOUT = 5  # seconds: a person is waiting for the answer


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person asks for: one partition or all, and an offset, a moment, or neither."""

    partition: int | None = None
    from_offset: int | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        if self.from_offset is not None and self.since is not None:
            raise ConfigurationError("a preview begins at an offset or at a moment, and not both; choose one")
        if self.from_offset is not None and self.partition is None:
            raise ConfigurationError("an offset is one of a partition; give --partition with --from-offset")


@dataclass(frozen=True, slots=True)
class Start:
    """By partition the first offset and the last stable one; ``note`` says what they come from."""

    ranges: Mapping[int, tuple[int, int]]
    note: str
    has_ledger: bool


def find_start(pipeline: Pipeline, choice: Choice) -> Start:
    """Where to begin to read.

    Raises:
        LostRange: the topic does not have the offsets any more, or has others in their places.
        NoStartOffset: the pipeline says start: none and has no cursors.
        TerminalError: there is no such partition.
    """
    cursors, trouble = _cursors(pipeline)
    if choice.from_offset is None and choice.since is None:
        starts, snapshot = _next(pipeline, cursors)
        note = f"from the cursors of pipeline {pipeline.name}"
        if cursors is None:
            why = trouble or f"the ledger has no pipeline {pipeline.name} yet"
            note = f"from source.start ({_start(pipeline)}): {why}"
    else:
        starts, snapshot = _asked(pipeline, choice)
        note = f"from offset {choice.from_offset}" if choice.since is None else f"from {choice.since.isoformat()}"
    return Start(_ranges(starts, snapshot, choice), note, not trouble)


def _cursors(pipeline: Pipeline) -> tuple[Cursors | None, str]:
    """The cursors, and why the ledger cannot be asked for them."""
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            return pipelines.read_cursors(cursor, pipeline.name), ""
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return None, f"no ledger could be asked for cursors: {error}"


def _start(pipeline: Pipeline) -> str:
    moment = pipeline.source.start_timestamp
    return moment.isoformat() if pipeline.source.start is StartAt.TIMESTAMP and moment else str(pipeline.source.start)


def _next(pipeline: Pipeline, cursors: Cursors | None) -> tuple[dict[int, int], TopicSnapshot]:
    snapshot, at_timestamp = snapshot_topic(pipeline, cursors)
    new = start_offsets(cursors, snapshot, pipeline.source.start, at_timestamp)
    starts = {**(cursors.next_offsets if cursors else {}), **new}
    backlogs(starts, snapshot)
    return starts, snapshot


def _asked(pipeline: Pipeline, choice: Choice) -> tuple[dict[int, int], TopicSnapshot]:
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        if choice.since is None:
            return {p.partition: _offset(topic, p, choice) for p in snapshot.partitions}, snapshot
        offsets = kafka.offsets_at(topic, choice.since)
    first = {p.partition: offsets.get(p.partition) for p in snapshot.partitions}
    return {p.partition: _or(first[p.partition], p.last_stable) for p in snapshot.partitions}, snapshot


def _or(offset: int | None, end: int) -> int:
    return end if offset is None else offset


def _offset(topic: str, partition: PartitionSnapshot, choice: Choice) -> int:
    offset = choice.from_offset or 0
    if partition.partition == choice.partition and offset < partition.log_start:
        raise OffsetExpired(
            f"topic {topic} partition {partition.partition}: offsets [{offset}, {partition.log_start}) are gone; the "
            f"log starts at {partition.log_start}; begin there"
        )
    return offset


def _ranges(starts: Mapping[int, int], snapshot: TopicSnapshot, choice: Choice) -> dict[int, tuple[int, int]]:
    partitions = {p.partition: p for p in snapshot.partitions}
    if choice.partition is not None and choice.partition not in partitions:
        raise TerminalError(f"topic {snapshot.topic} has no partition {choice.partition}; it has {len(partitions)}")
    chosen = partitions if choice.partition is None else [choice.partition]
    return {p: (starts[p], max(starts[p], partitions[p].last_stable)) for p in chosen}
