"""A producer's settings: safe without a word, and each unsafe combination refused with what can happen."""

from __future__ import annotations

from dataclasses import fields

import pytest

from offset_ledger.errors import ConfigurationError, UnsafeSettings
from offset_ledger.outside.producer.publisher import librdkafka_settings
from offset_ledger.outside.producer.record import Record, RecordLimits, RecordTooLarge, fetch_bytes, min_batch_bytes
from offset_ledger.outside.producer.settings import Danger, ProducerSettings, dotted, read_settings

ALL = frozenset(Danger)
# Settings, whether there is a transactional id, and how each refusal begins.
REFUSED: list[tuple[dict[str, str], bool, list[str]]] = [
    ({"acks": "0"}, False, ["loss: acks=0"]),
    ({"acks": "1"}, False, ["loss: acks=1", "duplicate: without idempotence", "reordering: without idempotence"]),
    ({"acks": "1", "max.in.flight.requests.per.connection": "1"}, False, ["loss: acks=1", "duplicate:"]),
    ({"acks": "1", "retries": "0"}, False, ["loss: acks=1", "loss: retries=0"]),
    ({"acks": "1", "enable.idempotence": "true"}, False, ["loss: acks=1", "enable.idempotence=true needs acks=all"]),
    ({"enable.idempotence": "false"}, False, ["duplicate:", "reordering:"]),
    ({"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}, False, ["duplicate:"]),
    ({"enable.idempotence": "true", "retries": "0"}, False, ["enable.idempotence=true needs retries"]),
    ({"retries": "0"}, False, ["loss: retries=0"]),
    ({"max.in.flight.requests.per.connection": "6"}, False, ["duplicate:", "reordering: without"]),
    ({"max.in.flight.requests.per.connection": "6", "enable.idempotence": "true"}, False,
        ["enable.idempotence=true keeps the order of at most 5"]),
    ({"max.in.flight.requests.per.connection": "0"}, False, ["max.in.flight.requests.per.connection=0"]),
    ({"delivery.timeout.ms": "30049"}, False, ["delivery.timeout.ms=30049 must be at least linger.ms"]),
    ({"delivery.timeout.ms": "14000", "request.timeout.ms": "5000"}, False, ["loss: delivery.timeout.ms=14000"]),
    ({"request.timeout.ms": "60000"}, False, ["delivery.timeout.ms=60000 must be at least linger.ms"]),
    ({"max.block.ms": "60001"}, False, ["blocking: max.block.ms=60001"]),
    ({"max.block.ms": "999"}, False, ["loss: max.block.ms=999"]),
    ({"acks": "1"}, True, ["loss: acks=1", "enable.idempotence=true needs acks=all", "a transactional id needs"]),
    ({"enable.idempotence": "false"}, True, ["duplicate:", "reordering:", "a transactional id needs"]),
    ({"transaction.timeout.ms": "59999"}, True, ["transaction.timeout.ms=59999 must be at least delivery.timeout.ms"]),
    ({"acks": "2"}, False, ["acks=2 should be one of all, 0, 1"]),
    ({"compression.type": "zip"}, False, ["compression.type=zip should be one of none, gzip, snappy, lz4, zstd"]),
    ({"linger.ms": "soon"}, False, ["linger.ms=soon should be a whole number"]),
    ({"transaction.timeout.ms": str(2**31)}, True,
        ["transaction.timeout.ms=2147483648 should be a whole number up to 21"]),
    ({"linger": "5"}, False, ["linger is no setting of a producer; is linger.ms meant?"]),
]  # fmt: skip


def refusals(given: dict[str, str], transactional: bool, allow: frozenset[str] = frozenset()) -> list[str]:
    try:
        read_settings({}, given, transactional=transactional, allow=allow)
    except UnsafeSettings as error:
        return str(error).splitlines()
    return []


def test_what_is_not_said_is_safe() -> None:
    settings = read_settings({"bootstrap.servers": "a:1", "group.id": "a reader's"}, transactional=True)
    assert settings == ProducerSettings()
    assert list(settings.problems(transactional=True)) == []
    assert (settings.acks, settings.enable_idempotence) == ("all", True)
    assert settings.delivery_timeout_ms >= settings.linger_ms + settings.request_timeout_ms


@pytest.mark.parametrize(("given", "transactional", "starts"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_each_unsafe_combination_is_refused_with_what_can_happen(
    given: dict[str, str], transactional: bool, starts: list[str]
) -> None:
    problems = refusals(given, transactional)
    assert len(problems) == len(starts), problems
    assert all(line.startswith(begin) for line, begin in zip(problems, starts, strict=True)), problems


@pytest.mark.parametrize(("given", "transactional", "starts"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_dangers_can_be_allowed_by_name_and_contradictions_cannot(
    given: dict[str, str], transactional: bool, starts: list[str]
) -> None:
    dangers = {begin.split(":")[0] for begin in starts} & ALL
    contradictions = [begin for begin in starts if begin.split(":")[0] not in ALL]
    problems = refusals(given, transactional, frozenset(dangers))
    assert len(problems) == len(contradictions), problems
    for danger in dangers:
        left = refusals(given, transactional, frozenset(dangers - {danger}))
        assert [line.split(":")[0] for line in left if line.split(":")[0] in ALL], danger


def test_all_mistakes_are_reported_together() -> None:
    problems = refusals({"acks": "0", "linger": "1", "max.block.ms": "x"}, False, frozenset({"lost"}))
    assert [line.split(" ")[0] for line in problems] == ["linger", "'lost'", "max.block.ms=x", "loss:"]


def test_what_is_given_comes_before_the_connection() -> None:
    connection = {"linger.ms": "7", "compression.type": "lz4", "request.timeout.ms": "20000"}
    settings = read_settings(connection, {"linger.ms": "9"})
    assert (settings.linger_ms, settings.compression_type, settings.request_timeout_ms) == (9, "lz4", 20_000)


def test_names_are_kafkas_own() -> None:
    names = {dotted(each.name) for each in fields(ProducerSettings)}
    assert {"acks", "enable.idempotence", "max.in.flight.requests.per.connection", "delivery.timeout.ms"} <= names
    given = librdkafka_settings(read_settings({}, {"acks": "0"}, allow={"loss"}))
    assert (given["acks"], given["compression.type"], given["enable.idempotence"]) == ("0", "none", False)


def test_a_record_is_measured_with_everything_in_it() -> None:
    record = Record(b"key", b"value", (("name", b"text"),))
    assert min_batch_bytes(record) == min_batch_bytes(Record(None, None)) + 3 + 5 + 8
    weight = min_batch_bytes(record)
    RecordLimits(topic_bytes=weight, fetch_bytes=weight).check(record)
    with pytest.raises(RecordTooLarge, match=rf"^loss: a record takes {weight} bytes .* max.message.bytes is"):
        RecordLimits(topic_bytes=weight - 1, fetch_bytes=weight, allow=ALL).check(record)
    with pytest.raises(RecordTooLarge, match=r"^blocking: .* readers fetch"):
        RecordLimits(fetch_bytes=weight - 1).check(record)
    RecordLimits(fetch_bytes=weight - 1, allow={"blocking"}).check(record)


def test_a_record_is_measured_by_the_producers_own_limit_whether_compressed_or_not() -> None:
    record = Record(None, b"x" * 5_000)
    small = RecordLimits(topic_bytes=3_000, fetch_bytes=2_000)
    for compression, dangers in ("none", ["loss", "loss", "blocking"]), ("gzip", ["loss"]):
        settings = read_settings({"message.max.bytes": "4000", "compression.type": compression})
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size is 4000, so the producer refuses it") as caught:
            small.of(settings).check(record)
        assert [line.split(":")[0] for line in str(caught.value).split("; ") if ": a record" in line] == dangers


@pytest.mark.parametrize(
    ("extra", "size"),
    [({}, 4_194_304), ({"message.max.bytes": "9"}, 9), ({"message.max.bytes": "9", "max.request.size": "8"}, 8)],
)
def test_the_size_of_requests_is_that_of_the_connection(extra: dict[str, str], size: int) -> None:
    assert read_settings(extra).max_request_size == size
    assert read_settings(extra, {"max.request.size": "7000"}).max_request_size == 7000


def test_fetch_settings_come_from_the_connection() -> None:
    assert fetch_bytes({}) == 1_048_576
    assert fetch_bytes({"max.partition.fetch.bytes": "5"}) == 5
    with pytest.raises(ConfigurationError, match="'many'"):
        fetch_bytes({"max.partition.fetch.bytes": "many"})
