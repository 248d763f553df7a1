"""A preview has the rows and refusals that staging then has, and writes nothing, with a ledger or without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from offset_ledger.errors import OffsetExpired, RegistryUnavailable, SchemaChanged, TerminalError
from offset_ledger.operations.check.decode_sample import Choice, Sample, decode_sample
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.debezium import event
from tests.fixtures.formats import AVRO
from tests.fixtures.registry_bench import NOON, RegistryBench, away, framed

JSON = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: {{type: "numeric(8,2)", nullable: true}}
    note: {{type: text, nullable: true}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""
COLUMNS = "_partition, _offset, event_id, publish_at, amount::text, note, _schema_id"


@pytest.fixture
def bench(open_bench: Callable[[type[RegistryBench]], RegistryBench]) -> RegistryBench:
    return open_bench(RegistryBench)


def ledger(bench: RegistryBench) -> Mapping[str, list[Any]]:
    """Every row of every table of the ledger, and the tables that there are."""
    query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^pg_|^information_schema'"
    names = sorted(row[0] for row in rows(bench.session, query))
    return {name: rows(bench.session, f"SELECT t::text FROM {name} t ORDER BY 1") for name in names}


def previewed(sample: Sample) -> set[tuple[Any, ...]]:
    return {
        (
            *(row.partition, row.offset, row.key["event_id"], row.publish_at),
            *(None if row.values[name] is None else str(row.values[name]) for name in ("amount", "note")),
            row.schema_id,
        )
        for row in sample.rows
    }


def refused(sample: Sample) -> set[tuple[Any, ...]]:
    return {(each.partition, each.offset, json.dumps(each.reasons), each.value) for each in sample.refusals}


def staged(bench: RegistryBench, column: str = "_schema_id") -> set[tuple[Any, ...]]:
    return set(bench.rows(COLUMNS.replace("_schema_id", column)))


def quarantined(bench: RegistryBench) -> set[tuple[Any, ...]]:
    found = rows(bench.session, 'SELECT partition, "offset", reasons, value FROM offset_ledger.quarantine')
    return {(row[0], row[1], json.dumps(row[2]), None if row[3] is None else bytes(row[3])) for row in found}


def same_reasons(found: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Without the order of members, which a jsonb does not keep."""
    return {(*each[:2], json.dumps(json.loads(each[2]), sort_keys=True), each[3]) for each in found}


@pytest.fixture
def json_bench(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> RegistryBench:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON)
    return bench


def test_json_records_are_what_staging_makes_of_them(json_bench: RegistryBench) -> None:
    good = [b'{"id": "a%d", "amount": %d.50, "note": "n"}' % (n, n) for n in range(6)]
    json_bench.send(*good, b'{"id": "x", "amount": "y"}', b"{", b"\xff\xfe", b'{"id": null, "amount": 1.005}')
    before = ledger(json_bench)
    sample = decode_sample(json_bench.pipeline, Choice(), 100)
    assert ledger(json_bench) == before
    assert sample.start.note == "from source.start (earliest): the ledger has no pipeline orders yet"
    json_bench.ingest()
    assert previewed(sample) == staged(json_bench, "NULL")
    assert len(sample.rows) == 6
    assert same_reasons(refused(sample)) == same_reasons(quarantined(json_bench))
    assert len(sample.refusals) == 4


def test_framed_avro_records_too_and_no_schema_is_kept(bench: RegistryBench) -> None:
    bench.form = AVRO
    bench.settings |= {"format": AVRO.name}
    ids = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.send(
        *(framed(ids[0], AVRO.encode(1, {"id": f"a{n}", "amount": n})) for n in range(4)),
        *(framed(ids[1], AVRO.encode(2, {"id": f"b{n}", "amount": n, "note": "x"})) for n in range(4)),
        *(framed(2**31 - 1, b""), framed(ids[0], AVRO.poison), b"{}"),
    )
    before = ledger(bench)
    sample = decode_sample(bench.pipeline, Choice(), 100)
    assert ledger(bench) == before
    bench.ingest()
    assert previewed(sample) == staged(bench)
    assert {row.schema_id for row in sample.rows} == set(ids)
    assert same_reasons(refused(sample)) == same_reasons(quarantined(bench))
    assert len(sample.refusals) == 3
    bench.send(framed(ids[0], AVRO.encode(1, {"id": "c", "amount": 1})))
    after = ledger(bench)
    (row,) = decode_sample(bench.pipeline, Choice(), 100).rows
    assert (row.key["event_id"], row.schema_id) == ("c", ids[0])
    assert ledger(bench) == after
    with transaction(bench.session) as cursor:  # as if another registry had been there at the time
        cursor.execute("UPDATE offset_ledger.writer_schema SET text = %s", [AVRO.schema(9)])
    with pytest.raises(SchemaChanged):
        decode_sample(bench.pipeline, Choice(), 100)


def test_records_of_other_kinds_are_counted_as_skipped(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "where: {{path: $.amount, equals: 1, schema: shop.Order2}}\n  columns:"
    monkeypatch.setattr(RegistryBench, "TEMPLATE", bench.TEMPLATE.replace("columns:", where))
    bench.form = AVRO
    bench.settings |= {"format": AVRO.name}
    ids = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.send(
        *(framed(ids[0], AVRO.encode(1, {"id": f"a{n}", "amount": n})) for n in range(4)),
        *(framed(ids[1], AVRO.encode(2, {"id": f"b{n}", "amount": n, "note": "x"})) for n in range(4)),
        *(framed(2**31 - 1, b""), framed(ids[0], AVRO.poison), framed(ids[1], AVRO.poison)),
    )
    sample = decode_sample(bench.pipeline, Choice(), 100)
    assert events(sample) == ["b1"]
    assert [each.value for each in sample.refusals] == [framed(2**31 - 1, b""), framed(ids[1], AVRO.poison)]
    assert (sample.skipped, sample.records) == (8, 11)
    (committed,) = bench.ingest()
    assert (previewed(sample), committed.total.skipped) == (staged(bench), 8)
    assert (
        main(["check", "--data", str(bench.pipeline.path), "--records", "99", "--from-offset", "0", "--partition", "0"])
        == 0
    )
    assert "0 rows, 2 refused, 4 skipped; nothing was written" in capsys.readouterr().out


def test_a_registry_that_is_away_is_one_line(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(framed(1, b"{}"))
    away(monkeypatch)
    with pytest.raises(RegistryUnavailable) as error:
        decode_sample(bench.pipeline, Choice(), 1)
    assert "\n" not in str(error.value)


def events(sample: Sample) -> list[str]:
    return [row.key["event_id"] for row in sample.rows]


def test_it_begins_at_the_cursors_or_where_a_person_says(json_bench: RegistryBench) -> None:
    def send(*numbers: int) -> None:
        json_bench.send(*(b'{"id": "a%d"}' % n for n in numbers))

    send(*range(6))
    json_bench.ingest()
    send(6, 7, 8)  # in turns into both partitions
    pipeline = json_bench.pipeline
    assert events(decode_sample(pipeline, Choice(), 10)) == ["a6", "a8", "a7"]
    assert events(decode_sample(pipeline, Choice(), 2)) == ["a6", "a7"]  # a fair share of each partition
    assert events(decode_sample(pipeline, Choice(partition=1), 10)) == ["a7"]
    assert events(decode_sample(pipeline, Choice(partition=1, from_offset=1), 2)) == ["a3", "a5"]
    assert events(decode_sample(pipeline, Choice(partition=1, from_offset=99), 2)) == []
    since = decode_sample(pipeline, Choice(since=NOON + timedelta(milliseconds=4)), 10)
    assert events(since) == ["a4", "a6", "a8", "a5", "a7"]  # offsets from the first such record on
    assert events(decode_sample(pipeline, Choice(since=NOON + timedelta(days=1)), 10)) == []
    json_bench.delete_below(0, 2)
    with pytest.raises(OffsetExpired, match="the log starts at 2"):
        decode_sample(pipeline, Choice(partition=0, from_offset=1), 1)
    with pytest.raises(TerminalError, match="has no partition 2; it has 2"):
        decode_sample(pipeline, Choice(partition=2), 1)


def test_it_needs_no_postgres(json_bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    json_bench.send(b'{"id": "a"}', b"{")
    name = environment_name("postgres_default")
    nowhere = Connection("postgres_default", "postgres", "127.0.0.1", free_ports(1)[0], login="nobody")
    for value in (nowhere.to_json(), None):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
        sample = decode_sample(json_bench.pipeline, Choice(), 10)
        assert (events(sample), len(sample.refusals)) == (["a"], 1)
        assert sample.start.note.startswith("from source.start (earliest): no ledger could be asked for cursors: ")


def test_the_command_line_shows_values_cut_and_has_them_whole_in_json(
    json_bench: RegistryBench, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "long " * 30
    json_bench.send(json.dumps({"id": "a", "amount": 1, "note": text}).encode(), b'{"id": 5.5, "note": "' + b"x" * 99)
    path = str(json_bench.path)
    assert parse_pipeline(json_bench.path).name == "orders"
    assert main(["check", "--data", path, "--records", "5"]) == 0
    shown = capsys.readouterr().out
    assert text not in shown
    assert "long long" in shown
    assert '{"id": 5.5, "note": "xxxxxxxxxxx…' in shown
    assert shown.endswith("1 row, 1 refused, 0 skipped; nothing was written\n")
    assert main(["check", "--data", path, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rows"][0]["columns"] == {"amount": "1.00", "note": text}
    assert (data["records"], data["refusals"][0]["reasons"][0]["code"]) == (2, "syntax")
    assert main(["check", "--data", path, "--refused"]) == 0
    assert "long long" not in capsys.readouterr().out


def test_a_preview_names_columns_of_which_null_may_have_become_a_default(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON.replace("topic: {topic}", "topic: {topic}, envelope: debezium"))
    row = {"type": "struct", "field": "after", "optional": True, "fields": [
        {"type": "string", "field": "id"},
        {"type": "double", "field": "amount", "optional": False, "default": 7.5},
        {"type": "string", "field": "note", "optional": True, "default": "none"},
    ]}  # fmt: skip
    payload = json.loads(event("c", None, {"id": "a", "amount": 7.5, "note": "none"}))
    schema = {"type": "struct", "fields": [{"type": "string", "field": "op"}, row]}
    bench.send(json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode())
    sample = decode_sample(bench.pipeline, Choice(), 100)
    assert len(sample.rows) == 1
    (note,) = sample.notes
    assert note.startswith("note: where the source has NULL, Kafka Connect's JsonConverter writes the default")
    assert main(["check", str(bench.pipeline.path), "--data"]) == 0
    assert note in capsys.readouterr().out
