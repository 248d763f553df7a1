"""Keys of types that Postgres alone reads, and identity columns: two keys are one if the table says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.servers import execute
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of

pytestmark = pytest.mark.minutes(1)

PIPELINE = """
pipeline: orders
source: {{topic: orders{key_format}}}
record:
  key: {{k: {{type: '{type}'{key}}}}}
  publish_at: {publish_at}
  {deletes}
  columns: {{state: {{type: text, nullable: true}}}}
target: {{table: public.orders, {target}}}
quality: {{max_quarantined_share: 1.0}}
"""
TYPES = """
DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own;
CREATE TYPE own."Mood" AS ENUM ('new', 'paid', 'Paid');
CREATE DOMAIN own.price AS numeric CHECK (value > 0);
CREATE DOMAIN own.code AS varchar(5);
CREATE TYPE own.pair AS (a integer, b text);
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, values of a key in JSON (first two that are equal, then another one), and one that is none."""

    type: str
    same: tuple[Any, Any]
    other: Any
    wrong: Any


KINDS = [
    Kind("inet", ("10.0.0.1", "10.0.0.1/32"), "10.0.0.2", "10.0.0"),
    Kind("interval", ("1 mon", "30 days"), "31 days", "soon"),
    Kind("macaddr", ("08:00:2b:01:02:03", "08002B-010203"), "08:00:2b:01:02:04", "x"),
    Kind("int4range", ("[1,3]", "[1,4)"), "[1,5)", "[3,1]"),
    Kind("pg_lsn", ("0/A", "0/0000000A"), "0/B", "A"),
    Kind('own."Mood"', ("new", "new"), "Paid", "NEW"),
    Kind("own.price", ("1.5", "1.50"), "2", "-1"),
    Kind("own.code", ("abc", "abc"), "ABC", "abcdef"),
    Kind("own.pair", ("(1,a)", '( 1,"a")'), "(1,b)", "(x,b)"),
]
CITEXT = Kind("ext.citext", ("Ada", "aDA"), "Bob", None)
OF_CITEXT = Kind("own.name", ("Ada", "aDA"), "Bob", "Robert")


@pytest.fixture(autouse=True)
def types(session: Session) -> None:
    do(session, TYPES)


CITEXT_MADE = """
DROP SCHEMA IF EXISTS ext CASCADE; CREATE SCHEMA ext; GRANT USAGE ON SCHEMA ext TO PUBLIC;
CREATE TYPE ext.citext;
CREATE FUNCTION ext.citextin(cstring) RETURNS ext.citext LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION ext.citextout(ext.citext) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE ext.citext (INPUT = ext.citextin, OUTPUT = ext.citextout, STORAGE = extended, CATEGORY = 'S', COLLATABLE);
CREATE CAST (ext.citext AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (text AS ext.citext) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE FUNCTION ext.cmp(a ext.citext, b ext.citext) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
  RETURN CASE WHEN lower(a::text) < lower(b::text) THEN -1 ELSE (lower(a::text) > lower(b::text))::int END;
"""
OPERATORS = {"lt": "<", "le": "<=", "eq": "=", "ge": ">=", "gt": ">"}


@pytest.fixture(scope="module")
def with_citext(stack: Stack, database: Connection) -> None:
    """What the extension citext makes, which not every server has, in a schema that is not in the search_path."""
    statement, listed = CITEXT_MADE, list[str]()
    for number, (name, operator) in enumerate(OPERATORS.items(), 1):
        statement += (
            f"CREATE FUNCTION ext.{name}(a ext.citext, b ext.citext) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT"
            f" RETURN ext.cmp(a, b) {operator} 0;"
            f"CREATE OPERATOR ext.{operator} (LEFTARG = ext.citext, RIGHTARG = ext.citext, FUNCTION = ext.{name});"
        )
        listed.append(f"OPERATOR {number} ext.{operator}")
    made = f"{', '.join(listed)}, FUNCTION 1 ext.cmp(ext.citext, ext.citext)"
    statement += f"CREATE OPERATOR CLASS ext.citext_ops DEFAULT FOR TYPE ext.citext USING btree AS {made}"
    execute(stack.postgres.superuser(database.schema), statement)


@pytest.fixture
def citext(session: Session, with_citext: None) -> None:  # noqa: ARG001
    do(session, "CREATE DOMAIN own.name AS ext.citext CHECK (length(value::text) < 5)")


def written(folder: Path, type_: str, target: str, tombstones: bool = False, deletes: bool = True) -> Pipeline:
    operation = "delete_when: {path: $.op, equals: d}" if deletes else ""
    parts = {"key_format": "", "key": "", "publish_at": "$.at", "deletes": operation}
    if tombstones:
        parts = {"key_format": ", key_format: json", "key": ", key: $.k", "publish_at": "kafka_timestamp"}
        parts["deletes"] = "tombstone: delete"
    return pipeline_of(folder, PIPELINE, type=type_.replace("'", "''"), target=target, **parts)


def record(offset: int, key: Any, seconds: int, gone: bool = False, tombstones: bool = False) -> Raw:
    moment = NOON + timedelta(seconds=seconds)
    if tombstones:
        value = None if gone else json.dumps({"state": f"s{offset}"}).encode()
        return Raw(0, offset, value, json.dumps({"k": key}).encode(), timestamp=moment)
    body = {"k": key, "at": moment.isoformat(), "op": "d" if gone else "c", "state": f"s{offset}"}
    return Raw(0, offset, json.dumps(body).encode())


def states(session: Session, pipeline: Pipeline) -> set[str]:
    live = "" if pipeline.target.beside else " WHERE NOT _deleted"
    return {row[0] for row in rows(session, f"SELECT state FROM public.orders{live}")}


def send_in_every_order(
    session: Session, pipeline: Pipeline, batches: Sequence[Sequence[Raw]], made: str, few: bool
) -> None:
    for order in list(permutations(batches))[:: 5 if few else 1]:
        with transaction(session) as cursor:
            cursor.execute("DROP TABLE IF EXISTS public.orders, offset_ledger_rows.orders")
            cursor.execute("SELECT tests.empty_ledger()")
            cursor.execute(made) if made else None
        in_order = list(order) == list(batches)
        for batch in order:
            commit_raw(session, pipeline, batch, BatchKind.HEAD if in_order else BatchKind.REPLAY)
        assert states(session, pipeline) == {"s4", "s5"}
        if in_order:
            assert verify(pipeline)[0] == []
            with transaction(session) as cursor:
                assert check_target(cursor, pipeline) == []
            again = commit_raw(session, pipeline, batches[0], BatchKind.REPLAY).total
            assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)


@pytest.mark.parametrize("tombstones", [False, True])
@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
@pytest.mark.parametrize("kind", [*KINDS, CITEXT, OF_CITEXT], ids=lambda kind: kind.type)
def test_keys_that_are_equal_in_the_table_are_one(
    session: Session,
    tmp_path: Path,
    kind: Kind,
    bookkeeping: str,
    tombstones: bool,
    request: pytest.FixtureRequest,
    few: bool,
) -> None:
    if kind in (CITEXT, OF_CITEXT):
        request.getfixturevalue("citext")
    one, same = kind.same
    batches = [
        [record(0, one, 1, tombstones=tombstones), record(1, same, 2, tombstones=tombstones)],
        [record(2, same, 5, gone=True, tombstones=tombstones), record(3, kind.other, 3, tombstones=tombstones)],
        [record(4, one, 6, tombstones=tombstones), record(5, kind.other, 4, tombstones=tombstones)],
    ]
    pipeline = written(tmp_path, kind.type, f"bookkeeping: {bookkeeping}", tombstones)
    own = f"CREATE TABLE public.orders (state text, k {kind.type} PRIMARY KEY)" if bookkeeping == "beside" else ""
    send_in_every_order(session, pipeline, batches, own, few)
    if kind.wrong is not None:
        wrong = [record(6, kind.wrong, 9, False, tombstones), record(7, kind.wrong, 9, True, tombstones)]
        done = commit_raw(session, pipeline, wrong, BatchKind.REPLAY)
        assert done.total.quarantined == 2
        reasons = rows(
            session, "SELECT DISTINCT reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine"
        )
        assert [tuple(row) for row in reasons] == [("k", "input")]
        assert states(session, pipeline) == {"s4", "s5"}


@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
@pytest.mark.parametrize("kind", [KINDS[0], CITEXT], ids=lambda kind: kind.type)
def test_conflicts_of_such_keys_are_found(
    session: Session,
    tmp_path: Path,
    kind: Kind,
    bookkeeping: str,
    citext: None,  # noqa: ARG001
) -> None:
    pipeline = written(tmp_path, kind.type, f"bookkeeping: {bookkeeping}, on_conflict: quarantine")
    one, same = kind.same
    commit_raw(session, pipeline, [record(0, one, 1)])
    do(session, "ALTER TABLE public.orders ADD UNIQUE (state)")
    other = Raw(0, 2, (record(2, kind.other, 3).value or b"").replace(b"s2", b"s1"))
    done = commit_raw(session, pipeline, [record(1, same, 2), other]).total
    assert (done.updated, done.quarantined, states(session, pipeline)) == (1, 1, {"s1"})
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("merge", ["newest_wins", "skip_existing"])
@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
def test_an_identity_that_is_always_generated_takes_the_key_of_the_record(
    session: Session, tmp_path: Path, bookkeeping: str, merge: str
) -> None:
    target = f"bookkeeping: {bookkeeping}, merge: {merge}"
    pipeline = written(tmp_path, "bigint", target, deletes=False)
    if bookkeeping == "beside":
        do(session, "CREATE TABLE public.orders (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text)")
    else:
        do(
            session,
            "CREATE TABLE public.orders (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, publish_at timestamptz"
            " NOT NULL, state text, _partition integer NOT NULL, _offset bigint NOT NULL, _timestamp timestamptz,"
            " _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL)",
        )
    commit_raw(session, pipeline, [record(0, 7, 1), record(1, 9, 2)])
    commit_raw(session, pipeline, [record(2, 7, 3)])
    newest = merge == "newest_wins"
    stored = rows(session, "SELECT k, state FROM public.orders ORDER BY k")
    assert [tuple(row) for row in stored] == [(7, "s2" if newest else "s0"), (9, "s1")]
    assert verify(pipeline)[0] == []
