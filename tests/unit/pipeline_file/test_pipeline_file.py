"""The pipeline file: what it means, every mistake with its line, and the JSON Schema that says the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from offset_ledger.errors import ConfigurationError, PipelineFileError
from offset_ledger.pipeline_file.column_types import ALIASES, PLAIN, parse_type
from offset_ledger.pipeline_file.json_path import format_path, parse_path
from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.parse import check_name, find_pipeline, parse_all, parse_pipeline
from offset_ledger.pipeline_file.pipeline import (
    REST,
    Column,
    ColumnType,
    Deletes,
    DeployMode,
    FieldCondition,
    History,
    Limits,
    Merge,
    NullBand,
    OnConflict,
    Partitions,
    Period,
    Pipeline,
    Quality,
    RecordShape,
    Resources,
    Spark,
    Stage,
    StageEngine,
    Target,
    Tombstone,
    Unusual,
    VolumeBand,
)
from offset_ledger.pipeline_file.schema import PIPELINE, schema_text
from offset_ledger.pipeline_file.source import OnExpired, Source, StartAt
from tests.examples import examples
from tests.paths import ROOT
from tests.unit.pipeline_file.files import BASE, edited, problems, raw_problems, schema_accepts, written

FLIGHTS = ROOT / "dags/pipelines/flights.yaml"
DOCS = ROOT / "docs"
HEAVY = ("airflow", "pyspark", "kafka", "psycopg2", "great_expectations", "croniter", "jsonschema")


# -- what a file means -------------------------------------------------------------------------------------------


def test_flights_is_what_its_columns_promise() -> None:
    optional: dict[str, Any] = {"nullable": True}
    integer, smallint, text = ColumnType("integer"), ColumnType("smallint"), ColumnType("text")
    assert parse_pipeline(FLIGHTS) == Pipeline(
        name="flights",
        description="Flights that left New York in 2013, each event carrying the state of one flight",
        owner="data-platform",
        tags=("flights", "demo"),
        schedule="*/15 * * * *",
        source=Source("kafka_default", "flights.events"),
        record=RecordShape(
            event_id=("event_id",),
            publish_at=("publish_at",),
            columns=(
                Column("status", text, ("status",)),
                Column("carrier", text, ("flight", "carrier")),
                Column("flight_number", integer, ("flight", "number")),
                Column("tail_number", text, ("flight", "tailnum"), **optional),
                Column("origin", ColumnType("varchar", (3,)), ("flight", "origin")),
                Column("destination", ColumnType("varchar", (3,)), ("flight", "dest")),
                Column("flight_date", ColumnType("date"), ("schedule", "date")),
                Column("scheduled_departure", ColumnType("timestamptz"), ("schedule", "dep"), encoding="rfc3339"),
                Column("scheduled_arrival", smallint, ("schedule", "arr_time")),
                Column("distance", integer, ("distance",)),
                Column("dep_time", smallint, ("actual", "dep_time"), **optional),
                Column("dep_delay", integer, ("actual", "dep_delay"), **optional),
                Column("arr_time", smallint, ("actual", "arr_time"), **optional),
                Column("arr_delay", integer, ("actual", "arr_delay"), **optional),
                Column("air_time", integer, ("actual", "air_time"), **optional),
            ),
        ),
        target=Target("postgres_default", "public", "flights"),
        quality=Quality("flights", 0.02),
        limits=Limits(2_000_000, 100_000),
        path=FLIGHTS,
        config_hash=sha256(FLIGHTS.read_bytes()).hexdigest(),
    )


def test_what_is_left_out_takes_the_defaults_of_the_model(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "pipeline: p\nsource: {connection: k, topic: t}\ntarget: {connection: d, table: s.t}\n"
        "record: {event_id: key, publish_at: kafka_timestamp, columns: {a: jsonb}}\n",
    )
    assert parse_pipeline(path) == Pipeline(
        name="p",
        source=Source("k", "t"),
        record=RecordShape(None, None, (Column("a", ColumnType("jsonb"), ("a",)),)),
        target=Target("d", "s", "t"),
        quality=Quality(),
        limits=Limits(),
        path=path,
        config_hash=sha256(path.read_bytes()).hexdigest(),
    )


GOOD: dict[str, tuple[str, str, str, Any]] = {
    "keep rejected": ("  suite: orders", "  keep_rejected_days: 30", "quality.keep_rejected_days", 30),
    "history by volume": ("  suite: orders", "  history: {volume: {}}", "quality.history",
        History(volume=VolumeBand())),
    "history in full": ("  suite: orders",
        "  history: {batches: 9, min_batches: 9, volume: {low: 0, high: 1, action: reject},"
        " null_share: {tolerance: 0, columns: [b], action: reject}}", "quality.history",
        History(9, 9, VolumeBand(0, 1, Unusual.REJECT), NullBand(0, ("b",), Unusual.REJECT))),
    "freshness null": ('"@hourly"', '"@hourly"\nfreshness: null', "freshness", None),
    "schedule null": ('"@hourly"', "null", "schedule", None),
    "schedule empty": ('"@hourly"', "", "schedule", None),
    "schedule with names": ('"@hourly"', '"0 6 * jan-jun mon,FRI"', "schedule", "0 6 * jan-jun mon,FRI"),
    "schedule on the last day": ('"@hourly"', '"0 6 L * *"', "schedule", "0 6 L * *"),
    "no tags": ("[one]", "[]", "tags", ()),
    "approvers": ("[one]", '[one]\napprovers: [ann, "7"]', "approvers", ("ann", "7")),
    "start latest": ("earliest", "latest", "source.start", StartAt.LATEST),
    "start none": ("earliest", "none", "source.start", StartAt.NONE),
    "start timestamp": ("earliest", "{timestamp: 2013-01-01T00:00:00Z}", "source.start", StartAt.TIMESTAMP),
    "start timestamp in UTC": ("earliest", "{timestamp: 2013-01-01T00:00:00.250+02:00}", "source.start_timestamp",
        datetime(2012, 12, 31, 22, 0, 0, 250_000, UTC)),
    "start quoted timestamp": ("earliest", '{timestamp: "2013-01-01T00:00:00Z"}', "source.start_timestamp",
        datetime(2013, 1, 1, tzinfo=UTC)),
    "not transactional": ("transactional: true", "transactional: false", "source.transactional", False),
    "on_expired": ("  transactional: true", "  on_expired: earliest_after_approval", "source.on_expired",
        OnExpired.EARLIEST_AFTER_APPROVAL),
    "longest topic": ("topic: orders", f"topic: {'t' * 249}", "source.topic", "t" * 249),
    "event id is the key": ("$.id", "key", "record.event_id", None),
    "deep event id": ("$.id", "$.meta.id", "record.event_id", ("meta", "id")),
    "named member": ("$.id", "'$[''any name''].b'", "record.event_id", ("any name", "b")),
    "publish_at of Kafka": ("$.at", "kafka_timestamp", "record.publish_at", None),
    "publish_at in millis": ("$.at", "{path: $.ts, encoding: epoch_ms}", "record.publish_at_encoding", "epoch_ms"),
    "publish_at path": ("$.at", "{path: $.ts, encoding: epoch_ms}", "record.publish_at", ("ts",)),
    "publish_at without encoding": ("$.at", "{path: $.ts}", "record.publish_at_encoding", "rfc3339"),
    "schema.table": ("table: orders", "table: sales.orders", "target.schema", "sales"),
    "table of public": ("table: orders", "table: pg_orders", "target.table", "pg_orders"),
    "skip_existing": ("table: orders", "table: orders\n  merge: skip_existing", "target.merge", Merge.SKIP_EXISTING),
    "partitions": ("table: orders", "table: orders\n  partitions: {every: week, by: c}", "target.partitions",
        Partitions(Period.WEEK, 1, "c")),
    "partitions of a table that is there": ("table: orders", "table: orders\n  partitions: {every: day, ahead: 7}",
        "target.partitions", Partitions(Period.DAY, 7)),
    "on_conflict": ("table: orders", "table: orders\n  on_conflict: quarantine", "target.on_conflict",
        OnConflict.QUARANTINE),
    "delete when": ("tombstone: skip", "delete_when: {path: $.a, equals: d}", "record.delete_when",
        FieldCondition(("a",), "d")),
    "delete with the key as event id": ("$.id\n  publish_at: $.at\n  tombstone: skip",
        "key\n  publish_at: kafka_timestamp\n  tombstone: delete", "record.tombstone", Tombstone.DELETE),
    "no suite": ("suite: orders", "suite: null", "quality.suite", None),
    "share 0": ("0.5", "0", "quality.max_quarantined_share", 0.0),
    "share 1": ("0.5", "1", "quality.max_quarantined_share", 1.0),
    "share in digits only": ("0.5", "1e-3", "quality.max_quarantined_share", 0.001),
    "whole number as 1e6": ("1000", "1e6", "limits.records_per_batch", 1_000_000),
    "value_bytes": ("records_per_batch: 1000", "value_bytes: 268435456", "limits.value_bytes", 268_435_456),
    "stage in full": ("1000", "1000\nstage: {engine: process, process_below: 5}", "stage",
        Stage(StageEngine.PROCESS, 5)),
    "no resources": ("1000", "1000\nspark: {resources: {}}", "spark", Spark()),
    "spark in full": ("1000",
        "1000\nspark: {connection: spark_yarn, deploy_mode: cluster, queue: etl.night, resources: "
        "{driver_memory: 1g, driver_cores: 1, executor_memory: 512m, executor_cores: 2, executors: 3,"
        " total_executor_cores: 6}, conf: {spark.a: b, spark.n: 2, spark.f: 0.5, spark.t: True, spark.q: 'false',"
        " spark.kubernetes.driver.secretKeyRef.X: mine:key}}", "spark", Spark("spark_yarn", DeployMode.CLUSTER,
            "etl.night", Resources("1g", 1, "512m", 2, 3, 6),
            {"spark.a": "b", "spark.n": "2", "spark.f": "0.5", "spark.t": "true", "spark.q": "false",
                "spark.kubernetes.driver.secretKeyRef.X": "mine:key"})),
    "markers in columns": ("table: orders", "table: orders", "target.deletes", Deletes.SOFT),
    "rows beside their bookkeeping": ("table: orders", "table: orders\n  bookkeeping: beside", "target.beside", True),
    "rows that go": ("table: orders", "table: orders\n  bookkeeping: {_batch_id: null}", "target.deletes",
        Deletes.HARD),
    "copies": ("table: orders",
        "table: orders\n  bookkeeping: {publish_at: updated_at, _batch_id: null, _offset: place}", "target.copied",
        (("publish_at", "updated_at"), ("_offset", "place"))),
    "refused deletes": ("table: orders", "table: orders\n  deletes: refuse", "record.refuses_deletes", True),
    "quoted number as text": ("pipeline: orders", 'pipeline: orders\nowner: "2013"', "owner", "2013"),
    "yes is text": ("pipeline: orders", "pipeline: orders\nowner: yes", "owner", "yes"),
    "a date is text": ("pipeline: orders", "pipeline: orders\ndescription: 2013-01-01", "description", "2013-01-01"),
    "byte order mark": ("pipeline: orders", "\ufeffpipeline: orders", "name", "orders"),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_value_is_read(case: str, tmp_path: Path) -> None:
    old, new, attribute, expected = GOOD[case]
    text = edited(old, new)
    found: Any = parse_pipeline(written(tmp_path, text))
    for name in attribute.split("."):
        found = getattr(found, name)
    assert (found, type(found)) == (expected, type(expected))
    assert schema_accepts(text.removeprefix("\ufeff"))


COLUMNS = {
    "c: bytea": Column("c", ColumnType("bytea"), ("c",), encoding="base64"),
    "c: {type: bytea, encoding: hex}": Column("c", ColumnType("bytea"), ("c",), encoding="hex"),
    "c: {type: timestamp with time zone, encoding: epoch_us}": Column(
        "c", ColumnType("timestamptz"), ("c",), encoding="epoch_us"
    ),
    "c: numeric(12)": Column("c", ColumnType("numeric", (12, 0)), ("c",)),
    "c: numeric(12, 2)": Column("c", ColumnType("numeric", (12, 2)), ("c",)),
    'c: {type: "decimal (1000,1000)"}': Column("c", ColumnType("numeric", (1000, 1000)), ("c",)),
    "c: character varying(10485760)": Column("c", ColumnType("varchar", (10_485_760,)), ("c",)),
    "c: {type: jsonb, path: $.x}": Column("c", ColumnType("jsonb"), ("x",)),
    "c: {type: jsonb, path: $.x.y}": Column("c", ColumnType("jsonb"), ("x", "y")),
    "c: {type: jsonb, aliases: [$.x.y, $.d]}": Column("c", ColumnType("jsonb"), ("c",), aliases=(("x", "y"), ("d",))),
    "c: {type: text, path: $.c.value, aliases: [$.c]}": Column(
        "c", ColumnType("text"), ("c", "value"), aliases=(("c",),)
    ),
    "on: int8": Column("on", ColumnType("bigint"), ("on",)),
    f"{'c' * 63}: uuid": Column("c" * 63, ColumnType("uuid"), ("c" * 63,)),
    "c: {type: text, value: web}": Column("c", ColumnType("text"), (), default='"web"'),
    "c: {type: smallint, value: -32768}": Column("c", ColumnType("smallint"), (), default="-32768"),
    "c: {type: numeric, value: 1e2}": Column("c", ColumnType("numeric"), (), default="1E+2"),
    "c: {type: boolean, default: False}": Column("c", ColumnType("boolean"), ("c",), default="false"),
    "c: {type: date, path: $.d, default: 2026-01-31}": Column("c", ColumnType("date"), ("d",), default='"2026-01-31"'),
    "c: {type: text, header: 'a b', nullable: true}": Column("c", ColumnType("text"), (), True, header="a b"),
    "c: {type: bytea, header: raw}": Column("c", ColumnType("bytea"), (), encoding="base64", header="raw"),
    "c: {type: integer, key: $}": Column("c", ColumnType("integer"), (), key=()),
    "c: {type: bigint, coerce: true, transform: trim}": Column("c", ColumnType("bigint"), ("c",), coerce=True,
        transform=("trim",)),
    "c: {type: timestamptz, round: true, years: all}": Column("c", ColumnType("timestamptz"), ("c",),
        encoding="rfc3339", round=True, far=True),
    "c: {type: time, encoding: us, coerce: true}": Column("c", ColumnType("time"), ("c",), encoding="us", coerce=True),
    "c: {type: timestamptz, coerce: true, encoding: epoch_s}": Column("c", ColumnType("timestamptz"), ("c",),
        encoding="epoch_s", coerce=True),
    "c: {type: jsonb, split: ' ', transform: [trim, lower]}": Column("c", ColumnType("jsonb"), ("c",),
        transform=("trim", "lower"), split=" "),
    "c: {type: text, coerce: false}": Column("c", ColumnType("text"), ("c",)),
    "c: {type: text, path: \"$['it\\\\'s']['\\\\\\\\']\"}": Column("c", ColumnType("text"), ("it's", "\\")),
}  # fmt: skip


@pytest.mark.parametrize("line", COLUMNS)
def test_column_is_read(line: str, tmp_path: Path) -> None:
    text = edited("c: timestamptz", line)
    assert parse_pipeline(written(tmp_path, text)).record.columns[-1] == COLUMNS[line]
    assert schema_accepts(text)


@pytest.mark.parametrize("name", [*PLAIN, *ALIASES])
def test_every_type_and_alias_is_read_alike_by_parser_and_schema(name: str) -> None:
    written_type = f"{name}(7)" if ALIASES.get(name) == "varchar" else name
    assert parse_type(written_type).name == ALIASES.get(name, name)
    assert schema_accepts(edited("c: timestamptz", f"c: {written_type}"))


@pytest.mark.parametrize(
    ("equals", "expected"),
    [("d", "d"), ('"true"', "true"), ("true", True), ("-1", -1), ('"1"', "1"), ("yes", "yes"), ('""', "")],
)
@pytest.mark.parametrize("tombstone", ["skip", "delete"])
def test_delete_when_is_a_path_and_a_value(tmp_path: Path, tombstone: str, equals: str, expected: object) -> None:
    text = edited("tombstone: skip", f"tombstone: {tombstone}\n  delete_when: {{path: $.op, equals: {equals}}}")
    if tombstone == "delete":
        text = text.replace("$.id", "key").replace("$.at", "kafka_timestamp")
    found = parse_pipeline(written(tmp_path, text)).record.delete_when
    assert found == FieldCondition(("op",), expected)  # type: ignore[arg-type]
    assert found is not None
    assert type(found.equals) is type(expected)
    assert schema_accepts(text)


WHERE = {
    "{path: $.op, equals: d}": ([FieldCondition(("op",), "d")], ()),
    "[{path: $.op, not: d}, {path: $.b, not: true}]": (
        [FieldCondition(("op",), "d", negated=True), FieldCondition(("b",), True, negated=True)],
        (),
    ),
    "{header: ce_type, equals: 7}": ([FieldCondition((), 7, header="ce_type")], ()),
    "{header: ce_type, not: x, schema: [a, b]}": ([FieldCondition((), "x", True, "ce_type")], ("a", "b")),
    "[{schema: a}, {path: $.op, equals: d}]": ([FieldCondition(("op",), "d")], ("a",)),
}


@pytest.mark.parametrize("where", WHERE)
def test_where_is_a_condition_or_a_list_of_them(tmp_path: Path, where: str) -> None:
    text = edited("tombstone: skip", f"where: {where}")
    text = edited("topic: orders", "topic: orders\n  format: avro\n  registry: r", text) if "schema" in where else text
    record = parse_pipeline(written(tmp_path, text)).record
    assert ([*record.where], record.schemas) == WHERE[where]
    assert schema_accepts(text)


def test_schemas_are_named_in_one_condition_of_a_list(tmp_path: Path) -> None:
    text = edited("tombstone: skip", "where: [{schema: a}, {schema: b}]")
    text = edited("topic: orders", "topic: orders\n  format: avro\n  registry: r", text)
    expected = "14: record.where[1].schema: an earlier condition names schemas already; write one list of them"
    assert problems(written(tmp_path, text)) == [expected]


@pytest.mark.parametrize("tombstone", ["skip", "delete"])
def test_publish_at_is_a_header_which_a_tombstone_has_too(tmp_path: Path, tombstone: str) -> None:
    text = edited(
        "$.at\n  tombstone: skip", f"{{header: ce_time, encoding: epoch_ns, round: true}}\n  tombstone: {tombstone}"
    )
    text = edited("event_id: $.id", "event_id: key", text)
    record = parse_pipeline(written(tmp_path, text)).record
    found = record.publish_at, record.publish_at_header, record.publish_at_encoding, record.publish_at_round
    assert found == (None, "ce_time", "epoch_ns", True)
    assert schema_accepts(text)


NAME = st.text("aZ09_- .'\\\\\"[]$é\n\0", min_size=1, max_size=6)


@examples(60, database=None)
@given(st.lists(NAME, min_size=1, max_size=4))
def test_a_path_survives_being_written_and_read(names: list[str]) -> None:
    assert parse_path(format_path(tuple(names))) == tuple(names)


# -- mistakes ----------------------------------------------------------------------------------------------------

CASES = yaml.load(Path(__file__).with_name("pipeline_mistakes.yaml").read_bytes(), yaml.CSafeLoader)


@pytest.mark.parametrize(("seen_by", "case"), [(seen_by, case) for seen_by in CASES for case in CASES[seen_by]])
def test_mistake_is_one_line_and_the_schema_refuses_it_too_where_it_can(
    seen_by: str, case: str, tmp_path: Path
) -> None:
    mistake = CASES[seen_by][case]
    text = edited(mistake["instead of"], mistake["write"])
    assert problems(written(tmp_path, text)) == [mistake["says"]]
    assert schema_accepts(text) == (seen_by == "only the parser sees")


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "1: the file is empty; describe a pipeline, beginning with pipeline: <name>"),
    "only a comment": (b"# later\n", "1: the file is empty; describe a pipeline, beginning with pipeline: <name>"),
    "not closed": (b"pipeline: orders\ntags: [one\nsource: {}\n",
        "3: not valid YAML: while parsing a flow sequence, expected ',' or ']', but got ':';"
        " look at column 7 and the line before it"),
    "two documents": (b"pipeline: orders\n---\npipeline: flights\n",
        "2: not valid YAML: expected a single document in the stream, but found another document;"
        " look at column 1 and the line before it"),
    "latin-1": (b"pipeline: orders\nowner: caf\xe9\n", "2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
    "control character": (b"pipeline: orders\nowner: \x07\n", "2: character U+0007 is not allowed in YAML; remove it"),
    "too deep": (b"[" * 1000, "1: the YAML is nested too deeply to be read; a pipeline file has three levels"),
    "a list": (b"- orders\n",
        "1: expected a mapping, found a list; write for example {pipeline: flights, source: {connection: kafka_default,"
        " topic: flights.events}, record: {event_id: $.event_id, publish_at: $.publish_at, columns: {carrier: text}},"
        " target: {table: public.flights}}"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_file_that_is_no_mapping_is_one_line(case: str, tmp_path: Path) -> None:
    data, expected = UNREADABLE[case]
    assert problems(written(tmp_path, data)) == [expected]


def test_missing_file_and_folder_are_one_line(tmp_path: Path) -> None:
    assert problems(tmp_path / "no.yaml") == ["1: there is no such file; give the path of a pipeline file"]
    assert problems(tmp_path) == ["1: the file cannot be read: Is a directory; give a readable file"]


def test_keys_that_are_not_text_and_tagged_values_are_refused_unread(tmp_path: Path) -> None:
    text = BASE.replace("c: timestamptz", "null: text").replace("owner", "").replace("@hourly", "@daily")
    text += "? [a]\n: 1\nowner: !!python/object/apply:os.getcwd []\n"
    assert problems(written(tmp_path, text)) == [
        "16: record.columns has a key that is not text: nothing; write a name, in quotes if YAML reads it as something"
        " else",
        "25: the file has a key that is not text: a list; write a name, in quotes if YAML reads it as something else",
        "27: owner: expected text, found a list; write text, or leave the key out where it is optional",
    ]


def test_comma_that_ends_a_type_between_braces_is_explained(tmp_path: Path) -> None:
    path = written(tmp_path, edited("c: timestamptz", "c: {type: numeric(12,2)}"))
    assert problems(path) == [
        "16: record.columns.c.2) is not a known key; the keys are type, path, aliases, nullable, key, header,"
        " value, default, coerce, transform, split, encoding, round, years, absent, group, description",
        "16: record.columns.c.type: 'numeric(12' ends inside its brackets;"
        ' between { and } write it in quotes: "numeric(12,2)"',
    ]


def test_all_mistakes_come_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = BASE.replace("0.5", "5").replace("c: timestamptz", "c: timestamp").replace("orders\nsch", "Orders\nsch")
    assert [problem.split(": ")[:2] for problem in problems(written(tmp_path, text))] == [
        ["1", "pipeline"],
        ["16", "record.columns.c"],
        ["22", "quality.max_quarantined_share"],
    ]


def test_a_column_with_a_wrong_path_does_not_blame_its_neighbours(tmp_path: Path) -> None:
    text = edited("c: timestamptz", "c: {type: text, path: a}")
    assert problems(written(tmp_path, text)) == ["16: record.columns.c.path: 'a' is not a path; write $.a"]


def test_members_of_a_jsonb_column_are_read_but_no_scalar_twice(tmp_path: Path) -> None:
    inside = "c: {type: jsonb, path: $.z}\n    d: {type: text, path: $.z.d}\n    e: {type: date, path: $.z.e.f}"
    assert problems(written(tmp_path, edited("c: timestamptz", inside))) == []
    twice = "c: {type: jsonb, path: $.z}\n    d: {type: text, path: $.z}\n    e: {type: date, path: $.z}"
    assert problems(written(tmp_path, edited("c: timestamptz", twice))) == [
        "18: record.columns.e: $.z is read by record.columns.d already; drop one of them"
    ]


KEYS = {
    "{id: bigint, tenant: {type: uuid, key: $}}": None,
    "{event_id: uuid}": None,
    "{}": "record.key: 0 columns, where a table takes 1 to 32; declare that many",
    "{k: jsonb}": "record.key.k: a key of jsonb would have many texts; read a single value of it",
    "{k: 'bigint[]'}": "record.key.k: a key of bigint[] would have many texts; read a single value of it",
    "{k: inet, m: public.mood}": None,
    "{k: {type: text, nullable: true}}": "record.key.k: a key is never NULL; drop nullable, or write a default",
    "{c: text}": "record.key.c: c is a column of record.columns too; drop it there: a key is a column",
    "{d: {type: text, path: $.c}}": "record.key.d: $.c is read by record.columns.c already; drop one of them",
}


@pytest.mark.parametrize(("key", "wrong"), KEYS.items())
def test_a_key_has_columns_of_its_own(tmp_path: Path, key: str, wrong: str | None) -> None:
    path = written(tmp_path, edited("event_id: $.id", f"key: {key}"))
    found = [line.split(": ", 1)[1] for line in problems(path)]
    assert found == ([wrong] if wrong else [])


def test_rows_have_one_key(tmp_path: Path) -> None:
    assert problems(written(tmp_path, edited("event_id: $.id", "event_id: $.id\n  key: {k: text}"))) == [
        "10: record.event_id: the columns of record.key say already what identifies the event; keep one of the two"
    ]
    (missing,) = problems(written(tmp_path, edited("  event_id: $.id\n", "")))
    assert missing.endswith("record.event_id is missing; add it, for example event_id: $.event_id")
    deleting = edited("event_id: $.id", "key: {k: text}").replace("tombstone: skip", "tombstone: delete")
    assert any(
        "write k: {type: text, key: $.k}, or tombstone: quarantine" in each
        for each in problems(written(tmp_path, deleting))
    )


MORE_OF_ID = (("d", "jsonb", "$.id"), ("e", "text", "$.id"), ("f", "text", "$.id.f"))


def test_the_event_id_may_be_one_column_too(tmp_path: Path) -> None:
    also = "c: {type: bigint, path: $.id}"
    assert problems(written(tmp_path, edited("c: timestamptz", also))) == []
    more = [f"    {name}: {{type: {kind}, path: {path}}}" for name, kind, path in MORE_OF_ID]
    twice = "\n".join([also, *more])
    assert problems(written(tmp_path, edited("c: timestamptz", twice))) == [
        "18: record.columns.e: $.id is read by record.columns.c already; drop one of them",
        "19: record.columns.f: $.id.f lies inside $.id, which record.columns.c reads as bigint; drop one of them, or "
        "read the outer one as jsonb",
    ]


def test_1589_columns_are_the_most(tmp_path: Path) -> None:
    columns = [f"    n{number}: text" for number in range(1590)]
    start, _, end = BASE.partition("    a: text\n")
    rest = end[end.index("target:") :]
    most, more = ("\n".join([*start.splitlines(), *columns[first:], rest]) for first in (1, 0))
    assert problems(written(tmp_path, most)) == []
    assert problems(written(tmp_path, more)) == [
        "13: record.columns: 1590 columns, where a table takes 0 to 1589; declare that many"
    ]
    declared = PIPELINE["properties"]["record"]["properties"]["columns"]
    assert declared["anyOf"][1]["maxProperties"] == 1589


def test_rest_is_one_more_column_the_last(tmp_path: Path) -> None:
    record = parse_pipeline(written(tmp_path, edited("  columns:", "  rest: true\n  columns:"))).record
    plain = parse_pipeline(written(tmp_path, BASE)).record
    assert (record.columns, record.rest, plain.rest) == ((*plain.columns, REST), True, False)
    without = parse_pipeline(written(tmp_path, edited("  columns:", "  rest: false\n  columns:"))).record
    assert without == plain
    columns = "\n".join(f"    n{number}: text" for number in range(1589))
    start, _, end = edited("  columns:", "  rest: true\n  columns:").partition("    a: text\n")
    assert problems(written(tmp_path, f"{start}{columns}\n{end[end.index('target:') :]}")) == [
        "13: record.rest: _rest is one column more than the 1589 that a table takes; drop a column, or drop the key"
    ]


LINE = re.compile(r"[^\n]*\.yaml:[1-9][0-9]*: [^\n;]+; [^\n]+")


def broken_flights() -> list[str]:
    """The flights file without each of its lines, and with something else after each colon."""
    lines = FLIGHTS.read_text().splitlines()
    cut = ["\n".join(lines[:number] + lines[number + 1 :]) for number in range(len(lines))]
    others = ("[1]", "null", "~x", "{}", "-1", "!!binary aGk=", "*gone")
    swapped = [
        "\n".join(
            [*lines[:number], f"{lines[number].split(':')[0]}: {others[number % len(others)]}", *lines[number + 1 :]]
        )
        for number in range(len(lines))
        if ":" in lines[number]
    ]
    return cut + swapped


@pytest.mark.parametrize("number", range(len(broken_flights())))
def test_a_damaged_file_parses_or_names_lines_and_the_schema_never_asks_for_more(number: int, tmp_path: Path) -> None:
    text = broken_flights()[number]
    found = raw_problems(written(tmp_path, text))
    assert [problem for problem in found if not LINE.fullmatch(problem)] == []
    assert found or schema_accepts(text)


# -- the folder --------------------------------------------------------------------------------------------------


def test_find_by_name_or_path(tmp_path: Path) -> None:
    first = written(tmp_path, BASE, "a.yaml")
    second = written(tmp_path, edited("pipeline: orders", "pipeline: returns"), "b.yml")
    broken = written(tmp_path, "pipeline: [", "broken.yaml")
    (tmp_path / "notes.txt").write_text("pipeline: notes")
    assert find_pipeline("orders", tmp_path) == first
    assert find_pipeline("returns", tmp_path) == second
    assert find_pipeline("broken", tmp_path) == broken
    assert find_pipeline("b.yml", tmp_path) == second
    assert find_pipeline(str(first), tmp_path / "elsewhere") == first


def unfound(name: str, folder: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        find_pipeline(name, folder)
    return str(caught.value)


def test_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    written(tmp_path, BASE)
    known = f"{tmp_path} has orders"
    assert unfound("ordres", tmp_path) == f"there is no pipeline 'ordres'; did you mean orders? {known}"
    path = written(tmp_path, edited("pipeline: orders", "pipeline: returns"), "returned.yaml")
    assert unfound("returned", tmp_path) == f"there is no pipeline 'returned'; {path} is the file of pipeline returns"
    path.write_text(path.read_text().replace("pipeline: returns", "pipeline: orders"))
    assert unfound("no/such.yaml", tmp_path) == f"there is no pipeline file no/such.yaml; {known}"
    nothing = f"{tmp_path / 'none'} has no pipelines; give the path of a YAML file"
    assert unfound("orders", tmp_path / "none") == f"there is no pipeline 'orders'; {nothing}"


def test_a_name_of_two_files_is_ambiguous(tmp_path: Path) -> None:
    first, second = (written(tmp_path, BASE, name) for name in ("a.yaml", "b.yaml"))
    both = f"{first} and {second} are both called orders; rename one of them"
    assert unfound("orders", tmp_path) == both
    for path in (first, second):
        with pytest.raises(ConfigurationError) as caught:
            check_name(parse_pipeline(path))
        assert str(caught.value) == both
    second.unlink()
    elsewhere = written(tmp_path, BASE, "orders.yaml.new")
    for path in (first, elsewhere):
        check_name(parse_pipeline(path))


def test_parse_all_sorts_by_name_and_collects_the_mistakes_of_all_files(tmp_path: Path) -> None:
    written(tmp_path, edited("pipeline: orders", "pipeline: zebras").replace("table: orders", "table: z"), "a.yaml")
    written(tmp_path, BASE, "b.yaml")
    assert [pipeline.name for pipeline in parse_all(tmp_path)] == ["orders", "zebras"]
    bad = [written(tmp_path, edited("pipeline: orders", "pipeline: 1"), name) for name in ("c.yaml", "d.yaml")]
    with pytest.raises(PipelineFileError) as caught:
        parse_all(tmp_path)
    wrong = 'pipeline: expected text, found 1; write "1" in quotes'
    assert caught.value.problems == tuple(f"{path}:1: {wrong}" for path in bad)


def test_two_pipelines_share_neither_name_nor_table(tmp_path: Path) -> None:
    first, second = (written(tmp_path, BASE, name) for name in ("a.yaml", "b.yaml"))
    with pytest.raises(PipelineFileError) as caught:
        parse_all(tmp_path)
    assert caught.value.problems == (
        f"{second}:1: {first} has the pipeline orders too; give each pipeline its own name",
        f"{second}:18: {first} has the target public.orders too; give each pipeline its own table",
    )


def test_parse_all_of_no_folder_is_an_error(tmp_path: Path) -> None:
    assert parse_all(tmp_path) == ()
    with pytest.raises(ConfigurationError, match="is not a folder"):
        parse_all(tmp_path / "none")


# -- schema, documentation, weight -------------------------------------------------------------------------------


def test_schema_is_valid_and_the_committed_one_equals_it() -> None:
    Draft202012Validator.check_schema(json.loads(schema_text()))
    assert (DOCS / "pipeline.schema.json").read_text() == schema_text()


def schema_keys(schema: dict[str, Any], where: str = "") -> dict[str, dict[str, Any]]:
    """Every key that the schema knows, by its dotted place."""
    found: dict[str, dict[str, Any]] = {}
    for key, about in schema.get("properties", {}).items():
        found[f"{where}{key}"] = about
        for inner in (about, about.get("items", {}), *about.get("anyOf", ())):
            found |= schema_keys(inner, f"{where}{key}.")
    for inner in (schema.get("additionalProperties") or {}).get("anyOf", ()) if "propertyNames" in schema else ():
        found |= schema_keys(inner, f"{where}<name>.")
    return found


def test_every_key_has_a_description_and_an_example_that_the_schema_accepts() -> None:
    keys = schema_keys(PIPELINE)
    assert {"source.start.timestamp", "record.columns.<name>.encoding", "record.publish_at.path"} <= set(keys)
    assert [key for key, about in keys.items() if not about["description"]] == []
    assert [
        (key, example)
        for key, about in keys.items()
        for example in about["examples"]
        if not Draft202012Validator(about).is_valid(example)
    ] == []


def section(heading: str) -> str:
    page = (DOCS / "pipeline-file.md").read_text(encoding="utf-8")
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def fenced(language: str, heading: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)


def test_documentation_has_every_key_and_no_other() -> None:
    cells = re.findall(r"^\| (`[^|]+`) \|", section("Keys"), re.MULTILINE)
    assert sorted(key for cell in cells for key in re.findall(r"`([^`]+)`", cell)) == sorted(schema_keys(PIPELINE))


def test_documentation_shows_files_that_parse(tmp_path: Path) -> None:
    (example,) = fenced("yaml", "A whole file")
    assert problems(written(tmp_path, example)) == []
    assert schema_accepts(example)


def test_documentation_shows_what_the_parser_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,), (output,) = fenced("yaml", "What a mistake looks like"), fenced("text", "What a mistake looks like")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(written(Path(), example))
    assert str(caught.value) == output.rstrip("\n")


def test_parsing_imports_nothing_heavy() -> None:
    code = f"import sys, offset_ledger.pipeline_file.parse; print([name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("written", "right"),
    [
        *((each, "timestamptz") for each in ("datetime", "Datetime", "datetime64[ns]", "datetime64[ns, UTC]",
            "DATETIME2")),
        *((each, "timestamptz") for each in ("timestamp_ltz", "timestamp_tz", "timestamp-millis", "datetimeoffset")),
        *((each, "double precision") for each in ("float64", "Float64", "double", "DOUBLE", "DoubleType")),
        *((each, "real") for each in ("float32", "single", "FloatType")),
        *((each, "bigint") for each in ("int64", "Int64", "long", "LongType", "uint32", "longlong")),
        *((each, "integer") for each in ("int32", "Int32", "uint16", "mediumint", "IntegerType")),
        *((each, "smallint") for each in ("int16", "short", "tinyint", "byte", "uint8", "ShortType")),
        *((each, "numeric(20,0)") for each in ("uint64", "bigint unsigned")),
        *((each, "numeric(p,s)") for each in ("number", "decimal128", "money", "DecimalType")),
        *((each, "text") for each in ("string", "str", "String", "StringType", "enum", "clob", "duration")),
        *((each, "varchar(n) or text") for each in ("nvarchar(50)", "string(20)", "VARCHAR2(10)")),
        *((each, "boolean") for each in ("bit", "BooleanType")),
        *((each, "jsonb") for each in ("JSON", "object", "struct", "record", "map", "dict", "array", "list",
            "variant")),
        *((each, "bytea") for each in ("bytes", "binary", "blob", "varbinary", "fixed")),
        *((each, "uuid") for each in ("guid", "uniqueidentifier")),
        *((each, "date") for each in ("date32", "DateType")),
        *((each, "time") for each in ("time64[us]", "TimeType", "time-millis", "timetz", "time with time zone",
            "time(3)")),
    ],
)  # fmt: skip
def test_a_type_of_another_system_is_answered_with_the_one_that_takes_its_values(written: str, right: str) -> None:
    assert f"write {right}" in refused_type(written)


def refused_type(written: str) -> str:
    with pytest.raises(Refused) as raised:
        parse_type(written)
    return str(raised.value)


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("timestampz", "did you mean timestamptz?"), ("intger", "did you mean integer?"),
        ("NUMERIC(12,2)", "did you mean numeric(12,2)?"), ("Double Precision", "did you mean double precision?"),
        ("datetme", "write timestamptz"), ("flaot64", "write double precision"), ("geometry", "the types are text, "),
        ("int4rnage", "did you mean int4range?"), ("INET", "did you mean inet?"),
        ("Timestamp", "did you mean timestamptz?"),
    ],
)  # fmt: skip
def test_a_type_that_is_written_wrong_is_answered_with_what_was_meant(written: str, right: str) -> None:
    assert right in refused_type(written)


@pytest.mark.parametrize(
    "written",
    ["public.mood", 'public."Order Status"', "gis.geometry(Point,4326)", "inet", "tstzrange", "a.b[]", "inet[]"],
)
def test_types_that_postgres_reads_are_named_as_it_does(written: str) -> None:
    assert (parse_type(written).sql, parse_type(written).judged) == (written, True)
    assert parse_type(written).staged == ("text[]" if written.endswith("[]") else "text")


@pytest.mark.parametrize(
    "written",
    ["public.mood; DROP", "public.", ".mood", 'public."a\'b"', "public.mood(1", "a.b.c", "interval(3)", "Public.x"],
)
def test_no_other_text_is_a_type_of_the_database(written: str) -> None:
    with pytest.raises(Refused):
        parse_type(written)
