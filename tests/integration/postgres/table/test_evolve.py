"""A table changes in the transaction of the batch that needs it, by what target.evolve allows, or not at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.errors import TargetLocked, TargetMismatch, TransientError
from offset_ledger.model.followed_columns import widens
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Evolve, Merge, Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, transaction
from offset_ledger.postgres.table import change as table
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from tests.fixtures.staged import ME, Event, a_pipeline, planned, staged, validated
from tests.fixtures.tables import do
from tests.integration.postgres.committed import rows, run

FIRST = [Event(1, 0, 0, "a"), Event(1, 0, 1, "b")]
SECOND = [Event(2, 0, 2, "b"), Event(2, 0, 3, "c")]
RANGES = ([OffsetRange(0, 0, 2)], [OffsetRange(0, 2, 4)])


def with_column(pipeline: Pipeline, column: Column, may: Evolve) -> Pipeline:
    """The file of the pipeline after the column was written into it."""
    others = [each for each in pipeline.record.columns if each.name != column.name]
    record = replace(pipeline.record, columns=(*others, column))
    return replace(pipeline, record=record, target=replace(pipeline.target, evolve=may), config_hash="changed")


def of_type(name: str, type_: str, *args: int) -> Column:
    return Column(name, ColumnType(type_, args), (name,), nullable=True)


def ready(session: Session, pipeline: Pipeline, values: str = "") -> int:
    """The second batch, validated; ``values`` is set in what it staged."""
    batch_id = planned(session, pipeline, RANGES[1])
    tables = staged(session, pipeline, batch_id, SECOND, "transaction")
    if values:
        do(session, f"UPDATE offset_ledger_staging.{tables.rows} SET {values}")
    validated(session, tables)
    return batch_id


def types(session: Session) -> dict[str, str]:
    query = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'orders'::regclass"
        " AND attnum > 0 AND NOT attisdropped"
    )
    return {str(name): str(kind) for name, kind in rows(session, query)}


def changes(session: Session) -> list[tuple[object, ...]]:
    return rows(session, "SELECT batch_id, target, clause FROM offset_ledger.target_change ORDER BY change_id")


def test_a_new_column_comes_with_the_batch_that_has_it(session: Session) -> None:
    before = a_pipeline()
    run(session, before, RANGES[0], FIRST)
    pipeline = with_column(before, of_type("amount", "numeric", 8, 2), Evolve.ADD_COLUMNS)
    batch_id = ready(session, pipeline, "amount = 12.50")
    assert "amount" not in types(session)
    commit(pipeline, batch_id, ME)
    assert types(session)["amount"] == "numeric(8,2)"
    assert set(rows(session, "SELECT event_id, state, amount::text FROM orders")) == {
        ("a", "1/0/0", None),
        ("b", "2/0/2", "12.50"),
        ("c", "2/0/3", "12.50"),
    }
    assert changes(session) == [(batch_id, "public.orders", "ADD COLUMN amount numeric(8,2)")]
    assert commit(pipeline, batch_id, ME).already
    run(session, pipeline, [OffsetRange(0, 4, 5)], [Event(3, 0, 4, "d")])
    assert len(changes(session)) == 1
    assert verify(pipeline)[0] == []


def test_without_leave_the_statement_is_named_and_nothing_changes(session: Session) -> None:
    before = a_pipeline()
    run(session, before, RANGES[0], FIRST)
    kinds = types(session)
    wider = with_column(before, of_type("amount", "bigint"), Evolve.NONE)
    with pytest.raises(TargetMismatch, match=r"run: ALTER TABLE public\.orders ADD COLUMN amount bigint"):
        planned(session, wider, RANGES[1])
    assert types(session) == kinds
    assert changes(session) == []


def test_a_wider_type_comes_with_the_batch_that_has_it(session: Session) -> None:
    small = with_column(a_pipeline(), of_type("amount", "integer"), Evolve.NONE)
    run(session, small, RANGES[0], FIRST)
    wide = with_column(small, of_type("amount", "bigint"), Evolve.WIDEN)
    with pytest.raises(TargetMismatch, match="ALTER COLUMN amount TYPE bigint"):
        planned(session, with_column(small, of_type("amount", "bigint"), Evolve.ADD_COLUMNS), RANGES[1])
    batch_id = ready(session, wide, "amount = 3000000000")
    assert types(session)["amount"] == "integer"
    commit(wide, batch_id, ME)
    assert types(session)["amount"] == "bigint"
    assert set(rows(session, "SELECT event_id, amount FROM orders")) == {
        ("a", None),
        ("b", 3_000_000_000),
        ("c", 3_000_000_000),
    }
    (change,) = changes(session)
    assert change == (batch_id, "public.orders", "ALTER COLUMN amount TYPE bigint USING amount::bigint")


@pytest.mark.parametrize(
    ("merge", "kinds", "expected"),
    [
        (Merge.SKIP_EXISTING, [BatchKind.REPLAY, BatchKind.HEAD], "1/0/1"),
        (Merge.NEWEST_WINS, [BatchKind.REPLAY, BatchKind.HEAD], "2/0/2"),
        (Merge.NEWEST_WINS, [BatchKind.HEAD, BatchKind.REPLAY], "2/0/2"),
    ],
)
def test_rows_that_a_wider_type_has_rewritten_are_not_taken_for_those_of_the_batch(
    session: Session, merge: Merge, kinds: list[BatchKind], expected: str
) -> None:
    small = with_column(a_pipeline(merge=merge), of_type("amount", "integer"), Evolve.NONE)
    run(session, small, RANGES[0], FIRST)
    for kind in kinds[:-1]:
        run(session, small, RANGES[1], SECOND, kind)
    wide = with_column(small, of_type("amount", "bigint"), Evolve.WIDEN)
    run(session, wide, RANGES[1], SECOND, kinds[-1])
    assert types(session)["amount"] == "bigint"
    assert set(rows(session, "SELECT event_id, state FROM orders")) == {
        ("a", "1/0/0"),
        ("b", expected),
        ("c", "2/0/3"),
    }


def test_a_narrower_type_is_never_a_change_of_ours(session: Session) -> None:
    run(session, with_column(a_pipeline(), of_type("amount", "bigint"), Evolve.NONE), RANGES[0], FIRST)
    narrow = with_column(a_pipeline(), of_type("amount", "integer"), Evolve.WIDEN)
    with pytest.raises(TargetMismatch, match="column amount is bigint, declared integer"):
        planned(session, narrow, RANGES[1])


def test_a_commit_that_fails_takes_its_change_back(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = a_pipeline()
    run(session, before, RANGES[0], FIRST)
    pipeline = with_column(before, of_type("amount", "integer"), Evolve.ADD_COLUMNS)
    batch_id = ready(session, pipeline, "amount = 1")
    monkeypatch.setenv(VARIABLE, "after_merge=fail")
    with pytest.raises(TransientError):
        commit(pipeline, batch_id, ME)
    assert "amount" not in types(session)
    assert changes(session) == []
    monkeypatch.delenv(VARIABLE)
    commit(pipeline, batch_id, ME)
    assert set(rows(session, "SELECT event_id, amount FROM orders")) == {("a", None), ("b", 1), ("c", 1)}
    assert len(changes(session)) == 1


def test_a_table_in_use_is_waited_for_and_left_alone(
    session: Session, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = a_pipeline()
    run(session, before, RANGES[0], FIRST)
    pipeline = with_column(before, of_type("amount", "integer"), Evolve.ADD_COLUMNS)
    batch_id = ready(session, pipeline)
    monkeypatch.setattr(table, "LOCK_TIMEOUT", "100ms")
    with connect(database) as reader, transaction(reader) as cursor:
        cursor.execute("SELECT count(*) FROM public.orders")
        with pytest.raises(TargetLocked, match=r"ADD COLUMN amount integer; nothing was committed"):
            commit(pipeline, batch_id, ME)
    assert "amount" not in types(session)
    commit(pipeline, batch_id, ME)
    assert "amount" in types(session)


def test_a_view_in_the_way_is_named(session: Session) -> None:
    small = with_column(a_pipeline(), of_type("amount", "integer"), Evolve.NONE)
    run(session, small, RANGES[0], FIRST)
    do(session, "CREATE VIEW amounts AS SELECT amount FROM orders")
    wide = with_column(small, of_type("amount", "bigint"), Evolve.WIDEN)
    batch_id = ready(session, wide)
    with pytest.raises(TargetMismatch, match=r"used by a view or rule, rule _RETURN on view amounts .*make the change"):
        commit(wide, batch_id, ME)
    assert types(session)["amount"] == "integer"


def test_what_no_change_of_ours_can_fix_still_stops_a_batch_at_its_plan(session: Session) -> None:
    before = a_pipeline()
    run(session, before, RANGES[0], FIRST)
    do(
        session,
        "ALTER TABLE orders ADD COLUMN other text NOT NULL DEFAULT ''",
        "ALTER TABLE orders ALTER COLUMN other DROP DEFAULT",
    )
    pipeline = with_column(before, of_type("amount", "integer"), Evolve.WIDEN)
    with pytest.raises(TargetMismatch, match="column other is NOT NULL") as refused, transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    assert "amount" not in str(refused.value)


SAMPLES = {
    "smallint": ["'-32768'", "'32767'"],
    "integer": ["'-2147483648'", "'2147483647'"],
    "bigint": ["'-9223372036854775808'", "'9223372036854775807'"],
    "real": ["'3.4028235e+38'", "'1e-45'", "'NaN'", "'0.1'"],
    "double precision": ["'1.7976931348623157e+308'", "'5e-324'", "'0.1'"],
    "numeric": ["1e400", "0.123456789012345678901234567890"],
    "numeric(4,2)": ["'99.99'", "'-0.01'"],
    "numeric(6,2)": ["9999.99"],
    "numeric(6,4)": ["99.9999"],
    "character varying(3)": ["'abc'", "''"],
    "character varying(5)": ["'abcde'"],
    "text": ["'abcdefghij'"],
    "date": ["'2020-01-01'"],
    "timestamp with time zone": ["'2020-01-01T00:00:00Z'"],
    "boolean": ["true"],
}


def test_a_type_is_wider_if_postgres_keeps_every_value(session: Session) -> None:
    """Each pair of types, with Postgres as the judge: through the other type and back."""
    wider = {(before, after) for before, after in product(SAMPLES, SAMPLES) if widens(before, after)}
    for before, after in wider:
        for sample in SAMPLES[before]:
            ((kept,),) = rows(
                session,
                f"SELECT ({sample}::{before}::{after}::{before})::text = ({sample}::{before})::text"
                f" AND ({sample}::{before}::{after})::text::{before} IS NOT NULL",
            )
            assert kept is True, (before, after, sample)
    assert {before for before, _ in wider} == {
        "smallint",
        "integer",
        "bigint",
        "real",
        "numeric(4,2)",
        "numeric(6,2)",
        "numeric(6,4)",
        "character varying(3)",
        "character varying(5)",
    }
    assert ("numeric(6,2)", "numeric(6,4)") not in wider
    assert not any(widens(kind, kind) for kind in SAMPLES)
