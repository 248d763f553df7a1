"""Columns that follow the writers' schemas: each change ends one batch, the next brings the columns, whoever fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import MappingProxyType

import pytest

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.errors import TransientError, UndecidedSchema
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_named
from offset_ledger.postgres.ledger.database import open_ledger, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.steps.plan.step import PlannedBatch, plan, plan_ahead, plan_replay
from offset_ledger.steps.plan.topics import find_pipelines
from offset_ledger.steps.stage.step import stage
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.following import TEMPLATE, Bench, avro, bench, ranges, written
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.registry_bench import ME, open_bench

__all__ = ["bench", "open_bench"]  # fixtures

FORMATS = pytest.mark.parametrize("form", [JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))


@FORMATS
def test_a_new_field_is_a_column_from_the_first_record_that_has_it_on(
    bench: Bench, form: TestFormat, engine: str
) -> None:
    bench.form = form
    bench.settings |= {"format": form.name, "amount": "numeric", "engine": engine}
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
    bench.agree()


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
    bench.agree()


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
    bench.agree()


def test_a_replay_over_the_boundary_changes_nothing(bench: Bench) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    bench.ingest()
    columns = "event_id, amount, note, _schema_id, _partition, _offset, _batch_id"
    before, changes = set(bench.rows(columns)), bench.changes()
    replayed = bench.run(plan_replay(bench.pipeline, [OffsetRange(0, 0, 5)], ME, BatchKind.REPLAY))
    assert (ranges(replayed), replayed.total.duplicate) == ([OffsetRange(0, 0, 5)], 5)
    assert (set(bench.rows(columns)), bench.changes()) == (before, changes)
    bench.agree()


def test_topics_of_one_table_have_their_columns_together(bench: Bench, topic_name: Callable[[], str]) -> None:
    """The second topic meets the schema later, and needs nothing any more; then a type that the column cannot take."""
    topics = [bench.topic, other := topic_name()]
    create_topic(dict(bench.servers.kafka.extra), other, 1, 1, {"retention.ms": "-1"})
    path = bench.path
    path.write_text(path.read_text().replace(f"topic: {bench.topic}", f"topics: [{', '.join(topics)}]"))
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.registry.register(f"{other}-value", AVRO.language, AVRO.schema(1))
    bench.registry.register(f"{other}-value", AVRO.language, AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "a"), *bench.orders(2, second, "b"))
    later = [Record(None, value, (), 1_790_000_000_000, 0) for value in bench.orders(2, second, "cd")]
    publish(later, dict(bench.servers.kafka.extra), other)
    pipelines = sorted(find_pipelines(parse_named(str(path))), key=lambda each: topics.index(each.source.topic))
    done = [each for pipeline in pipelines for each in bench.ingest(pipeline=pipeline)]
    assert [(each.batch.pipeline, ranges(each)) for each in done] == [
        (f"orders@{bench.topic}", [OffsetRange(0, 0, 1)]),
        (f"orders@{bench.topic}", [OffsetRange(0, 1, 2)]),
        (f"orders@{other}", [OffsetRange(0, 0, 2)]),
    ]
    assert bench.changes() == [(done[1].batch.batch_id, "ADD COLUMN note text")]
    assert set(bench.rows("event_id, note, _topic")) == {
        ("a", None, bench.topic),
        ("b", "x", bench.topic),
        ("c", "x", other),
        ("d", "x", other),
    }
    for pipeline in pipelines:
        assert verify(pipeline)[0] == []
        assert compare_with_topic(pipeline).violations == ()
    text = avro(note="long")
    bench.registry.register(f"{other}-value", AVRO.language, text)
    value = written(text, bench.register(text), id="e", note=1)
    publish([Record(None, value, (), 1_790_000_000_001, 0)], dict(bench.servers.kafka.extra), other)
    with pytest.raises(UndecidedSchema, match=rf"accept schema orders@{other} --why"):
        bench.ingest(pipeline=pipelines[1])


class Limited(Bench):
    """Batches of three records, and perhaps a column ``note`` in the pipeline file."""

    TEMPLATE = TEMPLATE.replace("nullable: true}}\n", "nullable: true}}{more}\n") + "limits: {{records_per_batch: 3}}\n"
    DEFAULTS = MappingProxyType({**Bench.DEFAULTS, "more": ""})

    def staged(self, plans: Callable[..., PlannedBatch] = plan) -> Batch:
        planned = plans(self.pipeline, ME).batch
        assert planned is not None
        stage(BY_PROCESS, self.pipeline, planned.batch_id, ME)
        return planned

    def ends(self) -> list[tuple[int, str, int]]:
        query = (
            "SELECT batch_id, state, until_offset FROM offset_ledger.batch"
            " JOIN offset_ledger.batch_range USING (batch_id) ORDER BY 1"
        )
        return [(row[0], row[1], row[2]) for row in rows(self.session, query)]

    def has(self, names: str, noted: str) -> bool:
        self.agree()
        there = sorted(self.rows("_partition, _offset, event_id, note"))
        return there == [(0, n, name, "x" if name in noted else None) for n, name in enumerate(names)]


@pytest.fixture
def limited(open_bench: Callable[[type[Limited]], Limited]) -> Limited:
    return open_bench(Limited)


def test_nothing_is_planned_ahead_of_a_batch_that_ends_at_a_schema_or_brings_its_columns(limited: Limited) -> None:
    first, second = limited.register(AVRO.schema(1)), limited.register(AVRO.schema(2))
    limited.put(0, *limited.orders(1, first, "ab"), *limited.orders(2, second, "cdefghijk"))
    limited.staged()
    assert limited.ends() == [(1, "staged", 2)]
    assert plan_ahead(limited.pipeline, ME).message.endswith("may change the columns")
    limited.ingest(until_drained=False)
    limited.staged()
    assert plan_ahead(limited.pipeline, ME).message.endswith("may change the columns")
    limited.ingest(until_drained=False)
    limited.staged()
    assert limited.staged(plan_ahead).ranges == (OffsetRange(0, 8, 11),)
    limited.ingest()
    assert limited.ends() == [(1, "committed", 2), (2, "committed", 5), (3, "committed", 8), (4, "committed", 11)]
    assert limited.has("abcdefghijk", "cdefghijk")


@pytest.mark.parametrize("before", [3, 4], ids=["begins with it", "ends before it"])
def test_a_batch_ahead_that_meets_a_schema_itself_brings_its_columns_or_ends_there(
    limited: Limited, before: int
) -> None:
    first, second = limited.register(AVRO.schema(1)), limited.register(AVRO.schema(2))
    old, new = "abcdefgh"[:before], "abcdefgh"[before:]
    limited.put(0, *limited.orders(1, first, old), *limited.orders(2, second, new))
    limited.staged()
    limited.staged(plan_ahead)
    assert limited.ends() == [(1, "staged", 3), (2, "staged", 6 if before == 3 else 4)]
    limited.ingest()
    assert [state for _, state, _ in limited.ends()] == ["committed"] * before
    assert limited.changes() == [(before - 1, "ADD COLUMN note text")]
    assert limited.has("abcdefgh", new)


def test_a_batch_ahead_goes_when_the_one_before_it_is_to_end_earlier(limited: Limited) -> None:
    """The pipeline file had the column, and has it no more, so that the schemas bring it."""
    first, second = limited.register(AVRO.schema(1)), limited.register(AVRO.schema(2))
    limited.put(0, *limited.orders(1, first, "ab"), *limited.orders(2, second, "cdef"))
    limited.settings["more"] = "\n    note: {type: text, nullable: true}"
    limited.staged()
    limited.staged(plan_ahead)
    assert limited.ends() == [(1, "staged", 3), (2, "staged", 6)]
    limited.settings["more"] = ""
    limited.execute("ALTER TABLE public.orders DROP COLUMN note")
    limited.staged()
    assert limited.ends() == [(1, "staged", 2), (2, "abandoned", 6)]
    limited.ingest()
    assert limited.ends() == [(1, "committed", 2), (2, "abandoned", 6), (3, "committed", 5), (4, "committed", 6)]
    assert limited.has("abcdef", "cdef")


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
    bench.agree()


def test_a_process_that_is_killed_after_the_cut_leaves_a_batch_that_ends_there(bench: Bench) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    command = [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(bench.path)]
    killed = subprocess.run(command, env={**os.environ, VARIABLE: "after_boundary=kill"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    (batch,) = rows(bench.session, "SELECT batch_id, state, epoch FROM offset_ledger.batch")
    planned = rows(bench.session, "SELECT from_offset, until_offset FROM offset_ledger.batch_range")
    assert (batch["state"], batch["epoch"], [list(row) for row in planned]) == ("staging", 1, [[0, 3]])
    assert set(bench.rows("event_id")) == set()
    done = bench.ingest()
    assert [ranges(each) for each in done] == [[OffsetRange(0, 0, 3)], [OffsetRange(0, 3, 5)]]
    assert set(bench.rows("event_id, note")) == {*((name, None) for name in "abc"), *((name, "x") for name in "de")}
    bench.agree()


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
    bench.agree()
