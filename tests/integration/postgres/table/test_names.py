"""Tables and columns with capitals, spaces, quotes and other characters: a name is taken as it is, everywhere."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg2 import sql

from offset_ledger.errors import TargetMismatch, TransientError
from offset_ledger.model.batch import Attempt
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.doctor.servers import check_postgres
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.row_order import table_of
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.change import check_target
from offset_ledger.postgres.table.restate import restate
from offset_ledger.steps.commit.merge import explained
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.suites import entry, in_set, write_suite
from tests.fixtures.tables import do

KEY, TENANT, AMOUNT, NOTE, HOST, PLACE = "orderId", 'the "tenant", (EU)', "Amount 100%s", "{note}", "O'Host", "s"
LONG = "Ö" * 31 + "x"  # 63 bytes
TABLES = ['"Sales.EU"."Order Lines 100%"', '"Sales"."order""s"', f'"{LONG}"."{LONG}"', 'public."orderLines"']
PLACES: list[Any] = [
    "columns",
    "beside",
    {"publish_at": "Updated At", "_batch_id": "Batch %s", "_offset": "the.offset"},
]
NOTES = ["a", None]


def written(folder: Path, table: str, bookkeeping: Any = "columns", **more: Any) -> Pipeline:
    columns = {
        AMOUNT: {"type": "numeric", "description": "What is 100% of it"},
        NOTE: {"type": "text", "nullable": True},
        HOST: {"type": "inet", "nullable": True},
        PLACE: {"type": "bigint", "nullable": True},
    }
    if bookkeeping != "columns" and "on_conflict" not in more.get("target", {}):
        columns[NOTE]["absent"] = "keep"
    record: dict[str, Any] = {
        "key": {KEY: "bigint", TENANT: "text"},
        "publish_at": "$.at",
        "delete_when": {"path": "$.op", "equals": "d"},
        "columns": columns | more.pop("columns", {}),
    }
    file = {
        "pipeline": "orders",
        "source": {"topic": "orders"},
        "record": record | more.pop("record", {}),
        "target": {"table": table, "bookkeeping": bookkeeping, **more.pop("target", {})},
        "quality": {"max_quarantined_share": 1.0, **more.pop("quality", {})},
    }
    path = folder / "orders.yaml"
    path.write_text(yaml.safe_dump(file, allow_unicode=True))
    return parse_pipeline(path)


def record(offset: int, id: int, seconds: int = 0, **more: Any) -> Raw:
    body = {KEY: id, TENANT: "x", "at": (NOON + timedelta(seconds=seconds or offset)).isoformat(), AMOUNT: offset}
    return Raw(0, offset, json.dumps({**body, **more}).encode())


def stored(session: Session, pipeline: Pipeline, *columns: str) -> set[tuple[Any, ...]]:
    live = "" if pipeline.target.beside else " WHERE NOT _deleted"
    names = sql.SQL(", ").join(map(sql.Identifier, columns or (KEY, TENANT, AMOUNT, NOTE)))
    query = sql.SQL("SELECT {} FROM {}" + live).format(names, table_of(pipeline))
    with transaction(session) as cursor:
        return {tuple(row) for row in cursor.execute(query)}


@pytest.fixture(autouse=True)
def no_schemas(session: Session) -> None:
    do(session, f'DROP SCHEMA IF EXISTS "Sales.EU" CASCADE; DROP SCHEMA IF EXISTS "Sales", "{LONG}" CASCADE')


@pytest.mark.parametrize("bookkeeping", PLACES, ids=["columns", "beside", "copies"])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_any_name_is_made_filled_checked_and_verified(
    session: Session, tmp_path: Path, table: str, bookkeeping: Any
) -> None:
    pipeline = written(tmp_path, table, bookkeeping, target={"view": '"the ""view"" 5%"'})
    assert pipeline.target.name == table
    done = commit_raw(
        session,
        pipeline,
        [
            record(0, 1, **{NOTE: "first", HOST: "10.0.0.1"}),
            record(1, 2, **{HOST: "no host"}),
            record(2, 2, **{NOTE: "second"}),
            record(3, 3),
            record(4, 3, op="d"),
        ],
    )
    assert done.total.quarantined == 1
    assert stored(session, pipeline) == {(1, "x", 0, "first"), (2, "x", 2, "second")}
    late = commit_raw(session, pipeline, [record(5, 1, 9), record(6, 3, 1)]).total
    assert (late.updated, late.superseded) == (1, 1)
    kept = "first" if pipeline.target.beside else None
    assert stored(session, pipeline) == {(1, "x", 5, kept), (2, "x", 2, "second")}
    assert verify(pipeline)[0] == []
    with transaction(session) as cursor:
        assert check_target(cursor, pipeline) == []
        view = sql.Identifier(pipeline.target.schema, 'the "view" 5%')
        assert cursor.execute(sql.SQL("SELECT FROM {}").format(view)).rowcount == 2
    missing = [each.text for each in check_postgres("postgres_default", [pipeline]) if "rights" in each.subject]
    assert missing == ["all that the login needs"]


@pytest.mark.parametrize("bookkeeping", PLACES, ids=["columns", "beside", "copies"])
def test_a_file_that_changes_changes_the_table(session: Session, tmp_path: Path, bookkeeping: Any) -> None:
    table = TABLES[0]
    commit_raw(session, written(tmp_path, table, bookkeeping), [record(0, 1, **{PLACE: 1}), record(1, 2, **{PLACE: 1})])
    more = {"Added % Later": {"type": "text", "nullable": True}, PLACE: {"type": "numeric", "nullable": True}}
    pipeline = written(tmp_path, table, bookkeeping, columns=more)
    with (
        pytest.raises(
            TargetMismatch, match=r'run: ALTER TABLE "Sales.EU"."Order Lines 100%" .*ADD COLUMN "Added % Later" text'
        ),
        transaction(session) as cursor,
    ):
        check_target(cursor, pipeline)
    pipeline = written(tmp_path, table, bookkeeping, columns=more, target={"evolve": "widen", "view": '"V"'})
    commit_raw(session, pipeline, [record(2, 1, **{"Added % Later": "x", PLACE: 1.5})])
    assert stored(session, pipeline, KEY, "Added % Later", PLACE) == {(1, "x", 1.5), (2, None, 1)}
    again = [record(0, 1), record(1, 2, **{"Added % Later": "y"})]
    assert commit_raw(session, pipeline, again, BatchKind.REPLAY, {"fill": True}).total.updated == 1
    assert stored(session, pipeline, KEY, "Added % Later") == {(1, "x"), (2, "y")}
    pipeline = written(tmp_path, table, bookkeeping, columns={PLACE: more[PLACE]})
    commit_raw(session, pipeline, [record(3, 1)])
    assert stored(session, pipeline, KEY, "Added % Later") == {(1, None), (2, "y")}
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
def test_expectations_and_conflicts_name_such_columns(session: Session, tmp_path: Path, bookkeeping: str) -> None:
    entries = [
        entry("expect_column_values_to_be_between", "quarantine", column=AMOUNT, max_value=100),
        in_set("quarantine", NOTE, "5%", "it's", None),
        entry("expect_compound_columns_to_be_unique", "warn", column_list=[AMOUNT, KEY]),
    ]
    write_suite(tmp_path, *entries)
    pipeline = written(
        tmp_path, TABLES[0], bookkeeping, quality={"suite": "orders"}, target={"on_conflict": "quarantine"}
    )
    commit_raw(session, pipeline, [record(0, 1)])
    do(session, f'ALTER TABLE {pipeline.target.name} ADD UNIQUE ("{PLACE}", "{NOTE}")')
    bad = [record(1, 2, **{AMOUNT: 101}), record(2, 3, **{NOTE: "other"}), record(3, 4, **{NOTE: "5%", PLACE: 1})]
    total = commit_raw(session, pipeline, [*bad, record(4, 5, **{NOTE: "5%", PLACE: 1}), record(5, 6)]).total
    assert (total.quarantined, total.inserted) == (3, 2)
    reasons = rows(session, "SELECT \"offset\", reasons->0->>'path' FROM offset_ledger.quarantine ORDER BY 1")
    assert [row[0] for row in reasons] == [1, 2, 4]
    assert stored(session, pipeline) == {(1, "x", 0, None), (4, "x", 3, "5%"), (6, "x", 5, None)}
    assert verify(pipeline)[0] == []


def test_partitions_of_long_names_do_not_collide(session: Session, tmp_path: Path) -> None:
    for last in "ab":
        do(session, "SELECT tests.empty_ledger()")
        table = f'public."{LONG[:-1]}{last}"'
        columns = {"Sold On": {"type": "date"}}
        target = {"partitions": {"by": "Sold On", "every": "month"}, "deletes": "hard"}
        pipeline = written(tmp_path, table, "beside", columns=columns, target=target)
        commit_raw(
            session, pipeline, [record(0, 1, **{"Sold On": "2026-01-31"}), record(1, 2, **{"Sold On": "2026-03-01"})]
        )
        assert stored(session, pipeline, KEY) == {(1,), (2,)}
        assert verify(pipeline)[0] == []
    names = rows(
        session, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relname ~ '20260[13]$'"
    )
    assert len(names) == 4


def test_a_row_without_a_partition_is_told_what_creates_it(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, '"Sales"."Lines"', "beside")
    columns = {KEY: "bigint", TENANT: "text", AMOUNT: "numeric", NOTE: "text", HOST: "inet", PLACE: "bigint"}
    with transaction(session) as cursor:
        made = sql.SQL(", ").join(sql.SQL("{} " + kind).format(sql.Identifier(n)) for n, kind in columns.items())
        key = {"key": sql.Identifier(KEY), "tenant": sql.Identifier(TENANT)}
        statement = "CREATE TABLE {table} ({made}, PRIMARY KEY ({key}, {tenant})) PARTITION BY RANGE ({key})"
        cursor.execute('CREATE SCHEMA "Sales"')
        cursor.execute(sql.SQL(statement).format(table=table_of(pipeline), made=made, **key))
    with pytest.raises(TargetMismatch, match=r'PARTITION OF "Sales"."Lines" FOR VALUES FROM \(.1.\) TO \(...\)'):
        commit_raw(session, pipeline, [record(0, 1)])


def test_a_row_of_another_writer_is_known_by_such_a_key(session: Session, tmp_path: Path) -> None:
    commit_raw(session, pipeline := written(tmp_path, TABLES[0]), [record(0, 1)])
    again = sql.SQL("INSERT INTO {0} SELECT * FROM {0}").format(table_of(pipeline))
    raises = pytest.raises(TransientError, match="another writer")
    with raises, transaction(session) as cursor, explained(pipeline, StagingTables(Attempt(1, 1))):
        cursor.execute(again)


@pytest.mark.parametrize("bookkeeping", PLACES, ids=["columns", "beside", "copies"])
def test_a_remerge_orders_the_rows(session: Session, tmp_path: Path, bookkeeping: Any) -> None:
    commit_raw(session, written(tmp_path, TABLES[0], bookkeeping), [record(0, 1), record(1, 2)])
    pipeline = written(tmp_path, TABLES[0], bookkeeping, record={"publish_at": "kafka_timestamp"})
    with transaction(session) as cursor:
        assert restate(cursor, pipeline, ME, "one clock") == 1
    assert verify(pipeline)[0] == []


def test_a_table_lacks_a_key_and_is_told_so_in_sql(session: Session, tmp_path: Path) -> None:
    commit_raw(session, pipeline := written(tmp_path, TABLES[0]), [record(0, 1)])
    do(session, f'ALTER TABLE {pipeline.target.name} DROP CONSTRAINT "Order Lines 100%_pkey"')
    with pytest.raises(TargetMismatch) as caught, transaction(session) as cursor:
        check_target(cursor, pipeline)
    statement = str(caught.value).partition("run: ")[2].partition("; or change")[0]
    with transaction(session) as cursor:
        cursor.execute(statement)
        assert check_target(cursor, pipeline) == []
