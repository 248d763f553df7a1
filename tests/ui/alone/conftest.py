"""The two pages of a filled ledger without an Airflow, for somebody who may do everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from offset_ledger.base.ids import AUDIT_DAG
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.postgres.ledger.database import connect
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.audited import audited
from tests.fixtures.page_world import DAGS, FULL, PageWorld, make_world
from tests.fixtures.servers import new_database
from tests.ui.alone.views import DESK, shown

ALL = DAGS | {AUDIT_DAG}
MAY_AUDIT = replace(FULL, readable=ALL, triggerable=ALL, existing=ALL)


@pytest.fixture(scope="package")
def address(stack: Stack, template_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the pages are served."""
    home = tmp_path_factory.mktemp("looks")
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
    with pytest.MonkeyPatch.context() as patch, new_database(stack, template_database) as postgres:
        for connection in (kafka, postgres):
            patch.setenv(environment_name(connection.conn_id), connection.to_json())
        patch.setenv("OFFSET_LEDGER_REPORTS", str(home / "reports"))
        world = PageWorld(home / "pipelines", dict(kafka.extra))
        with connect(postgres) as session:
            brokers = make_world(session, world)
            for hours in (2, 1):
                at, said = datetime.now(UTC) - timedelta(hours=hours), {"retention": "warning", "compaction": "ok"}
                audited(session, "orders", "orders", at, said)
        with served(create_app(lambda: MAY_AUDIT, partial(read_pipelines, world.folder), brokers)) as where:
            yield where


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an application behind a port of its own, until the block ends."""
    port = free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Open a part of the page in a theme and a size; none of its scripts may fail."""
    contexts, errors = [], []

    def opened(part: str = "", theme: str = "light", viewport: Any = DESK) -> Page:
        context = browser.new_context(viewport=viewport, reduced_motion="reduce")
        contexts.append(context)
        context.add_init_script(f"localStorage.theme ??= '{theme}'")
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(error.stack or error.message))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        return shown(page, address, part)

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
