"""What the addresses about audits answer, as plain values that JSON can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ids import AUDIT_DAG
from offset_ledger.ledger.database import Cursor
from offset_ledger.page import queries
from offset_ledger.page.answers import JsonObject
from offset_ledger.page.audits import judged, line, severities
from offset_ledger.page.pipelines import by_ledger
from offset_ledger.page.queries import Series, WantedAudits
from offset_ledger.page.rights import Rights

NEWEST_ONE = WantedAudits(limit=1)


def overview(pipelines: Sequence[Pipeline], rights: Rights) -> JsonObject:
    """The newest audit of each pipeline's topics, and whether the user may have them audited now."""
    found = [told for conn_id, here in by_ledger(pipelines) for told in _of_ledger(conn_id, here)]
    action = {"dag_id": AUDIT_DAG, "blocked_reason": rights.blocked_reason(AUDIT_DAG)}
    return {"pipelines": sorted(found, key=lambda each: str(each["name"])), "action": action}


def audits(pipeline: Pipeline, topic: str | None, own: bool, wanted: WantedAudits) -> JsonObject | None:
    """A page of the audits of one topic, and the time to ask the next one below; None if it is not the pipeline's.

    ``own`` are those made for the pipeline; the others were made of the topic alone.
    """
    series = Series(pipeline.name if own else None, topic or pipeline.source.topic)
    if not own and series.topic not in topics_of(pipeline):
        return None
    with queries.reading(pipeline.target.connection) as cursor:
        rows = queries.audits(cursor, series, wanted)
    below = rows[-1]["audited_at"] if len(rows) == wanted.limit else None
    return {"audits": [asdict(line(row)) for row in rows], "before": below}


def audit(pipeline: Pipeline, audit_id: int) -> JsonObject | None:
    """One audit with all that it said; None if the pipeline has none of this id."""
    with queries.reading(pipeline.target.connection) as cursor:
        found = queries.find_audit(cursor, audit_id, pipeline.name, topics_of(pipeline))
        if found is None:
            return None
        series, at = found
        (row,) = queries.audits(cursor, series, WantedAudits(at=at))
        rules = queries.audit_findings(cursor, series, at)
    told = judged(rules, severities(row["before"]))
    return {**_named(pipeline, series), **asdict(line(row)), "rules": [asdict(each) for each in told]}


def topics_of(pipeline: Pipeline) -> list[str]:
    """The topics that the pipeline file names: the source, and where quarantined records are published too."""
    dead_letters = pipeline.quality.dead_letter_topic
    return [pipeline.source.topic, *([dead_letters] if dead_letters else [])]


def _of_ledger(conn_id: str, here: Sequence[Pipeline]) -> list[JsonObject]:
    try:
        with queries.reading(conn_id) as cursor:
            known = queries.audited_topics(cursor, [pipeline.name for pipeline in here])
            return [_pipeline(pipeline, _newest(cursor, pipeline, known)) for pipeline in here]
    except OffsetLedgerError as error:
        return [_pipeline(pipeline, [], str(error)) for pipeline in here]


def _pipeline(pipeline: Pipeline, topics: list[JsonObject], problem: str | None = None) -> JsonObject:
    return {"name": pipeline.name, "topic": pipeline.source.topic, "topics": topics, "ledger_problem": problem}


def _newest(cursor: Cursor, pipeline: Pipeline, known: Sequence[Series]) -> list[JsonObject]:
    """By topic, that of the pipeline first, whether it was audited or not."""
    source = Series(pipeline.name, pipeline.source.topic)
    others = [series for series in known if series.pipeline == pipeline.name and series != source]
    found = []
    for series in (source, *(Series(None, topic) for topic in topics_of(pipeline)), *others):
        rows = queries.audits(cursor, series, NEWEST_ONE)
        if rows or series == source:
            newest = asdict(line(rows[0])) if rows else None
            found.append({**_named(pipeline, series), "newest": newest})
    return found


def _named(pipeline: Pipeline, series: Series) -> JsonObject:
    return {"topic": series.topic, "own": series.pipeline == pipeline.name}
