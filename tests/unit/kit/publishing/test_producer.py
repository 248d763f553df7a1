"""The parts of publishing that need no broker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.connection import kafka_python_settings, librdkafka_arguments
from offset_ledger.outside.producer.partitioner import Custom, Partitioner, RoundRobin, find_partitioner
from offset_ledger.outside.producer.publisher import librdkafka_settings, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.producer.settings import Danger, read_settings


def chosen(partitioner: Partitioner | None, key: bytes | None, led: Sequence[int] = (0, 1, 2)) -> int:
    assert partitioner is not None
    return partitioner.choose("t", key, 3, led)


def test_round_robin_ignores_the_key_and_passes_over_a_partition_without_a_leader() -> None:
    turns = RoundRobin()
    assert [chosen(turns, key) for key in (b"a", b"a", None, b"a")] == [0, 1, 2, 0]
    assert [chosen(turns, None, led=[0, 2]) for _ in range(4)] == [0, 2, 0, 2]


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
        "bootstrap.servers": "a:1,b:2", "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN",
        "sasl.username": "me", "sasl.password": "secret", "group.id": "a consumer's",
    }  # fmt: skip
    assert kafka_python_settings(Connection("k", "kafka", extra=extra)) == {
        "bootstrap_servers": ["a:1", "b:2"], "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me", "sasl_plain_password": "secret",
    }  # fmt: skip


def test_librdkafka_gets_the_same_connection_under_its_names() -> None:
    extra = {
        "bootstrap.servers": "a:1,b:2", "security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me", "sasl.password": "secret", "ssl.ca.location": __file__, "metadata.max.age.ms": "1000",
        "group.id": "a consumer's",
    }  # fmt: skip
    given = librdkafka_arguments(Connection("k", "kafka", extra=extra))
    assert given == {
        "bootstrap.servers": "a:1,b:2", "security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me", "sasl.password": "secret", "ssl.ca.location": __file__,
        "ssl.endpoint.identification.algorithm": "https", "metadata.max.age.ms": 1000,
    }  # fmt: skip
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
        publish([], {"client.id": "x"}, "t")


def test_kerberos_is_refused_in_one_line() -> None:
    extra = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(ConfigurationError, match="librdkafka publishes, and as confluent-kafka is installed") as caught:
        publish([Record(None, b"1")], extra, "t")
    assert "\n" not in str(caught.value)
