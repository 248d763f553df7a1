"""The registry, the pipeline file and the table compared on real servers; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from offset_ledger.errors import RegistryUnavailable, TransientError
from offset_ledger.operations.check.diff import Diff, diff
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.registry_bench import RegistryBench, away, framed
from tests.fixtures.tables import do
from tests.integration.operations.check.test_decode_sample import JSON, ledger

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


@pytest.fixture
def bench(open_bench: Callable[[type[RegistryBench]], RegistryBench]) -> RegistryBench:
    return open_bench(RegistryBench)


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


def test_a_registry_that_is_away_is_one_line(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away(monkeypatch)
    with pytest.raises(RegistryUnavailable):
        diff(bench.pipeline)
    assert main(["check", "--schema", str(bench.path)]) == TransientError.exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len([line for line in shown.err.splitlines() if line.startswith("offset-ledger: ")]) == 1
