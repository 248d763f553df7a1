"""What a restarted broker still knows of producers: a retry of records with old timestamps is stored once more."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.record.default_records import DefaultRecordBatchBuilder

from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Broker, Kafka
from offset_ledger_kit.sandbox.layout import PortChoice, Ports
from offset_ledger_kit.sandbox.process import Launch, silent

pytestmark = pytest.mark.full

PRODUCE, VERSION, ALL = 0, 3, -1
NOT_LEADER = 6
VALUES = (b"a", b"b", b"c")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    made = Kafka(tmp_path, 1, Ports.choose(PortChoice.any_free()))
    made.up(find_java(), Launch(silent))
    yield made
    made.kill()


def produce(broker: Broker, topic: str, batch: bytes, transactional_id: str | None = None) -> int:
    """Produce one batch, as a retry of it is sent too; the offset that the broker answers with."""
    deadline = time.monotonic() + 60
    while True:
        error, offset = ask(broker, topic, batch, transactional_id)
        if error != NOT_LEADER or time.monotonic() > deadline:  # a broker that was just started does not lead yet
            assert error == 0
            return offset
        time.sleep(0.05)


def ask(broker: Broker, topic: str, batch: bytes, transactional_id: str | None) -> tuple[int, int]:
    """One Produce request; error code and offset."""
    name, of = topic.encode(), transactional_id.encode() if transactional_id else b""
    fields = [
        struct.pack(">hhih", PRODUCE, VERSION, 1, -1),
        struct.pack(f">h{len(of)}s", len(of) if transactional_id else -1, of),
        struct.pack(f">hiih{len(name)}sii", ALL, 30_000, 1, len(name), name, 1, 0),
        struct.pack(">i", len(batch)) + batch,
    ]
    request = b"".join(fields)
    with socket.create_connection(("127.0.0.1", broker.port), 60) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = answers.read(*struct.unpack(">i", answers.read(4)))
    error, offset = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(name) + 4 + 4)
    return error, offset


def batch(producer_id: int, epoch: int, at: int, transactional: bool = False) -> bytes:
    """The first records of an idempotent producer."""
    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, epoch, 0, 1 << 20)
    for number, value in enumerate(VALUES):
        builder.append(number, timestamp=at, key=None, value=value, headers=[])
    return bytes(builder.build())


def begin(kafka: Kafka, topic: str, transactional_id: str, at: int) -> tuple[KafkaProducer, bytes]:
    """Begin a transaction with these records; its producer, and the batch of a retry."""
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id=transactional_id, linger_ms=500, compression_type=None
    )
    producer.init_transactions()
    producer.begin_transaction()
    for value in VALUES:
        producer.send(topic, value, partition=0, timestamp_ms=at)
    producer.flush(60)
    held = producer._transaction_manager.producer_id_and_epoch
    return producer, batch(held.producer_id, held.epoch, at, transactional=True)


def test_a_restarted_broker_has_forgotten_the_producer_of_old_records_unless_their_transaction_is_open(
    kafka: Kafka,
) -> None:
    now = int(time.time() * 1000)
    old = now - timedelta(hours=25) // timedelta(milliseconds=1)  # producer.id.expiration.ms is 24 hours
    (broker,) = kafka.brokers
    for topic in ("recent", "old", "open"):
        create_topic({"bootstrap.servers": kafka.bootstrap}, topic, 1, 1, {"retention.ms": "-1"})
    producer, in_transaction = begin(kafka, "open", "t", old)
    sent = {"recent": batch(901, 0, now), "old": batch(902, 0, old)}
    for topic, each in sent.items():
        assert [produce(broker, topic, each) for _ in range(2)] == [0, 0]
    assert produce(broker, "open", in_transaction, "t") == 0
    broker.stop()
    kafka.up(find_java(), Launch(silent))
    assert {topic: produce(broker, topic, each) for topic, each in sent.items()} == {"recent": 0, "old": len(VALUES)}
    assert produce(broker, "open", in_transaction, "t") == 0
    producer.close(timeout=1)
