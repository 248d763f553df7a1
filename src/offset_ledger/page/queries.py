"""The page's queries: short read-only transactions, each on one snapshot of the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from psycopg2 import errors as pg

from offset_ledger.connections import get_connection
from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.ledger.database import Cursor, named_sql, open_ledger_at, set_local, transaction
from offset_ledger.page.history import HistoryWindow
from offset_ledger.page.positions import LedgerPartition

COUNTED = 10_000  # quarantined records are counted up to here
COVERED = 10_000  # batches that a timeline sums up at most
RECENT = 20  # batches of a pipeline in the overview
NEWEST = 2**63 - 1
_CONNECT_SECONDS = "3"
_STATEMENT_MILLISECONDS = 10_000

LedgerRow = Mapping[str, Any]


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


@contextmanager
def reading(conn_id: str, name: str = "offset-ledger page") -> Iterator[Cursor]:
    """A read-only cursor on one snapshot; it does not wait for a database that is unavailable.

    ``name`` is the application_name of its session.

    Raises:
        DatabaseUnavailable: the database did not answer at once.
        ConfigurationError: the connection is not defined, or the ledger is not migrated.
    """
    defined = get_connection(conn_id)
    connection = replace(defined, extra={"connect_timeout": _CONNECT_SECONDS, **defined.extra})
    with open_ledger_at(connection, name, timeout=0) as session:
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with transaction(session) as cursor:
            set_local(cursor, "statement_timeout", str(_STATEMENT_MILLISECONDS))
            try:
                yield cursor
            except pg.QueryCanceled as error:  # our own timeout, so there is no setting to correct
                seconds = _STATEMENT_MILLISECONDS // 1000
                raise DatabaseUnavailable(
                    f"the ledger did not answer the page within {seconds} s; load it again"
                ) from error


def pipelines(cursor: Cursor, names: Sequence[str]) -> dict[str, LedgerRow]:
    """By name: topic id, open head batch and last commit of each pipeline that the ledger has."""
    return {row["pipeline"]: row for row in read_rows(cursor, "pipelines", pipelines=list(names))}


def recent(cursor: Cursor, names: Sequence[str]) -> dict[str, LedgerRow]:
    """By name: the newest batches, oldest first, and the newest share that the gate compared with its limit."""
    return {row["pipeline"]: row for row in read_rows(cursor, "recent", pipelines=list(names), limit=RECENT)}


def partitions(cursor: Cursor, names: Sequence[str]) -> dict[str, list[LedgerPartition]]:
    """By pipeline: its partitions as the ledger knows them."""
    by_pipeline: dict[str, list[LedgerPartition]] = {}
    for row in read_rows(cursor, "partitions", pipelines=list(names)):
        values = {name: value for name, value in row.items() if name != "pipeline"}
        by_pipeline.setdefault(row["pipeline"], []).append(LedgerPartition(**values))
    return by_pipeline


def batches(cursor: Cursor, pipeline: str, matching: BatchFilter) -> list[LedgerRow]:
    """Newest first, with the sums of their ranges."""
    arguments = {name: getattr(matching, name) for name in BatchFilter.__slots__}
    return read_rows(cursor, "batches", pipeline=pipeline, **arguments)


def batch_ranges(cursor: Cursor, batch_id: int) -> list[LedgerRow]:
    """The ranges of a batch with their balance sheets."""
    return read_rows(cursor, "batch_ranges", batch_id=batch_id)


def batch_events(cursor: Cursor, batch_id: int) -> list[LedgerRow]:
    """Every transition of a batch, with who and why."""
    return read_rows(cursor, "batch_events", batch_id=batch_id)


def history(cursor: Cursor, pipeline: str, window: HistoryWindow, now: datetime) -> list[LedgerRow]:
    """Sums of the batches in each step of the window that had one."""
    return read_rows(cursor, "history", pipeline=pipeline, since=window.begin(now), step=window.step)


def completeness(cursor: Cursor, pipeline: str, window: HistoryWindow, end: datetime) -> list[LedgerRow]:
    """By partition and step of record time, sums of the newest batches committed since the window began."""
    begin = window.begin(end)
    times = {"since": begin, "until": begin + window.span, "step": window.step}
    return read_rows(cursor, "completeness", pipeline=pipeline, batches=COVERED, **times)


def quarantined(cursor: Cursor, pipeline: str) -> LedgerRow:
    """``waiting``: unresolved records, counted up to one more than COUNTED; ``codes``: their reasons.

    ``dismissed``: dismissed records, counted likewise.
    """
    return read_rows(cursor, "quarantine", pipeline=pipeline, limit=COUNTED)[0]


def findings(cursor: Cursor, pipeline: str, topic: str) -> list[LedgerRow]:
    """The results of the topic's newest audit; empty if there was none."""
    return read_rows(cursor, "findings", pipeline=pipeline, topic=topic)


def audited_topics(cursor: Cursor, names: Sequence[str]) -> list[Series]:
    """Every topic that was audited for one of the pipelines, also one that it no longer reads."""
    return [Series(row["pipeline"], row["topic"]) for row in read_rows(cursor, "audited_topics", pipelines=list(names))]


def audits(cursor: Cursor, series: Series, matching: AuditFilter) -> list[LedgerRow]:
    """Newest first: when, by whom, and the severity of each rule then and in the previous audit."""
    arguments = {**asdict(matching), "before": matching.before or "infinity"}
    return read_rows(cursor, "audits", **asdict(series), **arguments)


def find_audit(cursor: Cursor, audit_id: int, pipeline: str, topics: Sequence[str]) -> tuple[Series, datetime] | None:
    """Series and time of the audit, if it is one of the pipeline or, without a pipeline, of one of the topics."""
    rows = read_rows(cursor, "audit", audit_id=audit_id, pipeline=pipeline, topics=list(topics))
    return (Series(rows[0]["pipeline"], rows[0]["topic"]), rows[0]["audited_at"]) if rows else None


def audit_findings(cursor: Cursor, series: Series, at: datetime) -> list[LedgerRow]:
    """The result of each rule in one audit, the most severe first, and since when it has been so."""
    return read_rows(cursor, "audit_findings", **asdict(series), at=at)


def read_rows(cursor: Cursor, name: str, **arguments: object) -> list[LedgerRow]:
    """The rows of ``page/<name>.sql``."""
    cursor.execute(named_sql(f"page/{name}"), arguments)
    return [dict(row) for row in cursor.fetchall()]
