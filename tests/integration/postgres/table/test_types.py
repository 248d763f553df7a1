"""Tables with the types that users have: arrays, texts that Postgres judges, and columns that fill themselves."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from types import MappingProxyType
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.errors import TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check.diff import diff
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.pipeline import JUDGED, Column, RecordShape
from offset_ledger.postgres.ledger import input_checks as judged
from offset_ledger.postgres.ledger.database import Cursor, Session, rows, transaction
from offset_ledger.postgres.ledger.input_checks import judge
from offset_ledger.steps.plan.step import plan_replay
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.examples import examples
from tests.fixtures.servers import execute
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
TYPES = """
CREATE TYPE public.mood AS ENUM ('glad', 'sad', 'now');
CREATE TYPE public."Place" AS (x integer, name text);
CREATE DOMAIN public.positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN public.code AS varchar(3);
CREATE DOMAIN public.price AS numeric(6,2);
CREATE DOMAIN public.prices AS numeric(6,2)[];
CREATE DOMAIN public.moment AS timestamptz(3);
CREATE DOMAIN public.length AS interval(0);
CREATE DOMAIN public.even AS integer CHECK (1 / (1 - VALUE % 2) > 0);
"""
COLUMNS = {
    "sizes": "integer[]",
    "prices": "numeric(9,2)[]",
    "names": "text[]",
    "whens": "timestamptz[]",
    "mood": "public.mood",
    "moods": "public.mood[]",
    "place": 'public."Place"',
    "count": "public.positive",
    "code": "public.code",
    "address": "inet",
    "spans": "interval[]",
    "valid": "tstzrange",
    "net": "cidr",
}
TABLE = (
    """
CREATE TABLE public.orders (
  row_id bigint GENERATED ALWAYS AS IDENTITY,
  added_at timestamptz NOT NULL DEFAULT now(),
  event_id text COLLATE "C" PRIMARY KEY, publish_at timestamptz NOT NULL,
  sizes integer[], prices numeric(9,2)[], names text[], whens timestamptz[],
  mood public.mood, moods public.mood[], place public."Place", count public.positive, code public.code,
  address inet, spans interval[], valid tstzrange, net cidr,
  twice bigint GENERATED ALWAYS AS (2 * count) STORED,
  _partition integer NOT NULL, _offset bigint NOT NULL, _timestamp timestamptz, _key bytea, _headers jsonb,
  _deleted boolean NOT NULL, _batch_id bigint NOT NULL"""
    + ")"
)
GOOD = {
    "sizes": [1, None, 3],
    "prices": [1.5, None],
    "names": ['a "b" \\', "", None, "NULL"],
    "whens": ["2026-01-01T00:00:00Z"],
    "mood": "now",
    "moods": ["sad", None, "glad"],
    "place": '(7,"New York")',
    "count": 5,
    "code": "abc",
    "address": "10.0.0.1/32",
    "spans": ["1 day 02:00", "-3 months"],
    "valid": "[2026-01-01 00:00+01,2026-02-01)",
    "net": "10.0.0.0/8",
}
WRONG = {
    "sizes": [1, "2"],
    "mood": "angry",
    "moods": ["glad", "angry"],
    "place": "(x,y)",
    "count": 0,
    "code": "abcd",
    "address": "10.0.0.300",
    "spans": ["1 day", "soon"],
    "valid": "[2026-02-01,2026-01-01)",
    "net": "10.0.0.1/8",
}


class Bench(TopicBench):
    TEMPLATE = """
pipeline: orders
source: {{topic: {topic}}}
record:
  {key}
  publish_at: kafka_timestamp
  delete_when: {{path: $.gone, equals: true}}
  columns:
{columns}
target: {{table: orders}}
quality: {{max_quarantined_share: 1.0{suite}}}
stage: {{engine: {engine}}}
"""
    DEFAULTS = MappingProxyType({"engine": "process", "suite": "", "columns": "", "key": "event_id: $.id"})

    def declare(self, **columns: str) -> None:
        numbers = dict.fromkeys(("public.positive", "public.even"), ", encoding: number")
        lines = (
            f"    {name}: {{type: {json.dumps(type_)}, nullable: true{numbers.get(type_, '')}}}"
            for name, type_ in columns.items()
        )
        self.settings["columns"] = "\n".join(lines)

    def send(self, *values: dict[str, Any], start: int = 0) -> None:
        self.publish(*(Record(b"k", json.dumps(v).encode(), (), 1000 + start + n, 0) for n, v in enumerate(values)))


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.declare(**COLUMNS)
    return bench


def table_of(bench: Bench) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows(bench.session, "SELECT t::text FROM public.orders AS t ORDER BY event_id")]


def reasons_of(bench: Bench) -> set[tuple[str, str, str]]:
    query = (
        "SELECT convert_from(q.value, 'UTF8')::jsonb->>'id', r->>'path', r->>'code' "
        "FROM offset_ledger.quarantine AS q, jsonb_array_elements(reasons) AS r WHERE resolved_by IS NULL"
    )
    return {tuple(row) for row in rows(bench.session, query)}


@pytest.fixture(params=["answers", "catches"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to judge, as far as the server has them."""
    if request.param == "catches":
        monkeypatch.setattr(judged, "INPUT_IS_VALID", sys.maxsize)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("engine", ["process", pytest.param("spark", marks=pytest.mark.full)])
def test_a_table_of_all_types_gets_what_postgres_takes_and_quarantine_the_rest(bench: Bench, engine: str) -> None:
    bench.execute(TYPES)
    bench.execute(TABLE)
    bench.settings["engine"] = engine
    bench.send(
        {"id": "good", **GOOD},
        *({"id": name, **GOOD, name: value} for name, value in WRONG.items()),
        {"id": "two", **GOOD, "mood": "x", "net": "y"},
        {"id": "empty"},
        {"id": "clock", **GOOD, "valid": "[now,)"},
        {"id": "gone", **GOOD},
        {"id": "gone", "gone": True, "mood": "never read"},
    )
    (first,) = bench.ingest()
    total = first.total
    assert (total.inserted, total.deleted, total.superseded, total.quarantined) == (2, 1, 1, len(WRONG) + 2)

    known = {("two", "mood", "input"), ("two", "net", "input"), ("clock", "valid", "input")}
    known |= {(name, name, "input") for name in WRONG if name != "sizes"} | {("sizes", "$.sizes", "type")}
    assert reasons_of(bench) == known
    details = rows(bench.session, "SELECT reasons->0->>'detail' FROM offset_ledger.quarantine")
    assert ['expected public.mood: invalid input value for enum mood: "angry"'] in details
    columns = ", ".join(f"{name}::text" for name in COLUMNS)
    by_postgres = (f"%s::{type_}::text" for type_ in COLUMNS.values())
    stored = rows(bench.session, f"SELECT {columns} FROM public.orders WHERE event_id = 'good'")
    expected = rows(bench.session, f"SELECT {', '.join(by_postgres)}", list(GOOD.values()))
    assert [tuple(row) for row in stored] == [tuple(row) for row in expected]
    assert sorted(bench.rows("event_id, twice, num_nulls(row_id, added_at)")) == [
        ("empty", None, 0),
        ("gone", None, 0),
        ("good", 10, 0),
    ]
    bench.agree()
    assert not [line for line in diff(bench.pipeline).lines if any(mark.matters for mark in line.marks)]

    before = table_of(bench)
    planned = plan_replay(bench.pipeline, [OffsetRange(0, 0, first.batch.ranges[0].until_offset)], ME)
    again = run_batch(bench.pipeline, planned, ME, quiet).committed
    assert (again.total.quarantined, again.total.inserted, again.total.updated) == (len(WRONG) + 2, 0, 0)
    assert table_of(bench) == before
    assert reasons_of(bench) == known

    bench.execute("ALTER TYPE public.mood ADD VALUE 'angry'")
    planned = plan_redrive(bench.pipeline, parse_choice(reason="input"), ME, "angry is a mood")
    run_batch(bench.pipeline, planned, ME, quiet)
    assert {row[0] for row in bench.rows("event_id")} == {"good", "empty", "gone", "mood", "moods"}
    assert reasons_of(bench) == {each for each in known if each[0] not in ("mood", "moods")}
    bench.agree()


def test_the_table_is_made_with_these_types_and_a_type_that_is_missing_is_named(bench: Bench) -> None:
    bench.declare(mood="public.mood")
    bench.send({"id": "a", "mood": "sad"})
    with pytest.raises(TargetMismatch, match=r'type "public.mood" does not exist; create the type'):
        bench.ingest()
    bench.execute(TYPES)
    bench.declare(**COLUMNS)
    bench.ingest()
    assert bench.rows("mood::text, pg_typeof(moods)::text") == [("sad", "mood[]")]


def test_a_type_of_another_name_is_a_misfit(bench: Bench) -> None:
    bench.execute(TYPES)
    bench.execute(TABLE)
    bench.declare(mood="text", sizes="bigint[]", address="cidr")
    bench.send({"id": "a"})
    with pytest.raises(TargetMismatch) as refused:
        bench.ingest()
    for text in (
        "column mood is public.mood, declared text",
        "column sizes is integer[], declared bigint[]",
        "column address is inet, declared cidr",
    ):
        assert text in str(refused.value)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("twice", "column twice is generated, and the pipeline writes it"),
        ("row_id", "column row_id is GENERATED ALWAYS"),
    ],
)
def test_a_generated_column_that_is_declared_is_an_error_before_the_plan(bench: Bench, name: str, problem: str) -> None:
    bench.execute(TYPES)
    bench.execute(TABLE)
    bench.declare(**{name: "bigint"})
    bench.send({"id": "a", name: 1})
    with pytest.raises(TargetMismatch, match=problem) as refused:
        bench.ingest()
    assert "\n" not in str(refused.value)
    assert rows(bench.session, "SELECT count(*) FROM offset_ledger.batch") == [[0]]


def test_a_domain_that_is_not_null_is_a_misfit_of_a_nullable_column(bench: Bench) -> None:
    bench.execute(TYPES)
    bench.execute(TABLE)
    bench.execute("ALTER DOMAIN public.code SET NOT NULL")
    bench.declare(code="public.code")
    bench.send({"id": "a"})
    with pytest.raises(TargetMismatch, match="the domain of column code is NOT NULL, declared nullable"):
        bench.ingest()


def test_virtual_columns_stay_out_of_the_statement(bench: Bench) -> None:
    if bench.session.server_version < 180_000:
        pytest.skip("generated columns of this server are stored")
    bench.execute(TYPES)
    bench.execute(TABLE.replace("STORED", "VIRTUAL").replace("public.positive", "bigint"))
    bench.declare(count="bigint")
    bench.send({"id": "a", "count": 4})
    bench.ingest()
    assert bench.rows("count, twice") == [(4, 8)]


@pytest.mark.usefixtures("way")
def test_a_suite_does_not_see_the_rows_that_postgres_refuses(bench: Bench) -> None:
    bench.execute(TYPES)
    write_suite(bench.folder, in_set("reject", "note", "fine"))
    bench.settings["suite"] = ", suite: orders"
    bench.declare(mood="public.mood", note="text")
    bench.send({"id": "a", "mood": "100%", "note": "odd"}, {"id": "b", "mood": "sad", "note": "fine"})
    (done,) = bench.ingest()
    assert (done.total.inserted, done.total.quarantined) == (1, 1)
    bench.send({"id": "c", "mood": "{}", "note": "odd"}, start=5)
    (done,) = bench.ingest()
    assert (done.total.inserted, done.total.quarantined) == (0, 1)
    assert reasons_of(bench) == {("a", "mood", "input"), ("c", "mood", "input")}


def test_a_table_numbers_its_rows_and_knows_them_by_a_unique_index(bench: Bench) -> None:
    bench.execute(TYPES)
    fills_itself = "bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY"
    bench.execute(
        TABLE.replace("bigint GENERATED ALWAYS AS IDENTITY", fills_itself).replace(
            'event_id text COLLATE "C" PRIMARY KEY', "tenant text NOT NULL, id bigint NOT NULL, UNIQUE (tenant, id)"
        )
    )
    bench.settings["key"] = "key: {id: bigint, tenant: text}"
    bench.send(
        {"id": 1, "tenant": "a", "mood": "sad"},
        {"id": 1, "tenant": "b", "mood": "angry", "sizes": [1]},
        {"id": 2, "tenant": "b", "mood": "now", "sizes": [2, 3]},
        {"id": 2, "tenant": "b", "mood": "glad"},
        {"id": 1, "tenant": "a", "gone": True},
    )
    bench.ingest()
    assert sorted(bench.rows("tenant, id, mood::text, _deleted")) == [("a", 1, None, True), ("b", 2, "glad", False)]
    assert reasons_of(bench) == {("1", "mood", "input")}
    bench.execute("ALTER TYPE public.mood ADD VALUE 'angry'")
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, parse_choice(reason="input"), ME, "it is one"), ME, quiet)
    assert sorted(bench.rows("tenant, id, sizes, row_id")) == [("a", 1, None, 1), ("b", 1, [1], 3), ("b", 2, None, 2)]
    bench.agree()
    assert not [line for line in diff(bench.pipeline).lines if any(mark.matters for mark in line.marks)]


@pytest.mark.parametrize(
    ("extension", "type_", "good", "wrong"),
    [("vector", "public.vector(2)", "[1,2]", "[1]"), ("hstore", "public.hstore", '"a"=>"1"', "a=>")],
)
def test_a_type_of_an_extension_is_judged_also_where_its_input_function_raises(
    bench: Bench, extension: str, type_: str, good: str, wrong: str
) -> None:
    if not rows(bench.session, "SELECT FROM pg_available_extensions WHERE name = %s", [extension]):
        pytest.skip(f"the server has no extension {extension}")
    bench.execute(TYPES)
    execute(bench.servers.superuser, f"CREATE EXTENSION {extension} SCHEMA public")
    bench.declare(own=type_, count="public.even")
    bench.send({"id": "a", "own": good, "count": 2}, {"id": "b", "own": wrong}, {"id": "c", "count": "1"})
    (done,) = bench.ingest()
    assert (done.total.inserted, done.total.quarantined) == (1, 2)
    assert bench.rows("own::text, count") == [(good, 2)]
    assert reasons_of(bench) == {("b", "own", "input"), ("c", "count", "input")}
    assert compare_with_topic(bench.pipeline).violations == ()


def test_a_pipeline_without_such_columns_asks_nothing_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.declare(count="integer", names="text[]")
    bench.send({"id": "a", "count": 1, "names": []})
    said = list[str]()
    execute = Cursor.execute

    def heard(self: Cursor, query: Any, arguments: Any = None) -> Cursor:
        said.append(query.as_string(self) if isinstance(query, sql.Composable) else str(query))
        return execute(self, query, arguments)

    monkeypatch.setattr(Cursor, "execute", heard)
    bench.ingest()
    assert [text for text in said if 'INTO "public"."orders"' in text]
    for word in ("pg_input_", "input_error", "COMMENT ON COLUMN", "::public"):
        assert [text for text in said if word in text] == []


TEXTS = {
    "public.mood": ["glad", "sad", "now", "Glad", "glad ", ""],
    "public.mood[]": ["{glad,NULL}", '{"sad"}', "{angry}", "{}"],
    "public.positive": ["1", "0", "-1", " 2 ", "x", "99999999999"],
    "public.code": ["abc", "abcd", "abc ", ""],
    'public."Place"': ["(1,x)", "(,)", "(1)", "1", '(1,"a,b")', "(a,b)"],
    "public.even": ["2", "1", "x"],
    "public.price": ["1.5", "1.50", "12e-3", "1.005", "12345"],
    "public.prices": ["{1.5,NULL}", "{1.500}", "{1.005}", "{}"],
    "public.moment": ["2026-01-01 00:00:00.123+01", "2026-01-01 00:00:00.1234Z", "now"],
    "public.moment[]": ['{"2026-01-01 00:00:00.123Z"}', '{"2026-01-01 00:00:00.1234Z",NULL}'],
    "public.length": ["1 day 00:00:01", "1.5 seconds"],
    "inet": ["10.0.0.1", "10.0.0.1/33", "::1", "10.0.0.1/8"],
    "cidr": ["10.0.0.0/8", "10.0.0.1/8", "10"],
    "macaddr": ["08:00:2b:01:02:03", "08002b010203", "08:00"],
    "interval": ["1 day", "P1D", "1 fortnight", "-1:30", "infinity", "1.5 years"],
    "int4range": ["[1,5)", "empty", "[5,1]", "(,)", "[1,2"],
    "tstzrange": ["[2026-01-01,)", "[today,)", "[epoch,now]", "(infinity,)"],
    "numrange[]": ['{"[1.5,2]",NULL}', "{empty}", "{[1,2]}"],
    "datemultirange": ["{[2026-01-01,2026-02-01)}", "{}", "{x}"],
    "point": ["(1,2)", "1,2", "(1)"],
    "tsquery": ["a & b", "a &", "'"],
    "pg_lsn": ["16/B374D848", "0/0", "G/0"],
}
LOSING = {
    "interval": (["PT1.123456S", "0.1234567 hours", "1.5 years"], ["PT1.1234567S", "1:00:00.1234567"]),
    "interval[]": (["{1.1234560 s}"], ['{"1 day",1.1234567s}']),
    "tstzrange": (["[2026-01-01 00:00:00.123456Z,)"], ["[2026-01-01 00:00:00.1234567Z,)"]),
    "daterange": (["[2026-01-01,)", "[2026-01-01 00:00,)"], ["[2026-01-01 05:00,)"]),
    "datemultirange": (["{[2026-01-01,)}"], ["{[2026-01-01 00:30,)}"]),
    "public.instant": (["2026-01-01 00:00:00.123456Z"], ["2026-01-01 00:00:00.1234567Z"]),
    "public.day": (["2026-01-01"], ["2026-01-01 05:00"]),
    "public.money": (["1.00", "$1.5"], ["1.005", "$1.005"]),
    "public.name": (["x" * 63], ["x" * 64]),
    "public.name[]": (["{x,NULL}"], ["{" + "x" * 64 + "}"]),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("type_", LOSING)
def test_a_text_that_would_lose_a_part_of_it_is_refused(bench: Bench, type_: str) -> None:
    for name, base in {"instant": "timestamptz", "day": "date", "money": "money", "name": "name"}.items():
        bench.execute(f"CREATE DOMAIN public.{name} AS pg_catalog.{base}")
    kept, losing = LOSING[type_]
    column = Column("value", parse_type(type_), ("value",))
    for each, refused in ((column, losing), *([(replace(column, round=True), [])] if "interval" in type_ else [])):
        with transaction(bench.session) as cursor:
            cursor.execute("CREATE TEMP TABLE taken (_partition integer, _offset bigint, value text) ON COMMIT DROP")
            for place, text in enumerate([*kept, *losing]):
                cursor.execute("INSERT INTO taken VALUES (0, %s, %s)", [place, text])
            found = judge(cursor, sql.Identifier("taken"), RecordShape(None, None, (each,)))
            failing = {row[1] for by in found for row in cursor.execute(by.coordinates_sql).fetchall()}
        assert failing == {len(kept) + place for place in range(len(refused))}


NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?")
UNLIMITED = {
    "public.code": "text",
    "public.prices": "numeric[]",
    "public.moment": "timestamptz",
    "public.moment[]": "timestamptz[]",
    "public.length": "interval",
}
CLOCK = re.compile(r"\b(now|today)\b", re.IGNORECASE)


@pytest.mark.usefixtures("way")
def test_judged_texts_are_those_that_postgres_takes(bench: Bench) -> None:
    bench.execute(TYPES)
    session = bench.session
    assert set(JUDGED) > {name for name in TEXTS if "." not in name and not name.endswith("[]")}

    @examples(150, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(TEXTS)))
        alphabet = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=6)
        likely = st.sampled_from(TEXTS[name])
        text = st.one_of(likely, likely, alphabet, st.tuples(likely, alphabet).map("".join))
        texts = data.draw(st.lists(st.none() | text, max_size=12))
        column = Column("value", parse_type(name), ("value",))
        with transaction(session) as cursor:
            cursor.execute("CREATE TEMP TABLE taken (_partition integer, _offset bigint, value text) ON COMMIT DROP")
            for place, each in enumerate(texts):
                cursor.execute("INSERT INTO taken VALUES (0, %s, %s)", [place, each])
            (found,) = judge(cursor, sql.Identifier("taken"), RecordShape(None, None, (column,))) or (None,)
            failing = {row[1] for row in cursor.execute(found.coordinates_sql)} if found else set()
        for place, each in enumerate(texts):
            takes = each is None or postgres_takes(session, column.type.sql, each)
            assert (place not in failing) == takes, (name, each)

    check()


def postgres_takes(session: Session, type_: str, text: str) -> bool:
    """Whether the type reads the text as COPY does, and always in the same way."""
    try:
        with transaction(session) as cursor:
            cursor.execute(f"CREATE TEMP TABLE one (value {type_}) ON COMMIT DROP")
            escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            cursor.copy_expert("COPY one FROM STDIN", StringIO(f"{escaped}\n"))
            base = UNLIMITED.get(type_, "text")
            query = f"SELECT value::text, value::{base} IS NOT DISTINCT FROM %s::{base} FROM one"
            read, is_same = cursor.execute(query, [text]).one()
    except (psycopg2.DataError, psycopg2.IntegrityError, psycopg2.InternalError, pg.SyntaxError):
        return False
    if CLOCK.search(text):
        return bool(CLOCK.search(read))
    if type_ in UNLIMITED:
        return bool(is_same)
    both = NUMBER.fullmatch(text) and NUMBER.fullmatch(read)
    return Decimal(text) == Decimal(read) if both else True


UNITS = {"s": -2, "ms": -1500, "us": -500_000, "ns": 90_061_000_000_000}


def test_a_number_for_an_interval_is_of_the_unit_that_the_file_says_and_else_refused(bench: Bench) -> None:
    lines = [f"    {unit}: {{type: interval, nullable: true, encoding: {unit}}}" for unit in UNITS]
    lines += ["    plain: {type: interval, nullable: true}", '    several: {type: "interval[]", nullable: true}']
    lines += ['    counted: {type: "interval[]", nullable: true, encoding: us}']
    lines += ["    texts: {type: interval, nullable: true, encoding: us, coerce: true}"]
    lines += ["    domain: {type: public.positive, nullable: true}", "    lsn: {type: pg_lsn, nullable: true}"]
    bench.settings["columns"] = "\n".join(lines)
    bench.execute(TYPES)
    bench.send(
        {
            "id": "a",
            **UNITS,
            "plain": "PT-0.5S",
            "counted": [1, None, 61_000_000],
            "texts": "-500000",
            "several": ["1 day"],
        },
        {"id": "plain", "plain": -500_000},
        {"id": "several", "several": ["1 day", 5]},
        {"id": "domain", "domain": 5},
        {"id": "lsn", "lsn": 5},
        {"id": "us", "us": 2**63 - 1},
        {"id": "ns", "ns": 1},
        {"id": "ms", "ms": "PT1S"},
        {"id": "s", "s": 1.5},
    )
    bench.ingest()
    stored = "event_id, s::text, ms::text, us::text, ns::text, plain::text, counted::text, texts::text, several::text"
    of_arrays = "{00:00:00.000001,NULL,00:01:01}", "-00:00:00.5", '{"1 day"}'
    assert bench.rows(stored) == [
        ("a", "-00:00:02", "-00:00:01.5", "-00:00:00.5", "25:01:01", "-00:00:00.5", *of_arrays)
    ]
    assert reasons_of(bench) == {
        ("plain", "$.plain", "type"),
        ("several", "$.several", "type"),
        ("domain", "$.domain", "type"),
        ("lsn", "$.lsn", "type"),
        ("us", "$.us", "range"),
        ("ns", "$.ns", "precision"),
        ("ms", "$.ms", "type"),
        ("s", "$.s", "type"),
    }
    details = {row[0] for row in rows(bench.session, "SELECT reasons->0->>'detail' FROM offset_ledger.quarantine")}
    assert (
        "expected a text for interval, got the number -500000 of an unknown unit: write its encoding (s, ms, us or ns)"
    ) in details
    assert (
        "expected a text for public.positive, got the number 5: write encoding: number to let Postgres read it as it is"
    ) in details
