"""A collector of prometheus_client: each scrape asks ledgers and topics, and waits for none that is away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from offset_ledger.config.model import Pipeline
from offset_ledger.exporter.families import FAMILIES, PREFIX, Family
from offset_ledger.exporter.ledger import read_ledger
from offset_ledger.exporter.reading import LedgerReading
from offset_ledger.exporter.samples import Sample, pipeline_samples
from offset_ledger.page.cached_answers import CachedAnswers
from offset_ledger.page.live import BrokerCache
from offset_ledger.page.pipelines import KnownPipelines, by_ledger, read_pipelines
from offset_ledger.page.snapshots import BrokerAnswer
from offset_ledger.version import __version__

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
