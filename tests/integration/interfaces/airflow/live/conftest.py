"""One Airflow for all tests here: what takes long is started at once, and each test waits for its own part."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.model.batch import Origin
from offset_ledger.model.request import Request, RunAction
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.record import Record
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.requests import plan_request
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox import airflow as local_airflow
from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.spark import SparkConnect
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.airflow_project import new_project, pipeline_text, record
from tests.fixtures.airflow_world import World, until
from tests.fixtures.git_bundle import GitBundle, bundle_settings
from tests.fixtures.http_server import Answering, answering, send_json
from tests.fixtures.servers import execute, kill
from tests.fixtures.spark import LIGHT_JVM
from tests.fixtures.statsd import Statsd
from tests.integration.interfaces.airflow.conftest import copy_database

DAY = timedelta(days=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
# Postgres trusts the loopback and Kafka speaks plaintext: neither looks at a password, and both are told this one.


@pytest.fixture(scope="package")
def lineage() -> Iterator[Answering]:
    """A receiver of OpenLineage's events."""
    with answering(lambda handler, _: send_json(handler, 201, {})) as receiver:
        yield receiver


@pytest.fixture(scope="package")
def hooks() -> Iterator[Answering]:
    """The server that all notifications go to."""
    with answering(lambda handler, _: send_json(handler, 200, {})) as server:
        yield server


def notify(name: str) -> str:
    """The section of a pipeline whose notifications go to a path of their own, all of them."""
    return f"[{{webhook: {{connection: hooks_stored, endpoint: {name}}}}}]"


def notified(hooks: Answering, name: str) -> list[dict[str, str]]:
    """The notifications of that pipeline, in the order of their arrival."""
    return [json.loads(asked.body) for asked in list(hooks.asked) if asked.path == f"/{name}"]


def subjects(hooks: Answering, name: str) -> list[tuple[str, str]]:
    """Their causes and subjects."""
    return [(each["cause"], each["subject"]) for each in notified(hooks, name)]


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> GitBundle:
    """The Git repository of a DAG bundle."""
    return GitBundle.create(tmp_path_factory.mktemp("git") / "shop")


@pytest.fixture(scope="package")
def spark_server(stack: Stack) -> Iterator[SparkConnect]:
    """A Spark Connect server that need not run."""
    made = SparkConnect(stack.home / "spark-of-airflow", free_ports(1)[0])
    yield made
    made.stop()


@pytest.fixture(scope="package")
def world(
    stack: Stack,
    template_database: str,
    template_airflow: Airflow,
    lineage: Answering,
    hooks: Answering,
    shop: GitBundle,
    spark_server: SparkConnect,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    wanted = fixtures_of(request.session)
    execute(stack.postgres.connection(), f"CREATE DATABASE runs TEMPLATE {template_database}")
    kafka, postgres, spark = stack.connections()
    postgres = replace(postgres, schema="runs")
    known = (kafka, postgres, spark_server.connection(), replace(spark, conn_id="spark_submitted"))
    connections = {environment_name(each.conn_id): each.to_json() for each in known}
    project, statsd = new_project(), Statsd()
    airflow = Airflow(stack.home / "airflow", project, stack.ports.airflow, stack.postgres, "runs_airflow")
    copy_database(template_airflow, airflow)
    reports = {"OFFSET_LEDGER_REPORTS": str(project / "reports")}
    bundles = bundle_settings(project / "bundles", shop)
    # This Postgres stays: nobody need ask before each transaction whether it is still there.
    sure = {"AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_PRE_PING": "False"}
    settings = {**stack.environment(), **connections, **statsd.environment(), **reports, **sent_to(lineage)}
    settings |= {**bundles, **sure}
    environment = {**os.environ, **settings, **airflow.environment()}
    made = World(airflow, environment, settings, postgres, kafka, project, statsd)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in connections.items():
            patch.setenv(name, value)
        # Every file is there from the start; parsing them all again and again takes more than the tests do.
        patch.setitem(local_airflow._SETTINGS, "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL", "120")
        try:
            if "spark_ready" in wanted:
                spark_server.start({**stack.servers_environment(), **LIGHT_JVM}, Launch(print))
            begin(made)
            begin_in(shop, made)
            made.start()
            host, port = hooks.url.removeprefix("http://").split(":")
            nobody = Connection("registry_away", "http", f"http://127.0.0.1:{free_ports(1)[0]}")
            for each in (*stored(made), Connection("hooks_stored", "http", host, int(port)), nobody):
                made.call("POST", "/connections", as_stored(each), expect=201)
            for name in ("strict", "orders", "lossy", "gone", "late", "away", "backlog"):
                made.unpause(name)
            yield made
        finally:
            kill(airflow.daemons)
            statsd.close()
            shutil.rmtree(project)


def fixtures_of(session: pytest.Session) -> set[str]:
    """The fixtures that the selected tests need."""
    return {name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames}


@pytest.fixture(scope="package")
def spark_ready(world: World, spark_server: SparkConnect, stack: Stack) -> None:  # noqa: ARG001
    """The Spark Connect server runs."""
    spark_server.up({**stack.servers_environment(), **LIGHT_JVM}, Launch(print))


def sent_to(lineage: Answering) -> dict[str, str]:
    """The settings of OpenLineage's provider."""
    transport = {"type": "http", "url": lineage.url, "endpoint": "api/v1/lineage"}
    return {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport), "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests"}


def stored(world: World) -> tuple[Connection, Connection]:
    """The connections that Airflow finds in its own database, and in no environment."""
    extra = {**world.kafka.extra, "sasl.username": "me", "sasl.password": str(world.postgres.password)}
    return replace(world.kafka, conn_id="kafka_stored", extra=extra), replace(world.postgres, conn_id="postgres_stored")


def as_stored(connection: Connection) -> dict[str, object]:
    """A connection as the REST API takes it."""
    found = json.loads(connection.to_json())
    return {**found, "connection_id": connection.conn_id, "extra": json.dumps(found.get("extra") or {})}


def begin(world: World) -> None:
    """Orders of three days, a strict pipeline with a broken order, two that retention overtook, one to be woken.

    And one whose record retention deletes in four hours, and one whose registry is away.
    """
    world.write("orders", schedule='"@daily"', freshness=None)
    days = (FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=4))
    world.publish("orders", *(record(day + timedelta(hours=n), f"{day.day}-{n}") for day in days for n in range(3)))
    world.suite("strict", "reject", "new", "paid")
    world.write("strict", suite="strict", notify=notify("strict"))
    world.publish("strict", record(FIRST, "good"), record(FIRST, "bad", "broken"))
    world.write("lossy", answer_within="5s", freshness="1s", notify=notify("lossy"))
    lose(world, "lossy", 3)
    world.write("gone", {"unclean.leader.election.enable": "true"}, notify=notify("gone"))
    lose(world, "gone", 4, give_up=False)
    world.suite("known", "quarantine", "new", "paid")
    elsewhere = {"kafka": "kafka_stored", "postgres": "postgres_stored"}
    create_topic(dict(world.kafka.extra), "undelivered", 1, 1)
    by_spark = {"engine": "spark", "spark": "spark_submitted", **elsewhere}
    world.write("woken", suite="known", wake_on_data="true", dead_letter_topic="undelivered", **by_spark)
    world.publish("woken", record(FIRST, "a"), record(FIRST, "b", "returned"), record(FIRST, "c", "stolen"))
    world.audit("orders")
    world.audit("gone")
    world.write("late", {"retention.ms": str(DAY // timedelta(milliseconds=1))}, notify=notify("late"))
    world.publish("late", record(datetime.now(UTC) - DAY + timedelta(hours=4), "a"))
    world.write("backlog", limits="{records_per_batch: 2}")
    world.publish("backlog", *(record(FIRST, f"{n}") for n in range(4)))
    world.write("away", kafka="kafka_default, format: avro, registry: registry_away", notify=notify("away"))
    world.publish("away", Record(b"a", b"\0\0\0\0\1a"))


def begin_in(shop: GitBundle, world: World) -> None:
    """A pipeline of the Git repository."""
    shop.commit(versioned=pipeline_text("versioned", engine="spark"))
    create_topic(dict(world.kafka.extra), "versioned", 1, 1, {"retention.ms": "-1"})
    world.publish("versioned", record(FIRST, "a"), record(FIRST, "b"))


def lose(world: World, name: str, before: int, give_up: bool = True) -> None:
    """A pipeline that has begun at offset 0, perhaps with a batch still open, whose first offsets are then deleted."""
    world.publish(name, *(record(FIRST, f"{n}") for n in range(4)))
    planned = plan(world.pipeline(name), Origin("test"))
    assert planned.batch is not None
    if give_up:
        request = Request(RunAction.ABANDON, batch_id=planned.batch.batch_id, why="lost")
        plan_request(world.pipeline(name), request, Origin("test"))
    admin = KafkaAdminClient(bootstrap_servers=world.kafka.extra["bootstrap.servers"])
    admin.delete_records({TopicPartition(name, 0): before})
    admin.close()


@dataclass(frozen=True)
class Scene:
    """Where a play takes place; what it opens may stay open until the last test here."""

    world: World
    stack: Stack
    hooks: Answering
    until_the_end: ExitStack


Told = TypeVar("Told")


class Played:
    """What came of each play that was begun."""

    def __init__(self, begun: Mapping[Callable[[Scene], Any], Future[Any]]) -> None:
        self._begun = begun

    def __call__(self, play: Callable[[Scene], Told]) -> Told:
        """Wait for the end of this one."""
        return cast("Told", self._begun[play].result())


@pytest.fixture(scope="package", autouse=True)
def played(world: World, stack: Stack, hooks: Answering, request: pytest.FixtureRequest) -> Iterator[Played]:
    """Plays run two at a time beside the tests, because an Airflow mostly waits: the ``PLAYS`` of the test files, by
    the name of the fixture that gives what came of each, where a test needs it.
    """
    wanted = fixtures_of(request.session)
    files = dict.fromkeys(item.module for item in request.session.items if isinstance(item, pytest.Function))
    plays = [play for file in files for name, play in getattr(file, "PLAYS", {}).items() if name in wanted]
    with ExitStack() as until_the_end, ThreadPoolExecutor(2) as pool:
        scene = Scene(world, stack, hooks, until_the_end)
        yield Played({play: pool.submit(play, scene) for play in plays})


LATE_RUN = ("freshness_missed", "lossy: the table is not fresh")


@pytest.fixture(scope="package")
def started(world: World, hooks: Answering, request: pytest.FixtureRequest) -> dict[str, str]:
    """What takes long: the scheduled run of orders, a backfill of two of its days beside it, and a rejected batch."""
    strict = world.trigger("strict")
    lossy = world.trigger("lossy")
    dates = ["--from-date", FIRST.isoformat(), "--to-date", (FIRST + timedelta(days=1)).isoformat()]
    world.airflow_cli("backfill", "create", "--dag-id", "ingest_orders", *dates, "--max-active-runs", "2")
    if "woken" in fixtures_of(request.session):
        until(lambda: LATE_RUN in subjects(hooks, "lossy"), "the triggerer to have seen that a run is late")
        world.unpause("woken")
        world.parse()  # what wakes a DAG is watched from the first parse after it was unpaused
        publish_unwatched(world)
    return {"strict": strict, "lossy": lossy}


def publish_unwatched(world: World) -> None:
    """A record that comes while the triggerer is down and the first woken run is at work."""
    began = "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'woken'"
    until(lambda: world.rows(began), "new records to wake a run")
    triggerer = next(daemon for daemon in world.airflow.daemons if daemon.name == "triggerer")
    triggerer.stop()
    world.publish("woken", record(FIRST, "d"))
    world.start()


@pytest.fixture(scope="package")
def woken(world: World, started: dict[str, str]) -> list[str]:  # noqa: ARG001
    """The runs that new records woke, once everything is read."""
    ends = "SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'woken'"

    def about() -> str:
        return "\n".join(world.told("woken", run["dag_run_id"]) for run in world.runs("woken"))

    until(lambda: world.rows(ends) == [(4,)], "the record that came meanwhile", about)
    runs = [run["dag_run_id"] for run in world.runs("woken")]
    for run_id in runs:
        world.succeeded("woken", run_id)
    return runs


@dataclass(frozen=True)
class Redriven:
    """Two redrives of the quarantine of woken: one that a person gave up, and one that found what was mended."""

    given_up: str
    mended: str
    asked: str


@pytest.fixture(scope="package")
def redriven(world: World, woken: list[str]) -> Redriven:  # noqa: ARG001
    world.suite("known", "reject", "new", "paid")
    world.unpause("redrive_woken")
    given_up = world.trigger("redrive_woken", reason="expect_column_values_to_be_in_set", why="once more")
    asked = world.question("redrive_woken", given_up)["subject"]
    world.answer("redrive_woken", given_up, "approve_batch", "Abandon", "the suite is wrong")
    world.ended("redrive_woken", given_up)
    world.suite("known", "quarantine", "new", "paid", "returned")
    mended = world.trigger("redrive_woken", why="returned is known now")
    world.ended("redrive_woken", mended)
    return Redriven(given_up, mended, asked)
