"""A Debezium that runs: tables of another Postgres, changed while it reads them, become tables that equal them.

What the source has is asked by SQL, never read from its events.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BatchRejected
from offset_ledger.model.batch import Origin
from offset_ledger.operations.init.run import initialize
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.steps.run.ingest import ingest
from offset_ledger_kit.sandbox.connect import CONVERTER, Connect
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.connect import a_connect, a_source
from tests.fixtures.servers import Servers, execute
from tests.fixtures.tables import do
from tests.fixtures.topic_bench import quiet
from tests.fixtures.topic_reader import read
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(1.5)]

TABLES = (ROOT / "tests/fixtures/debezium_source.sql").read_text()
_SECONDS = 120
PLAIN = {  # settings of a converter count only beside its class
    **{"key.converter": CONVERTER, "key.converter.schemas.enable": "false"},
    **{"value.converter": CONVERTER, "value.converter.schemas.enable": "false"},
}
CREATED = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "2"}
CONNECTORS = {
    "shop": {
        "schema.include.list": "shop",
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "signal.data.collection": "shop.signals",
        "incremental.snapshot.chunk.size": "5",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": "shop.notifications",
        **PLAIN,
        "value.converter.replace.null.with.default": "false",
    },
    "text": {
        "table.include.list": "types.odd,shop.marks",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "time.precision.mode": "isostring",
    },
    "bits": {"table.include.list": "types.odd,shop.marks", "include.unknown.datatypes": "true"},
    "flat": {
        "table.include.list": "shop.flat,shop.marks",
        "decimal.handling.mode": "string",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
        "transforms.unwrap.add.fields": "op",
    },
}


@pytest.fixture(scope="module")
def source() -> Iterator[Connection]:
    with a_source() as server:
        execute(server.connection(), TABLES)
        yield server.connection()


@pytest.fixture(scope="module")
def debezium(source: Connection, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    with a_connect(tmp_path_factory.mktemp("connect"), stack.kafka.bootstrap) as worker:
        for name, settings in CONNECTORS.items():
            worker.add(name, source, CREATED | settings)
        yield worker


PIPELINE = """
pipeline: {table}
source: {{topic: {topic}, envelope: debezium, key_format: json}}
record:
  key: {{{key}}}
  publish_at: log
  columns:
{columns}
target: {{table: public.{table}, bookkeeping: beside, evolve: add_columns}}
stage: {{engine: process}}
"""
BY_ID = "id: {type: integer, key: $.id}"


@dataclass(frozen=True)
class Mirror:
    """The source, its events, and the tables that they become."""

    servers: Servers
    debezium: Connect
    source: Session
    target: Session
    folder: Path

    def change(self, *statements: str) -> None:
        """Run them at the source in one transaction."""
        with transaction(self.source) as cursor:
            for each in statements:
                cursor.execute(each)

    def settle(self, connector: str = "shop") -> None:
        """Return when the connector has reported all changes until now: it reports a mark after them."""
        while self.report_of_mark(connector) != "c":  # a snapshot has read it, and may have to read other tables
            pass

    def report_of_mark(self, connector: str) -> str:
        with transaction(self.source) as cursor:
            (mark,) = cursor.execute("INSERT INTO shop.marks DEFAULT VALUES RETURNING id").one()
        found = dict[int, str]()

        def there() -> bool:
            for each in self.events(f"{connector}.shop.marks"):
                found[each.get("after", each)["id"]] = each.get("op") or each["__op"]
            return mark in found

        self.wait(there)
        return found[mark]

    def read_again(self, table: str, meanwhile: Callable[[], None]) -> None:
        """Let an incremental snapshot read the table, and go on with something else until it has."""
        what = json.dumps({"data-collections": [f"shop.{table}"], "type": "incremental"})
        before = self.snapshots()
        self.change(f"INSERT INTO shop.signals VALUES (gen_random_uuid(), 'execute-snapshot', '{what}')")

        def is_read() -> bool:
            meanwhile()
            return self.snapshots() > before

        self.wait(is_read)

    def snapshots(self) -> int:
        """The number of incremental snapshots that have ended."""
        notes = self.events("shop.notifications")
        return sum((each["aggregate_type"], each["type"]) == ("Incremental Snapshot", "COMPLETED") for each in notes)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            for name in CONNECTORS:
                self.debezium.check(name)
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """The values in a topic that are no tombstones, without the wrapper of their schemas."""
        values = (each.value for each in read(self.servers.kafka.extra, topic).values())
        documents = [json.loads(value) for value in values if value is not None]
        return [each.get("payload", each) for each in documents]

    def pipeline(self, table: str, columns: Mapping[str, str], key: str = BY_ID) -> Pipeline:
        """The pipeline of a table of the shop."""
        path = self.folder / f"{table}.yaml"
        shown = "".join(f"    {name}: {declared}\n" for name, declared in columns.items())
        path.write_text(PIPELINE.format(table=table, topic=f"shop.shop.{table}", key=key, columns=shown))
        return parse_pipeline(path)

    def same(self, table: str, columns: Iterable[str], key: str = "id") -> None:
        """Hold that the tables have the same rows, and each column the same text."""
        self.equal({name: (name, name) for name in columns}, f"shop.{table}", f"public.{table}", key)

    def equal(self, columns: Mapping[str, tuple[str, str]], source: str, target: str, key: str = "id") -> None:
        """Hold that of each column the two tables have the same text of an expression of each."""
        for name, (theirs, ours) in columns.items():
            query = "SELECT ({})::text FROM {} ORDER BY {}"
            expected = rows(self.source, query.format(theirs, source, key))
            assert expected
            assert rows(self.target, query.format(ours, target, key)) == expected, name


def ingested(pipeline: Pipeline) -> None:
    """Ingest what there is, without a record in quarantine, and hold that ledger, table and topic agree."""
    done = [each.committed for each in ingest(pipeline, Origin("test"), True, quiet)]
    assert [each.total.quarantined for each in done] == [0] * len(done)
    assert verify(pipeline)[0] == []
    assert compare_with_topic(pipeline).violations == ()


@pytest.fixture
def mirror(servers: Servers, source: Connection, debezium: Connect, tmp_path: Path) -> Iterator[Mirror]:
    with connect(source) as theirs, connect(servers.postgres) as ours:
        yield Mirror(servers, debezium, theirs, ours, tmp_path)


CUSTOMERS = {
    "email": "{type: text, nullable: true}",
    "born": "{type: date, nullable: true, encoding: epoch_days}",
    "credit": '{type: "numeric(12,2)", coerce: true}',
    "tags": '{type: "text[]", nullable: true}',
    "active": "boolean",
    "joined": "{type: timestamptz, nullable: true}",
    "seen": "{type: timestamptz, nullable: true, encoding: epoch_us}",
    "score": "{type: integer, nullable: true}",
}
BY_REGION = "id: {type: integer, key: $.id}, region: {type: text, key: $.region}"


def changes(rng: random.Random, number: int) -> Iterator[list[str]]:
    """Transactions of one to four changes of customers, some of which change a key."""
    for n in range(number):
        statements = list[str]()
        for _ in range(rng.randint(1, 4)):
            id_, region, other = rng.randint(1, 40), rng.choice(["eu", "us"]), rng.randint(41, 60)
            which = f"WHERE id = {id_} AND region = '{region}'"
            row = f"({id_}, '{region}', '{n}@example.org', NULL, {n}.50, '{{x}}', true)"
            statements.append(
                rng.choice(
                    [
                        f"INSERT INTO shop.customers VALUES {row} ON CONFLICT DO NOTHING",
                        f"UPDATE shop.customers SET credit = credit + 1, seen = '2026-02-01 00:00:{n % 60}' {which}",
                        f"UPDATE shop.customers SET email = NULL, score = NULL, born = date '1970-01-01' - {n} {which}",
                        f"DELETE FROM shop.customers {which}",
                        f"UPDATE shop.customers SET id = {other} {which} AND NOT EXISTS "
                        f"(SELECT FROM shop.customers WHERE id = {other} AND region = '{region}')",
                    ]
                )
            )
        yield statements


def test_a_snapshot_and_the_changes_after_it(mirror: Mirror) -> None:
    pipeline, columns = mirror.pipeline("customers", CUSTOMERS, BY_REGION), ["id", "region", *CUSTOMERS]
    # A timestamp has no zone, and Debezium takes it as UTC, which is what these sessions show.
    columns[columns.index("seen")] = "seen::timestamp"
    mirror.settle()
    for seed in range(2):
        ingested(pipeline)
        mirror.same("customers", columns, "id, region")
        for each in changes(random.Random(seed), 50):
            mirror.change(*each)
        mirror.settle()
    ingested(pipeline)
    mirror.same("customers", columns, "id, region")
    seen = {each["op"] for each in mirror.events("shop.shop.customers")}
    assert seen == {"r", "c", "u", "d"}


def test_an_incremental_snapshot_while_its_rows_change(mirror: Mirror) -> None:
    columns = {"state": "text", "amount": '{type: "numeric(12,2)", coerce: true}'}
    pipeline, topic = mirror.pipeline("orders", columns), "shop.shop.orders"
    rng = random.Random(1)
    mirror.settle()
    ingested(pipeline)

    def change_some() -> None:
        for _ in range(40):
            id_ = rng.randint(1, 320)
            mirror.change(
                rng.choice(
                    [
                        f"UPDATE shop.orders SET state = 'paid', amount = amount + 1 WHERE id = {id_}",
                        f"DELETE FROM shop.orders WHERE id = {id_}",
                        f"INSERT INTO shop.orders VALUES ({id_}, 'again', 1) ON CONFLICT DO NOTHING",
                    ]
                )
            )

    mirror.read_again("orders", change_some)
    mirror.settle()
    ingested(pipeline)
    mirror.same("orders", ["id", *columns])
    events = [(each["op"], (each["after"] or each["before"])["id"]) for each in mirror.events(topic)]
    again = [id_ for n, (op, id_) in enumerate(events) if op == "r" and ("r", id_) in events[:n]]
    assert set(again) & {id_ for op, id_ in events if op != "r"}


def test_keys_that_change_and_change_places(mirror: Mirror) -> None:
    pipeline = mirror.pipeline("moved", {"v": "text"})
    mirror.settle()
    mirror.change("UPDATE shop.moved SET id = 10 WHERE id = 1", "UPDATE shop.moved SET id = 1 WHERE id = 2")
    mirror.change("UPDATE shop.moved SET id = 2 WHERE id = 10")  # 1 and 2 have changed places
    mirror.change("UPDATE shop.moved SET id = -id WHERE id > 5")
    mirror.change("UPDATE shop.moved SET id = 6, v = 'new' WHERE id = -7", "DELETE FROM shop.moved WHERE id = -8")
    mirror.settle()
    ingested(pipeline)
    mirror.same("moved", ["id", "v"])


def test_a_truncate_deletes_nothing_and_the_gate_asks(mirror: Mirror) -> None:
    pipeline = mirror.pipeline("cleared", {"a": "integer"})
    mirror.settle()
    ingested(pipeline)
    mirror.same("cleared", ["id", "a"])
    mirror.change("TRUNCATE shop.cleared")
    mirror.settle()
    with pytest.raises(BatchRejected, match=r"\(TRUNCATE, record \d:\d+\)"):
        ingested(pipeline)
    assert rows(mirror.target, "SELECT id, a FROM public.cleared ORDER BY id") == [[1, 10], [2, 20]]


def test_a_column_that_the_source_adds(mirror: Mirror) -> None:
    columns = {"a": "{type: integer, nullable: true}"}
    mirror.settle()
    ingested(mirror.pipeline("grown", columns))
    mirror.same("grown", ["id", *columns])
    mirror.change("UPDATE shop.grown SET a = 11 WHERE id = 1", "INSERT INTO shop.grown VALUES (3, 30)")
    mirror.change("ALTER TABLE shop.grown ADD COLUMN b text", "UPDATE shop.grown SET b = 'of 2' WHERE id = 2")
    mirror.change("INSERT INTO shop.grown VALUES (4, 40, 'of 4')")
    mirror.settle()
    columns |= {"b": "{type: text, nullable: true}"}
    ingested(mirror.pipeline("grown", columns))
    mirror.same("grown", ["id", *columns])
    # The rows that have the default are not rewritten, so no event says it until a snapshot reads them.
    mirror.change("ALTER TABLE shop.grown ADD COLUMN c text DEFAULT 'made'", "DELETE FROM shop.grown WHERE id = 1")
    mirror.settle()
    columns |= {"c": "{type: text, nullable: true}"}
    ingested(mirror.pipeline("grown", columns))
    assert rows(mirror.target, "SELECT c FROM public.grown") == [[None]] * 3
    mirror.read_again("grown", lambda: None)
    mirror.settle()
    ingested(mirror.pipeline("grown", columns))
    mirror.same("grown", ["id", *columns])


KEPT = {
    "tx": "text",
    "j": "jsonb, encoding: json",
    "jb": "jsonb, encoding: json",
    "nm": "numeric, coerce: true",
    "by": "bytea",
    "tv": "tsvector",
    "nr": "numrange",
    "bya": '"bytea[]"',
    "txa": '"text[]"',
    "vca": '"text[]"',
    "ia": '"integer[]"',
    "ba": '"bigint[]"',
    "dta": '"date[]", encoding: epoch_days',
    "ua": '"uuid[]"',
    "ja": '"jsonb[]", encoding: json',
    "jba": '"jsonb[]", encoding: json',
}
LOST = {
    "vb": "bytea",
    "sia": '"smallint[]"',
    "tsa": '"timestamptz[]", encoding: epoch_us',
    "na": '"numeric[]", coerce: true',
    "da": '"double precision[]"',
    "boa": '"boolean[]"',
    "tza": '"timestamptz[]"',
    "ta": '"time[]", encoding: us',
    "ea": '"text[]"',
    "ipa": '"inet[]"',
    "rga": '"int4range[]"',
}
"""The columns whose large values arrive as null, if an UPDATE leaves them."""


def test_large_values_that_an_update_leaves(mirror: Mirror) -> None:
    columns = {"n": "integer"} | {
        name: f"{{type: {declared}, nullable: true, absent: keep}}" for name, declared in (KEPT | LOST).items()
    }
    shown = ["id", "n", *KEPT, *(name for name in LOST if name != "vb")]  # whose bytes are not the text of the bits
    shown = [{"j": "j::jsonb", "ja": "ja::jsonb[]", "tsa": "tsa::timestamp[]"}.get(name, name) for name in shown]
    mirror.settle()
    for table in ("large", "large_full"):
        mirror.change(f"UPDATE shop.{table} SET n = 2 WHERE id = 1")
        mirror.change(f"INSERT INTO shop.{table} SELECT 3, 3, tx || 'z' FROM shop.{table} WHERE id = 1")
        mirror.change(f"UPDATE shop.{table} SET n = 4 WHERE id = 3")
    mirror.settle()
    ingested(mirror.pipeline("large_full", columns))
    mirror.same("large_full", shown)
    ingested(mirror.pipeline("large", columns))
    mirror.same("large", shown[: len(KEPT) + 2])
    lost = rows(mirror.target, f"SELECT num_nonnulls({', '.join(LOST)}) FROM public.large ORDER BY id")
    assert lost == [[0], [len(LOST)], [0]]


# Of columns whose type the target cannot have, or whose values arrive changed: what they are, as SQL at the source.
ARRIVES = {
    "j": "j::jsonb",
    "m": "m::numeric",
    **{name: f"{name}::timestamptz" for name in ("ts", "ts0", "ts3")},
    "tsa": "tsa::timestamptz[]",
    "ttz": "(ttz AT TIME ZONE 'UTC')::time",
    "ta": "ta::time(3)[]",
    "ttza": "(SELECT array_agg((each AT TIME ZONE 'UTC')::time(0)) FROM unnest(ttza) AS each)",
    "c5": "rpad(c5, 5)",
    "b1": "b1 = B'1'",
    **{name: f"types.bytes_of({name})" for name in ("b5", "b40", "vb")},
    "nneg": "round(nneg, 2046)",
    "pt_x": "pt[0]",
    "pt_y": "pt[1]",
}
LOST_IN_EVENTS = {"ia2": "CASE WHEN id <> 2 THEN '{NULL,NULL}' END", "b5a": "NULL"}
TEXT = {"t": "CASE t WHEN '24:00' THEN '00:00' ELSE t END", "nm": "NULL"}
BITS = {
    "iv": "types.average_of(iv)",
    "ivym": "types.average_of(ivym)",
    "n": "trim_scale(n)",
    "na": "(SELECT array_agg(trim_scale(each)) FROM unnest(na) AS each)",
}
# As text in bytes with ``include.unknown.datatypes``, not at all without: the type that reads the text.
UNKNOWN = {
    **{"jp": "jsonpath", "tq": "tsquery", "mr": "int4multirange", "lsn": "pg_lsn", "snap": "pg_snapshot"},
    **{"ln": "line", "ls": "lseg", "box": "box", "pa": "path", "po": "polygon", "ci": "circle"},
    **dict.fromkeys(("c", "xi", "com", "ti", "rc"), "text"),
}
NEVER = {"ma", "iva", "nma", "pta"}
UNKNOWN_ARRAYS = {"ca", "smalla", "lsna"}


@pytest.fixture
def odd(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """Each type has been read by a snapshot, and was inserted and updated since."""
    monkeypatch.chdir(mirror.folder)
    mirror.settle("text")
    mirror.settle("bits")
    with_id = "SELECT (jsonb_populate_record(each, '{\"id\": 3}')).* FROM types.odd AS each WHERE id = 1"
    mirror.change(f"INSERT INTO types.odd {with_id} ON CONFLICT DO NOTHING")
    mirror.change(
        "UPDATE types.odd SET n = -0.50, m = '-0.01', iv = '-00:00:00.5', by = '', d = 'NaN', r = '-Infinity', "
        "tx = '', ts = '1969-12-31 23:59:59.999999', dt = '1969-12-31', t = '24:00', txa = '{}' WHERE id = 1"
    )
    mirror.settle("text")
    mirror.settle("bits")
    return mirror


def names_of(session: Session, table: str) -> set[str]:
    query = "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    return {row[0] for row in rows(session, query, [table])}


def proposed(topic: str, table: str) -> Pipeline:
    """The pipeline as init writes it, whose table may exist."""
    initialize(topic, "kafka_default", None, 100, name=table, table=f"public.{table}", output=f"{table}.yaml")
    return parse_pipeline(Path(f"{table}.yaml"))


@pytest.mark.parametrize("connector", ["text", "bits"])
def test_each_type_by_the_file_that_init_proposes(odd: Mirror, connector: str) -> None:
    ingested(proposed(f"{connector}.types.odd", "odd"))
    of_source, ours = names_of(odd.source, "types.odd"), names_of(odd.target, "public.odd")
    unknown = {} if connector == "text" else UNKNOWN
    arrays = set() if connector == "text" else UNKNOWN_ARRAYS
    renamed = {"mixed_case": '"Mixed Case"'}
    absent = NEVER | (UNKNOWN_ARRAYS | set(UNKNOWN)) - arrays - set(unknown)
    assert ours - of_source == {"pt_x", "pt_y", "pt_wkb", "pt_srid", *renamed}
    assert of_source - ours == {"pt", *renamed.values(), *absent}
    theirs = ARRIVES | LOST_IN_EVENTS | renamed | (BITS if connector == "bits" else TEXT)
    read = {name: f"convert_from({name}, 'UTF8')::{type_}" for name, type_ in unknown.items()}
    read |= {name: f"(SELECT array_agg(convert_from(each, 'UTF8')) FROM unnest({name}) AS each)" for name in arrays}
    columns = {name: (theirs.get(name, name), read.get(name, name)) for name in ours - {"pt_wkb", "pt_srid"}}
    odd.equal(columns, "types.odd", "public.odd")


TYPED = """
CREATE SCHEMA types;
CREATE TYPE types.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN types.small AS int CHECK (value > 0);
CREATE DOMAIN types.price AS numeric(12,2);
CREATE TABLE public.odd (
    id bigint PRIMARY KEY, n numeric, n102 numeric(10,2), n60 numeric(60,30), m numeric(19,2), e types.mood,
    vc varchar(10), tv tsvector, ip inet, cd cidr, mac macaddr, mac8 macaddr8, rg int4range, r8 int8range, nr numrange,
    tsr tsrange, tzr tstzrange, dr daterange, small types.small, price types.price, o bigint, na numeric[],
    n102a numeric(10,2)[], vca varchar(10)[], ea types.mood[], ipa inet[], cda cidr[], maca macaddr[], rga int4range[],
    tzra tstzrange[], "Mixed Case" text
)"""


def test_each_type_in_a_table_that_has_the_types_of_the_source(odd: Mirror) -> None:
    do(odd.target, TYPED)
    ingested(proposed("text.types.odd", "odd"))
    theirs = ARRIVES | TEXT
    columns = {name: (theirs.get(name, name), name) for name in names_of(odd.target, "public.odd")}
    odd.equal(columns, "types.odd", "public.odd")


def test_events_that_were_unwrapped(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mirror.folder)
    mirror.settle("flat")
    mirror.change("UPDATE shop.flat SET v = 'is', n = 0 WHERE id < 4", "DELETE FROM shop.flat WHERE id = 2")
    mirror.change("UPDATE shop.flat SET id = 10 WHERE id = 3", "INSERT INTO shop.flat VALUES (2, 'back', 1, now())")
    mirror.change("DELETE FROM shop.flat WHERE id > 7 AND id < 10")
    mirror.settle("flat")
    ingested(proposed("flat.shop.flat", "flat"))
    mirror.same("flat", ["id", "v", "n", "at"])
    assert {each["__op"] for each in mirror.events("flat.shop.flat")} == {"r", "c", "u", "d"}
