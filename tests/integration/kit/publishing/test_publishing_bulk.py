"""Publishing many records: what is sent is in the topic, and what is no record of Kafka is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka.partitioner.default import murmur2

from offset_ledger.errors import BrokerUnavailable, PublishFailed, UnknownTopic
from offset_ledger.model.header_name import HeaderName
from offset_ledger.outside.producer.partitioner import Custom
from offset_ledger.outside.producer.publisher import Publisher, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.producer.settings import COMPRESSIONS, read_settings
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.cli.publish import CLIENTS
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack
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


def java_partition(key: bytes, partitions: int) -> int:
    """The partition that kafka-python chooses, whose hash is the Java client's."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def found(extra: dict[str, str], topic: str) -> list[Record]:
    return sorted(read(extra, topic).values(), key=repr)


@pytest.mark.parametrize("transactional", [False, True])
def test_strange_records_arrive_as_they_were_sent(
    extra: dict[str, str], topic: Callable[[], str], transactional: bool
) -> None:
    name = topic()
    summary = publish(strange(), extra, name, transactional_id=name if transactional else None)
    assert (summary.records, summary.failed) == (len(strange()), 0)
    assert summary.value_bytes == sum(len(record.value or b"") for record in strange())
    for each in (arrived := found(extra, name)):
        if each.key is not None and each.key != b"placed":
            assert each.partition == java_partition(each.key, 7), each
    without_places = [msgspec.structs.replace(each, partition=None) for each in arrived]
    sent = [msgspec.structs.replace(each, partition=None) for each in strange()]
    assert sorted(without_places, key=repr) == sorted(sent, key=repr)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_records_of_a_key_stay_in_order(extra: dict[str, str], topic: Callable[[], str], compression: str) -> None:
    name, sent = topic(), [Record(b"k%d" % (n % 7), b"%d" % n) for n in range(2_000)]
    settings = read_settings(extra, {"compression.type": compression})
    publish(sent, extra, name, settings=settings)
    homes: dict[bytes | None, list[tuple[int | None, int]]] = {}
    for record in read(extra, name).values():
        homes.setdefault(record.key, []).append((record.partition, int(record.value or b"")))
    assert {key: [n for _, n in each] for key, each in homes.items()} == {
        b"k%d" % key: list(range(key, 2_000, 7)) for key in range(7)
    }
    assert all(len({partition for partition, _ in each}) == 1 for each in homes.values())


def test_records_without_a_key_are_all_there_and_spread(extra: dict[str, str], topic: Callable[[], str]) -> None:
    """librdkafka keeps to a partition for a while, so a quick burst has one; sixteen choices at random have several."""
    name, sent = topic(), [Record(None, b"%d" % n + b"x" * 1_000) for n in range(4_000)]
    for first in range(0, 4_000, 250):
        publish(sent[first : first + 250], extra, name)
    everything = read(extra, name).values()
    assert sorted(each.value or b"" for each in everything) == sorted(each.value or b"" for each in sent)
    assert len({each.partition for each in everything}) > 1


def test_a_function_chooses_the_partition(extra: dict[str, str], topic: Callable[[], str]) -> None:
    name = topic()
    by_length = Custom(lambda key, count: len(key or b"") % (count + 1))
    sent = [Record(b"x" * n, b"%d" % n) for n in range(7)]
    publish(sent, extra, name, partitioner=by_length)
    assert {each.partition: each.value for each in read(extra, name).values()} == {n: b"%d" % n for n in range(7)}
    with pytest.raises(PublishFailed, match=r"chose 7 for the key b'xxxxxxx' and .* has 7 partitions"):
        publish([Record(b"x" * 7, b"7")], extra, name, partitioner=by_length)


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
def test_what_is_no_record_is_refused_and_the_others_are_there(
    extra: dict[str, str], topic: Callable[[], str], wrong: Record
) -> None:
    name, good = topic(), [Record(b"k", b"%d" % n, partition=1) for n in range(20)]
    with pytest.raises(PublishFailed) as caught:
        publish([*good, wrong], extra, name)
    assert (caught.value.acknowledged, caught.value.unconfirmed, caught.value.exit_code) == (20, (wrong,), 1)
    assert [each.value for each in read(extra, name).values()] == [each.value for each in good]


def test_a_timestamp_of_0_is_refused(extra: dict[str, str], topic: Callable[[], str]) -> None:
    with pytest.raises(PublishFailed, match="a timestamp of 0 means now"):
        publish([Record(b"k", b"v", timestamp_ms=0)], extra, topic())


def test_what_the_broker_refuses_has_kafkas_own_name(extra: dict[str, str], topic_name: Any) -> None:
    name = topic_name()
    create_topic(extra, name, 1, 1, {"cleanup.policy": "compact"})
    far = Record(b"k", b"v", timestamp_ms=4_000_000_000_000)
    for wrong, error in (Record(None, b"v"), "InvalidRecordError"), (far, "InvalidTimestampError"):
        with pytest.raises(PublishFailed, match=error) as caught:
            publish([wrong], extra, name)
        assert (caught.value.exit_code, caught.value.unconfirmed) == (1, (wrong,))
    with pytest.raises(UnknownTopic):
        publish([], extra, topic_name())


def test_header_names_arrive_byte_for_byte_or_are_refused(extra: dict[str, str], topic: Callable[[], str]) -> None:
    name, names = topic(), ["é", "", "漢🦊"]
    publish([Record(b"k", b"v", tuple((each, b"1") for each in names))], extra, name)
    (record,) = read(extra, name).values()
    assert [each for each, _ in record.headers] == names
    for wrong in HeaderName.of(b"caf\xe9"), "\ud800", "a\0b":
        with pytest.raises(PublishFailed, match="should be UTF-8 without NUL") as caught:
            publish([Record(b"k", b"v", ((wrong, b"1"),))], extra, name)
        assert caught.value.exit_code == 1


def test_a_failure_is_reported_without_finish(extra: dict[str, str], topic: Callable[[], str]) -> None:
    with pytest.raises(PublishFailed), Publisher(extra, topic()) as publisher:
        publisher.send(Record(b"k", b"x" * 50_000))


def test_more_records_than_the_queue_takes_wait(
    extra: dict[str, str], topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offset_ledger.outside.producer.publisher.MAX_WAITING", 100)
    name, done = topic(), list[int]()
    records = (Record(b"%d" % n, b"%d" % n) for n in range(3_000))
    summary = publish(records, extra, name, on_progress=done.append)
    assert (summary.records, sum(done), summary.retried) == (3_000, 3_000, None)
    assert sorted(int(each.value or b"") for each in read(extra, name).values()) == list(range(3_000))


def test_no_broker_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9 .*bootstrap\.servers") as caught:
        publish([Record(None, b"1")], {"bootstrap.servers": "127.0.0.1:9"}, "t")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("servers")
def test_the_command_publishes_the_same_whichever_client_is_named(
    extra: dict[str, str], topic: Callable[[], str], tmp_path: Path, capsys: Any
) -> None:
    path, topics = tmp_path / "rows.jsonl", {client: topic() for client in CLIENTS}
    line = '{{"event_id": "e{0}", "publish_at": "2026-01-01T00:00:00Z", "n": {0}}}\n'
    path.write_text("".join(line.format(n) for n in range(500)))
    shown = {}
    for client, name in topics.items():
        assert (
            main(["kafka", "publish", name, "--file", str(path), "--key", "$.event_id", "--client", client, "--json"])
            == 0
        )
        shown[client] = json.loads(capsys.readouterr().out)
    assert [(told["acknowledged"], told["retried"]) for told in shown.values()] == [(500, None), (500, None)]
    both = [
        [msgspec.structs.replace(each, timestamp_ms=None) for each in found(extra, name)] for name in topics.values()
    ]
    assert sorted(both[0], key=repr) == sorted(both[1], key=repr)
    transactional = ["--client", "librdkafka", "--transactional-id", topic()]
    assert main(["kafka", "publish", topics["librdkafka"], "--file", str(path), *transactional]) == 0
    assert "500 records acknowledged" in capsys.readouterr().out


@pytest.mark.usefixtures("servers")
def test_the_command_leaves_values_as_they_are(extra: dict[str, str], topic: Callable[[], str], tmp_path: Path) -> None:
    path, name = tmp_path / "rows.jsonl", topic()
    path.write_text('{"id": 1.10}\n')
    for stamp in ([], ["--stamp", "headers"], ["--stamp", "value"]):
        assert main(["kafka", "publish", name, "--file", str(path), "--partition", "0", *stamp]) == 0
    stamped, *untouched = sorted(found(extra, name), key=lambda record: record.value or b"")
    assert [record.value for record in untouched] == [b'{"id": 1.10}'] * 2
    names = [[header for header, _ in record.headers] for record in (*untouched, stamped)]
    assert names == [["event_id", "publish_at"]] * 3
    assert list(json.loads(stamped.value or b"")) == ["id", "event_id", "publish_at"]


@pytest.mark.usefixtures("servers")
def test_a_record_of_10_mb_is_sent_where_connection_and_topic_take_it(
    extra: dict[str, str], topic_name: Callable[[], str]
) -> None:
    name, record = topic_name(), Record(None, b"x" * 10_000_000)
    create_topic(extra, name, 1, 1, {"max.message.bytes": "12000000"})
    for compression in ("none", "gzip"):
        small = {**extra, "max.partition.fetch.bytes": "12000000", "compression.type": compression}
        with pytest.raises(PublishFailed, match=r"max\.request\.size is 4194304, so the producer refuses it"):
            publish([record], small, name)
        publish([record], {**small, "message.max.bytes": "12000000"}, name)
    assert [each.value for each in found(extra, name)] == [record.value, record.value]
