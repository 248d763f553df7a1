"""A collector of prometheus_client: each scrape asks ledgers and topics, and waits for none that is away.

A ledger is read in one short read-only transaction; families are the metrics' names, kinds, help and labels.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError, one_line
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.ledger.pipelines import retirements
from offset_ledger.page import queries
from offset_ledger.page.live import BrokerCache, CachedAnswers
from offset_ledger.page.pipelines import KnownPipelines, by_ledger, read_pipelines
from offset_ledger.page.positions import LedgerPartition, Position, Totals, positions, recreated, totals
from offset_ledger.page.queries import COUNTED
from offset_ledger.page.snapshots import BrokerAnswer
from offset_ledger.version import __version__

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """By pipeline what the ledger knows, or why it could not be read; a pipeline that has not planned has no row."""

    heads: Mapping[str, Row] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[LedgerPartition]] = field(default_factory=dict)
    waiting: Mapping[str, Row] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    findings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    retired: Collection[str] = ()
    problem: str | None = None


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


log = logging.getLogger(__name__)
SESSION = "offset-ledger exporter"


def read_ledger(conn_id: str, names: Sequence[str]) -> LedgerReading:
    """Everything about these pipelines; a ledger that is away, or not migrated, is a reading with a problem."""
    try:
        with queries.reading(conn_id, SESSION) as cursor:
            return LedgerReading(
                queries.pipelines(cursor, names),
                queries.partitions(cursor, names),
                _by_pipeline(_rows(cursor, "pipelines", names)),
                {name: _offsets(row) for name, row in _by_pipeline(_rows(cursor, "offsets", names)).items()},
                _findings(_rows(cursor, "findings", names)),
                retirements(cursor, names),
            )
    except OffsetLedgerError as error:
        log.warning("the ledger of connection %r cannot be read: %s", conn_id, error)
        return LedgerReading(problem=str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the scrape has the rest
        log.warning("reading the ledger of connection %r failed: %s", conn_id, one_line(error))
        return LedgerReading(problem=type(error).__name__)


def _rows(cursor: Cursor, name: str, names: Sequence[str]) -> list[Row]:
    cursor.execute(named_sql(f"exporter/{name}"), {"pipelines": list(names), "limit": COUNTED})
    return [dict(row) for row in cursor.fetchall()]


def _by_pipeline(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["pipeline"]: row for row in rows}


def _offsets(row: Row) -> dict[str, int]:
    return {name: value for name, value in row.items() if name != "pipeline"}


def _findings(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["pipeline"], {})[row["severity"]] = row["findings"]
    return counts


PREFIX = "offset_ledger_"
_OF_PIPELINE = ("pipeline", "topic")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric; the samples of a pipeline have its name and its topic as labels, and perhaps more."""

    name: str
    help: str
    labels: tuple[str, ...] = _OF_PIPELINE
    kind: Literal["gauge", "counter"] = "gauge"

    @property
    def exposed(self) -> str:
        """The name as Prometheus has it."""
        return f"{PREFIX}{self.name}" + ("_total" if self.kind == "counter" else "")


FAMILIES = (
    Family("build_info", "The version of offset-ledger that exports.", ("version",)),
    Family("up", "Whether the server of an Airflow connection answered: kafka or postgres.", ("server", "connection")),
    Family("pipeline_file_mistakes", "Mistakes in the pipeline files; their pipelines have no other series.", ()),
    Family("pipeline_info", "A pipeline and its table.", (*_OF_PIPELINE, "table")),
    Family("topic_readable", "Whether the broker described the topic; without that the series of its log are absent."),
    Family("topic_retired", "Whether a person has settled that the topic is gone; its topic_readable is absent then."),
    Family("log_changed", "Whether the topic was recreated, or its log ends below a cursor: the pipeline stops."),
    Family("lag_offsets", "Offsets up to the last stable offset that are not committed.", (*_OF_PIPELINE, "partition")),
    Family("lag_seconds", "The longest that an unread record can have waited, by record timestamps; 0 without lag."),
    Family("lost_offsets", "Offsets that retention deleted before they were read."),
    Family("unread_expiry_timestamp_seconds", "When retention may delete the oldest unread record."),
    Family("newest_record_timestamp_seconds", "Timestamp of the newest committed record."),
    Family("last_commit_timestamp_seconds", "When the cursors last moved."),
    Family("open_batch_timestamp_seconds", "When the open head batch was planned.", (*_OF_PIPELINE, "state")),
    Family("rejected_batches", "Batches that the gate rejected and nobody has decided about."),
    Family("open_questions", "Questions to people without an answer."),
    Family("quarantined_records", "Records in quarantine, neither fixed nor dismissed; counted up to 10,000."),
    Family("waiting_dead_letters", "Dead letters that are not delivered yet."),
    Family("audit_findings", "Findings of the newest audit of the topic.", (*_OF_PIPELINE, "severity")),
    Family("last_batch_step_seconds", "How long each step of the newest head batch took.", (*_OF_PIPELINE, "step")),
    Family("offsets", "Committed offsets by what became of them.", (*_OF_PIPELINE, "disposition"), "counter"),
)


Metrics = Mapping[str, GaugeMetricFamily | CounterMetricFamily]


class LedgerCollector(Collector):
    """The pipelines of a folder; an answer of a server is used for ``max_age`` seconds.

    A scrape waits ``timeout`` seconds at most for the files, for the brokers and for the ledgers each. Of files that
    could not be read by then it knows what it knew before.
    """

    def __init__(self, folder: Path, max_age: float = 5.0, timeout: float = 2.5) -> None:
        self._folder = folder
        self._files: CachedAnswers[Path, KnownPipelines] = CachedAnswers("exporter-files", max_age, timeout, 1)
        self._ledgers: CachedAnswers[str, LedgerReading] = CachedAnswers("exporter-ledgers", max_age, timeout, 4)
        self._brokers = BrokerCache(max_age=max_age, timeout=timeout)
        self._known: KnownPipelines | None = None

    def describe(self) -> Sequence[GaugeMetricFamily | CounterMetricFamily]:
        """The families without samples, so that registering asks no server."""
        return list(_empty().values())

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Every family that has a sample now."""
        made = _empty()
        made["build_info"].add_metric([__version__], 1)
        self._known = self._files.get({self._folder: partial(read_pipelines, self._folder)}).get(
            self._folder, self._known
        )
        if self._known is not None:
            made["pipeline_file_mistakes"].add_metric([], len(self._known.problems))
            self._add_pipelines(made, tuple(self._known.pipelines.values()))
        return (each for each in made.values() if each.samples)

    def _add_pipelines(self, made: Metrics, pipelines: Sequence[Pipeline]) -> None:
        topics = self._brokers.answers(pipelines)
        groups = {conn_id: [each.name for each in group] for conn_id, group in by_ledger(pipelines)}
        ledgers = self._ledgers.get(
            {conn_id: partial(read_ledger, conn_id, group) for conn_id, group in groups.items()}
        )
        _add_servers(made, pipelines, topics, ledgers)
        now = datetime.now(UTC)
        for pipeline in pipelines:
            topic = topics[pipeline.name]
            for sample in pipeline_samples(pipeline, ledgers.get(pipeline.target.connection), topic, now):
                _add(made, pipeline, sample)


def _empty() -> dict[str, GaugeMetricFamily | CounterMetricFamily]:
    return {family.name: _family(family) for family in FAMILIES}


def _family(family: Family) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(f"{PREFIX}{family.name}", family.help, labels=family.labels)


_LABELS = {family.name: family.labels for family in FAMILIES}


def _add(made: Metrics, pipeline: Pipeline, sample: Sample) -> None:
    labels = {"pipeline": pipeline.name, "topic": pipeline.source.topic, **sample.labels}
    made[sample.family].add_metric([labels[name] for name in _LABELS[sample.family]], sample.value)


def _add_servers(
    made: Metrics,
    pipelines: Sequence[Pipeline],
    topics: Mapping[str, BrokerAnswer],
    ledgers: Mapping[str, LedgerReading],
) -> None:
    """A cluster is up if it said of any of its topics what it is, a Postgres if its ledger could be read."""
    kafka = {each.source.connection: False for each in pipelines}
    for each in pipelines:
        kafka[each.source.connection] |= topics[each.name].snapshot is not None or topics[each.name].gone
    for conn_id, answered in sorted(kafka.items()):
        made["up"].add_metric(["kafka", conn_id], answered)
    for conn_id in sorted({each.target.connection for each in pipelines}):
        read = conn_id in ledgers and ledgers[conn_id].problem is None
        made["up"].add_metric(["postgres", conn_id], read)
