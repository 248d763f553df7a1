"""Prune: the ledger's history by age, summed up so that chain, balance sheets and verify stay whole, with its pages.

Delete markers of the table go too, where it is asked for.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from psycopg2 import sql

from offset_ledger.base.progress import progress
from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.operations.repair.prune_ages import Ages
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.names import DAILY_FOLDER
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines, prune
from offset_ledger.postgres.ledger.database import Cursor, Session, clock, named_sql, open_ledger, transaction
from offset_ledger.postgres.ledger.prune import Head, OldPart, Run
from offset_ledger.postgres.ledger.row_order import KAFKA_TIMESTAMP, ordered_by, row_formats, table_of
from offset_ledger.postgres.table import row_counts
from offset_ledger.steps.report.step import reports_folder
from offset_ledger.steps.report.timeline import CHARTED

log = logging.getLogger(__name__)

_RANGES = 50_000  # of one transaction, about
_BATCHES = 1_000
_ENTRIES = 10_000
_MARKERS = 10_000
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Pruned:
    """The history that went, or would go; ``kept`` are old head batches by what keeps them."""

    batches: int = 0
    records: int = 0
    audits: int = 0
    notifications: int = 0
    schemas: int = 0
    pages: int = 0
    daily_reports: int = 0
    deletes: int = 0
    kept: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Pruned") -> "Pruned":
        return Pruned(*(getattr(self, name) + getattr(other, name) for name in Pruned.__slots__))


def prune_history(pipeline: Pipeline, ages: Ages, origin: Origin, dry_run: bool = False) -> Pruned:
    """Remove what ended longer ago than that, in transactions of a bounded size; with ``dry_run`` only count it.

    Each transaction locks the pipeline, so nothing plans or commits meanwhile, and leaves a ledger that is whole.

    Raises:
        ConfigurationError: an age is too low.
        AccessDenied: the login may not delete.
    """
    ages.check()
    keep = max(CHARTED, pipeline.quality.history.batches + 1 if pipeline.quality.history else 0)
    return prune_beyond(pipeline, ages, keep, origin, dry_run)


def prune_beyond(
    pipeline: Pipeline, ages: Ages, keep: int, origin: Origin, dry_run: bool = False, size: int = _BATCHES
) -> Pruned:
    """Prune at any age; the newest ``keep`` head batches stay, and a transaction takes up to ``size``."""
    done = Pruned()
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            now = clock(cursor)
            parts = prune.old_parts(cursor, pipeline.name, now - ages.batches, now - ages.quarantine, keep)
        work = [_Work(session, part, origin, dry_run, size) for part in parts]
        steps = chain.from_iterable(chain(each.records(), each.batches()) for each in work)
        with progress(None, "counted" if dry_run else "removed", unit="batches and records") as advance:
            if ages.deletes and not pipeline.record.append:  # which leaves no markers
                markers = delete_markers(session, pipeline, ages.deletes, now, origin, dry_run)
                steps = chain((Pruned(deletes=removed) for removed in markers), steps)
            for step in chain(steps, _by_age(session, pipeline, ages, now, dry_run)):
                done += step
                advance(step.batches + step.records)
        pages = delete_pages(session, pipeline.name, now - ages.batches, dry_run)
        days = delete_daily_reports((now - ages.daily_reports).date(), dry_run)
        return replace(done, pages=pages, daily_reports=days)


def _by_age(session: Session, pipeline: Pipeline, ages: Ages, now: datetime, dry_run: bool) -> Iterator[Pruned]:
    """Schemas, results of audits, and notifications: those of a run of several topics have the name of the file."""
    shared = {"pipeline": pipeline.name, "names": [pipeline.name, pipeline.file]}
    for kind in ("schemas", "audits", "notifications"):
        arguments = {**shared, "older_than": now - getattr(ages, kind)}
        for removed in _entries(session, kind, arguments, dry_run):
            count: dict[str, Any] = {kind: removed}
            yield Pruned(**count)


def _entries(
    session: Session,
    kind: str,
    arguments: Mapping[str, Any],
    dry_run: bool,
    note: Callable[[Cursor], None] = lambda _: None,
) -> Iterator[int]:
    """Remove the old entries of a kind, in transactions of a bounded size; how many each had. ``note`` comes first."""
    after: int | None = -1
    while after is not None:
        with transaction(session) as cursor:
            if not dry_run:
                pipelines.lock_pipeline(cursor, arguments["pipeline"])
            after, old = prune.read_entries(cursor, kind, arguments, after, _ENTRIES)
            if old and not dry_run:
                note(cursor)
                prune.delete_entries(cursor, kind, arguments, old)
        yield len(old)


@dataclass(slots=True)
class _Work:
    """The transactions of one log; the first one that deletes anything records who prunes."""

    session: Session
    part: OldPart
    origin: Origin
    dry_run: bool
    size: int
    noted: bool = False

    def records(self) -> Iterator[Pruned]:
        """Records that a redrive has loaded or a person has dismissed: before the batches, which they would keep."""
        counts = _entries(self.session, "records", self.part.arguments, self.dry_run, self._note)
        return (Pruned(records=removed) for removed in counts)

    def batches(self) -> Iterator[Pruned]:
        """Committed batches, oldest first; each transaction goes on with the one that stands for those before."""
        after = summary = -1
        while after < self.part.up_to:
            heads, runs = self._some_batches(after, summary)
            seen = [head for head in heads if head.kept_by]
            yield Pruned(batches=sum(run.removed for run in runs), kept=Counter(str(head.kept_by) for head in seen))
            summary = max([summary, *(run.reached for run in runs)])
            for last in heads[-1:]:
                done = last.batch_id == self.part.up_to or last.kept_by
                after = last.batch_id if done else last.batch_id - 1

    def _some_batches(self, after: int, summary: int) -> tuple[list[Head], list[Run]]:
        """The head batches up to a run that goes on, and all runs."""
        with transaction(self.session) as cursor:
            if not self.dry_run:
                pipelines.lock_pipeline(cursor, self.part.pipeline)
            size = max(2, min(self.size, _RANGES // max(prune.count_partitions(cursor, self.part), 1)))
            heads = prune.read_heads(cursor, self.part, after, size)
            runs = list(prune.read_runs(cursor, self.part, heads, summary, size))
            undone = [run for run in runs if not run.is_pruned]
            if undone and not self.dry_run:
                self._note(cursor)
                prune.sum_up(cursor, self.part, undone, self.origin)
        left = next((run.heads[0].batch_id for run in runs if run.goes_on), None)
        return [head for head in heads if left is None or head.batch_id < left], runs

    def _note(self, cursor: Cursor) -> None:
        if not self.noted:
            prune.note(cursor, self.part, self.origin)
            self.noted = True


def delete_pages(session: Session, pipeline: str, older_than: datetime, dry_run: bool) -> int:
    """Delete the quality pages of batches that the ledger has no more, and pages that a killed process left unfinished.

    Returns how many pages that are.
    """
    pages = [path for path in (reports_folder() / pipeline).glob("*.json") if path.stem.isdecimal()]
    gone = prune.unknown(session, [int(path.stem) for path in pages]) if pages else set()
    old = [path for path in pages if int(path.stem) in gone]
    _delete([each for path in old for each in (path.with_suffix(".html"), path)], dry_run)
    drafts = [path for name in (pipeline, DAILY_FOLDER) for path in (reports_folder() / name).glob(".*.*.*")]
    unfinished = []  # as render.write names them
    for path in drafts:
        with suppress(FileNotFoundError):  # finished meanwhile
            if path.stat().st_mtime < older_than.timestamp():
                unfinished.append(path)
    _delete(unfinished, dry_run)
    return len(old) + len(unfinished)


def delete_daily_reports(before: date, dry_run: bool) -> int:
    """Delete the pages of the days before; how many that are. They are about every pipeline."""
    pages = (reports_folder() / DAILY_FOLDER).glob("????-??-??.html")
    old = [path for path in pages if path.stem < before.isoformat()]
    _delete(old, dry_run)
    return len(old)


def _delete(paths: Iterable[Path], dry_run: bool) -> None:
    for path in [] if dry_run else paths:
        path.unlink(missing_ok=True)


def delete_markers(
    session: Session, pipeline: Pipeline, age: timedelta, now: datetime, origin: Origin, dry_run: bool
) -> Iterator[int]:
    """Remove markers older than that, which no record can contradict any more; how many each time.

    The topic does not have their own record, and each of its partitions begins with a newer one; none in quarantine is
    older, and no batch is open.

    Raises:
        ConfigurationError: the topic may have older records of the same events.
    """
    snapshot, oldest = _checked_retention(pipeline, age)
    statement = sql.SQL(named_sql("prune/delete_markers")).format(
        **row_formats(pipeline.record), target=table_of(pipeline.bookkeeping)
    )
    log_starts = json.dumps({each.partition: each.log_start for each in snapshot.partitions})
    by = {"log_starts": log_starts, "limit": None if dry_run else _MARKERS}
    before = min(now - age, oldest or now)
    removed = _MARKERS
    while removed == _MARKERS:
        with transaction(session) as cursor:
            pipelines.lock_pipeline(cursor, pipeline.name)
            pipelines.lock_table(cursor, pipeline)
            bound = _before_all_that_may_come(cursor, pipeline, before)
            removed = cursor.execute(statement, {**by, "before": bound, "dry_run": dry_run}).one()[0] if bound else 0
            if removed and not dry_run:
                row_counts.count_removed(cursor, pipeline, origin, removed)
        yield removed
        if dry_run:
            return


def _before_all_that_may_come(cursor: Cursor, pipeline: Pipeline, before: datetime) -> datetime | None:
    """The moment, or an earlier one that is no later than any record which may still be merged; None if any may be.

    Nobody knows how old a record in quarantine is where its moment is a value of the record, or the log orders.
    """
    oldest: datetime | None
    batches, records, oldest = cursor.run("prune/yet_to_come", file=pipeline.file).one()
    if not batches and not records:
        return before
    if not batches and ordered_by(pipeline.record) == KAFKA_TIMESTAMP and oldest:
        return min(before, oldest)
    what = counted(batches, "open batch") if batches else f"{counted(records, 'record')} in quarantine"
    log.warning("delete markers of %s stay: %s may have older records of their events", pipeline.file, what)
    return None


def _checked_retention(pipeline: Pipeline, age: timedelta) -> tuple[TopicSnapshot, datetime | None]:
    """A snapshot of the topic, and the moment of the oldest record that a partition begins with."""
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        milliseconds = int(kafka.settings(topic, "retention.ms")["retention.ms"])
        first = kafka.first_at(topic, _EPOCH)
    why = ""
    if pipeline.of_several:
        why = "and other topics fill the table too"
    elif snapshot.compacted:
        why = f"and topic {topic} is compacted"
    elif milliseconds < 0 or age <= timedelta(milliseconds=milliseconds):
        why = f"and retention.ms of topic {topic} is {milliseconds}"
    if why:
        raise ConfigurationError(
            f"the age for deletes is {age.days}d, {why}: an older record could bring a deleted row back; nothing was "
            "pruned; write an age beyond the retention of the topic, or leave deletes out"
        )
    undated = [p.partition for p in snapshot.partitions if p.log_start < p.high_watermark and not first[p.partition]]
    if undated:
        raise ConfigurationError(
            f"no record of partition {undated[0]} of topic {topic} has a timestamp, so nobody knows how old it is; "
            "nothing was pruned; leave deletes out, or prune again once the partition has records with timestamps"
        )
    return snapshot, min((each.timestamp for each in first.values() if each), default=None)
