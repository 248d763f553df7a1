"""Publishing in bulk: whichever client does it, the same records are in the topic, and the same ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offset_ledger.cli.main import main
from offset_ledger.errors import BrokerUnavailable, ConfigurationError, PublishFailed, UnknownTopic
from offset_ledger.local.stack import Stack
from offset_ledger.reliability.publishing.librdkafka import BulkPublisher, bulk_publisher, publish_in_bulk
from offset_ledger.reliability.publishing.partitioner import Custom, RoundRobin
from offset_ledger.reliability.publishing.producer import Publisher
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings import COMPRESSIONS, Client
from offset_ledger.reliability.publishing.settings_reader import read_settings
from offset_ledger.reliability.publishing.topics import create_topic
from tests.fixtures.topic_reader import read

NOON = 1_700_000_000_000


@pytest.fixture
def extra(stack: Stack) -> dict[str, str]:
    return {"bootstrap.servers": stack.kafka.bootstrap}


@pytest.fixture
def topic(extra: dict[str, str], topic_name: Callable[[], str]) -> Callable[[], str]:
    """Makes topics of seven partitions that take records of at most 20,000 bytes."""

    def make() -> str:
        name = topic_name()
        create_topic(extra, name, 7, 1, {"max.message.bytes": "20000", "retention.ms": "-1"})
        return name

    return make


def strange() -> list[Record]:
    """Every kind of key, value, headers and timestamp that Kafka has, each record with a place of its own."""
    keyed = [Record(b"k%d" % (n % 900), b"v%d" % n, timestamp_ms=NOON + n) for n in range(3_000)]
    keys = [b"", b"\x00", b"\xff\xfe", b"a" * 257, "Zürich".encode()]
    values = [None, b"", b"\x00", b"x" * 15_000, b"\xff"]
    headers = [(), (("a", b""),), (("a", b"1"), ("a", b"2"), ("b", b"\x00\xff")), (("Zürich", b"3"),)]
    moments = [1, 1_356_998_400_000, NOON, 4_102_444_800_000 - 1]
    odd = [
        Record(key, value, headers[n % 4], timestamp_ms=moments[(n + m) % 3])
        for n, key in enumerate(keys)
        for m, value in enumerate(values)
    ]
    placed = [Record(None, b"p%d" % n, (("n", b"%d" % n),), NOON, partition=n % 7) for n in range(70)]
    return [*keyed, *odd, *placed, Record(b"placed", None, (), 5, partition=3)]


def found(extra: dict[str, str], topic: str) -> list[Record]:
    return sorted(read(extra, topic).values(), key=repr)


def test_both_clients_publish_the_same_records_to_the_same_partitions(
    extra: dict[str, str], topic: Callable[[], str]
) -> None:
    topics = {client: topic() for client in Client}
    for client, name in topics.items():
        summary = publish_in_bulk(strange(), extra, name, client=client)
        assert (summary.records, summary.failed) == (len(strange()), 0)
        assert summary.value_bytes == sum(len(record.value or b"") for record in strange())
    by_client = {client: found(extra, name) for client, name in topics.items()}
    assert by_client[Client.LIBRDKAFKA] == by_client[Client.KAFKA_PYTHON]
    without_places = [msgspec.structs.replace(each, partition=None) for each in by_client[Client.LIBRDKAFKA]]
    sent = [msgspec.structs.replace(each, partition=None) for each in strange()]
    assert sorted(without_places, key=repr) == sorted(sent, key=repr)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_records_of_a_key_stay_in_order(extra: dict[str, str], topic: Callable[[], str], compression: str) -> None:
    name, sent = topic(), [Record(b"k%d" % (n % 7), b"%d" % n) for n in range(2_000)]
    settings = read_settings(extra, {"compression.type": compression})
    publish_in_bulk(sent, extra, name, client=Client.LIBRDKAFKA, settings=settings)
    homes: dict[bytes | None, list[tuple[int | None, int]]] = {}
    for record in read(extra, name).values():
        homes.setdefault(record.key, []).append((record.partition, int(record.value or b"")))
    assert {key: [n for _, n in each] for key, each in homes.items()} == {
        b"k%d" % key: list(range(key, 2_000, 7)) for key in range(7)
    }
    assert all(len({partition for partition, _ in each}) == 1 for each in homes.values())


def test_records_without_a_key_are_all_there_and_spread(extra: dict[str, str], topic: Callable[[], str]) -> None:
    """librdkafka keeps to a partition for 10 ms, so a quick burst has one; sixteen choices at random have several."""
    name, sent = topic(), [Record(None, b"%d" % n + b"x" * 1_000) for n in range(4_000)]
    for first in range(0, 4_000, 250):
        publish_in_bulk(sent[first : first + 250], extra, name, client=Client.LIBRDKAFKA)
    everything = read(extra, name).values()
    assert sorted(each.value or b"" for each in everything) == sorted(each.value or b"" for each in sent)
    assert len({each.partition for each in everything}) > 1


@pytest.mark.parametrize("client", Client)
def test_a_function_chooses_the_partition(extra: dict[str, str], topic: Callable[[], str], client: Client) -> None:
    name = topic()
    by_length = Custom(lambda key, count: len(key or b"") % (count + 1))
    sent = [Record(b"x" * n, b"%d" % n) for n in range(7)]
    publish_in_bulk(sent, extra, name, client=client, partitioner=by_length)
    assert {each.partition: each.value for each in read(extra, name).values()} == {n: b"%d" % n for n in range(7)}
    with pytest.raises(PublishFailed, match=r"chose 7 for the key b'xxxxxxx' and .* has 7 partitions"):
        publish_in_bulk([Record(b"x" * 7, b"7")], extra, name, client=client, partitioner=by_length)


REFUSED = {
    "too large": Record(b"k", b"x" * 50_000),
    "nothing": Record(None, None),
    "null header": Record(b"k", b"v", (("a", None),)),  # type: ignore[arg-type]
    "partition": Record(b"k", b"v", partition=7),
    "before 1970": Record(b"k", b"v", timestamp_ms=-1),
    "beyond 64 bits": Record(b"k", b"v", timestamp_ms=2**63),
    "text": Record("k", b"v"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", REFUSED.values(), ids=REFUSED)
def test_both_refuse_the_same_records_and_the_others_are_there(
    extra: dict[str, str], topic: Callable[[], str], wrong: Record
) -> None:
    told: dict[Client, Any] = {}
    for client in Client:
        name, good = topic(), [Record(b"k", b"%d" % n, partition=1) for n in range(20)]
        with pytest.raises(PublishFailed) as caught:
            publish_in_bulk([*good, wrong], extra, name, client=client)
        told[client] = (caught.value.acknowledged, caught.value.unconfirmed, caught.value.exit_code)
        assert [each.value for each in read(extra, name).values()] == [each.value for each in good]
    assert told[Client.LIBRDKAFKA] == told[Client.KAFKA_PYTHON] == (20, (wrong,), 1)


def test_only_librdkafka_has_no_timestamp_0(extra: dict[str, str], topic: Callable[[], str]) -> None:
    with pytest.raises(PublishFailed, match="a timestamp of 0 means now"):
        publish_in_bulk([Record(b"k", b"v", timestamp_ms=0)], extra, topic(), client=Client.LIBRDKAFKA)


def test_what_the_broker_refuses_is_named_as_by_the_other_client(extra: dict[str, str], topic_name: Any) -> None:
    name = topic_name()
    create_topic(extra, name, 1, 1, {"cleanup.policy": "compact"})
    far = Record(b"k", b"v", timestamp_ms=4_000_000_000_000)
    for wrong, error in (Record(None, b"v"), "InvalidRecordError"), (far, "InvalidTimestampError"):
        with pytest.raises(PublishFailed, match=error) as caught:
            publish_in_bulk([wrong], extra, name, client=Client.LIBRDKAFKA)
        assert (caught.value.exit_code, caught.value.unconfirmed) == (1, (wrong,))
    with pytest.raises(UnknownTopic):
        publish_in_bulk([], extra, topic_name(), client=Client.LIBRDKAFKA)


def test_a_failure_is_reported_without_finish(extra: dict[str, str], topic: Callable[[], str]) -> None:
    with pytest.raises(PublishFailed), bulk_publisher(extra, topic(), client=Client.LIBRDKAFKA) as publisher:
        publisher.send(Record(b"k", b"x" * 50_000))


def test_more_records_than_the_queue_takes_wait(
    extra: dict[str, str], topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offset_ledger.reliability.publishing.librdkafka.MAX_WAITING", 100)
    name, done = topic(), list[int]()
    summary = publish_in_bulk(
        (Record(b"%d" % n, b"%d" % n) for n in range(3_000)), extra, name, client=Client.LIBRDKAFKA,
        on_progress=done.append,
    )  # fmt: skip
    assert (summary.records, sum(done), summary.retried) == (3_000, 3_000, None)
    assert sorted(int(each.value or b"") for each in read(extra, name).values()) == list(range(3_000))


def test_no_broker_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9 .*bootstrap\.servers") as caught:
        publish_in_bulk([Record(None, b"1")], {"bootstrap.servers": "127.0.0.1:9"}, "t", client=Client.LIBRDKAFKA)
    assert "\n" not in str(caught.value)


def test_librdkafka_publishes_what_it_can(extra: dict[str, str], topic: Callable[[], str]) -> None:
    name = topic()

    def chosen(**options: Any) -> type:
        with bulk_publisher(extra, name, **options) as publisher:
            return type(publisher)

    assert chosen() is BulkPublisher
    assert chosen(client=Client.KAFKA_PYTHON) is Publisher
    for other in {"partitioner": RoundRobin()}, {"on_ack": print}:
        assert chosen(**other) is Publisher
        with pytest.raises(ConfigurationError, match="librdkafka cannot publish this"):
            chosen(**other, client=Client.LIBRDKAFKA)


@pytest.mark.usefixtures("servers")
def test_the_command_publishes_the_same_with_either(
    extra: dict[str, str], topic: Callable[[], str], tmp_path: Path, capsys: Any
) -> None:
    path, topics = tmp_path / "rows.jsonl", {client: topic() for client in Client}
    line = '{{"event_id": "e{0}", "publish_at": "2026-01-01T00:00:00Z", "n": {0}}}\n'
    path.write_text("".join(line.format(n) for n in range(500)))
    shown = {}
    for client, name in topics.items():
        assert main(["publish", name, "--file", str(path), "--key", "$.event_id", "--client", client, "--json"]) == 0
        shown[client] = json.loads(capsys.readouterr().out)
    assert [(told["acknowledged"], told["retried"]) for told in shown.values()] == [(500, None), (500, 0)]
    both = [
        [msgspec.structs.replace(each, timestamp_ms=None) for each in found(extra, name)] for name in topics.values()
    ]
    assert sorted(both[0], key=repr) == sorted(both[1], key=repr)
    transactional = ["--client", "librdkafka", "--transactional-id", "t"]
    assert main(["publish", topics[Client.LIBRDKAFKA], "--file", str(path), *transactional]) == 1
    assert "without transactions" in capsys.readouterr().err
