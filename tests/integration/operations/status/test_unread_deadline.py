"""When unread records are deleted, asked of a real broker and a real ledger."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.model.retention import Deadline
from offset_ledger.operations.status.brokers import ask_broker, unread_deadline
from offset_ledger.operations.status.pipeline import LedgerPartition, positions
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.steps.run.ingest import ingest
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import quiet

FILE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""
VALUE = b'{"id": "a", "at": "2026-01-01T12:00:00Z", "state": "%s"}' % (b"x" * 9_000)
HOUR, DAY_MS, MILLISECOND = timedelta(hours=1), 86_400_000, timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("settings", "by"),
    [
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": str(DAY_MS)}, "retention.ms"),
        ({"retention.ms": str(DAY_MS), "retention.bytes": "400000"}, "retention.bytes"),
        ({"retention.ms": str(DAY_MS), "retention.bytes": str(10**9)}, "retention.ms"),
        ({"retention.ms": str(DAY_MS), "retention.bytes": "400000", "cleanup.policy": "compact"}, None),
    ],
)
def test_the_setting_that_deletes_first(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path, settings: dict[str, str], by: str | None
) -> None:
    topic, file = topic_name(), tmp_path / "orders.yaml"
    create_topic(dict(servers.kafka.extra), topic, 1, 1, settings)
    file.write_text(FILE.format(topic=topic))
    began = datetime.fromtimestamp(int(time.time()) - 10 * 3600, UTC)
    _send(servers, topic, began, 20)
    pipeline = parse_pipeline(file)
    list(ingest(pipeline, Origin("test"), True, quiet))
    assert unread_deadline(pipeline) is None
    unread_at = began + 8 * HOUR
    _send(servers, topic, unread_at, 20)
    found = unread_deadline(pipeline)
    (shown,) = positions([LedgerPartition(0, 20, complete_to=unread_at)], ask_broker(pipeline))
    assert (shown.gone_after is None) == (found is None)
    assert not found or not shown.gone_after or abs(shown.gone_after - found.at) < timedelta(minutes=1)
    if by == "retention.ms":
        assert found == Deadline(unread_at + timedelta(days=1), by)
    elif by:  # 40 records of 9 kB in 10 hours, half of them unread: the other 220 kB take 6 hours more
        assert found is not None
        assert found.setting == by
        assert abs(found.at - datetime.now(UTC) - 6 * HOUR) < timedelta(minutes=10)
    else:
        assert found is None


def _send(servers: Servers, topic: str, at: datetime, count: int) -> None:
    millis = (at - datetime.fromtimestamp(0, UTC)) // MILLISECOND
    records = (Record(key=b"k", value=VALUE, partition=0, timestamp_ms=millis) for _ in range(count))
    publish(records, dict(servers.kafka.extra), topic)
