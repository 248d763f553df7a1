"""The page on a server that takes its time: no Airflow, no broker and no database is needed for it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Page, expect

from offset_ledger.errors import BrokerUnavailable
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.airflow_world import until
from tests.ui.airflow_ui import says

PIPELINE = """
pipeline: {name}
source: {{connection: kafka_nowhere, topic: events}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_nowhere, table: public.{name}}}
"""
SLOWER_THAN_THE_PAGE_READS = 9.0
DAGS = frozenset({"ingest_orders", "redrive_orders", "ingest_bills", "redrive_bills"})


@dataclass
class Slow:
    """An application before which each question to the API waits; ``most`` are those that waited together."""

    app: Any
    seconds: float = SLOWER_THAN_THE_PAGE_READS
    under_way: Counter[str] = field(default_factory=Counter)
    most: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if "/api/" in path:
            self.under_way[path] += 1
            self.most = max(self.most, self.under_way[path])
            await asyncio.sleep(self.seconds)
            self.under_way[path] -= 1
        await self.app(scope, receive, send)


def away(_: object) -> Any:
    raise BrokerUnavailable("no broker")


@contextmanager
def served(app: Any) -> Iterator[str]:
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server should start")
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


def test_a_page_is_shown_by_a_server_that_is_slower_than_the_page_reads(
    page: Page, errors: list[str], tmp_path: Path
) -> None:
    for name in ("orders", "bills"):
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    slow = Slow(create_app(lambda: Rights(DAGS, DAGS, DAGS), partial(read_pipelines, tmp_path), BrokerCache(away)))
    with served(slow) as address:
        page.goto(f"{address}#%")  # an address that cannot be decoded names nothing
        says(page, "its ledger cannot be read")
        assert slow.most == 1
        slow.seconds = 0
        page.evaluate("location.hash = 'orders'")
        button = page.get_by_role("button", name="Replay…")
        button.click()
        dialog = page.get_by_role("dialog", name="Replay orders", exact=True)
        expect(dialog).to_be_visible()
        page.evaluate("dispatchEvent(new Event('hashchange'))")  # which redraws everything behind the dialog
        dialog.get_by_role("button", name="Cancel").click()
        expect(button).to_be_focused()
        assert [error for error in errors if "favicon" not in error] == []
        page.goto("about:blank")  # or the server would wait for what the page still asks it
