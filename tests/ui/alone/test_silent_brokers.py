"""The ledger page while the brokers of its pipelines are killed: nothing stays green."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect

from offset_ledger.interfaces.page.app import create_app
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger.outside.connections import Connection, environment_name, get_connection
from offset_ledger.postgres.ledger.database import connect
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.audited import audited
from tests.fixtures.exporter_bench import PIPELINE, Bench
from tests.fixtures.own_kafka import bench_on, own_cluster
from tests.fixtures.page_world import FULL
from tests.fixtures.servers import Servers, new_database
from tests.ui.alone.conftest import served
from tests.ui.alone.views import DESK, PHONE, picture, serious, shown, theme

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with own_cluster(stack, tmp_path_factory.mktemp("killed"), 1) as made:
        yield made


@pytest.fixture(scope="module")
def bench(
    stack: Stack, template_database: str, cluster: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    home = tmp_path_factory.mktemp("silent")
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": cluster.bootstrap})
    with pytest.MonkeyPatch.context() as patch, new_database(stack, template_database) as postgres:
        patch.setenv(environment_name(postgres.conn_id), postgres.to_json())
        patch.setenv("OFFSET_LEDGER_REPORTS", str(home / "reports"))
        with bench_on(cluster, Servers(kafka, postgres, stack), "orders", home, patch) as made:
            yield made


def tile(page: Page, text: str) -> str:
    return page.get_by_role("button", name=text).locator("b").inner_text()


def test_a_page_that_was_green_says_that_nothing_is_known(browser: Browser, bench: Bench, cluster: Kafka) -> None:
    sent = datetime.now(UTC) - timedelta(hours=1)
    bench.publish(0, sent, "a", "b", "c", "d", None, None)
    bench.publish(1, sent, None)
    bench.publish(1, sent, "e")
    bench.ingest()
    (bench.folder / "refunds.yaml").write_text(PIPELINE.format(topic="no.such.topic").replace("orders", "refunds"))
    brokers = BrokerCache(max_age=0, timeout=30)
    with served(create_app(lambda: FULL, partial(read_pipelines, bench.folder), brokers)) as address:
        context = browser.new_context(viewport=DESK, reduced_motion="reduce")
        page = shown(context.new_page(), address, "")
        chips = page.locator("table.pipelines .chip")
        expect(chips).to_have_text(["the topic does not exist", "up to date, 3 in quarantine"])
        expect(page.locator("table.pipelines")).to_contain_text("3 waiting")
        expect(page.locator("table.pipelines")).to_contain_text("batch 1 refused 37.5% (limit 50%)")
        assert tile(page, "not known") == "0"
        looks(page, address, "known")
        shown(page, address, "orders/completeness")
        expect(page.locator("main")).to_contain_text(
            "Of 8 records in the batches that end in this time, 5 were loaded."
        )
        picture(page, "completeness-refused-light")
        with connect(get_connection("postgres_default")) as session:
            audited(session, "orders", "orders", datetime.now(UTC), {"compaction": "ok", "retention": "ok"})
        shown(page, address, "audit#orders")
        expect(page.locator("h1 .chip")).to_have_text("clean: 2 rules passed")
        expect(page.locator(".notice.good")).to_have_text("There is no finding.")

        for broker in cluster.brokers:
            broker.kill()
        shown(page, address, "")
        expect(chips).to_have_class(["chip unknown"] * 2)
        expect(chips).to_have_text(["Kafka does not answer"] * 2)
        expect(page.locator(".tile").first).to_have_text("2not known: a server does not answer")
        assert tile(page, "up to date") == "0"
        for column in ("Lag in records", "Data-loss deadline"):
            expect(page.locator(f'td[data-label="{column}"]')).to_have_text(["not known"] * 2)
        looks(page, address, "silent")
        shown(page, address, "orders")
        expect(page.locator("h1 .chip")).to_have_class("chip unknown")
        expect(page.locator(".notice.unknown")).to_contain_text("Lag and deadlines are not known")
        metrics = page.locator("dl.metrics > div")
        for name in ("Lag", "Behind in time", "Data-loss deadline"):
            entry = metrics.filter(has=page.get_by_text(name, exact=True))
            expect(entry.locator("dd")).to_have_text("not known")
        expect(page.locator(".chip.good", has_text="up to date")).to_have_count(0)
        shown(page, address, "orders/completeness")
        expect(page.locator("main")).to_contain_text("what has not been read yet is not known")
        for part in ("audit", "audit#orders"):
            shown(page, address, part)
            expect(page.locator(".chip.plain")).to_have_text(re.compile("^2 rules passed "))
            expect(page.locator("main")).to_contain_text("the brokers do not answer now")
            expect(page.locator(":is(.notice, .chip).good:not(table.past *)")).to_have_count(0)
            assert serious(page) == {}
        picture(page, "audit-silent-light")
        context.close()


def looks(page: Page, address: str, name: str) -> None:
    """Both views in both themes, on a phone too: no serious finding, and pictures for who wants to look."""
    for part in ("", "orders"):
        for colours in ("dark", "light"):
            shown(page, address, part)
            theme(page, colours)
            assert serious(page) == {}
            picture(page, f"{name}-{part or 'overview'}-{colours}")
    page.set_viewport_size(PHONE)
    shown(page, address, "")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    picture(page, f"{name}-overview-narrow")
    page.set_viewport_size(DESK)
