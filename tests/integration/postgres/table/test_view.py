"""What the commit makes beside the table: comments from the pipeline file, and a view for those who read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offset_ledger.errors import TargetLocked, TargetMismatch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check.diff import compare_table, diff
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Evolve, Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, transaction
from offset_ledger.postgres.table import change
from offset_ledger.steps.commit.step import commit
from tests.fixtures.staged import ME, Event, a_pipeline, planned, staged, validated
from tests.fixtures.tables import do
from tests.integration.postgres.committed import rows, run

FIRST = [Event(1, 0, 0, "a"), Event(1, 0, 1, "b"), Event(1, 0, 2, "gone", deleted=True)]


def described(pipeline: Pipeline, of_table: str, **of_columns: str) -> Pipeline:
    """The file with these descriptions."""
    columns = [replace(each, description=of_columns.get(each.name, "")) for each in pipeline.record.columns]
    record = replace(pipeline.record, columns=tuple(columns))
    return replace(pipeline, record=record, description=of_table)


def with_view(pipeline: Pipeline, *columns: Column, evolve: Evolve = Evolve.WIDEN, view: str = "now") -> Pipeline:
    """The file with a view, and with these columns beside or in place of those that it has."""
    names = {each.name for each in columns}
    kept = [each for each in pipeline.record.columns if each.name not in names]
    record = replace(pipeline.record, columns=(*columns[:1], *kept, *columns[1:]))
    return replace(pipeline, record=record, target=replace(pipeline.target, view=view, evolve=evolve))


def of_type(name: str, kind: str, *arguments: int) -> Column:
    return Column(name, ColumnType(kind, arguments), (name,), nullable=True)


def then(session: Session, pipeline: Pipeline, *offsets: int) -> None:
    """A batch of these offsets."""
    run(session, pipeline, [OffsetRange(0, offsets[0], offsets[-1] + 1)], [Event(2, 0, n, f"e{n}") for n in offsets])


def comments(session: Session, column: str = "state") -> tuple[object, object]:
    """The comment of the table and that of a column."""
    query = (
        "SELECT obj_description('orders'::regclass, 'pg_class'), col_description('orders'::regclass, attnum)"
        f" FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = '{column}'"
    )
    ((of_table, of_column),) = rows(session, query)
    return of_table, of_column


def view_columns(session: Session) -> list[object]:
    query = "SELECT attname::text FROM pg_attribute WHERE attrelid = 'now'::regclass AND attnum > 0 ORDER BY attnum"
    return [name for (name,) in rows(session, query)]


def test_descriptions_are_comments_and_follow_the_file(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, described(pipeline, "Orders, 100% of them", state="it's new or paid"), [OffsetRange(0, 0, 3)], FIRST)
    assert comments(session) == ("Orders, 100% of them", "it's new or paid")
    then(session, described(pipeline, "Orders", note="free text"), 3)
    assert (comments(session), comments(session, "note")) == (("Orders", None), ("Orders", "free text"))
    then(session, pipeline, 4)
    assert (comments(session), comments(session, "note")) == ((None, None), (None, None))


def test_a_comment_of_others_stays(session: Session) -> None:
    pipeline = described(a_pipeline(), "Orders", state="new or paid")
    run(session, pipeline, [OffsetRange(0, 0, 3)], FIRST)
    do(session, "COMMENT ON TABLE orders IS 'theirs'", "COMMENT ON COLUMN orders.note IS 'theirs too'")
    then(session, described(pipeline, "Orders of the shop", note="free text", state="a state"), 3)
    assert (comments(session), comments(session, "note")) == (("theirs", "a state"), ("theirs", "theirs too"))


def test_no_batch_waits_for_a_comment(session: Session, database: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 3)], FIRST)
    monkeypatch.setattr(change, "LOCK_TIMEOUT", "100ms")
    with connect(database) as other, transaction(other) as cursor:
        cursor.execute("LOCK TABLE public.orders IN SHARE UPDATE EXCLUSIVE MODE")  # as VACUUM does
        then(session, described(pipeline, "Orders"), 3)
    assert comments(session)[0] is None
    then(session, described(pipeline, "Orders"), 4)
    assert comments(session)[0] == "Orders"


def test_the_view_has_what_is_not_deleted_and_no_column_of_the_ledger(session: Session) -> None:
    pipeline = with_view(a_pipeline())
    run(session, pipeline, [OffsetRange(0, 0, 3)], FIRST)
    assert view_columns(session) == ["event_id", "publish_at", "state", "note"]
    assert rows(session, "SELECT event_id, state FROM now ORDER BY 1") == [("a", "1/0/0"), ("b", "1/0/1")]
    assert rows(session, "SELECT clause FROM offset_ledger.target_change") == [
        (
            'CREATE OR REPLACE VIEW "public"."now" AS SELECT "event_id", "publish_at", "state", "note"'
            ' FROM "public"."orders" WHERE NOT _deleted',
        )
    ]
    then(session, pipeline, 3)
    assert len(rows(session, "SELECT FROM offset_ledger.target_change")) == 1
    assert verify(pipeline)[0] == []


def test_a_table_that_is_there_gets_the_view_with_its_next_commit(session: Session) -> None:
    run(session, a_pipeline(), [OffsetRange(0, 0, 3)], FIRST)
    pipeline = with_view(described(a_pipeline(), "Orders"))
    said, line = compare_table(pipeline)
    assert said == "to be changed"
    assert 'which makes: CREATE OR REPLACE VIEW "public"."now" AS SELECT' in line
    assert line.endswith("COMMENT ON TABLE public.orders IS 'Orders'")
    compared = diff(pipeline)
    assert not compared.differs
    texts = [mark.text for line in compared.lines for mark in line.marks]
    assert any(": the next commit runs CREATE OR REPLACE VIEW" in text for text in texts)
    then(session, pipeline, 3)
    assert compare_table(pipeline) == ("fits", "table public.orders fits")


def test_it_changes_with_the_table_under_those_who_read_it(session: Session) -> None:
    """New columns stand last, wherever the file has them, and what reads the view stays; one that is gone stays."""
    run(session, with_view(a_pipeline()), [OffsetRange(0, 0, 3)], FIRST)
    do(session, "CREATE VIEW report AS SELECT event_id, state FROM now")
    grown = with_view(a_pipeline(), of_type("amount", "integer"), of_type("at", "date"))
    then(session, grown, 3)
    assert view_columns(session) == ["event_id", "publish_at", "state", "note", "amount", "at"]
    then(session, with_view(a_pipeline()), 4)
    assert view_columns(session) == ["event_id", "publish_at", "state", "note", "amount", "at"]
    assert len(rows(session, "SELECT FROM report")) == 4


def test_wider_types_keep_rights_and_comment_of_the_view(session: Session) -> None:
    run(session, with_view(a_pipeline(), of_type("amount", "integer")), [OffsetRange(0, 0, 3)], FIRST)
    do(session, "GRANT SELECT ON now TO pg_monitor WITH GRANT OPTION", "COMMENT ON VIEW now IS 'our orders'")
    wider = with_view(a_pipeline(), of_type("amount", "bigint"))
    then(session, wider, 3)
    ((right, option, comment),) = rows(
        session,
        "SELECT has_table_privilege('pg_monitor', 'now', 'SELECT'),"
        " has_table_privilege('pg_monitor', 'now', 'SELECT WITH GRANT OPTION'),"
        " obj_description('now'::regclass, 'pg_class')",
    )
    assert (right, option, comment) == (True, True, "our orders")
    assert rows(session, "SELECT DISTINCT pg_typeof(amount)::text FROM now") == [("bigint",)]


def test_a_type_stays_where_another_view_reads_ours(session: Session) -> None:
    narrow = with_view(a_pipeline(), of_type("amount", "integer"))
    run(session, narrow, [OffsetRange(0, 0, 3)], FIRST)
    do(session, "CREATE VIEW report AS SELECT amount FROM now")
    wider = with_view(a_pipeline(), of_type("amount", "bigint"))
    with pytest.raises(TargetMismatch, match=r"Postgres refuses ALTER TABLE .* view report depends on view now"):
        then(session, wider, 3)
    assert view_columns(session) == ["event_id", "publish_at", "amount", "state", "note"]


def test_what_others_made_is_not_replaced(session: Session) -> None:
    do(session, "CREATE VIEW now AS SELECT 1 AS one")
    pipeline = with_view(a_pipeline())
    with pytest.raises(TargetMismatch, match=r"public\.now exists and is no view that this pipeline made"):
        planned(session, pipeline, [OffsetRange(0, 0, 3)])
    assert rows(session, "SELECT one FROM now") == [(1,)]


def test_a_batch_waits_for_readers_of_the_view_and_no_longer(
    session: Session, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session, with_view(a_pipeline()), [OffsetRange(0, 0, 3)], FIRST)
    monkeypatch.setattr(change, "LOCK_TIMEOUT", "100ms")
    grown = with_view(a_pipeline(), of_type("amount", "integer"))
    batch_id = planned(session, grown, [OffsetRange(0, 3, 4)])
    validated(session, staged(session, grown, batch_id, [Event(2, 0, 3, "c")], "transaction"))
    with connect(database) as other, transaction(other) as cursor:
        cursor.execute("SELECT FROM public.now")
        with pytest.raises(TargetLocked):
            commit(grown, batch_id, ME)
    commit(grown, batch_id, ME)
    assert "amount" in view_columns(session)
