"""Foreign keys of the table: a record that refers to no row is named, or quarantined until that row is there."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import LedgerViolation, TargetMismatch
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.check.diff import compare_table
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.status import status
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures import raw
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.tables import do, pipeline_of
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: items
source: {{topic: items}}
record:
  key: {{id: bigint}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns:
    a: {{type: {kind}, nullable: true}}
    b: {{type: text, nullable: true}}
target: {{table: public.items, on_conflict: {on_conflict}, bookkeeping: {bookkeeping}, merge: {merge}}}
quality: {{max_quarantined_share: 1.0}}
"""
BOOKKEEPING = """, publish_at timestamptz NOT NULL, _partition integer NOT NULL, _offset bigint NOT NULL,
  _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL"""
PARENT = (
    "CREATE TABLE public.parents (a integer PRIMARY KEY, b text); INSERT INTO public.parents VALUES (1, 'x'), (2, 'y');"
)
BOTH = pytest.mark.parametrize("bookkeeping", ["columns", "beside"])


def written(
    folder: Path,
    bookkeeping: str = "columns",
    kind: str = "integer",
    on_conflict: str = "quarantine",
    merge: str = "newest_wins",
) -> Pipeline:
    return pipeline_of(folder, PIPELINE, bookkeeping=bookkeeping, kind=kind, on_conflict=on_conflict, merge=merge)


def create(
    session: Session,
    key: str = "FOREIGN KEY (a) REFERENCES public.parents",
    bookkeeping: str = "columns",
    kind: str = "integer",
    parent: str = PARENT,
    after: str = "",
) -> None:
    own = BOOKKEEPING if bookkeeping == "columns" else ""
    table = f"CREATE TABLE public.items (id bigint PRIMARY KEY, a {kind}, b text{own}{f', {key}' if key else ''})"
    do(session, f"{parent}{table};{after}")


@dataclass(frozen=True, slots=True)
class Item:
    """A record; those of one id are in the order in which they are sent, unless it says its seconds."""

    id: int
    a: Any = None
    b: str | None = None
    deleted: bool = False
    seconds: int | None = None


def send(session: Session, pipeline: Pipeline, *items: Item, start: int = 0) -> Dispositions:
    records = []
    for offset, each in enumerate(items, start):
        at = NOON + timedelta(seconds=offset if each.seconds is None else each.seconds)
        value = {"id": each.id, "at": at.isoformat(), "op": "d" if each.deleted else "c", "a": each.a, "b": each.b}
        records.append(Raw(0, offset, json.dumps(value).encode()))
    return commit_raw(session, pipeline, records).total


def standing(session: Session, columns: str = "id, a") -> set[tuple[Any, ...]]:
    live = "to_jsonb(i)->>'_deleted' IS DISTINCT FROM 'true'"
    return {tuple(row) for row in rows(session, f"SELECT {columns} FROM public.items AS i WHERE {live}")}


def refused(session: Session) -> dict[int, list[tuple[str, str, str]]]:
    query = (
        'SELECT "offset", coalesce(retried_reasons, reasons) FROM offset_ledger.quarantine WHERE resolved_by IS NULL'
    )
    return {row[0]: [(r["code"], r["path"], r["detail"]) for r in row[1]] for row in rows(session, query)}


def orphan(values: Any, path: str = "a", name: str = "items_a_fkey", table: str = "public.parents") -> Any:
    return [("conflict", path, f"{name}: table {table} has no row for ({path}) = ({values})")]


def redrive(pipeline: Pipeline) -> None:
    planned = plan_redrive(pipeline, parse_choice(reason="conflict"), ME, "the rows are there now")
    run_batch(pipeline, planned, ME, lambda _: None)


@BOTH
def test_an_orphan_is_quarantined_and_comes_in_with_its_parent(
    session: Session, tmp_path: Path, bookkeeping: str
) -> None:
    pipeline = written(tmp_path, bookkeeping)
    create(session, bookkeeping=bookkeeping)
    done = send(
        session,
        pipeline,
        Item(1, 1),
        Item(2, 9),
        Item(3),  # refers to nothing
        Item(4, 7, seconds=0),  # loses to the next, and is not written
        Item(4, 2, seconds=50),
        Item(5, 2),
        Item(5, 8),  # an older record of the key wins then
        Item(6, 8, deleted=True),
    )
    assert (done.inserted, done.quarantined, done.superseded) == (4, 2, 1)
    assert standing(session) == {(1, 1), (3, None), (4, 2), (5, 2)}
    assert refused(session) == {1: orphan(9), 6: orphan(8)}
    assert verify(pipeline)[0] == []

    do(session, "INSERT INTO public.parents VALUES (8)")
    redrive(pipeline)
    assert standing(session) == {(1, 1), (3, None), (4, 2), (5, 8)}
    assert refused(session) == {1: orphan(9)}
    do(session, "INSERT INTO public.parents VALUES (9)")
    redrive(pipeline)
    assert standing(session) == {(1, 1), (2, 9), (3, None), (4, 2), (5, 8)}
    assert refused(session) == {}
    assert verify(pipeline)[0] == []


@BOTH
def test_an_update_and_a_delete_are_judged_as_postgres_does(session: Session, tmp_path: Path, bookkeeping: str) -> None:
    pipeline = written(tmp_path, bookkeeping)
    create(session, bookkeeping=bookkeeping)
    send(session, pipeline, Item(1, 1), Item(2, 2))
    send(session, pipeline, Item(1, 9), Item(2, 9, deleted=True), Item(3, 5), Item(3, 5, deleted=True), start=2)
    assert standing(session) == {(1, 1)}
    assert refused(session) == {2: orphan(9)}


def test_a_delete_marker_keeps_the_key_that_refers(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, "FOREIGN KEY (id) REFERENCES public.parents")
    send(session, pipeline, Item(1), Item(7, deleted=True), Item(2, deleted=True))
    assert refused(session) == {1: orphan(7, "id", "items_id_fkey")}
    assert verify(pipeline)[0] == []


PAIRS = (
    "CREATE TABLE public.parents (a integer, b text, UNIQUE (a, b));"
    "INSERT INTO public.parents VALUES (1, 'x'), (3, NULL);"
)
ITEMS = (Item(1, 1, "x"), Item(2, 1, "y"), Item(3, 3), Item(4, None, "x"), Item(5), Item(6, 9))
NAMED = "items_a_b_fkey"


@pytest.mark.parametrize(
    ("match", "detail"),
    [
        ("", {1: orphan("1, y", "a, b", NAMED)}),
        (
            " MATCH FULL",
            {
                n: orphan(value, "a, b", NAMED)
                for n, value in {1: "1, y", 2: "3, NULL", 3: "NULL, x", 5: "9, NULL"}.items()
            },
        ),
    ],
)
def test_keys_of_several_columns_match_simple_or_full(
    session: Session, tmp_path: Path, match: str, detail: dict[int, Any]
) -> None:
    pipeline = written(tmp_path)
    create(session, f"FOREIGN KEY (a, b) REFERENCES public.parents (a, b){match}", parent=PAIRS)
    send(session, pipeline, *ITEMS)
    if match:
        detail = {
            n: [(c, p, text.replace(NAMED, f"{NAMED} (MATCH FULL)")) for c, p, text in of] for n, of in detail.items()
        }
    assert refused(session) == detail
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize(
    ("kind", "of_parent", "there", "values"),
    [
        ("integer", "bigint", "5", (5, 6)),
        ("bigint", "smallint", "5", (5, 1 << 40)),
        ("bigint", "numeric", "5", (5, 6)),
        ("text", "varchar(9)", "'5'", ("5", "5 ")),
        ("text COLLATE public.any_case", "text COLLATE public.any_case", "'a'", ("a", "b")),
        ("public.state, encoding: number", "public.state", "'on'", ("on", "off")),
        ("timestamptz", "date", "'2026-01-01'", ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")),
        ("'integer[]'", "integer[]", "'{1,2}'", ([1, 2], [2, 1])),
    ],
)
@pytest.mark.usefixtures("any_case")
def test_values_are_equal_as_the_operator_of_the_key_has_them(
    session: Session, tmp_path: Path, kind: str, of_parent: str, there: str, values: Sequence[Any]
) -> None:
    do(session, "CREATE TYPE public.state AS ENUM ('on', 'off')")
    pipeline = written(tmp_path, kind=kind.split(" COLLATE")[0])
    parent = f"CREATE TABLE public.parents (a {of_parent} PRIMARY KEY); INSERT INTO public.parents VALUES ({there});"
    create(session, kind=kind.split(",")[0].strip("'"), parent=parent)
    send(session, pipeline, Item(1, values[0]), Item(2, values[1]))
    assert set(refused(session)) == {1}
    assert standing(session, "id") == {(1,)}


REFERS = "FOREIGN KEY (a) REFERENCES public.items (id)"


@BOTH
@pytest.mark.parametrize("wait", ["", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"])
def test_a_reference_to_a_row_of_the_same_batch_is_no_orphan(
    session: Session, tmp_path: Path, bookkeeping: str, wait: str
) -> None:
    pipeline = written(tmp_path, bookkeeping, kind="bigint")
    create(session, REFERS + wait, bookkeeping, "bigint")
    send(session, pipeline, Item(1, 2), Item(2, 1), Item(3, 3), Item(4, 5), Item(5, 6), Item(6, 99), Item(7, 3))
    assert standing(session) == {(1, 2), (2, 1), (3, 3), (7, 3)}
    assert refused(session) == {n: orphan(value, table="public.items") for n, value in {3: 5, 4: 6, 5: 99}.items()}
    send(session, pipeline, Item(8, 2), Item(9, 10), Item(10), start=7)
    assert standing(session) == {(1, 2), (2, 1), (3, 3), (7, 3), (8, 2), (9, 10), (10, None)}
    do(session, "INSERT INTO public.items (id) VALUES (99)") if bookkeeping == "beside" else send(
        session, pipeline, Item(99), start=10
    )
    redrive(pipeline)
    assert refused(session) == {}
    assert {(4, 5), (5, 6), (6, 99)} < standing(session)


def test_a_row_that_the_batch_removes_is_no_parent(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "beside", kind="bigint")
    create(session, REFERS, "beside", "bigint")
    send(session, pipeline, Item(1), Item(2, 2), Item(4))
    send(session, pipeline, Item(1, deleted=True), Item(3, 1), Item(2, deleted=True), Item(5, 4), start=3)
    assert standing(session) == {(4, None), (5, 4)}
    assert refused(session) == {4: orphan(1, table="public.items")}
    assert verify(pipeline)[0] == []


def test_a_record_that_a_unique_constraint_refuses_makes_orphans(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, kind="bigint")
    create(session, f"UNIQUE (b), {REFERS}", kind="bigint")
    send(session, pipeline, Item(1, b="x"))
    send(session, pipeline, Item(2, b="x"), Item(3, 2, "y"), Item(4, 3, "z"), Item(5, 1, "y"), start=1)
    assert {n: [path for _, path, _ in of] for n, of in refused(session).items()} == {
        1: ["b"],
        2: ["a"],
        3: ["a"],
        4: ["b"],
    }
    assert standing(session) == {(1, None)}
    assert verify(pipeline)[0] == []


def test_who_loses_to_an_orphan_stands(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, "UNIQUE (b), FOREIGN KEY (a) REFERENCES public.parents")
    send(session, pipeline, Item(1, 9, "x"), Item(2, 1, "x"))
    assert standing(session) == {(2, 1)}
    assert refused(session) == {0: orphan(9)}


def test_a_key_that_is_not_valid_is_checked_for_what_is_written_only(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, "")
    send(session, pipeline, Item(1, 9), Item(2, 8))
    do(session, "ALTER TABLE public.items ADD FOREIGN KEY (a) REFERENCES public.parents NOT VALID")
    send(session, pipeline, Item(1, 9, "as it was"), Item(2, 7), Item(3, 9), start=2)
    assert standing(session, "id, a, b") == {(1, 9, "as it was"), (2, 8, None)}
    assert refused(session) == {3: orphan(7), 4: orphan(9)}


def test_a_key_that_is_not_enforced_keeps_nothing_out(session: Session, tmp_path: Path) -> None:
    if session.server_version < 180000:
        pytest.skip("NOT ENFORCED is of Postgres 18")
    pipeline = written(tmp_path)
    create(session, "FOREIGN KEY (a) REFERENCES public.parents NOT ENFORCED")
    send(session, pipeline, Item(1, 9))
    assert standing(session) == {(1, 9)}


def test_skip_existing_judges_the_first(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, merge="skip_existing")
    create(session)
    send(session, pipeline, Item(1, 1))
    send(session, pipeline, Item(1, 9), Item(2, 9), Item(2, 2), Item(2, 8), start=1)
    assert standing(session) == {(1, 1), (2, 2)}
    assert set(refused(session)) == {2}


def test_partitioned_tables_on_both_sides(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    parent = (
        "CREATE TABLE public.parents (a integer PRIMARY KEY) PARTITION BY RANGE (a);"
        "CREATE TABLE public.low PARTITION OF public.parents FOR VALUES FROM (0) TO (5);"
        "CREATE TABLE public.high PARTITION OF public.parents FOR VALUES FROM (5) TO (10);"
        "INSERT INTO public.parents VALUES (1), (7);"
    )
    create(session, "", parent=parent)
    do(
        session,
        "CREATE TABLE public.parted (LIKE public.items INCLUDING ALL) PARTITION BY HASH (id); DROP TABLE public.items;"
        "ALTER TABLE public.parted RENAME TO items;"
        "ALTER TABLE public.items ADD CONSTRAINT items_a_fkey FOREIGN KEY (a) REFERENCES public.parents;"
        "CREATE TABLE public.i0 PARTITION OF public.items FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE public.i1 PARTITION OF public.items FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    )
    send(session, pipeline, Item(1, 1), Item(2, 7), Item(3, 2), Item(4, 8))
    assert standing(session) == {(1, 1), (2, 7)}
    assert refused(session) == {2: orphan(2), 3: orphan(8)}


def test_rows_of_tables_that_inherit_are_no_parents(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, after="CREATE TABLE public.more () INHERITS (public.parents); INSERT INTO public.more VALUES (9)")
    send(session, pipeline, Item(1, 9), Item(2, 1))
    assert refused(session) == {0: orphan(9)}


def test_generated_columns_refer_too_and_names_may_be_odd(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(
        session,
        "",
        after='ALTER TABLE public.items ADD "Twice %s" integer GENERATED ALWAYS AS (a * 2) STORED;'
        'ALTER TABLE public.items ADD CONSTRAINT "of % twice" FOREIGN KEY ("Twice %s") REFERENCES public.parents;',
    )
    send(session, pipeline, Item(1, 1), Item(2, 2))
    assert refused(session) == {1: orphan(4, '"Twice %s"', '"of % twice"')}


def test_a_violation_names_the_records_and_the_parent(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, on_conflict="fail")
    create(session)
    send(session, pipeline, Item(1, 1))
    with pytest.raises(LedgerViolation) as caught:
        send(session, pipeline, Item(2, 2), *(Item(3 + n, 9) for n in range(4)), start=1)
    line = str(caught.value)
    assert 'foreign key constraint "items_a_fkey", Key (a)=(9) is not present in table "parents"' in line
    assert "4 records: items 0:2, items 0:3, items 0:4, ..." in line
    assert line.endswith(
        "insert the row that they refer to, drop the constraint, or write target.on_conflict: quarantine"
    )
    assert "\n" not in line
    assert compare_table(pipeline)[1].endswith(
        "the foreign key items_a_fkey: a row that these change or refuse stops a commit"
    )
    assert compare_table(written(tmp_path)) == ("fits", "table public.items fits")


def test_a_parent_that_goes_after_validation_is_an_error(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = written(tmp_path)
    create(session)

    def after_the_parent(of: Pipeline, batch_id: int, *given: Any) -> Any:
        do(session, "DELETE FROM public.parents WHERE a = 2")
        return commit(of, batch_id, *given)

    monkeypatch.setattr(raw, "commit", after_the_parent)
    with pytest.raises(
        LedgerViolation, match="changed since the batch was validated: offset-ledger batch abandon"
    ) as e:
        send(session, pipeline, Item(1, 1), Item(2, 2))
    assert "1 record: items 0:1" in str(e.value)
    assert standing(session) == set()


class Bench(TopicBench):
    TEMPLATE = """
pipeline: orders
source: {{topic: {topic}}}
record: {{event_id: $.id, publish_at: kafka_timestamp, tombstone: skip, columns: {{customer: integer}}}}
target: {{table: orders}}
stage: {{engine: process}}
"""


def test_status_says_what_a_batch_waits_for(bench: Bench) -> None:
    def order(moment: int, id: str, customer: int) -> Record:
        return Record(b"k", json.dumps({"id": id, "customer": customer}).encode(), (), moment, 0)

    bench.publish(order(1, "a", 1))
    bench.ingest()
    do(
        bench.session,
        "CREATE TABLE customers (id integer PRIMARY KEY); INSERT INTO customers VALUES (1);"
        "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers",
    )
    bench.publish(order(2, "b", 1), order(3, "c", 2), order(4, "d", 3))
    with pytest.raises(LedgerViolation):
        bench.ingest()
    now = status(bench.pipeline)
    assert now.state == "batch validated"
    assert now.waits_for
    assert now.waits_for.startswith(
        f"the table refuses 2 records of it, first {bench.topic} 0:2: orders_customer_fkey: table public.customers "
        "has no row for (customer) = (2); correct the table and run the pipeline again, write target.on_conflict"
    )
    bench.execute("INSERT INTO customers VALUES (2), (3)")
    assert status(bench.pipeline).waits_for is None
    bench.ingest()
    assert sorted(bench.rows("event_id, customer")) == [("a", 1), ("b", 1), ("c", 2), ("d", 3)]


@pytest.mark.parametrize("action", ["NO ACTION", "RESTRICT"])
@pytest.mark.parametrize("on_conflict", ["fail", "quarantine"])
def test_a_row_that_others_refer_to_is_not_deleted_and_the_error_says_so(
    session: Session, tmp_path: Path, action: str, on_conflict: str
) -> None:
    pipeline = written(tmp_path, "beside", on_conflict=on_conflict)
    refers = f"CREATE TABLE public.lines (of bigint REFERENCES public.items ON DELETE {action})"
    create(session, "", "beside", after=refers)
    send(session, pipeline, Item(1), Item(2))
    do(session, "INSERT INTO public.lines VALUES (2)")
    with pytest.raises(LedgerViolation) as caught:
        send(session, pipeline, Item(1, deleted=True), Item(2, deleted=True), start=2)
    line = str(caught.value)
    assert "Key (id)=(2) is " in line
    assert line.endswith("rows of public.lines refer to it: delete those first, or drop the constraint lines_of_fkey")
    assert standing(session) == {(1, None), (2, None)}


def test_a_table_that_the_login_cannot_read_is_named_before_anything_is_staged(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path)
    create(session, after="ALTER TABLE public.parents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    expected = r"foreign key items_a_fkey .* cannot read.* GRANT SELECT ON public\.parents"
    with transaction(session) as cursor, pytest.raises(TargetMismatch, match=expected):
        ensure_target(cursor, pipeline)
    with transaction(session) as cursor:
        ensure_target(cursor, written(tmp_path, on_conflict="fail"))


def test_random_batches_are_never_refused_and_only_orphans_wait(session: Session, tmp_path: Path, few: bool) -> None:
    """Each record is the state of its key, older than that, or refers to a row that is not there in the end."""
    pipeline = written(tmp_path)
    for seed in range(3 if few else 12):
        rng = random.Random(seed)
        do(session, "DROP TABLE IF EXISTS public.items, public.parents; SELECT tests.empty_ledger()")
        do(session, "CREATE TABLE public.parents (b text PRIMARY KEY); INSERT INTO public.parents VALUES ('x'), ('y')")
        keys = "FOREIGN KEY (a) REFERENCES public.items (up), FOREIGN KEY (b) REFERENCES public.parents"
        create(session, "up integer UNIQUE GENERATED ALWAYS AS (id) STORED, " + keys, parent="")
        sent = list[Item]()
        for _ in range(3):
            batch = [
                Item(
                    rng.randrange(8),
                    rng.choice([None, rng.randrange(8)]),
                    rng.choice([None, "x", "y", "z"]),
                    rng.random() < 0.1,
                    rng.randrange(20),
                )
                for _ in range(rng.randint(1, 9))
            ]
            send(session, pipeline, *batch, start=len(sent))
            sent += batch
            waiting = refused(session)
            there = {row[0]: row[1] for row in rows(session, "SELECT id, _offset FROM public.items")}
            left = sorted((i.seconds, n, i.id) for n, i in enumerate(sent) if n not in waiting)
            assert there == {id: n for _, n, id in left}, seed
            for n in waiting:
                if n >= len(sent) - len(batch):
                    lacks = {"a": sent[n].a not in there, "b": sent[n].b == "z"}
                    assert all(lacks[path] for _, path, _ in waiting[n]), (seed, n)
        if refused(session):
            redrive(pipeline)
        assert verify(pipeline)[0] == []
