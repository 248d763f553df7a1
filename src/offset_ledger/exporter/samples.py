"""The samples of one pipeline, from what the ledger and the broker say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.exporter.reading import LedgerReading, Row
from offset_ledger.page.positions import Position, Totals, positions, recreated, totals
from offset_ledger.page.snapshots import BrokerAnswer

_STEPS = ("stage", "validate", "commit")
_SEVERITIES = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of the family of that name, with the labels that it has beside the pipeline's."""

    family: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def pipeline_samples(
    pipeline: Pipeline, ledger: LedgerReading | None, answer: BrokerAnswer, now: datetime
) -> Iterator[Sample]:
    """Every sample of a pipeline, without those of a server that did not answer, and the age of a retired topic."""
    topic, retired = answer.snapshot, bool(answer.gone and ledger and pipeline.name in ledger.retired)
    yield Sample("pipeline_info", 1, {"table": f"{pipeline.target.schema}.{pipeline.target.table}"})
    if not retired:
        yield Sample("topic_readable", float(topic is not None))
    if ledger is None or ledger.problem is not None:
        return
    if head := ledger.heads.get(pipeline.name):
        yield Sample("topic_retired", float(retired))
        yield from _of_ledger(pipeline.name, head, ledger, retired)
    if topic is not None:
        topic_id = head["topic_id"] if head else None
        anew = recreated(topic_id, topic)
        known = () if anew else ledger.partitions.get(pipeline.name, ())
        yield from _of_log(positions(known, topic), anew, now)


def _of_ledger(name: str, head: Row, ledger: LedgerReading, retired: bool) -> Iterator[Sample]:
    waiting = ledger.waiting[name]
    if head["batch_id"] is not None:
        yield Sample("open_batch_timestamp_seconds", head["planned_at"].timestamp(), {"state": head["state"]})
    if not retired:
        yield from _moment("last_commit_timestamp_seconds", waiting["moved_at"])
        yield from _moment("newest_record_timestamp_seconds", waiting["newest"])
    yield Sample("rejected_batches", waiting["rejected"])
    yield Sample("open_questions", waiting["questions"])
    yield Sample("quarantined_records", waiting["quarantined"])
    yield Sample("waiting_dead_letters", waiting["dead_letters"])
    for disposition, offsets in ledger.offsets.get(name, {}).items():
        yield Sample("offsets", offsets, {"disposition": disposition})
    for step in _STEPS:
        if waiting[step] is not None:
            yield Sample("last_batch_step_seconds", waiting[step], {"step": step})
    if (counts := ledger.findings.get(name)) is not None:
        for severity in _SEVERITIES:
            yield Sample("audit_findings", counts.get(severity, 0), {"severity": severity})


def _of_log(shown: tuple[Position, ...], anew: bool, now: datetime) -> Iterator[Sample]:
    for each in shown:
        if each.lag is not None:
            yield Sample("lag_offsets", each.lag, {"partition": str(each.partition)})
    yield Sample("log_changed", float(anew or any(_cut_off(each) for each in shown)))
    whole = totals(shown)
    yield Sample("lost_offsets", whole.lost)
    yield from _moment("unread_expiry_timestamp_seconds", whole.gone_after)
    waited = _longest_wait(whole, now)
    if waited is not None:
        yield Sample("lag_seconds", waited)


def _cut_off(each: Position) -> bool:
    return each.cursor is not None and each.high_watermark is not None and each.cursor > each.high_watermark


def _longest_wait(whole: Totals, now: datetime) -> float | None:
    if whole.lag == 0:
        return 0.0
    if whole.complete_to is None or whole.dated_long_ago(now):
        return None
    return max(0.0, (now - whole.complete_to).total_seconds())


def _moment(family: str, moment: datetime | None) -> Iterator[Sample]:
    if moment is not None:
        yield Sample(family, moment.timestamp())
