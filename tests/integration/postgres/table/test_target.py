"""The target table: what else acts on it, which columns were ours, and what is refused before anything is written."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError, LedgerViolation, TargetMismatch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Merge, Pipeline
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import Session, connect, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import execute
from tests.fixtures.staged import ME, Event, a_pipeline, a_snapshot, planned, staged, validated
from tests.fixtures.tables import do
from tests.integration.postgres.committed import BOTH, rows, run


def stands(session: Session, columns: str = "event_id, state, _partition, _offset") -> set[tuple[object, ...]]:
    return set(rows(session, f"SELECT {columns} FROM orders"))


def sheet(session: Session, batch_id: int) -> list[tuple[object, ...]]:
    """Inserted, updated, superseded, duplicate and deleted of each partition."""
    return rows(
        session,
        "SELECT inserted, updated, superseded, duplicate, deleted FROM offset_ledger.batch_range"
        f" WHERE batch_id = {batch_id} ORDER BY partition",
    )


def trigger(session: Session, body: str, when: str = "BEFORE UPDATE", each: str = "ROW", on: str = "orders") -> None:
    do(
        session,
        f"CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
        f"CREATE TRIGGER guards {when} ON {on} FOR EACH {each} EXECUTE FUNCTION guard()",
    )


def refused(session: Session, pipeline: Pipeline) -> str:
    with pytest.raises(TargetMismatch) as caught, transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    return str(caught.value)


FIRST = [Event(1, 0, 0, "a"), Event(1, 0, 1, "b")]
THERE = {("a", "1/0/0", 0, 0), ("b", "1/0/1", 0, 1)}


# -- triggers that change what the merge writes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "body"),
    [
        pytest.param("BEFORE UPDATE", "RETURN NULL;", id="suppresses"),
        pytest.param("BEFORE UPDATE", "RETURN OLD;", id="returns-old"),
        pytest.param("BEFORE UPDATE", "NEW._offset := OLD._offset; RETURN NEW;", id="keeps-the-place"),
        pytest.param(
            "BEFORE UPDATE", "NEW.publish_at := NEW.publish_at + interval '1 day'; RETURN NEW;", id="later-publish_at"
        ),
        pytest.param(
            "BEFORE UPDATE", "NEW.publish_at := NEW.publish_at - interval '1 day'; RETURN NEW;", id="older-publish_at"
        ),
        pytest.param("BEFORE UPDATE", "NEW._batch_id := OLD._batch_id; RETURN NEW;", id="keeps-the-batch"),
        pytest.param("BEFORE UPDATE", "NEW.state := upper(NEW.state) || '!'; RETURN NEW;", id="another-value"),
        pytest.param("BEFORE UPDATE", "NEW.note := 'filled'; RETURN NEW;", id="fills-a-declared-column"),
        pytest.param(
            "AFTER UPDATE",
            "IF pg_trigger_depth() = 1 THEN UPDATE orders SET state = 'x' WHERE event_id = NEW.event_id; END IF;"
            " RETURN NULL;",
            id="changes-it-afterwards",
        ),
        pytest.param(
            "AFTER UPDATE",
            "IF pg_trigger_depth() = 1 THEN UPDATE orders SET publish_at = 'infinity' WHERE event_id = NEW.event_id;"
            " END IF; RETURN NULL;",
            id="changes-the-order-afterwards",
        ),
        pytest.param(
            "AFTER UPDATE", "DELETE FROM orders WHERE event_id = NEW.event_id; RETURN NULL;", id="deletes-it-afterwards"
        ),
    ],
)
def test_a_trigger_that_changes_an_update_stops_the_commit(session: Session, when: str, body: str) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    trigger(session, body, when)
    with pytest.raises(LedgerViolation, match=r"event 'a' .*triggers.*guards"):
        run(session, pipeline, [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session) == THERE
    assert rows(session, "SELECT next_offset FROM offset_ledger.cursor") == [(2,)]


@pytest.mark.parametrize("body", ["RETURN NULL;", "RETURN OLD;"])
def test_a_row_of_equal_publish_at_that_should_win_is_no_duplicate(session: Session, body: str) -> None:
    """The greater offset wins; a trigger that keeps the old row made the loss look like a duplicate."""
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    trigger(session, body)
    with pytest.raises(LedgerViolation, match=r"event 'a' .*guards"):
        run(session, pipeline, [OffsetRange(0, 2, 3)], [Event(1, 0, 2, "a")])
    assert stands(session) == THERE


@BOTH
@pytest.mark.parametrize(
    ("when", "body"),
    [
        pytest.param("BEFORE INSERT", "RETURN NULL;", id="suppresses"),
        pytest.param("BEFORE INSERT", "NEW.state := 'x'; RETURN NEW;", id="another-value"),
        pytest.param("BEFORE INSERT", "NEW.event_id := NEW.event_id || '!'; RETURN NEW;", id="another-event"),
        pytest.param("BEFORE INSERT", "NEW._partition := 7; RETURN NEW;", id="another-place"),
        pytest.param(
            "AFTER INSERT", "UPDATE orders SET note = 'x' WHERE event_id = NEW.event_id; RETURN NULL;", id="afterwards"
        ),
    ],
)
def test_a_trigger_that_changes_an_insert_stops_the_commit(session: Session, how: Merge, when: str, body: str) -> None:
    pipeline = a_pipeline(merge=how)
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    trigger(session, body, when)
    with pytest.raises(LedgerViolation, match=r"event 'a' .*guards"):
        run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    assert stands(session) == set()


def test_a_constraint_trigger_that_waits_for_the_commit_is_seen(session: Session) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    do(
        session,
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN UPDATE orders SET state = 'late' WHERE event_id = NEW.event_id; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER comes_late AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION late()",
    )
    with pytest.raises(LedgerViolation, match=r"event 'a' .*comes_late"):
        run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    assert stands(session) == set()


@BOTH
@pytest.mark.parametrize(
    ("when", "body"),
    [
        ("BEFORE INSERT OR UPDATE", "NEW.own := 'own ' || NEW.event_id; RETURN NEW;"),
        (
            "AFTER INSERT OR UPDATE",
            "IF pg_trigger_depth() = 1 THEN BEGIN UPDATE orders SET own = 'own ' || event_id"
            " WHERE event_id = NEW.event_id; EXCEPTION WHEN division_by_zero THEN NULL; END; END IF; RETURN NULL;",
        ),
    ],
)
def test_a_trigger_may_fill_a_column_that_is_not_declared(session: Session, how: Merge, when: str, body: str) -> None:
    pipeline = a_pipeline(merge=how)
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    do(session, "ALTER TABLE orders ADD COLUMN own text")
    trigger(session, body, when)
    events = [Event(2, 0, 2, "a"), Event(1, 0, 3, "a"), Event(2, 0, 4, "c"), Event(3, 0, 5, "d", deleted=True)]
    batch_id = run(session, pipeline, [OffsetRange(0, 2, 6)], events)
    newest = how is Merge.NEWEST_WINS
    assert sheet(session, batch_id) == [(1, 1, 1, 0, 1) if newest else (1, 0, 0, 2, 1)]
    a = ("a", "2/0/2", "own a") if newest else ("a", "1/0/0", None)
    assert stands(session, "event_id, state, own") == {
        a,
        ("b", "1/0/1", None),
        ("c", "2/0/4", "own c"),
        ("d", None, "own d"),
    }


def test_a_trigger_that_keeps_a_list_of_changes_or_is_disabled_does_no_harm(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    do(session, "CREATE TABLE changes (event_id text)")
    trigger(session, "INSERT INTO changes VALUES (NEW.event_id); RETURN NULL;", "AFTER INSERT OR UPDATE")
    do(
        session,
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION never()",
        "ALTER TABLE orders DISABLE TRIGGER nothing",
    )
    run(session, pipeline, [OffsetRange(0, 2, 4)], [Event(2, 0, 2, "a"), Event(2, 0, 3, "c")])
    assert stands(session) == {("a", "2/0/2", 0, 2), ("b", "1/0/1", 0, 1), ("c", "2/0/3", 0, 3)}
    assert set(rows(session, "SELECT event_id FROM changes")) == {("a",), ("c",)}


def test_a_trigger_of_one_partition_of_the_table_is_seen(session: Session) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    do(
        session,
        "ALTER TABLE orders RENAME TO shape",
        "CREATE TABLE orders (LIKE shape INCLUDING CONSTRAINTS, PRIMARY KEY (event_id)) PARTITION BY HASH (event_id)",
        "CREATE TABLE orders_0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    )
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    assert stands(session) == THERE
    ((part,),) = rows(session, "SELECT tableoid::regclass FROM orders WHERE event_id = 'a'")
    trigger(session, "NEW.state := 'x'; RETURN NEW;", on=str(part))
    with pytest.raises(LedgerViolation, match=r"event 'a' .*guards"):
        run(session, pipeline, [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session) == THERE


@pytest.mark.parametrize("body", ["RAISE EXCEPTION 'the books are closed';", "PERFORM 1 / 0;", "PERFORM nothing();"])
def test_a_trigger_that_raises_is_named_with_its_own_words(session: Session, body: str) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    trigger(session, body)
    words = "the books are closed|division by zero|function nothing"
    with pytest.raises(LedgerViolation, match=rf"public\.orders.*guards.*({words})"):
        run(session, pipeline, [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session) == THERE


def test_a_deferred_constraint_is_checked_with_the_merge(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    do(
        session,
        "CREATE TABLE states (state text PRIMARY KEY)",
        "INSERT INTO states SELECT state FROM orders",
        "ALTER TABLE orders ADD CONSTRAINT known FOREIGN KEY (state) REFERENCES states DEFERRABLE INITIALLY DEFERRED",
    )
    with pytest.raises(LedgerViolation, match="known"):
        run(session, pipeline, [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session) == THERE


def test_a_ledger_that_was_made_again_over_the_same_table_reads_it_all_again(session: Session) -> None:
    """Its batches have the numbers of old ones: who wrote a row is not told by the number alone."""
    first = [Event(9, 0, 0, "a"), Event(8, 0, 1, "b")]
    for how in (Merge.NEWEST_WINS, Merge.SKIP_EXISTING):
        pipeline = a_pipeline(merge=how)
        run(session, pipeline, [OffsetRange(0, 0, 2)], first)
        before = stands(session, "event_id, state, _batch_id")
        (batch_id,) = {row[2] for row in before}
        do(session, f"ALTER TABLE offset_ledger.batch ALTER batch_id RESTART WITH {int(str(batch_id)) + 1}")
        do(session, f"UPDATE orders SET _batch_id = {int(str(batch_id)) + 1}")
        again = run(session, pipeline, [OffsetRange(0, 0, 2)], [Event(1, 0, 0, "a"), first[1]], BatchKind.REPLAY)
        assert again == int(str(batch_id)) + 1
        assert stands(session, "event_id, state") == {("a", "9/0/0"), ("b", "8/0/1")}
        do(session, "DROP TABLE orders", "SELECT tests.empty_ledger()")


# -- columns that are not declared any more --------------------------------------------------------------------


def without_note(pipeline: Pipeline) -> Pipeline:
    kept = tuple(column for column in pipeline.record.columns if column.name != "note")
    return replace(pipeline, record=replace(pipeline.record, columns=kept))


@BOTH
def test_a_column_that_is_not_declared_any_more_never_mixes_two_records(session: Session, how: Merge) -> None:
    pipeline = a_pipeline(merge=how)
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST, notes={"a": "secret a", "b": "secret b"})
    events = [Event(2, 0, 2, "a"), Event(2, 0, 3, "b", deleted=True), Event(2, 0, 4, "c")]
    run(session, without_note(pipeline), [OffsetRange(0, 2, 5)], events)
    if how is Merge.NEWEST_WINS:
        expected = {("a", "2/0/2", None, False), ("b", None, None, True), ("c", "2/0/4", None, False)}
    else:  # the first record stays, as a whole
        expected = {("a", "1/0/0", "secret a", False), ("b", "1/0/1", "secret b", False), ("c", "2/0/4", None, False)}
    assert stands(session, "event_id, state, note, _deleted") == expected
    assert verify(pipeline)[0] == []


def test_a_column_is_filled_again_once_it_is_declared_again(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST, notes={"a": "first a", "b": "first b"})
    run(session, without_note(pipeline), [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    run(session, pipeline, [OffsetRange(0, 3, 4)], [Event(3, 0, 3, "a")], notes={"a": "third a"})
    run(session, pipeline, [OffsetRange(0, 4, 5)], [Event(4, 0, 4, "c")], notes={"c": "c"})
    assert stands(session, "event_id, note") == {("a", "third a"), ("b", "first b"), ("c", "c")}


def test_a_column_that_no_file_declared_keeps_what_others_wrote(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    do(session, "ALTER TABLE orders ADD COLUMN own text", "UPDATE orders SET own = 'mine ' || event_id")
    run(session, without_note(pipeline), [OffsetRange(0, 2, 4)], [Event(2, 0, 2, "a"), Event(2, 0, 3, "b", True)])
    assert stands(session, "event_id, own") == {("a", "mine a"), ("b", "mine b")}


def test_a_file_that_was_planned_and_never_committed_declared_nothing(session: Session) -> None:
    """A slip in the file, corrected before a batch: the column stays the user's own."""
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    run(session, without_note(pipeline), [OffsetRange(0, 0, 2)], FIRST)
    do(session, "UPDATE orders SET note = 'mine ' || event_id")
    decide(session, planned(session, pipeline, [OffsetRange(0, 2, 3)]), State.ABANDONED, ME, "a slip")
    run(session, without_note(pipeline), [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session, "event_id, state, note") == {("a", "2/0/2", "mine a"), ("b", "1/0/1", "mine b")}


@pytest.mark.parametrize(
    ("before", "said", "remedy"),
    [
        (
            "ALTER TABLE orders ALTER note SET DEFAULT '', ALTER note SET NOT NULL",
            "column note is NOT NULL, declared before and not now, so it is set to NULL",
            "ALTER TABLE public.orders ALTER COLUMN note DROP NOT NULL",
        ),
        (
            "ALTER TABLE orders ADD CONSTRAINT has_note CHECK (_deleted OR note IS NOT NULL)",
            "constraint has_note keeps NULL out of column note, declared before and not now",
            "ALTER TABLE public.orders DROP CONSTRAINT has_note",
        ),
    ],
)
def test_a_column_that_cannot_be_null_is_refused_once_it_is_not_declared_any_more(
    session: Session, before: str, said: str, remedy: str
) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST, notes={"a": "a", "b": "b"})
    do(session, before)
    told = refused(session, without_note(pipeline))
    assert said in told
    assert f"run: {remedy};" in told
    do(session, remedy)
    run(session, without_note(pipeline), [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a")])
    assert stands(session, "event_id, note") == {("a", None), ("b", "b")}


# -- what can be foreseen --------------------------------------------------------------------------------------


def test_nulls_of_delete_markers_are_foreseen(session: Session) -> None:
    deleting = a_pipeline()
    keeping = replace(deleting, record=replace(deleting.record, delete_when=None))
    run(session, keeping, [OffsetRange(0, 0, 2)], FIRST)
    do(session, "ALTER TABLE orders ALTER note SET DEFAULT ''", "UPDATE orders SET note = ''")
    do(session, "ALTER TABLE orders ADD CONSTRAINT noted CHECK (note IS NOT NULL)")
    told = refused(session, deleting)
    assert "column state is NOT NULL, and delete markers have none" in told
    assert "constraint noted keeps NULL out of column note, declared nullable" in told
    remedy = told.partition("run: ")[2].partition(";")[0]
    assert remedy == (
        "ALTER TABLE public.orders ALTER COLUMN state DROP NOT NULL, ADD CHECK (_deleted OR state IS NOT NULL), "
        "DROP CONSTRAINT noted"
    )
    do(session, remedy)
    run(session, deleting, [OffsetRange(0, 2, 3)], [Event(2, 0, 2, "a", deleted=True)])
    assert stands(session, "event_id, state, _deleted") == {("a", None, True), ("b", "1/0/1", False)}


def test_a_column_that_is_nullable_now_names_our_own_constraint(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    state, note = pipeline.record.columns
    columns = (replace(state, nullable=True), note)
    told = refused(session, replace(pipeline, record=replace(pipeline.record, columns=columns)))
    assert "constraint orders_check keeps NULL out of column state, declared nullable" in told
    assert "run: ALTER TABLE public.orders DROP CONSTRAINT orders_check;" in told


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ("ALTER TABLE orders SET UNLOGGED", "a crash of the server empties it", "ALTER TABLE public.orders SET LOGGED"),
        (
            'CREATE RULE "Log" AS ON INSERT TO orders DO ALSO NOTIFY told',
            'it has the rule "Log"',
            'DROP RULE "Log" ON public.orders',
        ),
        (
            "ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            "row level security hides rows",
            "ALTER TABLE public.orders DISABLE ROW LEVEL SECURITY",
        ),
        (
            "ALTER TABLE orders DROP COLUMN note, ADD COLUMN note text GENERATED ALWAYS AS (state || '!') STORED",
            "column note is generated",
            "ALTER TABLE public.orders ALTER COLUMN note DROP EXPRESSION",
        ),
        (
            'ALTER TABLE orders ALTER event_id TYPE text COLLATE "POSIX"',
            'event_id has the collation "POSIX"',
            'ALTER TABLE public.orders ALTER COLUMN event_id TYPE text COLLATE "C"',
        ),
        (
            "ALTER TABLE orders DROP COLUMN note, ALTER state TYPE varchar(9), DROP CONSTRAINT orders_pkey",
            "column note text is missing",
            "ALTER TABLE public.orders ALTER COLUMN state TYPE text USING state::text, "
            "ADD COLUMN note text, ADD UNIQUE (event_id)",
        ),
        (
            "ALTER TABLE orders ADD COLUMN own integer NOT NULL",
            "column own is NOT NULL without a default and not declared",
            "ALTER TABLE public.orders ALTER COLUMN own DROP NOT NULL",
        ),
    ],
)
def test_what_can_never_be_merged_is_refused_with_the_statement_that_helps(
    session: Session, change: str, said: str, remedy: str
) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    do(session, change)
    told = refused(session, pipeline)
    assert said in told
    assert f"run: {remedy};" in told
    do(session, remedy)
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST, notes={"b": "b"})
    assert stands(session, "event_id, state, note") == {("a", "1/0/0", None), ("b", "1/0/1", "b")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["ALTER TABLE orders RENAME TO real", "CREATE VIEW orders AS SELECT * FROM real"], "it is a view"),
        (["CREATE TABLE more () INHERITS (orders)"], "other tables inherit from it"),
    ],
)
def test_what_is_no_table_of_its_own_is_refused(session: Session, change: list[str], said: str) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    do(session, *change)
    assert said in refused(session, pipeline)


def in_two_partitions(session: Session) -> None:
    """The table as one that Postgres partitions by the event id, at two levels."""
    do(
        session,
        "ALTER TABLE orders RENAME TO template",
        "CREATE TABLE orders (LIKE template INCLUDING ALL) PARTITION BY HASH (event_id)",
        "CREATE TABLE orders_0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
        " PARTITION BY HASH (event_id)",
        'CREATE TABLE "Orders_10" PARTITION OF orders_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0)',
        "DROP TABLE template",
    )


def test_an_unlogged_partition_is_refused_by_the_plan_and_by_the_commit(session: Session) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    in_two_partitions(session)
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    batch_id = planned(session, pipeline, [OffsetRange(0, 2, 3)])
    validated(session, staged(session, pipeline, batch_id, [Event(2, 0, 2, "a")], "transaction"))
    do(session, 'ALTER TABLE "Orders_10" SET UNLOGGED')
    with pytest.raises(TargetMismatch) as caught:
        commit(pipeline, batch_id, ME)
    told = refused(session, pipeline)
    assert told == str(caught.value)
    assert 'partition public."Orders_10" is UNLOGGED, so a crash of the server empties it' in told
    remedy = 'ALTER TABLE public."Orders_10" SET LOGGED'
    assert f"run: {remedy};" in told
    assert stands(session) == THERE
    do(session, remedy)
    commit(pipeline, batch_id, ME)
    assert stands(session) == {("a", "2/0/2", 0, 2), ("b", "1/0/1", 0, 1)}


def test_a_partition_in_another_database_is_refused(session: Session, database: Connection, stack: Stack) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    execute(
        stack.postgres.superuser(database.schema),
        "DROP FOREIGN DATA WRAPPER IF EXISTS elsewhere CASCADE; CREATE FOREIGN DATA WRAPPER elsewhere;"
        f"CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;"
        f"GRANT USAGE ON FOREIGN SERVER elsewhere TO {database.login}",
    )
    do(
        session,
        "DROP TABLE orders",
        "CREATE TABLE orders (event_id text, publish_at timestamptz) PARTITION BY LIST (event_id)",
        "CREATE FOREIGN TABLE orders_a PARTITION OF orders FOR VALUES IN ('a') SERVER elsewhere",
    )
    told = refused(session, pipeline)
    assert "partition public.orders_a is a foreign table, whose rows are not in this database: DETACH" in told


@pytest.mark.parametrize("type_", ["TYPE orders AS ENUM ('new')", "DOMAIN orders AS text"], ids=["enum", "domain"])
def test_a_new_table_with_the_name_of_a_type_is_refused(session: Session, type_: str) -> None:
    do(session, f"CREATE {type_}")
    said = refused(session, a_pipeline())
    assert 'the table cannot be created: type "orders" already exists in schema public; name another table' in said


def test_a_column_named_by_a_keyword_is_quoted(session: Session) -> None:
    made = a_pipeline()
    columns = (*made.record.columns, Column("user", ColumnType("varchar", (9,)), ("user",)))
    with transaction(session) as cursor:
        ensure_target(cursor, made)
    told = refused(session, replace(made, record=replace(made.record, columns=columns)))
    remedy = 'ALTER TABLE public.orders ADD COLUMN "user" character varying(9)'
    assert f"run: {remedy};" in told
    do(session, remedy)


def test_a_column_that_numbers_itself_is_refused(session: Session) -> None:
    made = a_pipeline()
    columns = (*made.record.columns, Column("n", ColumnType("bigint"), ("n",), nullable=True))
    pipeline = replace(made, record=replace(made.record, columns=columns))
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    do(session, "ALTER TABLE orders DROP COLUMN n, ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY")
    told = refused(session, pipeline)
    remedy = "ALTER TABLE public.orders ALTER COLUMN n DROP IDENTITY, ALTER COLUMN n DROP NOT NULL"
    assert "column n is GENERATED ALWAYS" in told
    assert f"run: {remedy};" in told
    do(session, remedy)
    run(session, pipeline, [OffsetRange(0, 0, 2)], FIRST)
    assert stands(session, "event_id, n") == {("a", None), ("b", None)}


# -- whose table it is -----------------------------------------------------------------------------------------


def test_a_pipeline_that_committed_nothing_does_not_keep_its_table(session: Session) -> None:
    old, new = a_pipeline("old", table="orders"), a_pipeline("new", table="orders")
    batch_id = planned(session, old, [OffsetRange(0, 0, 1)])
    with pytest.raises(ConfigurationError, match=f"offset-ledger batch abandon {batch_id} --why"):
        planned(session, new, [OffsetRange(0, 0, 1)])
    decide(session, batch_id, State.ABANDONED, ME, "a wrong name")
    run(session, new, [OffsetRange(0, 0, 2)], FIRST)
    assert stands(session) == THERE
    assert set(rows(session, "SELECT pipeline, target FROM offset_ledger.pipeline")) == {
        ("old", None),
        ("new", "public.orders"),
    }
    with pytest.raises(ConfigurationError, match="is filled by pipeline new; one table"):
        planned(session, old, [OffsetRange(0, 0, 1)])
    elsewhere = replace(old, target=replace(old.target, table="elsewhere"))
    run(session, elsewhere, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "z")])
    assert rows(session, "SELECT event_id FROM elsewhere") == [("z",)]
    assert verify(new)[0] == verify(elsewhere)[0] == []


def test_a_plan_that_waited_for_a_takeover_sees_whose_the_table_is_now(session: Session, database: Connection) -> None:
    """The old pipeline plans at the moment in which the new one takes its table and plans too."""
    old, new = a_pipeline("old", table="orders"), a_pipeline("new", table="orders")
    with transaction(session) as cursor:
        pipelines.register(cursor, old, a_snapshot(old))
    with connect(database) as other, ThreadPoolExecutor(1) as beside:
        with transaction(other) as cursor:
            pipelines.register(cursor, new, a_snapshot(new))
            batches.insert_batch(cursor, new, BatchKind.HEAD, a_snapshot(new), [OffsetRange(0, 0, 1)], ME)
            waiting = beside.submit(planned, session, old, [OffsetRange(0, 0, 1)])
            with connect(database) as looking:
                query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                while not waiting.done() and not rows(looking, query):
                    pass
        with pytest.raises(ConfigurationError, match="is filled by pipeline new, which has committed nothing yet"):
            waiting.result(60)


# -- check -----------------------------------------------------------------------------------------------------

GOOD = """
pipeline: orders
source: {connection: kafka_default, topic: t}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
"""
AWAY = Connection("", "kafka", extra={"bootstrap.servers": "127.0.0.1:1"}).to_json()


def test_check_compares_the_table_and_writes_nothing(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD)
    monkeypatch.setenv(environment_name("kafka_default"), AWAY)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    assert main(["check", str(path)]) == 75
    good, not_asked, missing = capsys.readouterr().out.splitlines()
    assert good == f"{path}: no mistakes"
    assert not_asked.startswith("Kafka was not asked about t: Kafka at 127.0.0.1:1 did not answer (")
    assert missing == "table public.orders does not exist yet; the first batch creates it"
    with transaction(session) as cursor:
        ensure_target(cursor, parse_pipeline(path))
    assert main(["check", str(path)]) == 75
    assert capsys.readouterr().out.splitlines()[2:] == ["table public.orders fits"]
    do(session, "CREATE UNIQUE INDEX one_a_state ON orders (state)", "CREATE UNIQUE INDEX ON orders (state, event_id)")
    trigger(session, "RETURN NEW;")
    assert main(["check", str(path)]) == 75
    beside = "the trigger guards, the unique index one_a_state: a row that these change or refuse stops a commit"
    assert capsys.readouterr().out.splitlines()[2] == f"table public.orders fits, and has {beside}"
    do(session, "ALTER TABLE orders DROP COLUMN state")
    assert main(["check", str(path)]) == 1
    assert "TargetMismatch: pipeline orders: table public.orders does not fit" in capsys.readouterr().err
    assert rows(session, "SELECT * FROM offset_ledger.pipeline") == []


OTHERS = """
pipeline: orders
source: {connection: kafka_default, topic: shop.orders}
record:
  event_id: $.order.id
  publish_at: $.at
  columns:
    state: {type: text, path: $.order.state, nullable: true}
    amount: numeric(12,2)
target:
  table: public.orders
  connection: postgres_default
"""


def test_a_table_of_others_comes_first_with_the_lines_that_leave_it_as_it_is(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment_name("kafka_default"), AWAY)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    path = tmp_path / "orders.yaml"
    path.write_text(OTHERS)
    do(session, "CREATE TABLE orders (id bigint PRIMARY KEY, state text, amount double precision NOT NULL)")
    assert main(["check", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    own = ["event_id", "publish_at", "_partition", "_offset", "_timestamp", "_key", "_headers", "_deleted", "_batch_id"]
    assert lines[:-1] == [
        "offset-ledger: TargetMismatch: pipeline orders: table public.orders does not fit:",
        "  event_id has no primary key or unique index of its own",
        "  column amount is double precision, declared numeric(12,2)",
        "  column id is of the primary key and not declared: add it to record.key",
        f"  columns {', '.join(own)} are missing",
        f"to leave the table as it is, write in {path}:",
        "  record:",
        "    key:  # instead of event_id",
        "      id: {type: bigint, path: $.order.id}",
        "    columns:  # the types of the table",
        "      amount: double precision",
        "  target:",
        "    bookkeeping: beside",
        "or begin with what this proposes: offset-ledger init --topic shop.orders --table public.orders --output -",
    ]
    assert lines[-1].startswith("or change the table: ALTER TABLE public.orders ")
    followed = OTHERS.replace("event_id: $.order.id", "key: {id: {type: bigint, path: $.order.id}}")
    followed = followed.replace("numeric(12,2)", "double precision") + "  bookkeeping: beside\n"
    path.write_text(followed)
    assert main(["check", str(path)]) == 75
    assert capsys.readouterr().out.splitlines()[-1] == "table public.orders fits"


def test_check_says_that_it_could_not_compare(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD)
    do(session, "CREATE TABLE orders (id integer)")
    nowhere = Connection("postgres_default", "postgres", host="127.0.0.1", port=1, schema="x", login="x")
    monkeypatch.setenv(environment_name("postgres_default"), nowhere.to_json())
    monkeypatch.setenv(environment_name("kafka_default"), AWAY)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    assert main(["check", str(path)]) == 75
    first, _, last = capsys.readouterr().out.splitlines()
    assert first == f"{path}: no mistakes"
    assert last.startswith("table public.orders was not compared with the file: Postgres of connection")
    assert main(["check", str(path), "--json"]) == 75
    assert json.loads(capsys.readouterr().out)["table"] == "not compared"


def test_rows_are_written_in_the_order_of_the_index_beside_rows_of_before(session: Session) -> None:
    """A page of a large index is read and written once for a batch then, and not for each row."""
    pipeline = a_pipeline()
    before = [Event(1, 0, n, sha256(b"%d" % n).hexdigest()) for n in range(20_000)]
    run(session, pipeline, [OffsetRange(0, 0, len(before))], before)
    do(session, "ANALYZE orders")
    after = [replace(event, event_id=event.event_id[::-1], offset=20_000 + n) for n, event in enumerate(before)]
    batch_id = run(session, pipeline, [OffsetRange(0, 20_000, 40_000)], after)
    written = rows(session, f"SELECT event_id FROM orders WHERE _batch_id = {batch_id} ORDER BY ctid")
    assert [event_id for (event_id,) in written] == sorted(event.event_id for event in after)
