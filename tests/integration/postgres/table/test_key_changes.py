"""A key that is edited: what would give one event two rows is refused, and the advice of messages works as written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import TargetMismatch
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from offset_ledger_kit.cli.main import main
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.tables import do, pipeline_of

pytestmark = pytest.mark.usefixtures("any_case")

PIPELINE = """
pipeline: order
source: {{connection: kafka_default, topic: orders}}
record:
  {key}
  publish_at: $.at
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders, {target}}}
quality: {{max_quarantined_share: 1.0}}
"""


def written(folder: Path, key: str, target: str = "bookkeeping: beside") -> Pipeline:
    return pipeline_of(folder, PIPELINE, key=key, target=target)


def record(offset: int, state: str, key: bytes | None = b"k", headers: Any = (), **ids: Any) -> Raw:
    body = {"at": f"2026-01-01T12:00:{offset:02}Z", "state": state, **ids}
    return Raw(0, offset, json.dumps(body).encode(), key, headers)


def refused(session: Session, pipeline: Pipeline, offset: int) -> str:
    """What the plan of a batch says, which is what a check says."""
    with pytest.raises(TargetMismatch) as planned:
        commit_raw(session, pipeline, [record(offset, "refused", id=1, other=1)])
    with pytest.raises(TargetMismatch) as checked, transaction(session) as cursor:
        check_target(cursor, pipeline)
    assert str(planned.value) == str(checked.value)
    return str(planned.value)


def states(session: Session) -> list[Any]:
    return [tuple(row) for row in rows(session, "SELECT * FROM public.orders ORDER BY 1")]


# -- the places that name an event ------------------------------------------------------------------------------

EDITS = {
    "path": ("event_id: $.id", "event_id: $.other", "$.id", "$.other"),
    "to the Kafka key": ("event_id: $.id", "event_id: key", "$.id", "the Kafka key"),
    "of a column": ("key: {id: text}", "key: {id: {type: text, path: $.other}}", "$.id", "$.other"),
    "header": ("key: {id: text}", "key: {id: {type: text, header: other}}", "$.id", "header other"),
    "of the Kafka key": ("key: {id: text}", "key: {id: {type: text, key: $}}", "$.id", "the Kafka key"),
    "transform": ("key: {id: text}", "key: {id: {type: text, path: $.id, transform: lower}}", "$.id", r"$.id (lower)"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_key_that_is_read_elsewhere_is_refused_until_somebody_says_that_both_name_the_same(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    before, after, was, says = EDITS[edit]
    target = "bookkeeping: columns" if "event_id" in before else "bookkeeping: beside"
    commit_raw(session, written(tmp_path, before, target), [record(0, "new", id="a", other="b")])
    edited = written(tmp_path, after, target)
    said = refused(session, edited, 1)
    assert f"of its committed rows was read from {was}, and the pipeline file says {says}, so that" in said
    monkeypatch.chdir(tmp_path)
    assert main(["accept", "table", "pipeline.yaml", "--why", "both are the number of the order"]) == 0
    commit_raw(session, edited, [record(1, "paid", b"a", (("other", b"a"),), id="A", other="a")])
    key = "event_id" if "event_id" in before else "id"
    assert rows(session, f"SELECT {key}, state FROM public.orders") == [["a", "paid"]]
    assert verify(edited)[0] == []


def test_a_path_may_be_renamed_while_the_earlier_one_stays_as_an_alias(session: Session, tmp_path: Path) -> None:
    commit_raw(session, written(tmp_path, "key: {id: integer}"), [record(0, "new", id=1)])
    renamed = written(tmp_path, "key: {id: {type: integer, path: $.other, aliases: [$.id]}}")
    commit_raw(session, renamed, [record(1, "paid", other=1)])
    alone = written(tmp_path, "key: {id: {type: integer, path: $.other}}")
    commit_raw(session, alone, [record(2, "sent", other=1)])
    assert states(session) == [(1, "sent")]
    assert "read from $.other, and the pipeline file says $.id" in refused(
        session, written(tmp_path, "key: {id: integer}"), 3
    )


def test_until_something_is_committed_the_key_may_be_read_anywhere(session: Session, tmp_path: Path) -> None:
    for key in ("key: {id: integer}", "key: {id: {type: integer, path: $.other}}"):
        with transaction(session) as cursor:
            assert check_target(cursor, written(tmp_path, key)) is None
    commit_raw(session, written(tmp_path, key), [record(0, "new", other=1)])
    assert states(session) == [(1, "new")]


@pytest.mark.parametrize("target", ["bookkeeping: columns", "bookkeeping: beside"])
def test_rows_cannot_be_known_by_other_columns_than_before(session: Session, tmp_path: Path, target: str) -> None:
    for before, after in (("id: integer", "id: integer, other: text"), ("id: integer, other: text", "id: integer")):
        do(session, "SELECT tests.empty_ledger(); DROP TABLE IF EXISTS public.orders, offset_ledger_rows.order")
        commit_raw(session, written(tmp_path, f"key: {{{before}}}", target), [record(0, "new", id=1, other="a")])
        said = refused(session, written(tmp_path, f"key: {{{after}}}", target), 1)
        assert re.search(r"rows are known by \(id.*\), and the pipeline file says \(id.*\); .* start a pipeline", said)


# -- wider and longer keys --------------------------------------------------------------------------------------

WIDER = {
    "wider": ("integer", "bigint", "integer", 1, 2**40),
    "longer": ("varchar(2)", "varchar(9)", "varchar(2) COLLATE any_case", "ab", "abcdefghi"),
    "more digits": ("numeric(4,1)", "numeric(12,1)", "numeric(4,1)", 1.5, 12345678901.5),
}


@pytest.mark.parametrize("evolve", ["none", "widen"])
@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
@pytest.mark.parametrize("kind", WIDER)
def test_a_wider_key_comes_by_the_statement_of_the_message_or_with_the_commit(
    session: Session, tmp_path: Path, kind: str, bookkeeping: str, evolve: str
) -> None:
    narrow, wide, made, first, second = WIDER[kind]
    if bookkeeping == "beside":
        do(session, f"CREATE TABLE public.orders (id {made} PRIMARY KEY, state text)")
    target = f"bookkeeping: {bookkeeping}"
    commit_raw(session, written(tmp_path, f"key: {{id: '{narrow}'}}", target), [record(0, "new", id=first)])
    collation = "SELECT collname FROM pg_attribute JOIN pg_collation AS c ON c.oid = attcollation WHERE attname = 'id'"
    before = rows(session, f"{collation} AND attrelid = 'public.orders'::regclass")
    wider = written(tmp_path, f"key: {{id: '{wide}'}}", f"{target}, evolve: {evolve}")
    if evolve == "none":
        said = re.search(
            r"run: (ALTER TABLE public\.orders .*); or change the pipeline file$", refused(session, wider, 1)
        )
        assert said
        do(session, said[1])
    commit_raw(session, wider, [record(1, "paid", id=first), record(2, "new", id=second)])
    assert [tuple(map(str, row)) for row in rows(session, "SELECT id, state FROM public.orders ORDER BY 1")] == [
        (str(first), "paid"),
        (str(second), "new"),
    ]
    assert rows(session, f"{collation} AND attrelid = 'public.orders'::regclass") == before
    assert verify(wider)[0] == []


def test_a_column_of_the_key_that_the_table_lacks_is_added_before_the_index_over_it(
    session: Session, tmp_path: Path
) -> None:
    do(session, "CREATE TABLE public.orders (id integer, state text)")
    pipeline = written(tmp_path, "key: {id: integer, other: text}")
    said = refused(session, pipeline, 0)
    statement = re.search(r"run: (ALTER TABLE .*); or change", said)
    assert statement
    assert statement[1].index("ADD COLUMN other") < statement[1].index("ADD UNIQUE (id, other)")
    do(session, statement[1])
    commit_raw(session, pipeline, [record(0, "new", id=1, other="a"), record(1, "new", id=1, other="b")])
    assert rows(session, "SELECT id, other FROM public.orders ORDER BY 2") == [[1, "a"], [1, "b"]]


def test_a_column_of_the_primary_key_that_is_not_declared_stays_not_null(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE TABLE public.orders (id integer, other text, state text, PRIMARY KEY (id, other))")
    said = refused(session, written(tmp_path, "key: {id: integer}"), 0)
    assert "column other is of the primary key and not declared: add it to record.key" in said
    assert "DROP NOT NULL" not in said
