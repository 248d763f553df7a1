"""What a client cannot read, or Postgres cannot hold, is refused record by record, and alike by whoever reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from kafka import KafkaConsumer
from msgspec import structs

from offset_ledger.decoding.kafka_columns import NO_TIMESTAMP
from offset_ledger.errors import LostRange
from offset_ledger.model.batch import Origin
from offset_ledger.model.moments import moment
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check.decode_sample import Choice, decode_sample
from offset_ledger.operations.repair.verify import explain_gaps
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.kafka import records
from offset_ledger.outside.kafka.bulk_reader import bulk_reader
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import first_timestamps, last_timestamps, record_offsets, record_reader
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.postgres.table import infer
from offset_ledger.postgres.table.infer import read_sample
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from offset_ledger.steps.stage import record_batches
from offset_ledger.steps.stage.step import stage
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.odd_records import (
    AT,
    CAFE,
    EVERY_TIMESTAMP,
    RawName,
    odd_records,
    order,
    send_transactions,
    send_unchecked,
)
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
FIRST, LAST = -210_866_803_200_000, (2**63 - 1) // 1000  # what Postgres can hold, and microseconds in 64 bits
NANOSECONDS = AT * 1_000_000
HEADER = {"path": "_headers", "code": "encoding", "detail": r"expected header names in UTF-8, got caf\xe9"}


class Bench(TopicBench):
    """A topic of three partitions that takes any timestamp."""

    TEMPLATE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}, transactional: true}}
record:
  event_id: $.id
  publish_at: {publish_at}
  tombstone: skip
  columns: {{state: text, amount: {{type: numeric, nullable: true}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{max_quarantined_share: 1.0}}
"""
    PARTITIONS = 3
    CONFIGS = EVERY_TIMESTAMP
    DEFAULTS = MappingProxyType({"name": "orders", "publish_at": "$.at"})

    def send(self, *records: Record, **settings: Any) -> None:
        send_unchecked(self.servers.bootstrap, self.topic, records, **settings)

    def table(self) -> set[tuple[Any, ...]]:
        return set(self.rows("event_id, _partition, _offset"))

    def quarantined(self) -> list[list[Any]]:
        query = """SELECT "offset", key, value, headers, "timestamp", reasons, retried_reasons, resolved_by IS NOT NULL
            FROM offset_ledger.quarantine ORDER BY partition, "offset" """
        return [
            [bytes(each) if isinstance(each, memoryview) else each for each in row] for row in rows(self.session, query)
        ]

    def check_readers_go_on(self) -> None:
        """Each of those that read the topic again says the same as staging did."""
        self.check()
        assert explain_gaps(self.pipeline).violations == ()


@pytest.fixture(params=["librdkafka", "kafka-python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setattr(record_batches, "reads_by_librdkafka", lambda _: name == "librdkafka")
    return name


def with_headers(record: Record, *headers: tuple[str, Any]) -> Record:
    return structs.replace(record, headers=headers)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_header_name_that_is_not_utf_8_sends_its_record_to_quarantine_alone(
    bench: Bench, compression: str | None
) -> None:
    fine = [with_headers(order(f"{n}"), ("trace", b"1"), ("é\ufffd", b"")) for n in range(200)]
    headers = (("trace", b"\x00"), (CAFE, b"1"), ("é", b"2"), (RawName.of(b"\xff"), b""))
    broken = structs.replace(order("odd"), value=b"{", headers=headers)
    records = [*fine[:100], with_headers(order("odd"), *headers), broken, *fine[100:]]
    bench.send(*records, compression_type=compression)
    (done,) = bench.ingest()
    assert done.batch.epoch == 1
    assert bench.table() == {(f"{n}", 0, n if n < 100 else n + 2) for n in range(200)}
    kept = [["trace", {"base64": "AA=="}], [{"base64": "Y2Fm6Q=="}, "1"], ["é", "2"], [{"base64": "/w=="}, ""]]
    at = moment(AT)
    syntax = bench.quarantined()[1][5][0]
    assert syntax["code"] == "syntax"
    refused = [
        [100, b"odd", order("odd").value, kept, at, [HEADER], None, False],
        [101, b"odd", b"{", kept, at, [syntax, HEADER], None, False],
    ]
    assert bench.quarantined() == refused
    assert {json.dumps(row[0]) for row in bench.rows("_headers")} == {json.dumps([["trace", "1"], ["é\ufffd", ""]])}
    bench.check_readers_go_on()

    sample = decode_sample(bench.pipeline, Choice(partition=0, from_offset=99), 10)
    assert [each.offset for each in sample.rows] == [99, *range(102, 109)]
    assert [(each.offset, list(each.reasons)) for each in sample.refusals] == [(100, [HEADER]), (101, [syntax, HEADER])]
    assert len(read_sample(bench.servers.kafka, bench.topic, 400).records) == 202
    replay = plan_replay(bench.pipeline, [OffsetRange(0, 90, 110)], ME)
    replayed = run_batch(bench.pipeline, replay, ME, quiet).committed.total
    assert (replayed.duplicate, replayed.quarantined) == (18, 2)
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, RedriveChoice(), ME), ME, quiet)
    assert bench.quarantined() == [[*row[:6], row[5], False] for row in refused]
    bench.check_readers_go_on()


def test_verify_says_why_a_header_name_with_a_nul_byte_differs(bench: Bench) -> None:
    cut = ((RawName.of(b"cut\0off"), b"1"),)
    broken = structs.replace(order("broken"), value=b"{", headers=cut)
    bench.send(with_headers(order("a"), *cut), with_headers(order("b"), ("cut", b"1")), broken)
    bench.ingest()
    assert {json.dumps(row[0]) for row in bench.rows("_headers")} == {'[["cut", "1"]]'}
    names = '[[{"base64": "Y3V0AG9mZg=="}, "1"]]'
    why = f'is [["cut", "1"]] PLACE and {names} in the topic (a header name has a NUL byte, where librdkafka cuts it)'
    assert compare_with_topic(bench.pipeline).violations == (
        "topic 2 every row equals its record: partition 0 offset 0 event a: _headers "
        + why.replace("PLACE", "in the table"),
        "topic 5 quarantine has the bytes of the record: partition 0 offset 2: in quarantine, but headers "
        + why.replace("PLACE", "there"),
    )


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("publish_at", ["$.at", "kafka_timestamp"])
def test_a_timestamp_that_cannot_be_held_sends_its_record_to_quarantine_alone(bench: Bench, publish_at: str) -> None:
    bench.settings["publish_at"] = publish_at
    held = {"julian": -20_000_000_000_000, "last julian": -12_219_292_800_001, "zero": 0, "now": AT}
    unheld = [FIRST - 1, -300_000_000_000_000, -(2**63), LAST + 1, NANOSECONDS, 2**63 - 1]
    bench.send(*(structs.replace(order(name), timestamp_ms=at) for name, at in held.items()))
    for some in (unheld[:3], unheld[3:]):  # in one record batch, timestamps are at most 64 bits from each other
        bench.send(*(structs.replace(order("far"), timestamp_ms=at) for at in some))
    bench.send(structs.replace(with_headers(order("far"), (CAFE, b"")), timestamp_ms=NANOSECONDS), order("end"))
    (done,) = bench.ingest()
    assert done.batch.epoch == 1
    milliseconds = {row[0]: int(row[1]) for row in bench.rows("event_id, extract(epoch FROM _timestamp) * 1000")}
    assert milliseconds == held | {"end": AT}
    detail = "expected a record timestamp of the years 4714 BC to 294,246, got {} ms"
    reasons = [{"path": "_timestamp", "code": "range", "detail": detail.format(at)} for at in [*unheld, NANOSECONDS]]
    expected = [[reason] for reason in reasons[:-1]] + [[reasons[-1], HEADER]]
    refused = bench.quarantined()
    assert [(row[0], row[4], row[5]) for row in refused] == [(4 + n, None, each) for n, each in enumerate(expected)]
    bench.check_readers_go_on()
    assert [list(each.reasons) for each in decode_sample(bench.pipeline, Choice(0, 0), 20).refusals] == expected
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, RedriveChoice(), ME), ME, quiet)
    assert bench.quarantined() == [[*row[:6], row[5], False] for row in refused]


def test_the_first_and_last_timestamps_that_postgres_can_hold_are_kept(bench: Bench) -> None:
    bench.send(*(structs.replace(order(f"{at}"), timestamp_ms=at) for at in (FIRST, LAST)))
    bench.ingest()
    found = bench.rows("event_id, (extract(epoch FROM _timestamp) * 1000)::bigint")
    assert set(found) == {(f"{at}", at) for at in (FIRST, LAST)}
    bench.check_readers_go_on()


def test_a_redrive_leaves_a_name_with_a_replacement_character_as_it_is(bench: Bench) -> None:
    bench.send(with_headers(order("a"), ("caf\ufffd", b"0"), (CAFE, b"1")))
    bench.ingest()
    (before,) = bench.quarantined()
    assert before[5] == [HEADER]
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, RedriveChoice(), ME), ME, quiet)
    assert bench.quarantined() == [[*before[:6], [HEADER], False]]


def staged(bench: Bench, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """The staging of the whole topic as a pipeline of that name: its rows, refusals and slices."""
    bench.settings["name"] = name
    pipeline = bench.pipeline
    batch = plan(pipeline, ME).batch
    assert batch is not None
    stage(BY_PROCESS, pipeline, batch.batch_id, ME)
    table = f"offset_ledger_staging.b{batch.batch_id}_e1"
    queries = {
        "rows": f"SELECT t::text FROM {table} AS t ORDER BY _partition, _offset",
        "refused": f"SELECT t::text FROM {table}_refused AS t ORDER BY _partition, _offset",
        "slices": f"""SELECT slice_no, partition, rows, refused, skipped, min_offset, max_offset, min_timestamp,
            max_timestamp FROM offset_ledger.slice WHERE batch_id = {batch.batch_id} ORDER BY 1""",
    }
    return {name: [tuple(row) for row in rows(bench.session, query)] for name, query in queries.items()}


def test_both_readers_stage_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(*odd_records())
    odd = [with_headers(order("odd", n), (CAFE, b"1"), ("n", b"2")) for n in range(3)]
    odd.append(structs.replace(order("far", 1), timestamp_ms=NANOSECONDS))
    odd.append(structs.replace(order("early", 2), timestamp_ms=-20_000_000_000_000))
    bench.send(*odd, structs.replace(order("none", 2), timestamp_ms=-1), compression_type="gzip")
    send_transactions(bench.servers.bootstrap, bench.topic, odd)
    bench.send(*odd_records())
    by_librdkafka = staged(bench, "orders")
    assert len(by_librdkafka["rows"]) > 140
    assert len(by_librdkafka["refused"]) > 15
    monkeypatch.setattr(record_batches, "reads_by_librdkafka", lambda _: False)
    assert staged(bench, "orders_again") == by_librdkafka


def test_one_consumer_of_kafka_python_reads_ranges_in_any_order(bench: Bench) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(30)))
    send_transactions(bench.servers.bootstrap, bench.topic)
    with connect_kafka(bench.servers.kafka) as kafka:
        end = kafka.snapshot(bench.topic).partitions[0].last_stable
    first, second, third = (OffsetRange(p, 2, 9) for p in range(3))
    tail = OffsetRange(0, 9, end)  # it reads on, and ends with records of aborted transactions
    with record_reader(bench.servers.kafka) as read_lists:
        for wanted in (first, tail, third, first, second, tail, OffsetRange(0, 0, end), first):
            read = [(each.partition, each.offset) for part in read_lists(bench.topic, wanted) for each in part]
            offsets = record_offsets(bench.servers.kafka, bench.topic, wanted, "read_committed")
            assert read == [(wanted.partition, offset) for offset in offsets]
        assert len(read) == 7
        broken_off = read_lists(bench.topic, tail)
        next(broken_off)
        read = [each.offset for part in read_lists(bench.topic, tail) for each in part]
        assert read == list(record_offsets(bench.servers.kafka, bench.topic, tail, "read_committed"))


@pytest.mark.parametrize("reader", [bulk_reader, record_reader])
@pytest.mark.parametrize("deleted", [2, 4])
def test_a_range_that_the_log_does_not_have_is_lost(bench: Bench, deleted: int, reader: Any) -> None:
    bench.publish(*(order(f"{n}") for n in range(4)))
    bench.delete_below(0, deleted)
    lost = pytest.raises(LostRange, match=rf"topic {bench.topic}: the log does not have range 0:\[0, 4\) any more")
    with lost, reader(bench.servers.kafka) as read:
        list(read(bench.topic, OffsetRange(0, 0, 4)))


def test_timestamps_of_single_records_are_read_behind_a_name_that_is_not_utf_8(bench: Bench) -> None:
    bench.send(
        *(structs.replace(with_headers(order(f"{n}"), (CAFE, b"1")), timestamp_ms=AT + 1000 * n) for n in range(3))
    )
    read = partial(first_timestamps, bench.servers.kafka, bench.topic)
    assert read({0: (1, 3)}) == {0: moment(AT + 1000)}
    assert last_timestamps(bench.servers.kafka, bench.topic, {0: (0, 3)}) == {0: moment(AT + 2000)}


def test_a_sample_has_the_timestamps_that_a_batch_stages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"julian": -20_000_000_000_000, "before 1970": -2, "none": -1, "zero": 0, "now": AT}
    bench.send(*(structs.replace(order(name), timestamp_ms=each) for name, each in at.items()))
    bench.ingest()
    staged = {row[0]: row[1] for row in bench.rows("event_id, _timestamp")}
    read = read_sample(bench.servers.kafka, bench.topic, 10).records
    sampled = {json.loads(each.value or b"")["id"]: each.timestamp for each in read}
    assert sampled == staged | {"none": NO_TIMESTAMP}
    # Kafka's retention counts none of the negative ones: the age of such a segment is that of its file.
    assert first_timestamps(bench.servers.kafka, bench.topic, {0: (0, 5)}) == {0: moment(0)}
    old = records.read_records  # of the oldest message format kafka-python gives no timestamp at all

    def read_old(*arguments: Any) -> Iterator[Any]:
        return (each._replace(timestamp=None) for each in old(*arguments))

    monkeypatch.setattr(infer, "read_records", read_old)
    assert {each.timestamp for each in read_sample(bench.servers.kafka, bench.topic, 10).records} == {NO_TIMESTAMP}
    monkeypatch.setattr(KafkaConsumer, "poll", poll_old)
    assert first_timestamps(bench.servers.kafka, bench.topic, {0: (0, 5)}) == {}


_poll = KafkaConsumer.poll


def poll_old(*arguments: Any, **settings: Any) -> dict[Any, list[Any]]:
    polled = _poll(*arguments, **settings)
    return {place: [each._replace(timestamp=None) for each in of_place] for place, of_place in polled.items()}


def test_a_header_name_that_librdkafka_cuts_is_reported(bench: Bench) -> None:
    bench.send(with_headers(order("a"), ("cut\0here", b"1")))
    bench.ingest()
    assert bench.rows("_headers") == [([["cut", "1"]],)]
    (line,) = compare_with_topic(bench.pipeline).violations
    assert 'partition 0 offset 0 event a: _headers is [["cut", "1"]] in the table and [[{"base64": ' in line
