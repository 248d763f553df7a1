"""The answers of the API about audits as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ids import AUDIT_DAG
from offset_ledger.ledger.database import Cursor
from offset_ledger.page import queries
from offset_ledger.page.answers import JsonObject
from offset_ledger.page.audits import rule_statuses, severities, summary
from offset_ledger.page.pipelines import by_ledger
from offset_ledger.page.queries import AuditFilter, Series
from offset_ledger.page.rights import Rights

NEWEST_AUDIT = AuditFilter(limit=1)


def overview(pipelines: Sequence[Pipeline], rights: Rights) -> JsonObject:
    """The newest audit of each pipeline's topics, and whether the user may trigger an audit."""
    answers = [answer for conn_id, group in by_ledger(pipelines) for answer in _of_ledger(conn_id, group)]
    action = {"dag_id": AUDIT_DAG, "blocked_reason": rights.blocked_reason(AUDIT_DAG)}
    return {"pipelines": sorted(answers, key=lambda each: str(each["name"])), "action": action}


def audits(pipeline: Pipeline, topic: str | None, own: bool, matching: AuditFilter) -> JsonObject | None:
    """A page of the audits of one topic, and the time below which the next starts; None if it is not the pipeline's.

    ``own``: the audits for the pipeline; the others are those of the topic alone.
    """
    series = Series(pipeline.name if own else None, topic or pipeline.source.topic)
    if not own and series.topic not in topics_of(pipeline):
        return None
    with queries.reading(pipeline.target.connection) as cursor:
        rows = queries.audits(cursor, series, matching)
    below = rows[-1]["audited_at"] if len(rows) == matching.limit else None
    return {"audits": [asdict(summary(row)) for row in rows], "before": below}


def audit(pipeline: Pipeline, audit_id: int) -> JsonObject | None:
    """One audit with its result for each rule; None if the pipeline has no audit with this id."""
    with queries.reading(pipeline.target.connection) as cursor:
        key = queries.find_audit(cursor, audit_id, pipeline.name, topics_of(pipeline))
        if key is None:
            return None
        series, at = key
        (row,) = queries.audits(cursor, series, AuditFilter(at=at))
        rules = queries.audit_findings(cursor, series, at)
    results = rule_statuses(rules, severities(row["before"]))
    return {**_named(pipeline, series), **asdict(summary(row)), "rules": [asdict(each) for each in results]}


def topics_of(pipeline: Pipeline) -> list[str]:
    """The topics that the pipeline file names: the source, and the dead letter topic."""
    dead_letters = pipeline.quality.dead_letter_topic
    return [pipeline.source.topic, *([dead_letters] if dead_letters else [])]


def _of_ledger(conn_id: str, group: Sequence[Pipeline]) -> list[JsonObject]:
    try:
        with queries.reading(conn_id) as cursor:
            known = queries.audited_topics(cursor, [pipeline.name for pipeline in group])
            return [_pipeline(pipeline, _newest(cursor, pipeline, known)) for pipeline in group]
    except OffsetLedgerError as error:
        return [_pipeline(pipeline, [], str(error)) for pipeline in group]


def _pipeline(pipeline: Pipeline, topics: list[JsonObject], problem: str | None = None) -> JsonObject:
    return {"name": pipeline.name, "topic": pipeline.source.topic, "topics": topics, "ledger_problem": problem}


def _newest(cursor: Cursor, pipeline: Pipeline, known: Sequence[Series]) -> list[JsonObject]:
    """By topic; the pipeline's source first, whether it was audited or not."""
    source = Series(pipeline.name, pipeline.source.topic)
    others = [series for series in known if series.pipeline == pipeline.name and series != source]
    topics = []
    for series in (source, *(Series(None, topic) for topic in topics_of(pipeline)), *others):
        rows = queries.audits(cursor, series, NEWEST_AUDIT)
        if rows or series == source:
            newest = asdict(summary(rows[0])) if rows else None
            topics.append({**_named(pipeline, series), "newest": newest})
    return topics


def _named(pipeline: Pipeline, series: Series) -> JsonObject:
    return {"topic": series.topic, "own": series.pipeline == pipeline.name}
