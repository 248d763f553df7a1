"""The demo on servers of its own, which it starts and stops, and its proof; their state stays until the next time."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg2 import sql

from offset_ledger.base import ids
from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, migrate, named_sql, rows, transaction
from offset_ledger_kit.demo.dag_runs import DagRuns
from offset_ledger_kit.demo.formats import topics
from offset_ledger_kit.demo.formats.changes import TOPIC, ChangeTopic, create_table
from offset_ledger_kit.demo.formats.topics import (
    AGAINST_SCHEMA,
    POISON,
    UNKNOWN_SCHEMA,
    Published,
    Sending,
    Topic,
    avro_waves,
    flights,
    one_topic,
)
from offset_ledger_kit.demo.run import Claim, DemoProof, Say, Stopwatch, engines
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.connect import Connect, start_source
from offset_ledger_kit.sandbox.layout import PortChoice, free_ports, stack_home
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch

FLIGHTS = 20_000
FEWEST = 100  # each wave needs some of every kind
COLUMNS = ("event_id", "publish_at", "carrier", "origin", "destination", "dep_delay", "distance", "air_time")
WHERE_FROM = ("_partition", "_offset", "_schema_id")
_AIR_TIME = COLUMNS.index("air_time")
_SINCE_VERSION = 2  # of the Avro schema: air_time


def run(flights: int | None, say: Say) -> DemoProof:
    """Start servers, do what :class:`Story` tells, prove it, and stop the servers.

    Raises:
        ConfigurationError: with so few flights there is not one of each kind.
    """
    if flights is not None and flights < FEWEST:
        raise ConfigurationError(f"--formats needs at least {FEWEST} flights, found {flights}")
    watch = Stopwatch()
    home = stack_home() / "demo-formats"  # inside the stack's own folder
    ports = free_ports(2)
    source, worker = Postgres(home / "source", ports[0]), Connect(home / "connect", ports[1])
    if home.exists():
        stop(home, source, worker, say)
        shutil.rmtree(home)
    topics.write_dags(home / "project" / "dags")
    try:
        with watch.part("start the servers"):
            stack = local.up(
                brokers=1,
                airflow=True,
                ports=PortChoice.any_free(),  # beside those of ``make demo``
                home=home,
                project=home / "project",
                say=say,
                registry=True,
            )
            say("starting Kafka Connect with Debezium, and the Postgres that it reads")
            launch = Launch(say)
            start_source(source.directory, source.port, launch)
            worker.up(stack.kafka.bootstrap, stack.java, launch)
            with connect(stack.postgres.connection()) as session:
                migrate(session)
        place = Place(
            airflow=stack.airflow,
            dags=stack.project / "dags",
            kafka=stack.connections()[0],
            registry=stack.registry.connection(),
            stop_registry=stack.registry.stop,
            replication_factor=stack.brokers,
            source=source.connection(),
            worker=worker,
        )
        with connect(stack.postgres.connection()) as session:
            claims = list(Story(place, session, watch, say).claims(flights or FLIGHTS))
            with transaction(session) as cursor:
                claims.append(engines(cursor, topics.PIPELINES))
            sheet = rows(
                session, named_sql("offset_ledger_kit:demo/format_balance"), {"pipelines": list(topics.PIPELINES)}
            )
            batches = rows(session, named_sql("batches/recent"), {"pipeline": topics.AVRO, "limit": 20})
            return DemoProof(sheet, batches, claims, watch.parts, watch.tasks, stack)
    finally:
        with watch.part("stop the servers"):
            stop(home, source, worker, say)


def stop(home: Path, source: Postgres, worker: Connect, say: Say) -> None:
    """Stop what runs of the servers."""
    worker.stop()
    source.stop()
    local.down(home, say)


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
    source: Connection
    worker: Connect


class Story:
    """The demo, step by step, with the claims of each."""

    def __init__(self, place: Place, session: Session, watch: Stopwatch, say: Say) -> None:
        self._place, self._session, self._watch, self._say = place, session, watch, say
        registry = connect_registry(place.registry)
        self.topics = {name: Topic(name, place.kafka, registry, place.replication_factor) for name in topics.SCHEMAS}
        self._changes = ChangeTopic(place.kafka, place.source, place.worker, place.replication_factor)
        self._runs = {name: DagRuns(place.airflow, ids.ingest_dag(name), say) for name in topics.PIPELINES}
        self._avro = self.topics[topics.AVRO]

    def claims(self, limit: int) -> Iterator[Claim]:
        """Do everything with ``limit`` flights."""
        with self._watch.part("publish"):
            states = flights(limit)
            waves = list(avro_waves(states))
            self._publish(topics.PROTOBUF, one_topic(states, POISON))
            self._publish(topics.JSON_SCHEMA, one_topic(states, (*POISON, AGAINST_SCHEMA)))
            self._publish(topics.AVRO, waves[0])
            self._say(f"changing the table of another Postgres, which Debezium reports to {TOPIC}")
            self._say(f"{self._changes.fill(limit):,} records are in {TOPIC}")
        with transaction(self._session) as cursor:
            create_table(cursor)
        with self._watch.part("run 1"), ThreadPoolExecutor(len(self._runs)) as pool:
            list(pool.map(self._ran, self._runs))
        yield from self._proof(1)
        with transaction(self._session) as cursor:
            for name in (topics.PROTOBUF, topics.JSON_SCHEMA):
                yield from prove(cursor, self.topics[name])
            yield from self._changes.prove(cursor)
        yield from self._evolved(2, waves[1])
        yield from self._evolved(3, waves[2])
        yield from self._replayed(topics.AVRO, "all of the topic", self._avro.ends())
        yield from self._replayed(topics.CHANGES, "all of the topic", self._changes.ends)
        self._say("stopping the schema registry")
        self._place.stop_registry()
        known = self._avro.ends(lambda each: each.sending.poison is UNKNOWN_SCHEMA)
        yield from self._replayed(topics.AVRO, "what names known schemas, without the registry", known)

    def _publish(self, name: str, sendings: list[Sending]) -> None:
        versions = ", ".join(f"v{version}" for version in sorted({each.version for each in sendings}))
        poison = sum(each.poison is not None for each in sendings)
        self._say(f"publishing {len(sendings):,} records to {name}, written with {versions}; {poison} are spoiled")
        self.topics[name].publish(sendings)

    def _evolved(self, version: int, wave: list[Sending]) -> Iterator[Claim]:
        """The next version of the schema, and of the pipeline file."""
        with self._watch.part("publish"):
            self._publish(topics.AVRO, wave)
        self._say(f"version {version} of {topics.AVRO}.yaml")
        topics.change_avro(self._place.dags, version)
        with self._watch.part(f"run {version}"):
            self._ran(topics.AVRO)
        yield from self._proof(version)

    def _proof(self, version: int) -> Iterator[Claim]:
        when, types, made = RUNS[version - 1]
        with self._watch.part("check"), transaction(self._session) as cursor:
            yield from prove(cursor, self._avro, "air_time" in types, f" {when}")
            cursor.run("table/columns", columns=[], schema="public", table=topics.AVRO)
            printed = {row["name"]: row["type"] for row in cursor.fetchall()}  # as Postgres prints them
            declared = {name: printed[name] for name in ("distance", "air_time") if name in printed}
            yield Claim(f"{topics.AVRO} {when}: types", types, declared)
            cursor.run("offset_ledger_kit:demo/target_changes", pipeline=topics.AVRO)
            changes = "; ".join(row["clause"] for row in cursor.fetchall()) or "none"
            yield Claim(f"{topics.AVRO} {when}: changes of the table", made, changes)

    def _replayed(self, name: str, what: str, ends: dict[int, int]) -> Iterator[Claim]:
        """Read the topic again up to there: no row changes."""
        self._say(f"replaying {name}: {what}")
        before = self._fingerprint(name)
        with self._watch.part("replay"):
            ranges = "\n".join(f"{partition}:0-{end}" for partition, end in sorted(ends.items()))
            self._ran(name, action="ranges", ranges=ranges, why="the demo")
        newest = rows(self._session, named_sql("batches/recent"), {"pipeline": name, "limit": 1})[0]
        wanted = {"kind": "replay", "state": "committed", "offsets": sum(ends.values())}
        yield Claim(f"{name}: replay of {what}", wanted, {each: newest[each] for each in wanted})
        yield Claim(f"{name}: replay of {what} changed no row", before, self._fingerprint(name))

    def _fingerprint(self, name: str) -> tuple[Any, ...]:
        """Changes with every row of the pipeline's table that is inserted, rewritten or deleted."""
        with transaction(self._session) as cursor:
            table = sql.Identifier("public", name)
            cursor.execute(sql.SQL(named_sql("offset_ledger_kit:demo/format_fingerprint")).format(table=table))
            return tuple(cursor.one())

    def _ran(self, name: str, **form: str) -> None:
        self._runs[name].unpause()
        self._say(f"running the DAG {ids.ingest_dag(name)}")
        finished = self._runs[name].trigger(**form)
        self._watch.add(finished.seconds)


def prove(cursor: Cursor, topic: Topic, has_air_time: bool = True, when: str = "") -> Iterator[Claim]:
    """The claims about the table and the quarantine of a topic: as sets of whole rows."""
    wanted = set(expected_rows(topic.published, topic.name, has_air_time))
    columns = [*(COLUMNS if has_air_time else COLUMNS[:_AIR_TIME]), *WHERE_FROM]
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    place = sql.Identifier("public", topic.name)
    cursor.execute(sql.SQL(named_sql("offset_ledger_kit:demo/format_rows")).format(columns=names, table=place))
    rows_there = [tuple(row) for row in cursor.fetchall()]
    table = f"{topic.name}{when}"
    yield Claim(f"{table}: rows", len(wanted), len(rows_there))
    yield Claim(f"{table}: flights whose newest state is not in the table", 0, len(wanted - set(rows_there)))
    yield Claim(f"{table}: rows that are no flight's newest state", 0, len(set(rows_there) - wanted))
    spoiled = {
        (each.partition, each.offset, each.sending.poison.code, each.value)
        for each in topic.published
        if each.sending.poison
    }
    cursor.run("offset_ledger_kit:demo/format_quarantine", pipeline=topic.name)
    kept = {(row[0], row[1], row[2], bytes(row[3])) for row in cursor.fetchall()}
    yield Claim(f"{table}: records in quarantine", len(spoiled), len(kept))
    yield Claim(f"{table}: spoiled records not in quarantine with their bytes and reason", 0, len(spoiled - kept))
    yield Claim(f"{table}: records in quarantine that are not spoiled", 0, len(kept - spoiled))


def expected_rows(published: Sequence[Published], topic: str, has_air_time: bool) -> Iterator[tuple[Any, ...]]:
    """The rows that these records must come to; a record of an older schema has no time in the air."""
    newest: dict[str, Published] = {}
    for each in (each for each in published if not each.sending.poison):
        before = newest.get(each.sending.flight.event_id)
        if before is None or _order(before) < _order(each):
            newest[each.sending.flight.event_id] = each
    for each in newest.values():
        values = list(each.sending.flight.document().values())
        if topic == topics.AVRO and each.sending.version < _SINCE_VERSION:
            values[_AIR_TIME] = None
        yield (*(values if has_air_time else values[:_AIR_TIME]), each.partition, each.offset, each.schema_id)


def _order(each: Published) -> tuple[Any, ...]:
    return each.sending.flight.published_at, each.partition, each.offset
