"""Columns that nobody declared: taken from a sample by the first plan, and the same for every batch after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError, TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check.decode_sample import Choice, decode_sample
from offset_ledger.operations.check.diff import diff
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures.formats import AVRO
from tests.fixtures.registry_bench import RegistryBench, framed
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
TYPES = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'public.orders'::regclass AND attnum > 0 AND NOT attisdropped
AND attname::text !~ '^(_|event_id|publish_at)' ORDER BY attnum"""
FROZEN = {"amount": "bigint", "state": "text", "customer_city": "text", "day": "date"}


class Bench(TopicBench):
    """A topic of one partition whose records are orders in JSON, and a file without columns."""

    TEMPLATE = """
pipeline: orders
source: {{topic: {topic}, start: {start}}}
record: {{event_id: $.id, publish_at: $.at, columns: {columns}{more}}}
target: {{table: orders, evolve: {evolve}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: {engine}}}
"""
    DEFAULTS = MappingProxyType(
        {"engine": "process", "columns": "auto", "evolve": "none", "start": "earliest", "more": ""}
    )

    def send(self, *names: str, **more: Any) -> None:
        """An order for each name; without a number for its amount where ``more`` says so."""
        known = [{"id": name, "at": "2026-01-01T12:00:00Z", "amount": len(name), "state": "new"} for name in names]
        place = {"customer": {"city": "Ulm"}, "day": "2026-01-01"}
        values = [json.dumps({**each, **place, **more}).encode() for each in known]
        self.publish(*(Record(None, value, (), None, 0) for value in values))

    def types(self) -> dict[str, str]:
        return dict(rows(self.session, TYPES))

    def marks(self) -> dict[str, list[str]]:
        """What the comparison says of each path or column."""
        return {line.path or line.column: [mark.text for mark in line.marks] for line in diff(self.pipeline).lines}


MANY = [f"o{n}" for n in range(30)]


def test_the_first_plan_keeps_the_columns_and_later_fields_change_nothing(bench: Bench) -> None:
    bench.send(*MANY)
    assert bench.marks()["$.amount"] == ["bigint from a sample, which the first plan keeps"]
    shown = decode_sample(bench.pipeline, Choice(), 2).rows[0]
    assert shown.values["customer_city"] == "Ulm"
    assert rows(bench.session, "SELECT to_regclass('public.orders')") == [[None]]

    planned = plan(bench.pipeline, ME).batch
    assert planned
    assert bench.types() == FROZEN
    bench.send("p1", "p2", note="new", state=1)  # of the first batch the table is there, and of no other
    bench.send("p3", note="new")
    bench.ingest()
    assert bench.types() == FROZEN
    assert set(bench.rows("event_id, amount, state, customer_city, day::text")) == {
        (name, len(name), "new", "Ulm", "2026-01-01") for name in [*MANY, "p3"]
    }
    refused = "SELECT reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine"
    assert rows(bench.session, refused) == [["$.state", "type"]] * 2
    bench.agree()

    new = 'new field; to load it, write columns: {"*": auto, note: {type: text, nullable: true}}'
    assert bench.marks()["$.note"] == [new]
    assert not diff(bench.pipeline).differs


def test_a_rerun_a_replay_and_a_redrive_have_the_kept_columns(bench: Bench) -> None:
    bench.send(*MANY)
    first = plan(bench.pipeline, ME)
    bench.send(*(f"wide{n}" for n in range(40)), amount=1.5, note="x")  # a sample of now would say otherwise
    run_batch(bench.pipeline, plan(bench.pipeline, ME), ME, quiet)
    bench.ingest()
    assert first.batch
    before = sorted(bench.rows("event_id, amount, state, _offset, _batch_id"))
    assert len(before) == len(MANY)
    replayed = run_batch(bench.pipeline, plan_replay(bench.pipeline, [OffsetRange(0, 0, 70)], ME), ME, quiet).committed
    assert (replayed.total.duplicate, replayed.total.quarantined) == (30, 40)
    redriven = plan_redrive(bench.pipeline, parse_choice(reason="type"), ME, "again")
    assert run_batch(bench.pipeline, redriven, ME, quiet).committed.total.quarantined == 40
    assert sorted(bench.rows("event_id, amount, state, _offset, _batch_id")) == before
    assert bench.types() == FROZEN
    bench.agree()


def test_a_person_adds_a_field_and_decides_about_a_type(bench: Bench) -> None:
    bench.send(*MANY)
    bench.ingest()
    bench.send("p", note="x")
    bench.settings["columns"] = (
        '{"*": auto, note: {type: text, nullable: true}, amount: {type: numeric, nullable: true}}'
    )
    with pytest.raises(TargetMismatch, match="note"):
        plan(bench.pipeline, ME)
    bench.settings["evolve"] = "widen"
    bench.ingest()
    bench.send("q", note="y", amount=2.5)
    bench.ingest()
    assert bench.types() == {**FROZEN, "amount": "numeric", "note": "text"}
    assert set(bench.rows("event_id, note, amount::text")) >= {("p", "x", "1"), ("q", "y", "2.5"), ("o1", None, "2")}
    bench.agree()


def test_few_texts_that_look_like_dates_are_texts(bench: Bench) -> None:
    bench.send("a", "b")
    bench.ingest()
    assert bench.types()["day"] == "text"


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_without_records_has_nothing_new_and_no_table_yet(bench: Bench, start: str) -> None:
    bench.settings["start"] = start
    assert bench.ingest() == []
    unknown = f"topic {bench.topic} was not sampled: nothing can be inferred"
    assert any(note.startswith(unknown) for note in diff(bench.pipeline).notes)
    assert rows(bench.session, "SELECT to_regclass('public.orders')") == [[None]]
    bench.send(*MANY)
    bench.ingest()
    assert (bench.types(), len(bench.rows("event_id"))) == (FROZEN, 30)


def test_records_that_are_no_objects_are_one_line_and_leave_nothing(bench: Bench) -> None:
    bench.publish(Record(None, b"[1]", (), None, 0))
    with pytest.raises(ConfigurationError, match=r"^none of 1 sampled records of .* is a JSON object"):
        bench.ingest()
    assert rows(bench.session, "SELECT count(*) FROM offset_ledger.batch") == [[0]]


@pytest.mark.full
def test_tasks_of_spark_have_them_too(bench: Bench) -> None:
    bench.settings["engine"] = "spark"
    bench.send(*MANY)
    plan(bench.pipeline, ME)
    bench.send("p", note="x")
    bench.ingest()
    assert (bench.types(), len(bench.rows("state"))) == (FROZEN, 31)
    bench.agree()


class AvroBench(RegistryBench):
    """A topic whose records name schemas in Avro, and a file without columns."""

    TEMPLATE = (
        RegistryBench.TEMPLATE.split("  columns:")[0]
        + "  columns: auto\n"
        + """
target: {{table: orders}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""
    )
    DEFAULTS = MappingProxyType({"format": "avro"})
    form = AVRO


def test_with_a_registry_they_come_from_the_schema(open_bench: Callable[[type[AvroBench]], AvroBench]) -> None:
    bench = open_bench(AvroBench)
    old, new = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.send(*(framed(old, AVRO.encode(1, {"id": name, "amount": ord(name)})) for name in "ab"))
    bench.ingest()
    bench.send(*(framed(new, AVRO.encode(2, {"id": name, "amount": ord(name), "note": "x"})) for name in "cd"))
    bench.ingest()
    assert dict(rows(bench.session, TYPES)) == {"amount": "bigint"}
    assert set(bench.rows("event_id, amount")) == {(name, ord(name)) for name in "abcd"}
    marks = {line.path: [mark.text for mark in line.marks] for line in diff(bench.pipeline).lines}
    assert marks["$.note"] == ["new field, nothing reads it"]
    bench.agree()


def test_records_that_a_header_says_are_of_others_give_no_columns(bench: Bench) -> None:
    bench.send("o1", "o2")
    other = json.dumps({"id": "r", "at": "2026-01-01T12:00:00Z", "reason": "late"}).encode()
    bench.publish(Record(None, other, (("kind", b"refund"),), None, 0))
    bench.settings["more"] = ", where: [{header: kind, not: refund}, {path: $.state, equals: new}]"
    bench.ingest()
    assert bench.types().keys() == {"amount", "state", "customer_city", "day"}
    assert rows(bench.session, "SELECT sum(skipped) FROM offset_ledger.batch_range")[0][0] == 1
    bench.agree()
