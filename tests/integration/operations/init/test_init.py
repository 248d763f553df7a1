"""``init`` on real servers: the file that it writes loads the very records that it was written from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect, rows, transaction
from offset_ledger.steps.run.ingest import ingest
from offset_ledger.steps.validate.step import read_suite
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.formats import AVRO
from tests.fixtures.servers import Servers
from tests.fixtures.tables import do
from tests.fixtures.topic_bench import quiet
from tests.paths import ROOT

NOON = 1_767_268_800_000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def topic(servers: Servers, topic_name: Callable[[], str]) -> str:
    """An empty topic of two partitions."""
    name = topic_name()
    create_topic(dict(servers.kafka.extra), name, 2, 1, {"retention.ms": "-1"})
    return name


def send(servers: Servers, topic: str, *values: bytes) -> None:
    records = [Record(f"k{n}".encode(), value, (), NOON + n, n % 2) for n, value in enumerate(values)]
    publish(records, dict(servers.kafka.extra), topic)


def loaded(servers: Servers, path: Path, columns: str) -> list[tuple[Any, ...]]:
    """The rows after an ingest of the file, and what is in quarantine."""
    list(ingest(parse_pipeline(path), Origin("test"), True, quiet))
    with connect(servers.postgres) as session:
        assert rows(session, "SELECT * FROM offset_ledger.quarantine") == []
        return [tuple(row) for row in rows(session, f"SELECT {columns} FROM public.orders ORDER BY event_id")]


def documents() -> list[dict[str, Any]]:
    return [
        {
            "id": f"o-{n:02}",
            "at": f"2026-01-01T12:00:{n:02}Z",
            "customer": {"id": n % 7, "name": None if n % 3 else "Ada: # 'x'"},
            "amount": n + 0.25,
            "state": ("new", "paid")[n % 2],
            "lines": [n],
        }
        for n in range(60)
    ]


def test_a_topic_in_json(servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    send(servers, topic, *(json.dumps(each).encode() for each in documents()))
    assert main(["init", "--topic", topic, "--name", "orders"]) == 0
    said = capsys.readouterr().out
    assert "wrote dags/pipelines/orders.yaml and expectations/orders.json, from 60 records" in said
    assert "  event_id: unique in 60 records, and named id; other candidates: key (unique in 60 records)" in said
    assert said.endswith("offset-ledger ingest dags/pipelines/orders.yaml --dry-run\n")
    path = here / "dags/pipelines/orders.yaml"
    suite = read_suite(parse_pipeline(path))
    assert suite is not None
    assert "state is one of the 2 texts of the sample" in [each.text for each in suite.expectations]
    names = "event_id, publish_at::text, customer_id, customer_name, amount::text, state, lines"
    expected = [
        (d["id"], d["customer"]["id"], d["customer"]["name"], str(d["amount"]), d["state"], d["lines"])
        for d in documents()
    ]
    assert [(row[0], *row[2:]) for row in loaded(servers, path, names)] == expected


def test_a_topic_in_avro_with_two_versions_of_its_schema(
    servers: Servers, topic: str, here: Path, registry_connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = connect_registry(registry_connection)
    texts = [AVRO.schema(version).replace("Order2", "Order1") for version in (1, 2)]
    ids = [registry.register(f"{topic}-value", AVRO.language, text) for text in texts]
    frames = [b"\0" + id_.to_bytes(4, "big") for id_ in ids]
    first = [frames[0] + AVRO.encode(1, {"id": f"a{n}", "amount": n}) for n in range(5)]
    second = [frames[1] + AVRO.encode(2, {"id": f"b{n}", "amount": None, "note": f"n{n}"}) for n in range(5)]
    send(servers, topic, *first, *second)
    assert main(["init", "--topic", topic, "--name", "orders", "--registry", "registry_default", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["written"][0] == "dags/pipelines/orders.yaml"
    expected = [(f"a{n}", n, None, ids[0]) for n in range(5)] + [(f"b{n}", None, f"n{n}", ids[1]) for n in range(5)]
    assert loaded(servers, here / done["written"][0], "event_id, amount, note, _schema_id") == expected


def test_a_topic_whose_schemas_headers_name(
    servers: Servers, topic: str, here: Path, guid_connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = connect_registry(guid_connection)
    schema = registry.schema(registry.register(f"{topic}-value", AVRO.language, AVRO.schema(1)))
    assert schema
    assert schema.guid
    values = [AVRO.encode(1, {"id": f"a{n}", "amount": n}) for n in range(5)]
    header = ("__value_schema_id", b"\1" + schema.guid.bytes)
    records = [Record(None, value, (header,), NOON + n, n % 2) for n, value in enumerate(values)]
    publish(records, dict(servers.kafka.extra), topic)
    assert main(["init", "--topic", topic, "--name", "orders", "--registry", "registry_default", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    expected = [(f"a{n}", n, schema.schema_id) for n in range(5)]
    assert loaded(servers, here / done["written"][0], "event_id, amount, _schema_id") == expected


def test_a_topic_with_two_kinds_of_records(
    servers: Servers, topic: str, here: Path, registry_connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = connect_registry(registry_connection)
    names = {1: f"{topic}-shop.Order1", 2: f"{topic}-shop.Order2"}
    frames = {v: b"\0" + registry.register(names[v], AVRO.language, AVRO.schema(v)).to_bytes(4, "big") for v in names}
    first = [frames[1] + AVRO.encode(1, {"id": f"a{n}", "amount": n}) for n in range(3)]
    second = [frames[2] + AVRO.encode(2, {"id": f"b{n}", "amount": n, "note": "x"}) for n in range(5)]
    send(servers, topic, *first, *second)
    assert main(["init", "--topic", topic, "--name", "orders", "--registry", "registry_default", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert "  subject: topic_record\n" in done["file"]
    assert "  where: {schema: shop.Order2}\n" in done["file"]
    said = "the records are of 2 kinds: shop.Order2 (5), shop.Order1 (3); record.where takes shop.Order2"
    assert [doubt for doubt in done["unsure"] if "kinds" in doubt] == [f"{said}, the others are skipped"]
    path = here / done["written"][0]
    assert loaded(servers, path, "event_id, amount, note") == [(f"b{n}", n, "x") for n in range(5)]
    assert main(["check", "--data", str(path), "--from-offset", "0", "--partition", "0"]) == 0
    assert "skipped; nothing was written" in capsys.readouterr().out


def test_the_latest_schema_where_there_are_no_records(
    servers: Servers, topic: str, here: Path, registry_connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["init", "--topic", topic, "--registry", "registry_default", "--output", "-"]
    assert main(arguments) == 1
    assert f"the registry no subject {topic}-value; publish first" in capsys.readouterr().err
    connect_registry(registry_connection).register(f"{topic}-value", AVRO.language, AVRO.schema(2))
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "  event_id: $.id\n" in printed.out
    assert "    note: {type: text, nullable: true}\n" in printed.out
    assert printed.err.startswith("event_id: by its name alone, and named id;")
    assert list(here.iterdir()) == []
    assert servers.bootstrap


def test_nothing_is_overwritten_unless_forced(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "orders.yaml").write_text("mine")
    arguments = ["init", "--topic", topic, "--name", "orders", "--output", "orders.yaml"]
    assert main(arguments) == 1
    assert "orders.yaml would be overwritten; name another --output, or add --force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 1
    assert "it has no records; publish some first" in capsys.readouterr().err
    assert (here / "orders.yaml").read_text() == "mine"
    send(servers, topic, b'{"id": 1, "n": 2}')
    assert main([*arguments, "--force"]) == 0
    assert parse_pipeline(here / "orders.yaml").source.topic == topic


def test_the_name_is_that_of_the_file_and_the_event_id_the_given_one(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [{"event_id": f"e{n}", "payment": {"id": n}, "note": "x" * (n + 1)} for n in range(60)]
    send(servers, topic, *(json.dumps(each).encode() for each in values))
    arguments = ["init", "--topic", topic, "--output", "dags/orders.yaml", "--event-id"]
    assert main([*arguments, "payment.id"]) == 1
    assert "'payment.id' is not a path; write $.payment.id" in capsys.readouterr().err
    assert main([*arguments, "$['payment'].id"]) == 0
    path = here / "dags/orders.yaml"
    pipeline = parse_pipeline(path)
    assert (pipeline.name, pipeline.record.event_id) == ("orders", ("payment", "id"))
    suite = read_suite(pipeline)
    assert suite is not None
    assert [each.text for each in suite.expectations] == [
        "event_id_2 has 1 to 10 characters; the sample has 2 to 3",
        "payment_id was never negative in the sample",
        "note has 1 to 1000 characters; the sample has 1 to 60",
    ]
    found = loaded(servers, path, "event_id, payment_id, event_id_2")
    assert sorted(found) == sorted((str(n), n, f"e{n}") for n in range(60))


EXISTING = """
CREATE TYPE public.state AS ENUM ('new', 'paid');
CREATE TABLE public.orders (
  row_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, tenant uuid NOT NULL, number integer NOT NULL,
  state public.state NOT NULL, amount numeric(9,2), tags text[], placed timestamptz NOT NULL, customer_id bigint,
  twice numeric GENERATED ALWAYS AS (2 * amount) STORED, added timestamptz NOT NULL DEFAULT now(), note text,
  UNIQUE (tenant, number))
"""
TENANTS = ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")


def orders() -> list[dict[str, Any]]:
    return [
        {
            "tenant": TENANTS[n % 2], "number": n // 2, "state": ("new", "paid")[n % 2], "amount": f"{n}.25",
            "tags": ["a", f"b{n}"], "placed": NOON + n, "customer": {"id": n % 5}, "source": "web",
        }
        for n in range(60)
    ]  # fmt: skip


def test_a_table_that_exists_says_what_columns_there_are(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute(EXISTING)
    send(servers, topic, *(json.dumps(each).encode() for each in orders()))
    assert main(["init", "--topic", topic, "--table", "public.orders", "--output", "dags/pipelines/orders.yaml"]) == 0
    said = capsys.readouterr().out
    assert "  key: the rows of public.orders are known by tenant, number" in said
    assert "  public.orders has no column for $.source" in said
    assert "  column placed: numbers of the sample, read as moments" in said
    path = here / "dags/pipelines/orders.yaml"
    columns = "\n".join(
        [
            "    state: public.state",
            '    amount: {type: "numeric(9,2)", nullable: true, coerce: true}',
            '    tags: {type: "text[]", nullable: true}',
            "    # numbers of the sample, read as moments",
            "    placed: {type: timestamptz, encoding: epoch_ms}",
            "    customer_id: {type: bigint, path: $.customer.id, nullable: true}",
        ]
    )
    assert f"  columns:\n{columns}\n\n" in path.read_text()
    assert "  key:\n    tenant: uuid\n    number: integer\n" in path.read_text()

    assert "  bookkeeping: beside\n" in path.read_text()
    list(ingest(parse_pipeline(path), Origin("test"), True, quiet))
    with connect(servers.postgres) as session:
        stored = rows(
            session,
            "SELECT tenant::text, number, state::text, amount::text, tags, placed, customer_id FROM public.orders",
        )
        assert rows(session, "SELECT FROM offset_ledger.quarantine") == []
    at, named = datetime.fromtimestamp(NOON / 1000, UTC), ("tenant", "number", "state", "amount", "tags")
    assert sorted(tuple(row) for row in stored) == sorted(
        (*map(d.get, named), at + timedelta(milliseconds=n), d["customer"]["id"]) for n, d in enumerate(orders())
    )


def test_a_table_with_one_text_as_its_key_is_known_by_the_kafka_key(
    servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute("CREATE TABLE public.orders (code varchar(9) PRIMARY KEY, n integer NOT NULL)")
    send(servers, topic, *(json.dumps({"n": n}).encode() for n in range(3)))
    assert main(["init", "--topic", topic, "--table", "public.orders", "--output", "-"]) == 0
    assert '  key:\n    code: {type: "varchar(9)", key: $}\n' in capsys.readouterr().out


def test_a_table_of_nothing_but_a_key_is_filled(servers: Servers, topic: str, here: Path) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute("CREATE TABLE public.orders (user_id bigint, group_id bigint, PRIMARY KEY (user_id, group_id))")
    joins = [{"userId": n % 7, "groupId": n % 3, "joined_at": NOON + n} for n in range(20)]
    send(servers, topic, *(json.dumps(each).encode() for each in joins))
    assert main(["init", "--topic", topic, "--table", "public.orders", "--output", "dags/pipelines/orders.yaml"]) == 0
    path = here / "dags/pipelines/orders.yaml"
    key = "    user_id: {type: bigint, path: $.userId}\n    group_id: {type: bigint, path: $.groupId}\n"
    assert f"  key:\n{key}" in path.read_text()
    assert "  columns: {}\n\n" in path.read_text()
    list(ingest(pipeline := parse_pipeline(path), Origin("test"), True, quiet))
    with connect(servers.postgres) as session:
        stored = {tuple(row) for row in rows(session, "SELECT user_id, group_id FROM public.orders")}
    assert stored == {(each["userId"], each["groupId"]) for each in joins}
    assert main(["verify", str(path), "--against-topic"]) == 0
    compared = compare_with_topic(pipeline)
    assert (compared.records, compared.violations, compared.notes) == (20, (), ())
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute("DELETE FROM offset_ledger_rows.orders WHERE (user_id, group_id) = (1, 1)")
    (gone,) = compare_with_topic(pipeline).violations
    assert "event 1, 1: the table does not have this event id" in gone


def test_a_table_and_columns_of_any_name_are_found_filled_redriven_and_compared(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = '"orderId" bigint, "Line No" integer, "unitPrice" numeric NOT NULL, unit_price text, "%" text'
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute(f'CREATE SCHEMA "Sales"; CREATE TABLE "Sales"."Order Lines" ({columns})')
        cursor.execute('ALTER TABLE "Sales"."Order Lines" ADD PRIMARY KEY ("orderId", "Line No")')
    lines = [{"orderId": n, "line_no": n % 3, "unitPrice": n + 0.5, "%": "5%", "at": NOON + n} for n in range(30)]
    wrong = {**lines[0], "orderId": 99, "unitPrice": None}
    send(servers, topic, *(json.dumps(each).encode() for each in lines))
    name = '"Sales"."Order Lines"'
    path = here / "dags/pipelines/lines.yaml"
    assert main(["init", "--topic", topic, "--table", name, "--output", str(path)]) == 0
    capsys.readouterr()
    send(servers, topic, json.dumps(wrong).encode())
    text = path.read_text()
    assert f"  table: '{name}'\n" in text
    assert '  key:\n    orderId: bigint\n    "Line No": {type: integer, path: $.line_no}\n' in text
    assert '  columns:\n    unitPrice: numeric\n    "%": {type: text, nullable: true}\n' in text
    path.write_text(text + "\nquality: {max_quarantined_share: 1}\n")
    list(ingest(pipeline := parse_pipeline(path), Origin("test"), True, quiet))
    with connect(servers.postgres) as session:
        stored = rows(session, f'SELECT "orderId", "Line No", "unitPrice"::float8, "%%" FROM {name}', {})
    assert {tuple(row) for row in stored} == {(n, n % 3, n + 0.5, "5%") for n in range(30)}
    compared = compare_with_topic(pipeline)
    assert (compared.records, compared.violations, compared.notes) == (31, (), ())
    path.write_text(path.read_text().replace("unitPrice: numeric", "unitPrice: {type: numeric, default: 0}"))
    for verb in (
        ["check"],
        ["check", "--data"],
        ["quarantine", "retry"],
        ["verify", "--against-topic"],
        ["kafka", "audit"],
        ["status"],
    ):
        assert main([*verb, str(path)]) == 0, capsys.readouterr()
    with connect(servers.postgres) as session:
        assert rows(session, f'SELECT "unitPrice"::int FROM {name} WHERE "orderId" = 99') == [[0]]
        do(session, f'UPDATE {name} SET "unitPrice" = 7 WHERE "orderId" = 99')
    (changed,) = compare_with_topic(parse_pipeline(path)).violations
    assert "unitPrice is 7 in the table and 0 in the topic" in changed


@pytest.mark.parametrize(
    ("type_", "declared", "values"),
    [
        ("bigint GENERATED ALWAYS AS IDENTITY", "bigint", ["7", "9"]),
        ("public.mood", "public.mood", ['"ok"', '"sad"']),
        ("inet", "inet", ['"10.0.0.0/8"', '"::1/64"']),
        ("public.code", "public.code", ['"abc"', '"x"']),
    ],
)
def test_a_key_of_any_type_is_proposed_and_filled(
    servers: Servers, topic: str, here: Path, type_: str, declared: str, values: list[str]
) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute("CREATE TYPE public.mood AS ENUM ('ok', 'sad'); CREATE DOMAIN public.code AS varchar(3)")
        cursor.execute(f"CREATE TABLE public.orders (k {type_} PRIMARY KEY, total integer)")
        cursor.execute("ALTER TABLE public.orders ADD number bigint GENERATED ALWAYS AS IDENTITY")
    send(servers, topic, *(f'{{"k": {k}, "total": {n}, "number": {n}}}'.encode() for n, k in enumerate(values)))
    path = here / "dags/pipelines/orders.yaml"
    assert main(["init", "--topic", topic, "--table", "public.orders", "--output", str(path)]) == 0
    assert f"  key:\n    k: {declared}\n" in path.read_text()
    assert "  columns:\n    total: {type: integer, nullable: true}\n\n" in path.read_text()
    list(ingest(pipeline := parse_pipeline(path), Origin("test"), True, quiet))
    with connect(servers.postgres) as session:
        stored = rows(session, "SELECT k::text, total FROM public.orders ORDER BY total")
    assert [tuple(row) for row in stored] == [(json.loads(f'"{k.strip(chr(34))}"'), n) for n, k in enumerate(values)]
    assert main(["check", "--data", str(path)]) == 0
    compared = compare_with_topic(pipeline)
    assert (compared.records, compared.violations, compared.notes) == (2, (), ())


CUSTOMERS = """
CREATE TABLE public.customers (
  id bigint, region text, email text, born date, credit numeric(12,2) NOT NULL, notes text, tags text[], active boolean,
  joined timestamptz, seen timestamptz, touched timestamptz, ref uuid, mood text, picture bytea, amount float8,
  PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE public.customers_eu PARTITION OF public.customers FOR VALUES IN ('eu');
CREATE TABLE public.customers_us PARTITION OF public.customers FOR VALUES IN ('us')
"""


def test_recorded_change_events_fill_a_partitioned_table_that_exists(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute(CUSTOMERS)
    lines = (ROOT / "tests/fixtures/recorded/postgresql.jsonl").read_text().splitlines()[:-1]
    texts = ((each[name] and each[name].encode() for name in ("key", "value")) for each in map(json.loads, lines))
    publish([Record(*text, timestamp_ms=NOON, partition=0) for text in texts], dict(servers.kafka.extra), topic)
    assert main(["init", "--topic", topic, "--table", "public.customers", "--output", "dags/pipelines/c.yaml"]) == 0
    assert "quarantined" not in capsys.readouterr().out
    assert main(["check", "c", "--data", "--records", "30"]) == 0
    assert re.search(r"^notes +\| \(kept\)$", capsys.readouterr().out, re.M)
    assert main(["check", "c", "--data", "--records", "30", "--json"]) == 0
    preview = {each["offset"]: each["columns"] for each in json.loads(capsys.readouterr().out)["rows"]}
    assert {name: name in preview[3] for name in ("credit", "notes")} == {"credit": True, "notes": False}
    assert preview[6]["notes"] is None
    list(ingest(parse_pipeline(here / "dags/pipelines/c.yaml"), Origin("test"), True, quiet))
    source = (ROOT / "tests/fixtures/recorded/postgresql_rows.jsonl").read_text().splitlines()
    with connect(servers.postgres) as session:
        stored = rows(session, "SELECT tableoid::regclass::text, row_to_json(t)::text FROM public.customers AS t")
        assert rows(session, "SELECT FROM offset_ledger.quarantine") == []
    assert {row[0] for row in stored} == {"customers_eu", "customers_us"}
    assert sorted(comparable(row[1]) for row in stored) == sorted(map(comparable, source))


def comparable(row: str) -> tuple[Any, ...]:
    """What both tables have of a row; their moments without zone are in UTC."""
    values = json.loads(row)
    moments = tuple(str(values[name]).removesuffix("+00:00") for name in ("joined", "seen", "touched"))
    if values["id"] == 5:  # whose text the change of its key did not log
        values["notes"] = None
    names = ("id", "region", "email", "born", "credit", "notes", "tags", "active", "ref", "mood", "picture", "amount")
    return tuple(str(values[name]) for name in names), moments


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("(a bigint PRIMARY KEY, n integer)", r"knows its rows by \(a\), and no sampled record has values"),
        ("(n integer)", "knows its rows by no primary key or unique index"),
        ("(n integer PRIMARY KEY, m integer)", "has no column beside its key"),
        ("(n timestamp PRIMARY KEY)", r"by \(n\), and column n of public.orders is left out: timestamp.*has no zone"),
        ("(n integer[] PRIMARY KEY)", r"by \(n\), and a key of integer\[\] would have many texts"),
    ],
)
def test_a_table_that_the_records_do_not_fit_is_one_line(
    servers: Servers, topic: str, here: Path, capsys: pytest.CaptureFixture[str], table: str, problem: str
) -> None:
    with connect(servers.postgres) as session, transaction(session) as cursor:
        cursor.execute(f"CREATE TABLE public.orders {table}")
    send(servers, topic, *(json.dumps({"n": n}).encode() for n in range(3)))
    assert main(["init", "--topic", topic, "--table", "public.orders"]) == 1
    assert re.fullmatch(f".*{problem}.*\n", capsys.readouterr().err)
    assert not list(here.rglob("*.yaml"))
