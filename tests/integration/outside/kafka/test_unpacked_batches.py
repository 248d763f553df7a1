"""Record batches that unpack to much more than the log has of them are read, or are an error that says so."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from offset_ledger.errors import UnreadableRecords
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.kafka import bulk_reader
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers

RECORDS, WIDTH = 90, 1_000_000
ONE_BATCH = {"message.max.bytes": 500_000_000, "batch.size": 500_000_000, "linger.ms": 300}


@pytest.fixture
def topic(servers: Servers, topic_name: Callable[[], str]) -> str:
    """A topic with one zstd batch of 90 MB, which takes 4 KB in the log and does not say how much it is."""
    name = topic_name()
    create_topic(dict(servers.kafka.extra), name, 1, 1)
    failed = []
    producer = Producer({"bootstrap.servers": servers.bootstrap, "compression.type": "zstd", **ONE_BATCH})
    for n in range(RECORDS):
        value = b" " * WIDTH
        producer.produce(name, value, b"%d" % n, on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush()
    assert failed == []
    return name


def test_a_batch_that_unpacks_to_ninety_megabytes_is_read(servers: Servers, topic: str) -> None:
    with bulk_reader.bulk_reader(servers.kafka) as read:
        records = [each for part in read(topic, OffsetRange(0, 0, RECORDS)) for each in part]
    assert [(each.offset(), each.key(), len(each.value())) for each in records] == [
        (n, b"%d" % n, WIDTH) for n in range(RECORDS)
    ]


def test_a_batch_that_cannot_be_unpacked_is_an_error_at_once(
    servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = {"receive.message.max.bytes": 2_000_000, "fetch.max.bytes": 1_000_000}
    monkeypatch.setattr(bulk_reader, "_SETTINGS", {**bulk_reader._SETTINGS, **bound})
    begun = time.monotonic()
    expected = rf"topic {topic}: a record batch of range 0:\[0, {RECORDS}\) cannot be unpacked"
    with bulk_reader.bulk_reader(servers.kafka) as read, pytest.raises(UnreadableRecords, match=expected):
        list(read(topic, OffsetRange(0, 0, RECORDS)))
    assert time.monotonic() - begun < 10
