"""Publishing to a real broker: what was acknowledged is what a reader finds, and failures are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec
import pytest
from kafka.admin import KafkaAdminClient

from offset_ledger.errors import PublishFailed, TopicMismatch
from offset_ledger.outside.producer import publisher as producer
from offset_ledger.outside.producer.publisher import Publisher, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.publishing.disturbances import PARTITIONS, Disturbance, expected, plan_events, publish_flights
from offset_ledger_kit.publishing.flights import winning_events
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.topic_reader import Place, read


@pytest.fixture
def topic(extra: dict[str, str], topic_name: Callable[[], str]) -> str:
    """A new topic of four partitions that takes records of at most 20,000 bytes."""
    name = topic_name()
    # The tests' timestamps are old: by default retention would take the records away within seconds.
    create_topic(extra, name, 4, 1, {"max.message.bytes": "20000", "retention.ms": "-1"})
    return name


def test_a_topic_is_made_once_and_removed_once(extra: dict[str, str], topic_name: Callable[[], str]) -> None:
    made = topic_name()
    assert create_topic(extra, made, 3, 1) is True
    assert create_topic(extra, made, 3, 1) is False
    with pytest.raises(TopicMismatch, match="should have 4 partitions and has 3"):
        create_topic(extra, made, 4, 1)
    assert delete_topic(extra, made) is True
    assert delete_topic(extra, made) is False
    with closing(KafkaAdminClient(bootstrap_servers=extra["bootstrap.servers"])) as admin:
        assert made not in admin.list_topics()


@pytest.mark.parametrize(
    ("name", "replicas", "configs"),
    [("made-2", 2, {}), ("made-3", 1, {"no.such.setting": "1"}), ("a/b", 1, {})],
    ids=["replicas", "setting", "name"],
)
def test_a_topic_the_cluster_refuses(extra: dict[str, str], name: str, replicas: int, configs: dict[str, str]) -> None:
    with pytest.raises(TopicMismatch, match="cannot be created"):
        create_topic(extra, name, 1, replicas, configs)


def test_a_reader_finds_each_record_where_it_was_acknowledged(extra: dict[str, str], topic: str) -> None:
    sent = [
        Record(b"k%d" % (n % 50), b"v%d" % n, (("trace", b"\x00\xff"), ("n", b"%d" % n)), 1_700_000_000_000 + n)
        for n in range(3_000)
    ]
    sent += [Record(b"placed", None, (), 5, partition=3), Record(b"", b"", (), 6, partition=0)]
    acknowledged: dict[Place, Record] = {}
    done: list[int] = []

    def on_ack(record: Record, partition: int, offset: int) -> None:
        acknowledged[partition, offset] = msgspec.structs.replace(record, partition=partition)

    summary = publish(sent, extra, topic, on_progress=done.append, on_ack=on_ack)
    assert read(extra, topic) == dict(sorted(acknowledged.items()))
    assert [msgspec.structs.replace(record, partition=None) for record in acknowledged.values()] == [
        msgspec.structs.replace(record, partition=None) for record in sent
    ]
    assert (summary.records, sum(done)) == (3_002, 3_002)
    assert summary.value_bytes == sum(len(record.value or b"") for record in sent)


def test_one_key_stays_in_one_partition_and_in_order(extra: dict[str, str], topic: str) -> None:
    sent = [Record(b"k%d" % (n % 7), b"%d" % n) for n in range(2_000)]
    publish(sent, extra, topic)
    homes: dict[bytes | None, list[tuple[int | None, int]]] = {}
    for record in read(extra, topic).values():
        homes.setdefault(record.key, []).append((record.partition, int(record.value or b"")))
    expectation = {key: [int(r.value or b"") for r in sent if r.key == key] for key in homes}
    assert {key: [n for _, n in found] for key, found in homes.items()} == expectation
    assert all(len({partition for partition, _ in found}) == 1 for found in homes.values())


def test_refused_records_are_named_and_the_others_are_there(extra: dict[str, str], topic: str) -> None:
    good = [Record(b"k", b"%d" % n) for n in range(20)]
    too_large = Record(b"k", b"x" * 50_000)
    with pytest.raises(PublishFailed, match="20 records were acknowledged and 1 were not") as caught:
        publish([*good, too_large], extra, topic)
    assert caught.value.unconfirmed == (too_large,)
    assert [record.value for record in read(extra, topic).values()] == [record.value for record in good]


def test_a_failure_is_reported_without_finish(extra: dict[str, str], topic: str) -> None:
    with pytest.raises(PublishFailed), Publisher(extra, topic) as publisher:
        publisher.send(Record(b"k", b"x" * 50_000))


def test_an_aborted_transaction_reaches_no_reader_of_committed_data(extra: dict[str, str], topic: str) -> None:
    publish([Record(b"k", b"before")], extra, topic)
    publish([Record(b"k", b"never")], extra, topic, commit=False, transactional_id=f"{topic}-abort")
    publish([Record(b"k", b"after")], extra, topic, transactional_id=f"{topic}-commit")
    assert [record.value for record in read(extra, topic).values()] == [b"before", b"after"]
    everything = read(extra, topic, "read_uncommitted").values()
    assert [record.value for record in everything] == [b"before", b"never", b"after"]


def test_a_transaction_whose_records_cannot_all_be_made_shows_none(extra: dict[str, str], topic: str) -> None:
    def records() -> Iterator[Record]:
        yield from (Record(b"k", b"%d" % n) for n in range(500))
        raise LookupError("the source ended early")

    with pytest.raises(LookupError, match="ended early"):
        publish(records(), extra, topic, transactional_id=f"{topic}-half")
    assert read(extra, topic) == {}
    publish([Record(b"k", b"whole")], extra, topic, transactional_id=f"{topic}-half")
    assert [record.value for record in read(extra, topic).values()] == [b"whole"]


def test_many_waiting_records_block_the_sender(
    extra: dict[str, str], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "MAX_WAITING", 100)
    monkeypatch.setattr(producer, "SETTLE_EVERY", 10)
    sent = acknowledged = longest = 0

    def on_ack(_record: Record, _partition: int, _offset: int) -> None:
        nonlocal acknowledged
        acknowledged += 1

    def records() -> Iterator[Record]:
        nonlocal sent, longest
        for sent in range(1, 2_001):
            longest = max(longest, sent - acknowledged)
            yield Record(b"k%d" % sent, b"v")

    publish(records(), extra, topic, on_ack=on_ack)
    assert acknowledged == 2_000
    assert longest <= 110 + 1


def test_flights_as_a_reader_of_committed_data_meets_them(extra: dict[str, str], topic_name: Callable[[], str]) -> None:
    seed, limit, topic = 11, 8_000, topic_name()
    planned = list(plan_events(seed, limit))
    summary = publish_flights(extra, topic, seed, limit, replication_factor=1)
    found = list(read(extra, topic).values())
    answer = expected(seed, limit)

    wanted = [each.record for each in planned if each.kind is not Disturbance.ABORTED]
    by_home = {each.key: each.partition for each in found}
    assert sorted(set(by_home.values()), key=str) == list(range(PARTITIONS))
    for partition in range(PARTITIONS):
        here = [msgspec.structs.replace(each, partition=None) for each in found if each.partition == partition]
        assert here == [each for each in wanted if by_home[each.key] == partition]
    assert summary.records == answer.records == len(found)

    newest: dict[str, tuple[str, bytes]] = {}
    refused = {}
    for record in found:
        value = record.value or b""
        if value in answer.refused:
            refused[value] = answer.refused[value]
            continue
        event = msgspec.json.decode(value)
        newest[event["event_id"]] = max(newest.get(event["event_id"], ("", b"")), (event["publish_at"], value))
    assert refused == answer.refused
    assert newest == {
        event.event_id: (msgspec.to_builtins(event.publish_at), msgspec.json.encode(event))
        for event in winning_events(limit)
    }
    hidden = {each.record.value for each in planned if each.kind is Disturbance.ABORTED}
    everything = {record.value for record in read(extra, topic, "read_uncommitted").values()}
    assert hidden
    assert hidden <= everything
    assert hidden.isdisjoint(record.value for record in found)


def test_what_the_broker_refuses_of_a_record_is_not_to_be_tried_again(
    extra: dict[str, str], topic_name: Callable[[], str]
) -> None:
    name = topic_name()
    # An hour, which brokers before 4.0 do not have as their default.
    create_topic(extra, name, 1, 1, {"cleanup.policy": "compact", "message.timestamp.after.max.ms": "3600000"})
    good, keyless = Record(b"k", b"v"), Record(None, b"v")
    late = Record(b"k", b"v", timestamp_ms=4_000_000_000_000)
    for wrong, message in (keyless, "cannot accept message without key"), (late, "InvalidTimestampError"):
        with pytest.raises(PublishFailed, match=message) as caught:
            publish([good, wrong, good], extra, name)
        assert caught.value.exit_code == 1
        assert wrong in caught.value.unconfirmed


@pytest.mark.parametrize("moment", [-1, 2**63])
def test_a_timestamp_beyond_kafkas_range_is_refused_at_once(extra: dict[str, str], topic: str, moment: int) -> None:
    with pytest.raises(PublishFailed, match="a timestamp should be milliseconds since 1970") as caught:
        publish([Record(b"k", b"v", timestamp_ms=moment)], extra, topic)
    assert caught.value.exit_code == 1
