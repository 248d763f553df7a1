"""The page's queries of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from offset_ledger.ledger.database import Cursor
from offset_ledger.page.history import HistoryWindow
from offset_ledger.standing.pipeline import LedgerRow
from offset_ledger.standing.reader import read_rows

COVERED = 10_000  # batches that a timeline sums up at most
NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """Which batches: the newest ``limit`` below the batch id ``before`` that match what is not None."""

    before: int = NEWEST
    limit: int = 50
    kind: str | None = None
    state: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The audits that are compared with each other: of a topic for a pipeline or, if None, of the topic alone."""

    pipeline: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which audits of a series: the newest ``limit`` below ``before``, or the one ``at`` a time, that have a finding
    of this severity and rule, if these are not None.
    """

    before: datetime | None = None
    limit: int = 50
    severity: str | None = None
    rule: str | None = None
    at: datetime | None = None


def batches(cursor: Cursor, pipeline: str, matching: BatchFilter) -> list[LedgerRow]:
    """Newest first, with the sums of their ranges."""
    arguments = {name: getattr(matching, name) for name in BatchFilter.__slots__}
    return read_rows(cursor, "page/batches", pipeline=pipeline, **arguments)


def history(cursor: Cursor, pipeline: str, window: HistoryWindow, now: datetime) -> list[LedgerRow]:
    """Sums of the batches in each step of the window that had one."""
    return read_rows(cursor, "page/history", pipeline=pipeline, since=window.begin(now), step=window.step)


def completeness(cursor: Cursor, pipeline: str, window: HistoryWindow, end: datetime) -> list[LedgerRow]:
    """By partition and step of record time, sums of the newest batches committed since the window began."""
    begin = window.begin(end)
    times = {"since": begin, "until": begin + window.span, "step": window.step}
    return read_rows(cursor, "page/completeness", pipeline=pipeline, batches=COVERED, **times)


def audits(cursor: Cursor, series: Series, matching: AuditFilter) -> list[LedgerRow]:
    """Newest first: when, by whom, and the severity of each rule then and in the previous audit."""
    arguments = {**asdict(matching), "before": matching.before or "infinity"}
    return read_rows(cursor, "page/audits", **asdict(series), **arguments)


def find_audit(cursor: Cursor, audit_id: int, pipeline: str, topics: Sequence[str]) -> tuple[Series, datetime] | None:
    """Series and time of the audit, if it is one of the pipeline or, without a pipeline, of one of the topics."""
    rows = read_rows(cursor, "page/audit", audit_id=audit_id, pipeline=pipeline, topics=list(topics))
    return (Series(rows[0]["pipeline"], rows[0]["topic"]), rows[0]["audited_at"]) if rows else None
