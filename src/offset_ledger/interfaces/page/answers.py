"""The answers of the page's API as plain values for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from offset_ledger.base.ids import AUDIT_DAG, ingest_dag, redrive_dag
from offset_ledger.errors import OffsetLedgerError, UnknownBatch
from offset_ledger.interfaces.page import views
from offset_ledger.interfaces.page.history import HistoryWindow, anchor, lines, points
from offset_ledger.interfaces.page.quarantine import NEWEST, first_refused, refused_record
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.batch import Attempt
from offset_ledger.model.request import parse_request
from offset_ledger.model.states import State
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.pipeline import (
    COUNTED,
    BrokerAnswer,
    Condition,
    Ledger,
    LedgerRow,
    Level,
    Standing,
    assess,
)
from offset_ledger.operations.status.reader import by_ledger, read_ledger, read_rows, reading
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.batches import why_missing
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.steps.run.requests import preview

JsonObject = dict[str, Any]
_RECENT = 20  # batches of a pipeline in the overview
_OPEN = ("batch_id", "state", "kind", "planned_at", "dag_id", "run_id")
_COVERED = 10_000  # batches that a timeline sums up at most


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """A filter of batches: the newest ``limit`` below the batch id ``before`` that match what is not None."""

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
    """A filter of a series of audits: the newest ``limit`` below ``before``, or the one ``at`` a time.

    ``severity`` and ``rule``, if not None, are those of a finding that each has.
    """

    before: datetime | None = None
    limit: int = 50
    severity: str | None = None
    rule: str | None = None
    at: datetime | None = None


def overview(pipelines: Sequence[Pipeline], rights: Rights, brokers: BrokerCache) -> list[JsonObject]:
    """Return a summary of every pipeline, the most severe condition first."""
    topics, now = brokers.answers(pipelines), datetime.now(UTC)
    summaries: list[tuple[Condition, JsonObject]] = []
    for conn_id, group in by_ledger(pipelines):
        ledger, recent = _read(conn_id, [pipeline.name for pipeline in group])
        for each in group:
            standing = _standing(each, rights, ledger, topics[each.name], now)
            shown = _summary(each, rights, standing, ledger, topics[each.name], now)
            summaries.append((standing.condition, {**shown, "recent": recent.get(each.name, [])}))
    summaries.sort(key=lambda each: (-each[0].severity, each[1]["name"]))
    return [shown for _, shown in summaries]


def detail(pipeline: Pipeline, rights: Rights, brokers: BrokerCache, reports: Path) -> JsonObject:
    """Return one pipeline with its partitions, quarantine, rejected records, audit findings and quality report."""
    topic, now = brokers.answers([pipeline])[pipeline.name], datetime.now(UTC)
    ledger, recent = _read(pipeline.target.connection, [pipeline.name])
    standing = _standing(pipeline, rights, ledger, topic, now)
    quarantined: LedgerRow = {"waiting": None, "codes": [], "dismissed": None}
    findings: list[LedgerRow] = []
    rejection: JsonObject | None = None
    if ledger.problem is None:
        with reading(pipeline.target.connection) as cursor:
            (quarantined,) = read_rows(cursor, "page/quarantine", pipeline=pipeline.name, limit=COUNTED)
            findings = read_rows(cursor, "page/findings", pipeline=pipeline.name, topic=pipeline.source.topic)
            row = ledger.pipelines.get(pipeline.name)
            if row and row["state"] == State.REJECTED:  # with the reasons, its report, and some of the refused records
                refused = first_refused(cursor, Attempt(row["batch_id"], row["epoch"]))
                readable = rights.reads_values(pipeline.name)
                rejection = {
                    "batch_id": row["batch_id"],
                    "reasons": row["reasons"] or [],
                    "report": _report(reports, f"{pipeline.name}/{row['batch_id']}.html"),
                    "records": [refused_record(each, readable) for each in refused],
                    "masked": not readable,
                }
    return {
        **_summary(pipeline, rights, standing, ledger, topic, now),
        "recent": recent.get(pipeline.name, []),
        "partitions": views.on_one_scale(standing.partitions),
        "lag_steps": views.limits(max((each.lag or 0 for each in standing.partitions), default=0)),
        "rejection": rejection,
        "quarantined": quarantined["waiting"],
        "dismissed": quarantined["dismissed"],
        "quarantine_codes": quarantined["codes"],
        "findings": findings,
        "report": _report(reports, f"{pipeline.name}/index.html"),
    }


def _read(conn_id: str, names: Sequence[str]) -> tuple[Ledger, Mapping[str, list[LedgerRow]]]:
    """Return the ledger's state of these pipelines, or why it could not be read, and their newest batches."""
    try:
        with reading(conn_id) as cursor:
            recent = read_rows(cursor, "page/recent", pipelines=list(names), limit=_RECENT)
            return read_ledger(cursor, names), {row["pipeline"]: row["batches"] for row in recent}
    except OffsetLedgerError as error:
        return Ledger(problem=str(error)), {}


def _standing(pipeline: Pipeline, rights: Rights, ledger: Ledger, topic: BrokerAnswer, now: datetime) -> Standing:
    """Return where the pipeline stands; a failed or paused DAG shows only if nothing is worse."""
    standing, dag_id = assess(pipeline, ledger, topic, now), ingest_dag(pipeline.name)
    state = standing.condition
    if standing.retired or state.level not in (Level.GOOD, Level.PLAIN):
        return standing
    if dag_id in rights.failed:
        state = replace(state, level=Level.WARN, text=f"its last run failed; {state.text}")
    elif dag_id in rights.paused:
        state = replace(state, level=Level.PLAIN, text=f"its DAG is paused; {state.text}")
    return replace(standing, condition=state)


def _summary(
    pipeline: Pipeline, rights: Rights, standing: Standing, ledger: Ledger, topic: BrokerAnswer, now: datetime
) -> JsonObject:
    row = ledger.pipelines.get(pipeline.name)
    dags = (("ingest", ingest_dag(pipeline.name)), ("redrive", redrive_dag(pipeline.name)))
    return {
        "name": pipeline.name,
        "description": pipeline.description,
        "topic": pipeline.source.topic_names,
        "target": pipeline.target.name,
        "max_quarantined_share": pipeline.quality.max_quarantined_share,
        "totals": asdict(standing.totals),
        "dated_long_ago": standing.totals.dated_long_ago(now),
        "open_batch": {name: row[name] for name in _OPEN} if row and row["batch_id"] is not None else None,
        "question": standing.question,
        "silence": standing.silence,
        "quarantined": row["quarantined"] if row else None if ledger.problem else 0,
        "quarantine_counted": COUNTED,
        "quarantined_share": row["judged_share"] if row else None,
        "judged_batch": row["judged_batch"] if row else None,
        "judged_approved": bool(row and row["judged_approved"]),
        "snapshot_taken_at": topic.snapshot.taken_at if topic.snapshot else None,
        "retention": asdict(topic.snapshot.retention) if topic.snapshot else None,
        "broker_problem": topic.problem,
        "registry_problem": topic.registry_problem,
        "topic_gone": topic.gone,
        "retired": standing.retired,
        "condition": {"level": standing.condition.level, "text": standing.condition.text},
        "last_commit": row["last_commit"] if row else None,
        "ledger_problem": ledger.problem,
        "actions": {verb: {"dag_id": dag_id, "blocked_reason": rights.blocked_reason(dag_id)} for verb, dag_id in dags},
    }


def batches(pipeline: Pipeline, matching: BatchFilter, reports: Path) -> JsonObject:
    """Return a page of batches, and the id below which the next page starts."""
    now = datetime.now(UTC)
    with reading(pipeline.target.connection) as cursor:
        rows = batch_rows(cursor, pipeline.name, matching)
    shown = [_batch(pipeline, views.batch_view(row, now), reports) for row in rows]
    return {"batches": shown, "before": rows[-1]["batch_id"] if len(rows) == matching.limit else None}


def batch(pipeline: Pipeline, batch_id: int, reports: Path) -> JsonObject:
    """Return one batch with its ranges and its transitions.

    Raises:
        UnknownBatch: the pipeline has no batch with this id.
    """
    with reading(pipeline.target.connection) as cursor:
        rows = batch_rows(cursor, pipeline.name, BatchFilter(batch_id=batch_id))
        if not rows:
            raise UnknownBatch(f"pipeline {pipeline.name}: batch {batch_id} {why_missing(cursor, batch_id)}")
        ranges, events = (read_rows(cursor, f"page/batch_{of}", batch_id=batch_id) for of in ("ranges", "events"))
    view = views.batch_view(rows[0], datetime.now(UTC))
    return {
        **_batch(pipeline, view, reports),
        "waterfall": [asdict(step) for step in views.waterfall(view["sheet"])] if view["sheet"] else None,
        "ranges": [{**row, "sheet": views.sheet(row)} for row in ranges],
        "events": events,
    }


def batch_rows(cursor: Cursor, pipeline: str, matching: BatchFilter) -> list[LedgerRow]:
    """Read batches, newest first, with the sums of their ranges."""
    return read_rows(cursor, "page/batches", pipeline=pipeline, **asdict(matching))


def _batch(pipeline: Pipeline, view: JsonObject, reports: Path) -> JsonObject:
    return {**view, "report": _report(reports, f"{pipeline.name}/{view['batch_id']}.html")}


def _report(reports: Path, path: str) -> str | None:
    return path if (reports / path).is_file() else None


def replay(pipeline: Pipeline, form: JsonObject) -> JsonObject:
    """Return the ranges that a replay of this form would read, or its ``problem`` in one line; nothing is planned."""
    try:
        return preview(pipeline, parse_request(form)).data
    except OffsetLedgerError as error:
        return {"problem": str(error)}


def history(pipeline: Pipeline, window: HistoryWindow) -> list[JsonObject]:
    """Return the points of the charts."""
    now = datetime.now(UTC)
    with reading(pipeline.target.connection) as cursor:
        rows = history_rows(cursor, pipeline.name, window, now)
    return [asdict(point) for point in points(rows, window, now)]


def history_rows(cursor: Cursor, pipeline: str, window: HistoryWindow, now: datetime) -> list[LedgerRow]:
    """Read sums of the batches in each step of the window that had one."""
    return read_rows(cursor, "page/history", pipeline=pipeline, since=window.begin(now), step=window.step)


def completeness(pipeline: Pipeline, window: HistoryWindow, brokers: BrokerCache) -> JsonObject:
    """Return which hours are in the table: the times of the window, and a line for each partition."""
    topic, now = brokers.answers([pipeline])[pipeline.name], datetime.now(UTC)
    with reading(pipeline.target.connection) as cursor:
        ledger = read_ledger(cursor, [pipeline.name])
        end = anchor(window, ledger.partitions.get(pipeline.name, ()), now)
        rows, refused = completeness_rows(cursor, pipeline.name, window, end)
    standing = assess(pipeline, ledger, topic, now)
    if standing.recreated:
        rows, refused = [], []
    shown = lines(rows, refused, standing.partitions, window, end)
    return {
        "begin": window.begin(end),
        "step": window.step.total_seconds(),
        "steps": window.span // window.step,
        "now": now if end == now else None,
        "partitions": [asdict(line) for line in shown],
    }


def completeness_rows(
    cursor: Cursor, pipeline: str, window: HistoryWindow, end: datetime
) -> tuple[list[LedgerRow], list[LedgerRow]]:
    """Read sums and refusals of the newest batches committed in the window, by partition and step of record time."""
    begin = window.begin(end)
    of = {"pipeline": pipeline, "batches": _COVERED, "since": begin, "until": begin + window.span, "step": window.step}
    refused = read_rows(cursor, "page/quarantined_at", records=COUNTED, **of)
    return read_rows(cursor, "page/completeness", **of), refused


def newest_audits(pipelines: Sequence[Pipeline], rights: Rights, brokers: BrokerCache) -> JsonObject:
    """Return the newest audit of each pipeline's topics, when the next is due, and whether the user may trigger one."""
    shown: list[JsonObject] = []
    log = brokers.answers(pipelines)
    for conn_id, group in by_ledger(pipelines):
        topics: dict[str, list[JsonObject]] = {}
        problem = None
        try:
            with reading(conn_id) as cursor:
                # Also topics that a pipeline no longer reads.
                audited = read_rows(cursor, "page/audited_topics", pipelines=[pipeline.name for pipeline in group])
                known = [Series(row["pipeline"], row["topic"]) for row in audited]
                topics = {pipeline.name: _newest(cursor, pipeline, known) for pipeline in group}
        except OffsetLedgerError as error:
            problem = str(error)
        for each in group:
            about = {"name": each.name, "topic": each.source.topic, "ledger_problem": problem}
            about["broker_problem"] = log[each.name].problem
            shown.append({**about, "topics": topics.get(each.name, [])})
    action = {"dag_id": AUDIT_DAG, "blocked_reason": rights.blocked_reason(AUDIT_DAG)}
    return {"pipelines": sorted(shown, key=lambda each: str(each["name"])), "action": action, "due": rights.audit_due}


def _newest(cursor: Cursor, pipeline: Pipeline, known: Sequence[Series]) -> list[JsonObject]:
    """Return the newest audit of each topic: the pipeline's source first, whether it was audited or not."""
    source = Series(pipeline.name, pipeline.source.topic)
    others = [series for series in known if series.pipeline == pipeline.name and series != source]
    topics = []
    for series in (source, *(Series(None, topic) for topic in _topics_of(pipeline)), *others):
        rows = _audits(cursor, series, AuditFilter(limit=1))
        if rows or series == source:
            topics.append({**_named(pipeline, series), "newest": views.summary(rows[0]) if rows else None})
    return topics


def audits(pipeline: Pipeline, topic: str | None, own: bool, matching: AuditFilter) -> JsonObject | None:
    """Return a page of the audits of one topic, and where the next starts; None for another pipeline's topic.

    ``own``: the audits for the pipeline; the others are those of the topic alone.
    """
    series = Series(pipeline.name if own else None, topic or pipeline.source.topic)
    if not own and series.topic not in _topics_of(pipeline):
        return None
    with reading(pipeline.target.connection) as cursor:
        rows = _audits(cursor, series, matching)
    below = rows[-1]["audited_at"] if len(rows) == matching.limit else None
    return {"audits": [views.summary(row) for row in rows], "before": below}


def audit(pipeline: Pipeline, audit_id: int) -> JsonObject | None:
    """Return one audit with its result for each rule; None if the pipeline has no audit with this id."""
    with reading(pipeline.target.connection) as cursor:
        topics = _topics_of(pipeline)
        known = read_rows(cursor, "page/audit", audit_id=audit_id, pipeline=pipeline.name, topics=topics)
        if not known:
            return None
        series, at = Series(known[0]["pipeline"], known[0]["topic"]), known[0]["audited_at"]
        (row,) = _audits(cursor, series, AuditFilter(at=at))
        rules = read_rows(cursor, "page/audit_findings", **asdict(series), at=at)
    results = views.rule_statuses(rules, views.severities(row["before"]))
    return {**_named(pipeline, series), **views.summary(row), "rules": [asdict(each) for each in results]}


def _audits(cursor: Cursor, series: Series, matching: AuditFilter) -> list[LedgerRow]:
    """Return audits, newest first: when, by whom, and the severity of each rule then and in the previous audit."""
    arguments = {**asdict(matching), "before": matching.before or "infinity"}
    return read_rows(cursor, "page/audits", **asdict(series), **arguments)


def _topics_of(pipeline: Pipeline) -> list[str]:
    """The topics that the pipeline file names: the source, and the dead letter topic."""
    dead_letters = pipeline.quality.dead_letter_topic
    return [pipeline.source.topic, *([dead_letters] if dead_letters else [])]


def _named(pipeline: Pipeline, series: Series) -> JsonObject:
    return {"topic": series.topic, "own": series.pipeline == pipeline.name}
