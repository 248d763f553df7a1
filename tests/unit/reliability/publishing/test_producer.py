"""The parts of publishing that need no broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from offset_ledger.connections import Connection
from offset_ledger.errors import BrokerUnavailable, ConfigurationError
from offset_ledger.kafka.connection import kafka_python_settings, librdkafka_arguments
from offset_ledger.reliability.publishing import outbox
from offset_ledger.reliability.publishing.clients import client_arguments
from offset_ledger.reliability.publishing.librdkafka import librdkafka_settings
from offset_ledger.reliability.publishing.partitioner import Custom, KeyHash, RoundRobin, find_partitioner
from offset_ledger.reliability.publishing.producer import publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings import Danger
from offset_ledger.reliability.publishing.settings_reader import read_settings


class Cluster:
    """As much of kafka-python's cluster metadata as a partitioner asks for."""

    def __init__(self, partitions: int) -> None:
        self._partitions = set(range(partitions))

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return self._partitions

    def available_partitions_for_topic(self, _topic: str) -> set[int]:
        return self._partitions

    def topics(self) -> set[str]:
        return {"t"}


# Hashes from the Java client's own UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("partitions", [1, 8, 7])
def test_keys_go_where_the_java_client_sends_them(key: bytes, java_hash: int, partitions: int) -> None:
    chosen = KeyHash().partition("t", key, key, b"", b"", Cluster(partitions))
    assert chosen == (java_hash & 0x7FFFFFFF) % partitions


def chosen(partitioner: Any, key: bytes | None, partitions: int = 3) -> int:
    return int(partitioner.partition("t", key, key, b"", b"", Cluster(partitions)))


def test_keyless_records_stay_in_one_partition_until_its_batch_is_full() -> None:
    sticky = KeyHash()
    first = {chosen(sticky, None) for _ in range(20)}
    (before,) = first
    sticky.on_new_batch("t", Cluster(3), before)
    (after,) = {chosen(sticky, None) for _ in range(20)}
    assert after != before
    assert {chosen(sticky, None, partitions=1) for _ in range(3)} == {0}


def test_round_robin_ignores_the_key_and_loses_no_turn_to_a_new_batch() -> None:
    turns = RoundRobin()
    assert [chosen(turns, key) for key in (b"a", b"a", None, b"a")] == [0, 1, 2, 0]
    asked_for_a_batch = chosen(turns, None)
    turns.on_new_batch("t", Cluster(3), asked_for_a_batch)
    assert [asked_for_a_batch, chosen(turns, None), chosen(turns, None)] == [1, 1, 2]


def by_length(key: bytes | None, partitions: int) -> int:
    """A partitioner that a test names."""
    return len(key or b"") % (partitions + 1)


def test_a_partitioner_of_ones_own() -> None:
    own = find_partitioner(f"{__name__}:by_length")
    assert isinstance(own, Custom)
    assert [chosen(own, key) for key in (None, b"ab")] == [0, 2]
    with pytest.raises(ValueError, match=r"chose 3 for the key b'abc' and t has 3 partitions"):
        chosen(own, b"abc")


@pytest.mark.parametrize("name", ["hash", "no.such.module:f", f"{__name__}:nothing", ":f"])
def test_a_partitioner_that_there_is_not(name: str) -> None:
    with pytest.raises(ConfigurationError, match="key-hash, round-robin or module:function"):
        find_partitioner(name)


def test_dotted_names_become_kafka_pythons() -> None:
    extra = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "secret",
        "group.id": "a consumer's",
    }
    assert kafka_python_settings(Connection("k", "kafka", extra=extra)) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }


def test_librdkafka_gets_the_same_connection_under_its_names() -> None:
    extra = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "secret",
        "ssl.ca.location": __file__,
        "metadata.max.age.ms": "1000",
        "group.id": "a consumer's",
    }
    given = librdkafka_arguments(Connection("k", "kafka", extra=extra))
    assert given == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "secret",
        "ssl.ca.location": __file__,
        "ssl.endpoint.identification.algorithm": "https",
        "metadata.max.age.ms": 1000,
    }
    off = {"bootstrap.servers": "a:1", "ssl.endpoint.identification.algorithm": ""}
    checked = librdkafka_arguments(Connection("k", "kafka", extra=off))
    assert checked["ssl.endpoint.identification.algorithm"] == "none"


def test_librdkafka_takes_every_setting() -> None:
    allow, unsafe = set(Danger), {"acks": "1", "retries": "0", "compression.type": "zstd", "linger.ms": "0"}
    for given in {}, unsafe, {"max.request.size": "1000000", "retry.backoff.ms": "1"}:
        settings = librdkafka_settings(read_settings({}, given, allow=allow))
        assert settings["partitioner"] == "murmur2_random"
        Producer({"bootstrap.servers": "127.0.0.1:9", **settings, "log_level": 0})


def test_a_connection_without_servers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        client_arguments({"client.id": "x"})


def test_no_broker_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offset_ledger.reliability.publishing.clients.BOOTSTRAP_SECONDS", 0.5)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9 .*bootstrap\.servers") as caught:
        publish([Record(None, b"1")], {"bootstrap.servers": "127.0.0.1:9"}, "t")
    assert "\n" not in str(caught.value)


def test_unacknowledged_records_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "GRACE_SECONDS", 0.5)
    waiting, sent = outbox.Outbox(0), [Record(None, b"%d" % n) for n in range(900)]
    for record in sent:  # half a second for each would be more than a test may take
        unanswered = FutureProduceResult(TopicPartition("t", 0))
        waiting.add(record, 1, FutureRecordMetadata(unanswered, 0, 0, None, 0, 1, 0))
    waiting.settle()
    assert waiting.failed == sent
    assert isinstance(waiting.cause, KafkaTimeoutError)
