"""The answers of the page's API as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError, UnknownBatch
from offset_ledger.ids import ingest_dag, redrive_dag
from offset_ledger.page import queries
from offset_ledger.page.batches import BatchView, batch_view, sheet
from offset_ledger.page.conditions import Condition, Level, condition
from offset_ledger.page.history import HistoryWindow
from offset_ledger.page.history import history as in_steps
from offset_ledger.page.live import BrokerAnswer, BrokerCache
from offset_ledger.page.pipelines import by_ledger
from offset_ledger.page.positions import LedgerPartition, Position, positions, recreated, totals
from offset_ledger.page.queries import BatchFilter, LedgerRow
from offset_ledger.page.rights import Rights

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger knows of some pipelines, or why it could not be read."""

    pipelines: Mapping[str, LedgerRow] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[LedgerPartition]] = field(default_factory=dict)
    problem: str | None = None


def overview(pipelines: Sequence[Pipeline], rights: Rights, brokers: BrokerCache) -> list[JsonObject]:
    """A summary of every pipeline."""
    topics = brokers.answers(pipelines)
    summaries: list[JsonObject] = []
    for conn_id, group in by_ledger(pipelines):
        ledger = _ledger(conn_id, [pipeline.name for pipeline in group])
        summaries += [_summary(pipeline, rights, ledger, topics[pipeline.name])[0] for pipeline in group]
    return sorted(summaries, key=lambda each: str(each["name"]))


def detail(pipeline: Pipeline, rights: Rights, brokers: BrokerCache, reports: Path) -> JsonObject:
    """One pipeline with its partitions, its quarantine, the findings about its topic and its quality report."""
    topic = brokers.answers([pipeline])[pipeline.name]
    ledger = _ledger(pipeline.target.connection, [pipeline.name])
    summary, partitions = _summary(pipeline, rights, ledger, topic)
    quarantined: LedgerRow = {"waiting": None, "codes": [], "dismissed": None}
    findings: list[LedgerRow] = []
    if ledger.problem is None:
        with queries.reading(pipeline.target.connection) as cursor:
            quarantined = queries.quarantined(cursor, pipeline.name)
            findings = queries.findings(cursor, pipeline.name, pipeline.source.topic)
    return {
        **summary,
        "partitions": [asdict(each) for each in partitions],
        "quarantined": quarantined["waiting"],
        "dismissed": quarantined["dismissed"],
        "quarantine_codes": quarantined["codes"],
        "quarantine_counted": queries.COUNTED,
        "findings": findings,
        "report": _report(reports, f"{pipeline.name}/index.html"),
    }


def batches(pipeline: Pipeline, matching: BatchFilter, reports: Path) -> JsonObject:
    """A page of batches, and the id below which the next page starts."""
    now = datetime.now(UTC)
    with queries.reading(pipeline.target.connection) as cursor:
        rows = queries.batches(cursor, pipeline.name, matching)
    shown = [_batch(pipeline, batch_view(row, now), reports) for row in rows]
    return {"batches": shown, "before": rows[-1]["batch_id"] if len(rows) == matching.limit else None}


def batch(pipeline: Pipeline, batch_id: int, reports: Path) -> JsonObject:
    """One batch with its ranges and its transitions.

    Raises:
        UnknownBatch: the pipeline has no batch with this id.
    """
    with queries.reading(pipeline.target.connection) as cursor:
        rows = queries.batches(cursor, pipeline.name, BatchFilter(batch_id=batch_id))
        if not rows:
            raise UnknownBatch(f"pipeline {pipeline.name} has no batch {batch_id}")
        ranges, events = queries.batch_ranges(cursor, batch_id), queries.batch_events(cursor, batch_id)
    return {
        **_batch(pipeline, batch_view(rows[0], datetime.now(UTC)), reports),
        "ranges": [{**row, "sheet": sheet(row)} for row in ranges],
        "events": events,
    }


def history(pipeline: Pipeline, window: HistoryWindow) -> list[JsonObject]:
    """The points of the charts."""
    now = datetime.now(UTC)
    with queries.reading(pipeline.target.connection) as cursor:
        rows = queries.history(cursor, pipeline.name, window, now)
    return [asdict(point) for point in in_steps(rows, window, now)]


def _ledger(conn_id: str, names: Sequence[str]) -> Ledger:
    try:
        with queries.reading(conn_id) as cursor:
            return Ledger(queries.pipelines(cursor, names), queries.partitions(cursor, names))
    except OffsetLedgerError as error:
        return Ledger(problem=str(error))


def _summary(
    pipeline: Pipeline, rights: Rights, ledger: Ledger, topic: BrokerAnswer
) -> tuple[JsonObject, tuple[Position, ...]]:
    row = ledger.pipelines.get(pipeline.name)
    open_head = row if row and row["batch_id"] is not None else None
    topic_id = row["topic_id"] if row else None
    known = () if recreated(topic_id, topic.snapshot) else ledger.partitions.get(pipeline.name, ())
    partitions = positions(known, topic.snapshot) if ledger.problem is None else ()
    whole, now = totals(partitions), datetime.now(UTC)
    state = condition(topic_id, open_head, partitions, topic.snapshot, now)
    if ledger.problem is not None:
        state = Condition(Level.BAD, "its ledger cannot be read")
    summary = {
        "name": pipeline.name,
        "description": pipeline.description,
        "topic": pipeline.source.topic,
        "target": f"{pipeline.target.schema}.{pipeline.target.table}",
        "condition": asdict(state),
        "totals": asdict(whole),
        "dated_long_ago": whole.dated_long_ago(now),
        "open_batch": {name: open_head[name] for name in _OPEN} if open_head else None,
        "last_commit": row["last_commit"] if row else None,
        "snapshot_taken_at": topic.snapshot.taken_at if topic.snapshot else None,
        "retention": asdict(topic.snapshot.retention) if topic.snapshot else None,
        "broker_problem": topic.problem,
        "ledger_problem": ledger.problem,
        "actions": {
            verb: {"dag_id": dag_id, "blocked_reason": rights.blocked_reason(dag_id)}
            for verb, dag_id in (("ingest", ingest_dag(pipeline.name)), ("redrive", redrive_dag(pipeline.name)))
        },
    }
    return summary, partitions


_OPEN = ("batch_id", "state", "kind", "planned_at", "dag_id", "run_id")


def _batch(pipeline: Pipeline, view: BatchView, reports: Path) -> JsonObject:
    return {**asdict(view), "report": _report(reports, f"{pipeline.name}/{view.batch_id}.html")}


def _report(reports: Path, path: str) -> str | None:
    return path if (reports / path).is_file() else None
