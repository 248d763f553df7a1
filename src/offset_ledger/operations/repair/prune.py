"""Prune: the ledger's history by age, summed up so that chain, balance sheets and verify stay whole; and its pages."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from offset_ledger.base.progress import progress
from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.delete_markers import delete_markers
from offset_ledger.operations.repair.prune_ages import Ages
from offset_ledger.pipeline_file.names import DAILY_FOLDER
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines, prune
from offset_ledger.postgres.ledger.database import Cursor, Session, clock, open_ledger, transaction
from offset_ledger.postgres.ledger.prune import Head, OldPart, Run
from offset_ledger.steps.report.step import reports_folder
from offset_ledger.steps.report.timeline import CHARTED

_RANGES = 50_000  # of one transaction, about
_BATCHES = 1_000
_ENTRIES = 10_000


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
