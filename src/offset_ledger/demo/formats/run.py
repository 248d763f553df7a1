"""This demo on servers of its own, which it starts and stops; their state stays until the next time."""

from __future__ import annotations

import shutil
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
from offset_ledger.demo.proof import Claim, DemoProof, Stopwatch, engines
from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import Session, connect, migrate, named_sql, rows, transaction
from offset_ledger.sandbox import stack as local
from offset_ledger.sandbox.airflow import Airflow
from offset_ledger.sandbox.layout import PortChoice, stack_home
from offset_ledger.sandbox.stack import Stack
from offset_ledger.schema_registry.client import connect_registry

FLIGHTS = 20_000
FEWEST = 100  # each wave needs some of every kind


@dataclass(frozen=True, slots=True)
class FormatsProof(DemoProof):
    """The proof of the formats, with the balance sheet by pipeline and the batches of the Avro pipeline."""

    home: Path


def run(flights: int | None, say: Say) -> FormatsProof:
    """Start servers, do what :class:`Story` tells, prove it, and stop the servers.

    Raises:
        ConfigurationError: with so few flights there is not one of each kind.
    """
    if flights is not None and flights < FEWEST:
        raise ConfigurationError(f"--formats needs at least {FEWEST} flights, found {flights}")
    watch = Stopwatch()
    home = _new_home(say)
    try:
        with watch.part("start the servers"):
            stack = _started(home, say)
        return _told(stack, flights or FLIGHTS, watch, say)
    finally:
        with watch.part("stop the servers"):
            local.down(home, say)


def _new_home(say: Say) -> Path:
    """A folder of its own inside the stack's, without what an earlier run has left there."""
    home = stack_home() / "demo-formats"
    if home.exists():
        local.down(home, say)
        shutil.rmtree(home)
    files.write_dags(home / "project" / "dags")
    return home


def _started(home: Path, say: Say) -> Stack:
    """One broker, Postgres, Airflow and a schema registry, on free ports beside those of ``make demo``."""
    stack = local.up(
        brokers=1,
        airflow=True,
        ports=PortChoice.any_free(),
        home=home,
        project=home / "project",
        say=say,
        registry=True,
    )
    with connect(stack.postgres.connection()) as session:
        migrate(session)
    return stack


def _told(stack: Stack, flights: int, watch: Stopwatch, say: Say) -> FormatsProof:
    place = Place(
        airflow=stack.airflow,
        dags=stack.project / "dags",
        kafka=stack.connections()[0],
        registry=stack.registry.connection(),
        stop_registry=stack.registry.stop,
        replication_factor=stack.brokers,
    )
    with connect(stack.postgres.connection()) as session:
        claims = list(Story(place, session, watch, say).claims(flights))
        with transaction(session) as cursor:
            claims.append(engines(cursor, files.PIPELINES))
        sheet = rows(session, named_sql("demo/format_balance"), {"pipelines": list(files.PIPELINES)})
        batches = rows(session, named_sql("batches/recent"), {"pipeline": files.AVRO, "limit": 20})
        return FormatsProof(sheet, batches, claims, watch.parts, watch.tasks, stack.home)


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
    """The servers of the demo; the DAGs are in the folder ``dags``, and Airflow knows the connections by their ids."""

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
