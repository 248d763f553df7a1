"""One stack with Airflow and ten pipelines for all tests of the UI, and pages of Chromium that are logged in.

By Playwright, whose click waits until a user could click: a script's own `click()` presses what is hidden or covered.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaAdminClient, TopicPartition
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from offset_ledger.errors import BatchRejected, TombstonesMayBeGone
from offset_ledger.model.batch import Origin
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import ingest
from offset_ledger_kit.demo.run import SEED, TOPIC
from offset_ledger_kit.publishing.disturbances import publish_flights
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from offset_ledger_kit.sandbox import airflow as local_airflow
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import PortChoice
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.stack import SparkKind, Stack
from tests.fixtures.airflow_project import record
from tests.fixtures.airflow_world import World
from tests.fixtures.compaction import NEVER, OFTEN, WEEK, CompactedTopic
from tests.fixtures.statsd import Statsd
from tests.paths import ROOT
from tests.ui.airflow_ui import log_in

LIMITED = "limited"  # as tests.fixtures.limited_auth has it; importing that would import Airflow here
ME = Origin("ui test")
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
LATER = FIRST + timedelta(days=30)
PIPELINES = (
    "flights", "orders", "strict", "wary", "lossy", "recreated", "truncated", "belated", "compacted", "forgotten"
)  # fmt: skip
# Patient: a page of Airflow's shows what a scheduler on a busy machine has done.
PATIENCE = 60_000.0
BY_TOMBSTONE = "{event_id: key, publish_at: kafka_timestamp, tombstone: delete, columns: {state: text}}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: without the mark it would need Chromium in ``make test``."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the system's Chromium is."""
    found = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    if (program := next(found, None)) is None:
        pytest.exit("the tests of the UI need Chromium; on Debian: apt-get install chromium", returncode=1)
    return program


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One headless Chromium for all tests."""
    expect.set_options(timeout=PATIENCE)
    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()


@pytest.fixture
def errors() -> list[str]:
    """What scripts raised in the page, and what the browser refused them."""
    return []


@pytest.fixture
def page(browser: Browser, errors: list[str]) -> Iterator[Page]:
    """A window of somebody who was never here before; the scripts of ours that run in it must not fail."""

    def raised(error: Error) -> None:
        errors.append(error.stack or error.message)

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} {message.location['url']}")

    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("pageerror", raised)
    page.on("console", logged)
    yield page
    context.close()
    assert [error for error in errors if "/offset-ledger/" in error] == []


@pytest.fixture(scope="session")
def world(chromium: str) -> Iterator[World]:  # noqa: ARG001 - without a browser no stack has to be started
    """Airflow with: flights (a batch committed, one rejected), orders of three days, strict and wary (a broken order
    each), lossy (whose cursor retention has overtaken), recreated (its topic is another one now), truncated (an older
    copy of its log came back), belated (a record came late), compacted (a tombstone waits) and forgotten (compaction
    removed one unread). Besides admin and viewer there is a user who may read no DAG of them.
    """
    home, project = (Path(tempfile.mkdtemp(prefix=f"offset-ledger-{what}")) for what in ("ui-", "project-"))
    with pytest.MonkeyPatch.context() as patch:
        settings = local_airflow._SETTINGS
        users = settings["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
        patch.setitem(settings, "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", f"{users},{LIMITED}:user")
        # Parsing every few seconds would take a good part of a small machine; files that change are parsed at once.
        patch.setitem(settings, "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL", "120")
        patch.setitem(settings, "AIRFLOW__CORE__AUTH_MANAGER", "tests.fixtures.limited_auth.LimitedAuthManager")
        patch.setenv("PYTHONPATH", str(ROOT))  # where the auth manager is found
        _write_project(project)
        stack = local.up(
            brokers=1, airflow=True, ports=PortChoice.any_free(), home=home, project=project, spark=SparkKind.NONE
        )
        statsd = Statsd()
        # Airflow's settings stay out of this process: it talks to the stack as the command line does.
        for name, value in stack.environment().items():
            if not name.startswith("AIRFLOW__"):
                patch.setenv(name, value)
        try:
            yield _filled(stack, project, statsd)
        finally:
            statsd.close()
            local.down(home)
            shutil.rmtree(home)
            shutil.rmtree(project)


def _write_project(project: Path) -> None:
    for folder in ("dags", "expectations"):
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    # The demo's file, but for a schedule that starts no run of its own while a test looks.
    flights = project / "dags" / "pipelines" / "flights.yaml"
    lines = flights.read_text().splitlines()
    flights.write_text("\n".join('schedule: "@yearly"' if line.startswith("schedule:") else line for line in lines))


def _filled(stack: Stack, project: Path, statsd: Statsd) -> World:
    with connect(stack.postgres.connection()) as session:
        migrate(session)
    kafka, postgres, _ = stack.connections()
    environment, settings = {**os.environ, **stack.environment()}, stack.environment()
    world = World(stack.airflow, environment, settings, postgres, kafka, project, statsd, stack.airflow.token())
    world.write("orders", schedule='"@daily"')
    days = (FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=4))
    world.publish("orders", *(record(day + timedelta(hours=n), f"{day.day}-{n}") for day in days for n in range(3)))
    for name in ("strict", "wary"):
        world.suite(name, "reject", "new", "paid")
        world.write(name, suite=name)
        world.publish(name, record(FIRST, "good"), record(FIRST, "bad", "broken"))
    _fill_flights(world)
    _lose(world, "lossy")
    _recreate(world, "recreated")
    _cut_off(world, "truncated", stack)
    _be_late(world, "belated")
    _let_a_tombstone_wait(world, "compacted")
    _forget_a_tombstone(world, "forgotten")
    for file in (project / "dags").glob("*.py"):
        file.touch()
    for name in PIPELINES:
        world.unpause(name)
    return world


def _ingested(world: World, name: str, *events: str) -> None:
    """Records of these events, published and committed."""
    world.publish(name, *(record(FIRST, event) for event in events))
    list(ingest(world.pipeline(name), ME, True, print))


def _lose(world: World, name: str) -> None:
    """A pipeline that has read one record, and three of whose next four retention then deletes."""
    world.write(name)
    _ingested(world, name, "0")
    world.publish(name, *(record(FIRST, f"{n}") for n in range(1, 5)))
    admin = KafkaAdminClient(bootstrap_servers=world.kafka.extra["bootstrap.servers"])
    admin.delete_records({TopicPartition(name, 0): 4})
    admin.close()


def _recreate(world: World, name: str) -> None:
    """A pipeline that has read three events of a topic, which another of two partitions then takes the place of."""
    world.write(name)
    _ingested(world, name, "a", "b", "c")
    extra = dict(world.kafka.extra)
    delete_topic(extra, name)
    create_topic(extra, name, 2, 1, {"retention.ms": "-1"})
    there = (record(LATER, "a", "paid"), record(LATER, "x"), msgspec.structs.replace(record(LATER, "y"), partition=1))
    world.publish(name, *there)


def _cut_off(world: World, name: str, stack: Stack) -> None:
    """A pipeline that has read five events and planned a sixth, when a copy of its log with the first two comes back.

    Then two others take the places of the third and the fourth.
    """
    world.write(name)
    _ingested(world, name, "a", "b")
    broker = stack.kafka.broker(1)
    log, copy = broker.directory / "data" / f"{name}-0", stack.home / "older copy"
    shutil.copytree(log, copy, ignore=shutil.ignore_patterns("*index", "*.snapshot"))  # the broker creates them again
    _ingested(world, name, "c", "d", "e")
    world.publish(name, record(FIRST, "f"))
    plan(world.pipeline(name), ME)
    assert broker.stop()
    shutil.rmtree(log)
    copy.rename(log)
    stack.kafka.up(stack.java, Launch(print))
    world.publish(name, record(LATER, "a", "paid"), record(LATER, "x"))


def _be_late(world: World, name: str) -> None:
    """A pipeline that has read two events of a day, one of a later day, and then a third one of the first day."""
    world.write(name)
    moments = {"a": FIRST, "b": FIRST + timedelta(hours=1), "c": LATER, "d": FIRST + timedelta(hours=2)}
    world.publish(name, *(record(moment, event) for event, moment in moments.items()))
    list(ingest(world.pipeline(name), ME, True, print))


def _let_a_tombstone_wait(world: World, name: str) -> None:
    """A pipeline that has looked at its empty topic, to which an event and its tombstone came since."""
    world.write(name, NEVER | {"cleanup.policy": "compact"}, record=BY_TOMBSTONE)
    assert plan(world.pipeline(name), ME).batch is None
    world.publish(name, record(FIRST, "a"), _tombstone(FIRST, "a"))


def _forget_a_tombstone(world: World, name: str) -> None:
    """A pipeline that has read two events; the tombstone of one came since, and compaction removed it."""
    world.write(name, OFTEN | NEVER | {"delete.retention.ms": WEEK}, record=BY_TOMBSTONE)
    _ingested(world, name, "a", "b")
    world.publish(name, _tombstone(LATER, "a"))
    topic = CompactedTopic(world.kafka.extra["bootstrap.servers"], name)
    topic.alter(OFTEN)
    # Each is newer than the one before: by their timestamps segments are rolled.
    topic.compact_until(lambda turn: world.publish(name, record(LATER + timedelta(seconds=1 + turn), "filler")), 2)
    with pytest.raises(TombstonesMayBeGone):
        list(ingest(world.pipeline(name), ME, True, print))


def _tombstone(moment: datetime, event_id: str) -> Record:
    return msgspec.structs.replace(record(moment, event_id), value=None)


def _fill_flights(world: World) -> None:
    extra = dict(world.kafka.extra)
    publish_flights(extra, TOPIC, SEED, 1000, replication_factor=1)
    list(ingest(world.pipeline("flights"), ME, True, print))
    publish([Record(uuid.uuid4().bytes, b"no JSON") for _ in range(50)], extra, TOPIC)
    with pytest.raises(BatchRejected):
        list(ingest(world.pipeline("flights"), ME, True, print))


@pytest.fixture
def logged_in(world: World, page: Page) -> Callable[[str], Page]:
    """Log in as a user."""

    def login(user: str) -> Page:
        log_in(page, world.airflow, user)
        return page

    return login
