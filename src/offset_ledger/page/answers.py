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
from offset_ledger.ledger.batches import why_missing
from offset_ledger.ledger.database import Cursor
from offset_ledger.ledger.pipelines import Retirement, retirements
from offset_ledger.model.batch import Attempt
from offset_ledger.model.states import State
from offset_ledger.page import queries
from offset_ledger.page.batches import BatchView, batch_view, sheet, waterfall
from offset_ledger.page.conditions import Condition, Level, condition, decision_required
from offset_ledger.page.history import HistoryWindow
from offset_ledger.page.history import history as in_steps
from offset_ledger.page.live import BrokerCache
from offset_ledger.page.pipelines import by_ledger
from offset_ledger.page.positions import (
    LedgerPartition,
    Position,
    Scaled,
    Totals,
    limits,
    on_one_scale,
    positions,
    recreated,
    totals,
    without_log,
)
from offset_ledger.page.quarantine import first_refused, refused_record
from offset_ledger.page.queries import BatchFilter, LedgerRow
from offset_ledger.page.rights import Rights
from offset_ledger.page.snapshots import BrokerAnswer
from offset_ledger.units import show_share

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger knows of some pipelines, or why it could not be read."""

    pipelines: Mapping[str, LedgerRow] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[LedgerPartition]] = field(default_factory=dict)
    recent: Mapping[str, LedgerRow] = field(default_factory=dict)
    retired: Mapping[str, Retirement] = field(default_factory=dict)
    problem: str | None = None


def overview(pipelines: Sequence[Pipeline], rights: Rights, brokers: BrokerCache) -> list[JsonObject]:
    """A summary of every pipeline, the most severe condition first."""
    topics = brokers.answers(pipelines)
    summaries: list[Summary] = []
    for conn_id, group in by_ledger(pipelines):
        ledger = _ledger(conn_id, [pipeline.name for pipeline in group])
        summaries += [_summary(pipeline, rights, ledger, topics[pipeline.name]) for pipeline in group]
    ordered = sorted(summaries, key=lambda each: (-each.condition.severity, each.name))
    return [each.shown for each in ordered]


def detail(pipeline: Pipeline, rights: Rights, brokers: BrokerCache, reports: Path) -> JsonObject:
    """One pipeline with its partitions, its quarantine, what it refused in a rejected batch, the findings about its
    topic and its quality report.
    """
    topic = brokers.answers([pipeline])[pipeline.name]
    ledger = _ledger(pipeline.target.connection, [pipeline.name])
    summary = _summary(pipeline, rights, ledger, topic)
    quarantined: LedgerRow = {"waiting": None, "codes": [], "dismissed": None}
    findings: list[LedgerRow] = []
    rejection = None
    if ledger.problem is None:
        with queries.reading(pipeline.target.connection) as cursor:
            quarantined = queries.quarantined(cursor, pipeline.name)
            findings = queries.findings(cursor, pipeline.name, pipeline.source.topic)
            rejection = _rejection(cursor, pipeline, ledger.pipelines.get(pipeline.name), rights, reports)
    return {
        **summary.shown,
        "partitions": [_scaled(each) for each in on_one_scale(summary.partitions)],
        "lag_steps": limits(max((each.lag or 0 for each in summary.partitions), default=0)),
        "rejection": rejection,
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
            raise UnknownBatch(f"pipeline {pipeline.name}: batch {batch_id} {why_missing(cursor, batch_id)}")
        ranges, events = queries.batch_ranges(cursor, batch_id), queries.batch_events(cursor, batch_id)
    view = batch_view(rows[0], datetime.now(UTC))
    return {
        **_batch(pipeline, view, reports),
        "waterfall": [asdict(step) for step in waterfall(view.sheet)] if view.sheet else None,
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
            return Ledger(
                queries.pipelines(cursor, names),
                queries.partitions(cursor, names),
                queries.recent(cursor, names),
                retirements(cursor, names),
            )
    except OffsetLedgerError as error:
        return Ledger(problem=str(error))


@dataclass(frozen=True, slots=True)
class Summary:
    """A pipeline in the overview: ``shown`` is its JSON."""

    name: str
    condition: Condition
    partitions: tuple[Position, ...]
    shown: JsonObject


def _summary(pipeline: Pipeline, rights: Rights, ledger: Ledger, topic: BrokerAnswer) -> Summary:
    row, now = ledger.pipelines.get(pipeline.name), datetime.now(UTC)
    open_head = row if row and row["batch_id"] is not None else None
    topic_id = row["topic_id"] if row else None
    known = () if recreated(topic_id, topic.snapshot) else ledger.partitions.get(pipeline.name, ())
    if topic.gone:
        known = without_log(known)
    retired = ledger.retired.get(pipeline.name) if topic.gone else None
    partitions = positions(known, topic.snapshot) if ledger.problem is None else ()
    refused = _refused(pipeline, ledger.recent.get(pipeline.name))
    state = condition(topic_id, open_head, partitions, topic.snapshot, now, refused, topic.gone)
    if retired is not None:
        state = Condition(Level.PLAIN, "retired: the topic is gone")
    if ledger.problem is not None:
        state = Condition(Level.BAD, "its ledger cannot be read")
    shown = {
        **_described(pipeline),
        **_progress(totals(partitions), now),
        **_batches_of(pipeline, ledger, open_head),
        **_broker(topic),
        "retired": str(retired) if retired else None,
        "condition": asdict(state),
        "last_commit": row["last_commit"] if row else None,
        "ledger_problem": ledger.problem,
        "actions": _actions(pipeline, rights),
    }
    return Summary(pipeline.name, state, partitions, shown)


def _described(pipeline: Pipeline) -> JsonObject:
    return {
        "name": pipeline.name,
        "description": pipeline.description,
        "topic": pipeline.source.topic,
        "target": f"{pipeline.target.schema}.{pipeline.target.table}",
        "max_quarantined_share": pipeline.quality.max_quarantined_share,
    }


def _progress(whole: Totals, now: datetime) -> JsonObject:
    return {"totals": asdict(whole), "dated_long_ago": whole.dated_long_ago(now)}


def _batches_of(pipeline: Pipeline, ledger: Ledger, open_head: LedgerRow | None) -> JsonObject:
    recent = ledger.recent.get(pipeline.name)
    return {
        "open_batch": {name: open_head[name] for name in _OPEN} if open_head else None,
        "question": decision_required(open_head),
        "recent": recent["batches"] if recent else [],
        "quarantined_share": recent["quarantined_share"] if recent else None,
        "judged_batch": recent["judged_batch"] if recent else None,
        "judged_approved": bool(recent and recent["judged_approved"]),
    }


def _refused(pipeline: Pipeline, recent: LedgerRow | None) -> str | None:
    """What the newest committed batch has in quarantine, where that is more than the pipeline file allows."""
    share = recent["quarantined_share"] if recent and recent["judged_committed"] else None
    if recent is None or share is None or share <= pipeline.quality.max_quarantined_share:
        return None
    approved = ", and was approved" if recent["judged_approved"] else ""
    return f"batch {recent['judged_batch']} has {show_share(share)} in quarantine{approved}"


def _broker(topic: BrokerAnswer) -> JsonObject:
    return {
        "snapshot_taken_at": topic.snapshot.taken_at if topic.snapshot else None,
        "retention": asdict(topic.snapshot.retention) if topic.snapshot else None,
        "broker_problem": topic.problem,
        "topic_gone": topic.gone,
    }


def _actions(pipeline: Pipeline, rights: Rights) -> JsonObject:
    dags = (("ingest", ingest_dag(pipeline.name)), ("redrive", redrive_dag(pipeline.name)))
    return {verb: {"dag_id": dag_id, "blocked_reason": rights.blocked_reason(dag_id)} for verb, dag_id in dags}


def _rejection(
    cursor: Cursor, pipeline: Pipeline, row: LedgerRow | None, rights: Rights, reports: Path
) -> JsonObject | None:
    """Why the open batch is rejected, its report, and some of what it refused."""
    if not row or row["state"] != State.REJECTED:
        return None
    refused = first_refused(cursor, Attempt(row["batch_id"], row["epoch"]))
    readable = rights.reads_values(pipeline.name)
    return {
        "batch_id": row["batch_id"],
        "reasons": row["reasons"] or [],
        "report": _report(reports, f"{pipeline.name}/{row['batch_id']}.html"),
        "records": [refused_record(each, readable) for each in refused],
        "masked": not readable,
    }


def _scaled(each: Scaled) -> JsonObject:
    return {**asdict(each.position), "length": each.length, "lag_length": each.lag_length, "step": each.step}


_OPEN = ("batch_id", "state", "kind", "planned_at", "dag_id", "run_id")


def _batch(pipeline: Pipeline, view: BatchView, reports: Path) -> JsonObject:
    return {**asdict(view), "report": _report(reports, f"{pipeline.name}/{view.batch_id}.html")}


def _report(reports: Path, path: str) -> str | None:
    return path if (reports / path).is_file() else None
