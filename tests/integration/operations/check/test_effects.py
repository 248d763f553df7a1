"""Nothing is written: a preview has the rows and refusals of staging; registry, file and table are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from offset_ledger.errors import OffsetExpired, RegistryUnavailable, SchemaChanged, TerminalError, TransientError
from offset_ledger.operations.check.decode_sample import Choice, Sample, decode_sample
from offset_ledger.operations.check.diff import Diff, diff
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.debezium import event
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.registry_bench import NOON, RegistryBench, away, framed
from tests.fixtures.tables import do

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


CHANGED = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: {format}, registry: registry_default{subject}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: {{type: integer, nullable: true}}
    note: {{type: text}}
    flag: {{type: boolean, nullable: true}}
    more: {{type: text, nullable: true}}
target: {{connection: postgres_default, table: public.orders, evolve: {evolve}}}
"""
SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", "long"], "default": None},
        {"name": "flag", "type": ["null", "string"], "default": None},
        {"name": "price", "type": "double", "default": 0},
    ],
}


def marks(found: Diff) -> set[tuple[str, str, bool]]:
    return {(line.column or line.path, mark.text, mark.matters) for line in found.lines for mark in line.marks}


def kinds(found: Diff) -> dict[str, tuple[str, str, str]]:
    return {line.column or line.path: (line.schema, line.file, line.table) for line in found.lines}


def ingested(bench: RegistryBench, form: TestFormat = AVRO) -> None:
    """The table is there, with the columns amount and note."""
    bench.form = form
    bench.settings |= {"format": form.name, "subject": "", "evolve": "none"}
    schema = bench.register(form.schema(2))
    bench.send(framed(schema, form.encode(2, {"id": "a", "amount": 1, "note": "x"})))
    bench.ingest()


@pytest.mark.parametrize("form", [AVRO, PROTOBUF], ids=lambda form: str(form.name))
def test_what_fits_has_no_marks(bench: RegistryBench, form: TestFormat) -> None:
    ingested(bench, form)
    found = diff(bench.pipeline)
    assert marks(found) == set()
    assert (found.differs, found.notes, found.schemas) == (False, (), (f"{bench.topic}-value version 1",))
    shown = "long, null" if form is AVRO else "int64, null"
    assert kinds(found) == {
        "event_id": ("string", "text", "text"),
        "publish_at": ("", "timestamp with time zone", "timestamp with time zone"),
        "amount": (shown, "bigint, null", "bigint"),
        "note": ("string, null", "text, null", "text"),
    }


def test_each_difference_is_marked_with_what_it_means(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ingested(bench)
    bench.register(json.dumps(SCHEMA))
    do(
        bench.session,
        "ALTER TABLE public.orders ADD COLUMN own integer NOT NULL DEFAULT 1, ADD COLUMN odd integer",
        "UPDATE public.orders SET odd = 1",
        "ALTER TABLE public.orders ALTER COLUMN odd SET NOT NULL",
    )
    monkeypatch.setattr(RegistryBench, "TEMPLATE", CHANGED)
    before = ledger(bench)
    found = diff(bench.pipeline)
    alter = "ALTER TABLE public.orders"
    of_schema: set[tuple[str, str, bool]] = {
        ("amount", "long in the schema, integer in the file: values from 2^31 on are quarantined; write bigint", True),
        ("note", "not in the schema, and not nullable: records are quarantined", True),
        (
            "flag",
            "string in the schema, boolean in the file: records are quarantined (expected boolean, got string)",
            True,
        ),
        ("more", "not in the schema: NULL", True),
        ("$.price", "new field, nothing reads it", False),
    }
    of_table: set[tuple[str, str, bool]] = {
        (
            "amount",
            f"column amount is bigint, declared integer: run {alter} ALTER COLUMN amount TYPE integer USING"
            " amount::integer",
            True,
        ),
        (
            "odd",
            f"column odd is NOT NULL without a default and not declared: run {alter} ALTER COLUMN odd DROP NOT NULL",
            True,
        ),
    }
    added = {("flag", "boolean"), ("more", "text")}
    missing = {
        (name, f"column {name} {kind} is missing: run {alter} ADD COLUMN {name} {kind}", True) for name, kind in added
    }
    assert marks(found) == of_schema | of_table | missing
    assert kinds(found)["amount"] == ("long, null", "integer, null", "bigint")
    bench.settings["evolve"] = "add_columns"
    made = {
        (name, f"column {name} {kind} is missing: the next commit runs {alter} ADD COLUMN {name} {kind}", False)
        for name, kind in added
    }
    assert marks(diff(bench.pipeline)) == of_schema | of_table | made
    assert main(["check", "--schema", str(bench.path)]) == 1
    shown = capsys.readouterr().out
    assert "! amount" not in shown
    assert "! $.amount: long in the schema, integer in the file" in shown
    assert "+ $.price: new field, nothing reads it" in shown
    assert main(["check", "--schema", str(bench.path), "--json"]) == 1
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (data["differs"], len(data["lines"])) == (True, len(found.lines))
    assert ledger(bench) == before


def test_json_without_a_registry_is_file_against_table(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON)
    found = diff(bench.pipeline)
    assert (marks(found), found.schemas) == (set(), ())
    assert found.notes == (
        "records in JSON without a registry have no schema: the file is compared with the table alone",
        "table public.orders does not exist yet; the first batch creates it",
    )
    bench.send(b'{"id": "a"}')
    bench.ingest()
    bench.execute("ALTER TABLE public.orders DROP COLUMN note")
    text = "column note text is missing: run ALTER TABLE public.orders ADD COLUMN note text"
    assert marks(diff(bench.pipeline)) == {("note", text, True)}
    name = environment_name("postgres_default")
    monkeypatch.setenv(name, Connection("", "postgres", "127.0.0.1", free_ports(1)[0], login="nobody").to_json())
    assert main(["check", "--schema", str(bench.path)]) == 0
    assert "table public.orders was not compared: Postgres of connection 'postgres_default'" in capsys.readouterr().out


def test_the_subjects_of_other_strategies(bench: RegistryBench) -> None:
    ingested(bench, JSON_SCHEMA)
    name = f"{bench.topic}-Order2"
    assert diff(bench.pipeline).schemas == (f"{bench.topic}-value version 1",)
    source = "registry: registry_default"
    text = bench.path.read_text()

    def of(strategy: str) -> Diff:
        from offset_ledger.pipeline_file.parse import parse_pipeline

        path = bench.folder / "other.yaml"
        path.write_text(text.replace(source, f"{source}, subject: {strategy}"))
        return diff(parse_pipeline(path))

    own = [each for each in of("any").schemas if each.startswith(bench.topic)]  # other tests register the same text
    assert own == [f"{bench.topic}-value version 1"]
    assert of("topic_record").notes == (
        "no subject is known by source.subject: topic_record, because no record was read yet",
    )
    bench.register(JSON_SCHEMA.schema(2), name)
    assert of("topic_record").schemas == (f"{name} version 1",)


def test_a_comparison_with_a_registry_that_is_away_is_one_line(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away(monkeypatch)
    with pytest.raises(RegistryUnavailable):
        diff(bench.pipeline)
    assert main(["check", "--schema", str(bench.path)]) == TransientError.exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len([line for line in shown.err.splitlines() if line.startswith("offset-ledger: ")]) == 1
