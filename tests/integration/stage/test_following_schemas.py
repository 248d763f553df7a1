"""Columns that follow the writers' schemas, with a real registry: boundaries, changes, questions, crashes between."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fastavro
import pytest

from offset_ledger.commit.step import Committed
from offset_ledger.connections import Connection
from offset_ledger.errors import StateConflict, TerminalError, TransientError, UndecidedSchema
from offset_ledger.failpoints import VARIABLE
from offset_ledger.ledger.database import rows, transaction
from offset_ledger.ledger.decisions import decide
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.questions import QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.accept_schema import accept_schema, schema_question
from offset_ledger.operations.answers import answer_loss, question_before_staging, record_question
from offset_ledger.operations.verify import verify
from offset_ledger.operations.verify_against_topic import compare_with_topic
from offset_ledger.plan.step import plan_replay
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.retry import VARIABLE as RETRY_SECONDS
from offset_ledger.schema_registry.client import connect_registry
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.servers import Servers
from tests.integration.stage.test_registry_formats import ME, NOON, framed
from tests.integration.stage.test_registry_formats import Bench as RegistryBench

FORMATS = pytest.mark.parametrize("form", [JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))
TEMPLATE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: {format}, registry: registry_default}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: {{type: {amount}, nullable: true}}
target: {{connection: postgres_default, table: public.orders, evolve: {evolve}, columns_from: schema}}
quality: {{max_quarantined_share: 1.0}}
"""


class Bench(RegistryBench):
    """A topic of two partitions, and a pipeline that follows the schemas of its records."""

    TEMPLATE = TEMPLATE
    DEFAULTS = MappingProxyType({"format": "avro", "amount": "bigint", "evolve": "widen"})
    sent = 0

    def put(self, partition: int, *values: bytes) -> None:
        """The values into one partition, each later than all before."""
        at = int(NOON.timestamp() * 1000) + self.sent
        self.publish(*(Record(None, value, (), at + n, partition) for n, value in enumerate(values)))
        self.sent += len(values)

    def orders(self, version: int, schema: int, names: str) -> list[bytes]:
        """An order for each letter; those of the second version have a note."""
        more = {"note": "x"} if version > 1 else {}
        return [framed(schema, self.form.encode(version, {"id": name, "amount": ord(name), **more})) for name in names]

    def types(self) -> dict[str, str]:
        query = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = 'public.orders'::regclass AND attnum > 0 AND NOT attisdropped
        AND attname::text !~ '^(_|event_id|publish_at)'"""
        return {row[0]: row[1] for row in rows(self.session, query)}

    def changes(self) -> list[tuple[Any, ...]]:
        query = "SELECT batch_id, clause FROM offset_ledger.target_change ORDER BY change_id"
        return [tuple(row) for row in rows(self.session, query)]

    def clean(self) -> None:
        """Whether ledger, table and topic agree."""
        assert verify(self.pipeline)[0] == []
        assert compare_with_topic(self.pipeline).violations == ()


@pytest.fixture
def bench(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    registry_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setenv(RETRY_SECONDS, "1")
    with Bench.open(servers, topic_name(), tmp_path, 2, {"retention.ms": "-1"}) as made:
        made.registry = connect_registry(registry_connection)
        made.form = AVRO
        yield made


def ranges(committed: Committed) -> list[OffsetRange]:
    return list(committed.batch.ranges)


@FORMATS
def test_a_new_field_is_a_column_from_the_first_record_that_has_it_on(bench: Bench, form: TestFormat) -> None:
    bench.form = form
    bench.settings |= {"format": form.name, "amount": "numeric"}
    first, second = bench.register(form.schema(1)), bench.register(form.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"), *bench.orders(1, first, "f"))
    bench.put(1, *bench.orders(1, first, "ghijk"), *bench.orders(2, second, "l"))
    (before,) = bench.ingest(until_drained=False)
    assert ranges(before) == [OffsetRange(0, 0, 3), OffsetRange(1, 0, 5)]
    assert bench.types() == {"amount": "numeric"}
    assert set(bench.rows("_partition, _offset, event_id, amount")) == {
        *((0, n, name, ord(name)) for n, name in enumerate("abc")),
        *((1, n, name, ord(name)) for n, name in enumerate("ghijk")),
    }
    after, *more = bench.ingest()
    assert more == []
    assert ranges(after) == [OffsetRange(0, 3, 6), OffsetRange(1, 5, 6)]
    kind = "jsonb" if form is JSON_SCHEMA else "text"
    note = '"x"' if form is JSON_SCHEMA else "x"
    assert bench.types() == {"amount": "numeric", "note": kind}
    assert bench.changes() == [(after.batch.batch_id, f"ADD COLUMN note {kind}")]
    noted = {"d": note, "e": note, "l": note}
    assert set(bench.rows("_partition, _offset, event_id, amount, note::text")) == {
        *((0, n, name, ord(name), noted.get(name)) for n, name in enumerate("abcdef")),
        *((1, n, name, ord(name), noted.get(name)) for n, name in enumerate("ghijkl")),
    }
    bench.clean()


def avro(**types: Any) -> str:
    fields = [{"name": "id", "type": "string"}, *({"name": name, "type": type_} for name, type_ in types.items())]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def written(text: str, schema: int, **document: Any) -> bytes:
    """The document in Avro as fastavro writes it, with its frame."""
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(text)), document)
    return framed(schema, payload.getvalue())


def test_each_change_of_a_schema_ends_one_batch_and_no_partition_waits_for_another(bench: Bench) -> None:
    """An int becomes a long, then a field is added; one partition never has another schema than the first."""
    bench.settings["amount"] = "integer"
    texts = [avro(amount="int"), avro(amount="long"), avro(amount="long", x="float"), avro(amount="long", x="double")]
    ids = [bench.register(text) for text in texts]
    big = 2**40
    bench.put(0, *(written(texts[0], ids[0], id=f"a{n}", amount=n) for n in range(3)))
    bench.put(0, written(texts[1], ids[1], id="b", amount=big))
    bench.put(0, written(texts[2], ids[2], id="c", amount=big, x=0.5))
    bench.put(1, *(written(texts[0], ids[0], id=f"d{n}", amount=n) for n in range(2)))
    done = bench.ingest()
    assert [ranges(each) for each in done] == [
        [OffsetRange(0, 0, 3), OffsetRange(1, 0, 2)],
        [OffsetRange(0, 3, 4)],
        [OffsetRange(0, 4, 5)],
    ]
    bench.put(0, written(texts[3], ids[3], id="e", amount=1, x=0.1))
    bench.put(1, *(written(texts[0], ids[0], id=f"f{n}", amount=n) for n in range(2)))
    done += bench.ingest()
    assert ranges(done[3]) == [OffsetRange(0, 5, 6), OffsetRange(1, 2, 4)]
    assert bench.changes() == [
        (done[1].batch.batch_id, "ALTER COLUMN amount TYPE bigint USING amount::bigint"),
        (done[2].batch.batch_id, "ADD COLUMN x real"),
        (done[3].batch.batch_id, "ALTER COLUMN x TYPE double precision USING x::double precision"),
    ]
    assert set(bench.rows("event_id, amount, x, _schema_id")) == {
        *((f"a{n}", n, None, ids[0]) for n in range(3)),
        *((f"{name}{n}", n, None, ids[0]) for name in "df" for n in range(2)),
        ("b", big, None, ids[1]),
        ("c", big, 0.5, ids[2]),
        ("e", 1, 0.1, ids[3]),
    }
    bench.clean()


def test_a_batch_that_begins_with_two_schemas_brings_the_columns_of_both(bench: Bench) -> None:
    texts = [avro(amount="long", **more) for more in ({"a": "string"}, {"b": "boolean"}, {"a": "string", "c": "long"})]
    ids = [bench.register(text) for text in texts]
    bench.put(0, written(texts[0], ids[0], id="x", amount=1, a="A"))
    bench.put(0, written(texts[2], ids[2], id="z", amount=3, a="B", c=9))
    bench.put(1, written(texts[1], ids[1], id="y", amount=2, b=True))
    done = bench.ingest()
    assert [ranges(each) for each in done] == [[OffsetRange(0, 0, 1), OffsetRange(1, 0, 1)], [OffsetRange(0, 1, 2)]]
    assert set(bench.rows("event_id, amount, a, b, c")) == {
        ("x", 1, "A", None, None),
        ("y", 2, None, True, None),
        ("z", 3, "B", None, 9),
    }
    first, second = (each.batch.batch_id for each in done)
    query = "SELECT name, type, path, schema_id, batch_id FROM offset_ledger.followed_column"
    assert {(*row[:2], tuple(row[2]), *row[3:]) for row in rows(bench.session, query)} == {
        ("a", "text", ("a",), ids[0], first),
        ("b", "boolean", ("b",), ids[1], first),
        ("c", "bigint", ("c",), ids[2], second),
    }
    bench.clean()


PLACES = ["slice_committed", "after_boundary", "after_stage", "before_merge", "after_merge", "after_commit"]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_fails_anywhere_is_made_good_by_the_next(
    bench: Bench, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    bench.put(1, *bench.orders(1, first, "fg"), *bench.orders(2, second, "h"))
    for failing in (True, place != "after_boundary"):  # the second batch knows what it begins with
        if failing:
            monkeypatch.setenv(VARIABLE, f"{place}=fail")
            with pytest.raises(TransientError, match=f"failpoint {place}"):
                bench.ingest(until_drained=False)
            monkeypatch.delenv(VARIABLE)
            committed = [row[0] for row in rows(bench.session, "SELECT state FROM offset_ledger.batch")]
            assert ("note" in bench.types()) is (committed == ["committed", "committed"])
        if place != "after_commit":
            bench.ingest(until_drained=False)
    ends = rows(bench.session, "SELECT batch_id, state, partition, until_offset FROM offset_ledger.batch"
                " JOIN offset_ledger.batch_range USING (batch_id) ORDER BY batch_id, partition")  # fmt: skip
    assert [tuple(row[1:]) for row in ends] == [
        *(("committed", 0, 3), ("committed", 1, 2)),
        *(("committed", 0, 5), ("committed", 1, 3)),
    ]
    assert bench.changes() == [(ends[-1][0], "ADD COLUMN note text")]
    assert bench.ingest() == []
    assert set(bench.rows("_partition, _offset, event_id, amount, note")) == {
        *((0, n, name, ord(name), "x" if n > 2 else None) for n, name in enumerate("abcde")),
        *((1, n, name, ord(name), "x" if n > 1 else None) for n, name in enumerate("fgh")),
    }
    bench.clean()


def test_a_process_that_is_killed_after_the_cut_leaves_a_batch_that_ends_there(bench: Bench) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    command = [sys.executable, "-m", "offset_ledger.cli", "ingest", str(bench.path)]
    killed = subprocess.run(command, env={**os.environ, VARIABLE: "after_boundary=kill"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    (batch,) = rows(bench.session, "SELECT batch_id, state, epoch FROM offset_ledger.batch")
    planned = rows(bench.session, "SELECT from_offset, until_offset FROM offset_ledger.batch_range")
    assert (batch["state"], batch["epoch"], [list(row) for row in planned]) == ("staging", 1, [[0, 3]])
    assert set(bench.rows("event_id")) == set()
    done = bench.ingest()
    assert [ranges(each) for each in done] == [[OffsetRange(0, 0, 3)], [OffsetRange(0, 3, 5)]]
    assert set(bench.rows("event_id, note")) == {*((name, None) for name in "abc"), *((name, "x") for name in "de")}
    bench.clean()


def test_an_abandoned_batch_leaves_no_column_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    second = bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(2, second, "ab"))
    monkeypatch.setenv(VARIABLE, "before_merge=fail")
    with pytest.raises(TransientError):
        bench.ingest()
    monkeypatch.delenv(VARIABLE)
    (open_batch,) = rows(bench.session, "SELECT batch_id FROM offset_ledger.batch")
    with open_ledger(bench.pipeline) as session:
        decide(session, open_batch[0], State.ABANDONED, ME, "a test")
    assert "note" not in bench.types()
    with transaction(bench.session) as cursor:
        assert with_columns(cursor, bench.pipeline) == bench.pipeline
    (done,) = bench.ingest()
    assert bench.changes() == [(done.batch.batch_id, "ADD COLUMN note text")]
    assert set(bench.rows("event_id, note")) == {("a", "x"), ("b", "x")}
    bench.clean()


def test_a_replay_over_the_boundary_changes_nothing(bench: Bench) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    bench.ingest()
    columns = "event_id, amount, note, _schema_id, _partition, _offset, _batch_id"
    before, changes = set(bench.rows(columns)), bench.changes()
    replayed = bench.run(plan_replay(bench.pipeline, [OffsetRange(0, 0, 5)], ME, BatchKind.REPLAY))
    assert (ranges(replayed), replayed.total.duplicate) == ([OffsetRange(0, 0, 5)], 5)
    assert (set(bench.rows(columns)), bench.changes()) == (before, changes)
    bench.clean()


TEXT = "string in the schema, bigint in the table: records are quarantined (expected integer, got string)"


def a_question(bench: Bench) -> tuple[list[int], str]:
    """Two records, then two whose amount is a text and which have a note; the ids of both schemas, and the texts."""
    texts = [avro(amount="long"), avro(amount="string", note="string")]
    ids = [bench.register(text) for text in texts]
    bench.put(0, *(written(texts[0], ids[0], id=f"a{n}", amount=n) for n in range(2)))
    bench.put(0, *(written(texts[1], ids[1], id=f"b{n}", amount="many", note="x") for n in range(2)))
    return ids, texts[1]


def epochs(bench: Bench) -> list[list[Any]]:
    return [list(row) for row in rows(bench.session, "SELECT state, epoch FROM offset_ledger.batch ORDER BY batch_id")]


def test_what_no_column_fits_is_asked_and_an_approval_leaves_the_columns_as_they_are(bench: Bench) -> None:
    ids, text = a_question(bench)
    (done,) = bench.ingest(until_drained=False)
    assert (ranges(done), schema_question(bench.pipeline)) == ([OffsetRange(0, 0, 2)], None)
    with pytest.raises(UndecidedSchema) as error:
        bench.ingest()
    difference = f"$.amount: {TEXT}"
    assert str(error.value) == (
        f"topic {bench.topic}: schema id {ids[1]} (from 0:2) has {difference}; nothing was staged; correct the "
        "pipeline file or the producer, or leave the columns as they are with: offset-ledger accept-schema orders --why "
        "..."
    )
    assert epochs(bench) == [["committed", 2], ["planned", 0]]
    question = question_before_staging(bench.pipeline)
    assert question is not None
    assert (question.kind, question.batch_id) == (QuestionKind.CHANGED_SCHEMA, done.batch.batch_id + 1)
    assert question.details == {
        "schemas": [f"schema id {ids[1]}"],
        "begins": {"0": 2},
        "differences": [difference],
        "adds": ["note text"],
    }
    rejected = record_question(bench.pipeline, question)
    assert answer_loss(bench.pipeline, rejected, QuestionAnswer.REJECT, ME, "later") is QuestionAnswer.REJECT
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    approved = record_question(bench.pipeline, question)
    assert answer_loss(bench.pipeline, approved, QuestionAnswer.APPROVE, ME, "known") is QuestionAnswer.APPROVE
    assert question_before_staging(bench.pipeline) is None
    bench.put(1, written(text, ids[1], id="c", amount="none", note="y"))
    bench.ingest()
    assert bench.types() == {"amount": "bigint", "note": "text"}
    assert {row[0] for row in bench.rows("event_id")} == {"a0", "a1"}
    bad = {written(text, ids[1], id=f"b{n}", amount="many", note="x") for n in range(2)}
    bad.add(written(text, ids[1], id="c", amount="none", note="y"))
    assert bench.quarantine() == {(value, "type", ids[1]) for value in bad}
    decided = rows(bench.session, "SELECT kind, answer, why FROM offset_ledger.decision ORDER BY decision_id")
    assert [tuple(row) for row in decided] == [
        ("changed_schema", "reject", "later"),
        ("changed_schema", "approve", "known"),
    ]
    bench.clean()


def test_an_accepted_difference_is_not_asked_about_again(bench: Bench) -> None:
    a_question(bench)
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    other = replace(schema_question(bench.pipeline), details={"differences": []})
    with pytest.raises(StateConflict, match="other differences were approved"):
        accept_schema(bench.pipeline, ME, "no", other)
    accepted = accept_schema(bench.pipeline, ME, "known")
    assert [str(each) for each in accepted] == [f"$.amount: {TEXT}"]
    with pytest.raises(TerminalError, match="no schema waits for a decision"):
        accept_schema(bench.pipeline, ME, "twice")
    later = avro(amount="string", note="string", more="long")
    bench.put(0, written(later, bench.register(later), id="c", amount="none", note="y", more=1))
    bench.ingest()
    assert bench.types() == {"amount": "bigint", "note": "text", "more": "bigint"}
    assert len(bench.quarantine()) == 3


def test_a_file_that_declares_the_column_answers_too(bench: Bench) -> None:
    ids, _ = a_question(bench)
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    bench.settings["amount"] = "bigint, path: $.number"  # none has it
    with pytest.raises(UndecidedSchema, match=r"\$\.amount: a new field, and amount is another column"):
        bench.ingest()
    bench.settings["amount"] = "bigint, path: $.number, nullable: true}\n    counted: {type: text, path: $.amount"
    bench.ingest()
    assert set(bench.rows("event_id, amount, counted, note, _schema_id")) == {
        ("a0", 0, None, None, ids[0]),
        ("a1", 1, None, None, ids[0]),
        ("b0", None, "many", "x", ids[1]),
        ("b1", None, "many", "x", ids[1]),
    }


def test_a_new_type_of_a_column_that_a_schema_made_is_asked_about(bench: Bench) -> None:
    """And a record that has no such field at all has NULL."""
    texts = [avro(day={"type": "int", "logicalType": "date"}), avro(), avro(day="string")]
    ids = [bench.register(text) for text in texts]
    bench.put(0, written(texts[0], ids[0], id="a", day=date(2026, 1, 2)), written(texts[1], ids[1], id="b"))
    bench.ingest()
    assert set(bench.rows("event_id, day")) == {("a", date(2026, 1, 2)), ("b", None)}
    bench.put(0, written(texts[2], ids[2], id="c", day="tomorrow"))
    with pytest.raises(
        UndecidedSchema, match=r"\$\.day: string in the schema, date in the table: texts that are no date"
    ):
        bench.ingest()
