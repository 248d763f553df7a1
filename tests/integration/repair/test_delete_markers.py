"""Delete markers that a prune removes: old ones, whose record the topic has no more, nor any that is as old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import rows
from offset_ledger.model.batch import Origin
from offset_ledger.publishing.record import Record
from offset_ledger.repair.prune import Pruned, prune_history
from offset_ledger.repair.prune_ages import Ages
from offset_ledger.repair.verify import verify
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import TopicBench

DAY = timedelta(days=1)
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: key, publish_at: kafka_timestamp, tombstone: delete, columns: {{state: {{type: text}}}}}}
target: {{connection: postgres_default, table: public.orders, bookkeeping: {bookkeeping}}}
stage: {{engine: process}}
"""


class Bench(TopicBench):
    """A topic of one partition that keeps its records for ten days."""

    TEMPLATE = PIPELINE
    DEFAULTS = MappingProxyType({"bookkeeping": "beside"})

    def send(self, days: int, **states: str | None) -> None:
        at = round((datetime.now(UTC) - days * DAY).timestamp() * 1000)
        values = {key: None if state is None else f'{{"state": "{state}"}}'.encode() for key, state in states.items()}
        self.publish(*(Record(key.encode(), value, (), at, 0) for key, value in values.items()))

    def prune(self, deletes: str, dry_run: bool = False) -> Pruned:
        return prune_history(self.pipeline, Ages.parse("90d", [f"deletes={deletes}"]), Origin("test"), dry_run)

    def markers(self) -> list[str]:
        table = "offset_ledger_rows.orders" if self.settings["bookkeeping"] == "beside" else "public.orders"
        return [row[0] for row in rows(self.session, f"SELECT event_id FROM {table} WHERE _deleted ORDER BY 1")]


@pytest.fixture
def bench(servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    configs = {"retention.ms": str(10 * 86_400_000)}
    with Bench.open(servers, topic_name(), tmp_path, 1, configs) as made:
        yield made


@pytest.mark.parametrize("bookkeeping", ["beside", "columns"])
def test_markers_past_the_retention_go_and_the_table_is_as_verify_expects(bench: Bench, bookkeeping: str) -> None:
    bench.settings["bookkeeping"] = bookkeeping
    bench.send(5, old="a", kept="b", young="c")
    bench.ingest()
    bench.send(4, old=None)
    bench.send(1, young=None)
    bench.ingest()
    assert bench.markers() == ["old", "young"]
    aged = "publish_at = publish_at - interval '30 days', _timestamp = _timestamp - interval '30 days'"
    table = "offset_ledger_rows.orders" if bookkeeping == "beside" else "public.orders"
    with bench.session, bench.session.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {aged} WHERE event_id = 'old'")
    assert bench.prune("20d").deletes == 0  # its record is in the topic still
    bench.delete_below(0, 4)
    assert bench.prune("20d", dry_run=True).deletes == 1
    assert bench.markers() == ["old", "young"]
    assert bench.prune("20d").deletes == 1
    assert bench.markers() == ["young"]
    assert bench.prune("20d").deletes == 0
    assert verify(bench.pipeline)[0] == []
    bench.send(0, old="again")
    bench.ingest()
    assert verify(bench.pipeline)[0] == []


def test_an_age_within_the_retention_is_refused_and_markers_stay_by_default(bench: Bench) -> None:
    bench.send(5, old="a")
    bench.ingest()
    with pytest.raises(ConfigurationError, match=r"retention.ms of topic .* is 864000000: an older record could"):
        bench.prune("10d")
    assert prune_history(bench.pipeline, Ages.parse("90d", []), Origin("test")).deletes == 0
    with pytest.raises(ConfigurationError, match="deletes"):
        Ages.parse("90d", ["rows=1d"])
