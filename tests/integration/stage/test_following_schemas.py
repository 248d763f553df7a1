"""Columns that follow the writers' schemas, with a real registry: boundaries, changes, questions, crashes between."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fastavro
import pytest

from offset_ledger.commit.step import Committed
from offset_ledger.connections import Connection
from offset_ledger.errors import TransientError
from offset_ledger.failpoints import VARIABLE
from offset_ledger.ledger.database import rows, transaction
from offset_ledger.ledger.decisions import decide
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
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
