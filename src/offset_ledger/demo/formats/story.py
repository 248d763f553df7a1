"""What this demo does with its servers: three topics, an Avro schema that changes twice, two replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offset_ledger import ids
from offset_ledger.connections import Connection
from offset_ledger.demo.dag_runs import DagRuns
from offset_ledger.demo.formats import files
from offset_ledger.demo.formats.flights import (
    AGAINST_SCHEMA,
    POISON,
    UNKNOWN_SCHEMA,
    Sending,
    avro_waves,
    flights,
    one_topic,
)
from offset_ledger.demo.formats.proof import changes, column_types, fingerprint, prove
from offset_ledger.demo.formats.publishing import Topic
from offset_ledger.demo.proof import Claim
from offset_ledger.demo.stopwatch import Stopwatch
from offset_ledger.ledger.database import Session, named_sql, rows, transaction
from offset_ledger.local.airflow import Airflow
from offset_ledger.schema_registry.client import connect_registry

Say = Callable[[str], None]
_ADDED = "ADD COLUMN air_time integer"
_AND_WIDENED = f"{_ADDED}; ALTER COLUMN distance TYPE bigint USING distance::bigint"
RUNS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("after v1", {"distance": "integer"}, "none"),
    ("after v2, with a new field", {"distance": "integer", "air_time": "integer"}, _ADDED),
    ("after v3, with a wider type", {"distance": "bigint", "air_time": "integer"}, _AND_WIDENED),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happens; the DAGs are in the folder ``dags``, and Airflow knows the connections by their ids."""

    airflow: Airflow
    dags: Path
    kafka: Connection
    registry: Connection
    stop_registry: Callable[[], object]
    replication_factor: int


class Story:
    """The demo, step by step, with the claims of each."""

    def __init__(self, place: Place, session: Session, watch: Stopwatch, say: Say) -> None:
        self._place, self._session, self._watch, self._say = place, session, watch, say
        registry = connect_registry(place.registry)
        self.topics = {name: Topic(name, place.kafka, registry, place.replication_factor) for name in files.PIPELINES}
        self._runs = {name: DagRuns(place.airflow, ids.ingest_dag(name), say) for name in files.PIPELINES}
        self._avro = self.topics[files.AVRO]

    def claims(self, limit: int) -> Iterator[Claim]:
        """Do everything, with so many flights."""
        with self._watch.part("publish"):
            states = flights(limit)
            waves = list(avro_waves(states))
            self._publish(files.PROTOBUF, one_topic(states, POISON))
            self._publish(files.JSON_SCHEMA, one_topic(states, (*POISON, AGAINST_SCHEMA)))
        yield from self._first_run(waves[0])
        yield from self._evolved(2, waves[1])
        yield from self._evolved(3, waves[2])
        yield from self._replayed("all of the topic", self._avro.ends())
        self._say("stopping the schema registry")
        self._place.stop_registry()
        known = self._avro.ends(lambda each: each.sending.poison is UNKNOWN_SCHEMA)
        yield from self._replayed("what names known schemas, without the registry", known)

    def _publish(self, name: str, sendings: list[Sending]) -> None:
        versions = ", ".join(f"v{version}" for version in sorted({each.version for each in sendings}))
        poison = sum(each.poison is not None for each in sendings)
        self._say(f"publishing {len(sendings):,} records to {name}, written with {versions}; {poison} are spoiled")
        self.topics[name].publish(sendings)

    def _first_run(self, wave: list[Sending]) -> Iterator[Claim]:
        """All three pipelines, at the same time."""
        with self._watch.part("publish"):
            self._publish(files.AVRO, wave)
        with self._watch.part("run 1"), ThreadPoolExecutor(len(self._runs)) as pool:
            list(pool.map(self._ran, self._runs))
        yield from self._proof(1)
        with transaction(self._session) as cursor:
            for name in (files.PROTOBUF, files.JSON_SCHEMA):
                yield from prove(cursor, self.topics[name])

    def _evolved(self, version: int, wave: list[Sending]) -> Iterator[Claim]:
        """The next version of the schema, and of the pipeline file."""
        with self._watch.part("publish"):
            self._publish(files.AVRO, wave)
        self._say(f"version {version} of {files.AVRO}.yaml")
        files.change_avro(self._place.dags, version)
        with self._watch.part(f"run {version}"):
            self._ran(files.AVRO)
        yield from self._proof(version)

    def _proof(self, version: int) -> Iterator[Claim]:
        when, types, made = RUNS[version - 1]
        with self._watch.part("check"), transaction(self._session) as cursor:
            yield from prove(cursor, self._avro, "air_time" in types, f" {when}")
            yield Claim(f"{files.AVRO} {when}: types", types, column_types(cursor, self._avro))
            yield Claim(f"{files.AVRO} {when}: changes of the table", made, changes(cursor, self._avro))

    def _replayed(self, what: str, ends: dict[int, int]) -> Iterator[Claim]:
        """Read the Avro topic again up to there: no row changes."""
        self._say(f"replaying {files.AVRO}: {what}")
        before = self._fingerprint()
        with self._watch.part("replay"):
            ranges = "\n".join(f"{partition}:0-{end}" for partition, end in sorted(ends.items()))
            self._ran(files.AVRO, action="ranges", ranges=ranges, why="the demo")
        newest = rows(self._session, named_sql("batches/recent"), {"pipeline": files.AVRO, "limit": 1})[0]
        done = {name: newest[name] for name in ("kind", "state", "offsets")}
        yield Claim(f"replay of {what}", {"kind": "replay", "state": "committed", "offsets": sum(ends.values())}, done)
        yield Claim(f"replay of {what} changed no row", before, self._fingerprint())

    def _fingerprint(self) -> tuple[Any, ...]:
        with transaction(self._session) as cursor:
            return fingerprint(cursor, self._avro)

    def _ran(self, name: str, **form: str) -> None:
        self._runs[name].unpause()
        self._say(f"running the DAG {ids.ingest_dag(name)}")
        finished = self._runs[name].trigger(**form)
        self._watch.add(finished.seconds)
