"""Delete markers that a prune removes: old ones, whose record the topic has no more, nor any that is as old."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.repair.prune import Pruned, prune_history
from offset_ledger.operations.repair.prune_ages import Ages
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.plan.step import plan_replay
from offset_ledger.steps.run.redrive import dismiss
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import TopicBench

DAY = timedelta(days=1)
# A segment keeps its old records as long as its newest one.
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: key, publish_at: {publish_at}, {deletes}, columns: {{state: {{type: text}}}}}}
target: {{connection: postgres_default, table: public.orders, bookkeeping: {bookkeeping}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""


class Bench(TopicBench):
    """A topic of one partition that keeps its records for ten days."""

    TEMPLATE = PIPELINE
    CONFIGS = MappingProxyType({"retention.ms": str(10 * 86_400_000), "segment.ms": str(1000 * 86_400_000)})
    DEFAULTS = MappingProxyType(
        {"bookkeeping": "beside", "publish_at": "kafka_timestamp", "deletes": "tombstone: delete"}
    )

    def send(self, days: int, **states: str | None) -> None:
        at = round((datetime.now(UTC) - days * DAY).timestamp() * 1000)
        values = {key: None if state is None else f'{{"state": "{state}"}}'.encode() for key, state in states.items()}
        self.publish(*(Record(key.encode(), value, (), at, 0) for key, value in values.items()))

    def put(self, partition: int, *records: tuple[int, str, bytes | None]) -> None:
        """Records of so many days, at once: Kafka deletes none while the newest of the partition is young."""
        now = datetime.now(UTC)
        moments = [round((now - days * DAY).timestamp() * 1000) for days, _, _ in records]
        sent = zip(records, moments, strict=True)
        self.publish(*(Record(key.encode(), value, (), at, partition) for (_, key, value), at in sent))

    def prune(self, deletes: str, dry_run: bool = False) -> Pruned:
        return prune_history(self.pipeline, Ages.parse("90d", [f"deletes={deletes}"]), Origin("test"), dry_run)

    def markers(self) -> list[str]:
        table = "offset_ledger_rows.orders" if self.settings["bookkeeping"] == "beside" else "public.orders"
        return [row[0] for row in rows(self.session, f"SELECT event_id FROM {table} WHERE _deleted ORDER BY 1")]


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


NEW, WRONG = b'{"state": "new", "at": "2026-01-01T00:00:00Z"}', b'{"state": 1}'


def without_its_record(bench: Bench) -> None:
    """A marker of 40 days, whose record the topic has no more."""
    bench.put(0, (40, "old", None), (0, "young", NEW))
    bench.ingest()
    bench.delete_below(0, 1)
    assert bench.markers() == ["old"]


def test_a_marker_stays_while_another_partition_has_an_older_record(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    with Bench.open(servers, topic_name(), tmp_path, 2) as bench:
        bench.put(1, (60, "old", NEW), (0, "other", NEW))
        without_its_record(bench)
        assert bench.prune("20d").deletes == 0
        assert bench.markers() == ["old"]
        bench.delete_below(1, 1)
        assert bench.prune("20d").deletes == 1
        assert verify(bench.pipeline)[0] == []


@pytest.mark.parametrize(("days", "stays"), [(60, True), (30, False)], ids=["older", "newer"])
def test_a_marker_stays_while_an_older_record_is_in_quarantine(bench: Bench, days: int, stays: bool) -> None:
    bench.put(0, (days, "old", WRONG), (40, "old", None), (0, "young", NEW))
    bench.ingest()
    bench.delete_below(0, 2)
    assert bench.prune("20d").deletes == (0 if stays else 1)
    assert bench.markers() == (["old"] if stays else [])
    dismiss(bench.pipeline, Selection(0, (0,)), Origin("test"), "nobody needs it")
    assert bench.prune("20d").deletes == 0  # a dismissal can be undone
    assert verify(bench.pipeline)[0] == []


def test_where_records_have_their_own_moment_any_record_in_quarantine_keeps_the_markers(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It can have come late: nobody knows its moment."""
    bench.settings |= {"publish_at": "$.at", "deletes": "delete_when: {path: $.op, equals: d}"}
    bench.put(0, (0, "late", WRONG), (40, "old", b'{"op": "d", "at": "2026-01-01T00:00:00Z"}'), (0, "young", NEW))
    bench.ingest()
    bench.delete_below(0, 2)
    assert bench.prune("20d").deletes == 0
    assert "delete markers of orders stay: 1 record in quarantine may have older records" in caplog.text
    dismiss(bench.pipeline, Selection(0, (0,)), Origin("test"), "nobody needs it")
    assert bench.prune("20d").deletes == 0  # a dismissal can be undone


def test_a_marker_stays_while_a_batch_is_open(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """What is staged can be older than the marker, and Kafka may have deleted it since."""
    bench.put(0, (60, "old", NEW), (40, "old", None), (0, "young", NEW))
    bench.ingest()
    replayed = plan_replay(bench.pipeline, [OffsetRange(0, 0, 1)], Origin("test"))
    assert replayed.batch
    bench.delete_below(0, 2)
    assert bench.prune("20d").deletes == 0
    assert "delete markers of orders stay: 1 open batch may have older records" in caplog.text
    decide(bench.session, replayed.batch.batch_id, State.ABANDONED, Origin("test"), "its offsets are gone")
    assert bench.prune("20d").deletes == 1
    assert bench.markers() == []
