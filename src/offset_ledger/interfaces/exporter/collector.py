"""A collector of prometheus_client: each scrape asks ledgers and topics, and waits for none that is unavailable.

A ledger is read in one short read-only transaction; families are the metrics' names, kinds, help and labels.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from offset_ledger.base.version import __version__
from offset_ledger.errors import OffsetLedgerError, one_line
from offset_ledger.operations.status.brokers import BrokerCache, CachedAnswers
from offset_ledger.operations.status.pipeline import BrokerAnswer, Ledger, LedgerRow, assess
from offset_ledger.operations.status.reader import (
    KnownPipelines,
    by_ledger,
    read_ledger,
    read_pipelines,
    read_rows,
    reading,
)
from offset_ledger.pipeline_file.pipeline import Pipeline

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """The state of a ledger's pipelines and, by pipeline, what only the exporter asks it."""

    ledger: Ledger
    waiting: Mapping[str, LedgerRow] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    findings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


_STEPS = ("stage", "validate", "commit")
_SEVERITIES = ("error", "warning")
_NOT_YET = LedgerReading(Ledger(problem="the ledger has not answered yet"))


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of the family of that name, with the labels that it has besides the pipeline's."""

    family: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def pipeline_samples(pipeline: Pipeline, known: LedgerReading, topic: BrokerAnswer, now: datetime) -> Iterator[Sample]:
    """Yield every sample of a pipeline, but none of a server that did not answer, and the age of a retired topic."""
    standing = assess(pipeline, known.ledger, topic, now)
    yield Sample("pipeline_info", 1, {"table": pipeline.target.name})
    yield Sample("condition", 1, {"level": standing.condition.level, "state": standing.condition.state})
    if not standing.retired:
        yield Sample("topic_readable", float(topic.snapshot is not None))
    if known.ledger.problem is not None:
        return
    if pipeline.name in known.ledger.pipelines:
        yield Sample("topic_retired", float(standing.retired is not None))
        head, waiting = known.ledger.pipelines[pipeline.name], known.waiting[pipeline.name]
        if head["batch_id"] is not None:
            yield Sample("open_batch_timestamp_seconds", head["planned_at"].timestamp(), {"state": head["state"]})
        if not standing.retired:
            yield from _moment("last_commit_timestamp_seconds", waiting["moved_at"])
            yield from _moment("newest_record_timestamp_seconds", waiting["newest"])
        yield Sample("rejected_batches", waiting["rejected"])
        yield Sample("open_questions", waiting["questions"])
        yield Sample("quarantined_records", head["quarantined"])
        yield Sample("waiting_dead_letters", waiting["dead_letters"])
        for disposition, offsets in known.offsets.get(pipeline.name, {}).items():
            yield Sample("offsets", offsets, {"disposition": disposition})
        for step in _STEPS:
            if waiting[step] is not None:
                yield Sample("last_batch_step_seconds", waiting[step], {"step": step})
        if (counts := known.findings.get(pipeline.name)) is not None:
            for severity in _SEVERITIES:
                yield Sample("audit_findings", counts.get(severity, 0), {"severity": severity})
    if topic.snapshot is None:
        return
    for each in standing.partitions:
        if each.lag is not None:
            yield Sample("lag_offsets", each.lag, {"partition": str(each.partition)})
    whole = standing.totals
    yield Sample("log_changed", float(whole.cut_off))
    yield Sample("lost_offsets", whole.lost)
    yield from _moment("unread_expiry_timestamp_seconds", whole.gone_after)
    if whole.lag == 0 and not whole.cut_off:
        yield Sample("lag_seconds", 0.0)
    elif whole.complete_to is not None and not whole.dated_long_ago(now):
        yield Sample("lag_seconds", max(0.0, (now - whole.complete_to).total_seconds()))


def _moment(family: str, moment: datetime | None) -> Iterator[Sample]:
    if moment is not None:
        yield Sample(family, moment.timestamp())


def read_known(conn_id: str, names: Sequence[str]) -> LedgerReading:
    """Return everything about these pipelines; a ledger that is unavailable, or not migrated, has a problem."""
    try:
        with reading(conn_id, "offset-ledger exporter") as cursor:
            waiting, offsets, findings = (
                read_rows(cursor, f"exporter/{name}", pipelines=list(names))
                for name in ("pipelines", "offsets", "findings")
            )
            counts: dict[str, dict[str, int]] = {}
            for row in findings:
                counts.setdefault(row["pipeline"], {})[row["severity"]] = row["findings"]
            return LedgerReading(
                read_ledger(cursor, names),
                {row["pipeline"]: row for row in waiting},
                {row["pipeline"]: {name: row[name] for name in row if name != "pipeline"} for row in offsets},
                counts,
            )
    except OffsetLedgerError as error:
        log.warning("the ledger of connection %r cannot be read: %s", conn_id, error)
        return LedgerReading(Ledger(problem=str(error)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the scrape has the rest
        log.warning("reading the ledger of connection %r failed: %s", conn_id, one_line(error))
        return LedgerReading(Ledger(problem=type(error).__name__))


PREFIX = "offset_ledger_"
_OF_PIPELINE = ("pipeline", "topic")
_OF_CONDITION = (*_OF_PIPELINE, "level", "state")
_OF_SERVER = ("server", "connection")


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
    Family("up", "Whether the server of an Airflow connection answered: kafka, postgres or registry.", _OF_SERVER),
    Family("pipeline_file_mistakes", "Mistakes in the pipeline files; their pipelines have no other series.", ()),
    Family("pipeline_info", "A pipeline and its table.", (*_OF_PIPELINE, "table")),
    Family("condition", "The most severe condition of a pipeline; unknown: a server is silent.", _OF_CONDITION),
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
_LABELS = {family.name: family.labels for family in FAMILIES}


class LedgerCollector(Collector):
    """The pipelines of a folder; an answer of a server is used for ``max_age`` seconds.

    A scrape waits ``timeout`` seconds at most for the files, for the brokers and for the ledgers each. Files that could
    not be read by then are reported as before.
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
        """Yield every family that has a sample now."""
        made = _empty()
        made["build_info"].add_metric([__version__], 1)
        self._known = self._files.get({self._folder: partial(read_pipelines, self._folder)}).get(
            self._folder, self._known
        )
        pipelines: tuple[Pipeline, ...] = ()
        if self._known is not None:
            made["pipeline_file_mistakes"].add_metric([], len(self._known.problems))
            pipelines = tuple(self._known.pipelines.values())
        topics = self._brokers.answers(pipelines)
        groups = {conn_id: [each.name for each in group] for conn_id, group in by_ledger(pipelines)}
        ledgers = self._ledgers.get({conn_id: partial(read_known, conn_id, group) for conn_id, group in groups.items()})
        _add_servers(made, pipelines, topics, ledgers)
        now = datetime.now(UTC)
        for pipeline in pipelines:
            known = ledgers.get(pipeline.target.connection, _NOT_YET)
            of_pipeline = {"pipeline": pipeline.name, "topic": pipeline.source.topic_names}
            for sample in pipeline_samples(pipeline, known, topics[pipeline.name], now):
                labels = {**of_pipeline, **sample.labels}
                made[sample.family].add_metric([labels[name] for name in _LABELS[sample.family]], sample.value)
        return (each for each in made.values() if each.samples)


def _empty() -> dict[str, GaugeMetricFamily | CounterMetricFamily]:
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    return {each.name: kinds[each.kind](f"{PREFIX}{each.name}", each.help, labels=each.labels) for each in FAMILIES}


def _add_servers(
    made: Metrics,
    pipelines: Sequence[Pipeline],
    topics: Mapping[str, BrokerAnswer],
    ledgers: Mapping[str, LedgerReading],
) -> None:
    """Add the servers: a cluster is up if it answered about any topic, a Postgres if its ledger could be read."""
    up: dict[tuple[str, str], bool] = {}
    for each in pipelines:
        topic, known = topics[each.name], ledgers.get(each.target.connection, _NOT_YET)
        kafka = ("kafka", each.source.connection)
        up[kafka] = up.get(kafka, False) or topic.snapshot is not None or topic.gone
        up["postgres", each.target.connection] = known.ledger.problem is None
        if each.source.registry:
            up["registry", each.source.registry] = topic.registry_problem is None
    for labels, answered in sorted(up.items()):
        made["up"].add_metric(list(labels), answered)
