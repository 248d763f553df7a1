"""Overview: a line for each pipeline of the files and of their ledgers; one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import FOLDER, parse_pipeline, pipeline_files
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError, PipelineFileError, UnknownTopic
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.ledger import batches, pipelines
from offset_ledger.ledger.database import Cursor, named_sql, open_ledger_at, read_only, transaction
from offset_ledger.ledger.pipelines import Retirement, retirements
from offset_ledger.model.batch import Batch
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.operations.status import partition_statuses, waits_for
from offset_ledger.plan.topics import known_in

_TIMEOUT = 5  # seconds for each server: a person is waiting for the answer
COUNTED = 10_000  # quarantined records of a pipeline at most


@dataclass(frozen=True, slots=True)
class PipelineLine:
    """Where one pipeline stands, in a line; None is what is not known.

    ``newest_record`` is the newest timestamp among the last committed records of its partitions. ``blocked_by`` says
    what stops it, ``error`` why some of this could not be read, ``retired`` who has settled that its topic is gone.
    """

    pipeline: str
    state: str
    lag: int | None = None
    newest_record: datetime | None = None
    open_batch: str | None = None
    quarantined: int | None = None
    blocked_by: str | None = None
    error: str | None = None
    retired: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What the ledger says of one pipeline; ``source`` is None where no file has it."""

    name: str
    source: Pipeline | None
    row: Mapping[str, Any] | None = None
    cursors: Cursors | None = None
    head: Batch | None = None
    error: str | None = None
    retirement: Retirement | None = None


def overview(folder: Path = FOLDER) -> tuple[PipelineLine, ...]:
    """All pipelines of the folder and of their ledgers by name, after the files that have mistakes.

    Each server is asked in one connection, and for a few seconds at most.

    Raises:
        ConfigurationError: there is no such folder.
    """
    parsed, lines = _parse(folder)
    known: list[_Known] = []
    for connection, of_ledger in _by(parsed, lambda pipeline: pipeline.target.connection):
        known += _in_ledger(connection, of_ledger)
    lines += [_line(each, None) for each in known if each.source is None]
    readable = [each for each in known if each.source is not None]
    for connection, of_cluster in _by(readable, lambda each: each.source.source.connection if each.source else ""):
        lines += _in_cluster(connection, of_cluster)
    return tuple(sorted(lines, key=lambda line: (line.state != "broken file", line.pipeline)))


def _by(items: Iterable[Any], key: Any) -> Iterator[tuple[str, list[Any]]]:
    return ((name, list(group)) for name, group in groupby(sorted(items, key=key), key))


def _parse(folder: Path) -> tuple[list[Pipeline], list[PipelineLine]]:
    parsed, broken = [], []
    for path in pipeline_files(folder):
        try:
            parsed.append(parse_pipeline(path))
        except PipelineFileError as error:
            broken.append(PipelineLine(path.stem, "broken file", error=error.problems[0]))
    return parsed, broken


def _in_ledger(connection: str, of_ledger: list[Pipeline]) -> list[_Known]:
    """The pipelines of these files, and those of their ledger that no file has any more."""
    try:
        with (
            open_ledger_at(get_connection(connection), timeout=_TIMEOUT) as session,
            transaction(session) as cursor,
        ):
            read_only(cursor)
            return _read(cursor, of_ledger)
    except OffsetLedgerError as error:
        return [_Known(each.name, each, error=_message(error)) for each in of_ledger]


def _read(cursor: Cursor, of_ledger: list[Pipeline]) -> list[_Known]:
    cursor.execute(named_sql("operations/overview"), {"limit": COUNTED})
    rows: dict[str, Mapping[str, Any]] = {row["pipeline"]: dict(row) for row in cursor.fetchall()}
    sources = {each.name: each for pipeline in of_ledger for each in known_in(cursor, pipeline) or (pipeline,)}
    retired = retirements(cursor, list(rows))
    return [
        _Known(
            name,
            sources.get(name),
            rows.get(name),
            pipelines.read_cursors(cursor, name),
            batches.open_head(cursor, name),
            retirement=retired.get(name),
        )
        for name in {**sources, **rows}
    ]


def _in_cluster(connection: str, of_cluster: list[_Known]) -> list[PipelineLine]:
    try:
        with connect_kafka(get_connection(connection), timeout=_TIMEOUT) as kafka:
            return [_asked(kafka, each) for each in of_cluster]
    except OffsetLedgerError as error:
        return [_line(replace(each, error=each.error or _message(error)), None) for each in of_cluster]


def _asked(kafka: KafkaClient, known: _Known) -> PipelineLine:
    assert known.source is not None
    if known.source.source.several:
        return _line(known, None)  # of a pattern that has found no topic yet
    try:
        return _line(known, kafka.snapshot(known.source.source.topic))
    except OffsetLedgerError as error:
        if isinstance(error, UnknownTopic) and known.retirement:
            return replace(_line(known, None), state="retired", retired=str(known.retirement))
        return _line(replace(known, error=known.error or _message(error)), None)


def _message(error: OffsetLedgerError) -> str:
    return f"{type(error).__name__}: {error}"


def _line(known: _Known, snapshot: TopicSnapshot | None) -> PipelineLine:
    row = known.row or {}
    lag = lag_of(known.cursors, snapshot) if snapshot and not known.error else None
    blocked = waits_for(known.head) or row.get("question") or _log_problem(known.cursors, snapshot)
    return PipelineLine(
        known.name,
        _state(known, lag, blocked),
        lag,
        row.get("newest_record"),
        str(known.head) if known.head else None,
        row.get("quarantined", None if known.error else 0),
        blocked,
        known.error,
    )


def lag_of(cursors: Cursors | None, snapshot: TopicSnapshot) -> int:
    """Stable offsets of all partitions that are not committed yet."""
    return sum(partition.lag for partition in partition_statuses(cursors, snapshot))


def _log_problem(cursors: Cursors | None, snapshot: TopicSnapshot | None) -> str | None:
    """What the next plan will stop at, in a few words."""
    if cursors is None or snapshot is None:
        return None
    if cursors.topic_id != snapshot.topic_id:
        return "the topic was recreated"
    partitions = partition_statuses(cursors, snapshot)
    if any(partition.cut_off for partition in partitions):
        return "the log ends below a cursor"
    lost = sum(max(0, p.log_start - p.cursor) for p in partitions if p.cursor is not None)
    return f"{lost:,} offsets were deleted before they were read" if lost else None


def _state(known: _Known, lag: int | None, blocked: str | None) -> str:
    if known.error:
        return "not known"
    if known.source is None:
        return "no file"
    if blocked:
        return "blocked"
    if known.head:
        return f"batch {known.head.state}"
    if known.cursors is None:
        return "not started"
    return "behind" if lag else "up to date"
