"""The files of examples/ as somebody tries them: records in their topics, ``check``, ``ingest`` and ``verify``."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.debezium import UNAVAILABLE, event
from tests.fixtures.registry_bench import framed
from tests.fixtures.servers import Servers, execute
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"
COMMITTED = """
    SELECT topic, partition, generate_series(committed_from, committed_until - 1)
    FROM offset_ledger.batch_range JOIN offset_ledger.pipeline USING (pipeline)
"""


def plain(topic: str, partition: int, **members: Any) -> Record:
    return Record(b"k", json.dumps(members).encode(), partition=partition, topic=topic)


@dataclass(frozen=True, slots=True)
class Case:
    """What is in the topics of an example, and the rows that come of it.

    ``query`` gives of each row the partition and offset (of several topics also the topic) of its record, then its
    values. ``expected`` has the values of each row by the index of its record.
    """

    name: str
    records: Sequence[Record]
    table: str
    query: str
    expected: Mapping[int, tuple[Any, ...]]
    before: str = ""  # the rows that the table has already


def order(partition: int, id: str, minute: int, state: str, **more: Any) -> Record:
    at = f"2026-01-01T12:{minute:02}:00Z"
    members = {"id": id, "updated_at": at, "state": state, "customer": {"id": 7}, "amount": 19.95, "lines": [{"n": 1}]}
    return plain("shop.orders", partition, **members | more)


ORDERS = Case(
    "orders",
    [
        order(0, "o-1", 1, "new", note="ring twice"),
        order(0, "o-1", 3, "sent"),
        order(1, "o-2", 1, "new", note=None),
        order(0, "o-1", 2, "paid"),
    ],
    "public.orders",
    "SELECT _partition, _offset, event_id, state, customer, amount, note, lines FROM public.orders",
    {
        1: ("o-1", "sent", 7, Decimal("19.95"), None, [{"n": 1}]),
        2: ("o-2", "new", 7, Decimal("19.95"), None, [{"n": 1}]),
    },
)

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "changed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "customer", "type": {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "long"}]}},
        {"name": "reference", "type": ["null", "string"], "default": None},
    ],
}


def payment(partition: int, id: str, minute: int, state: str, reference: str | None = None) -> Record:
    members = {"id": id, "changed_at": datetime(2026, 1, 1, 12, minute, tzinfo=UTC), "state": state}
    members |= {"amount": Decimal("5.25"), "customer": {"id": 7}, "reference": reference}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(PAYMENT), members)
    return Record(None, written.getvalue(), partition=partition, topic="shop.payments")


PAYMENTS = Case(
    "payments",
    [payment(0, "p-1", 1, "OPEN"), payment(1, "p-2", 1, "OPEN"), payment(0, "p-1", 2, "PAID", "R 17")],
    "public.payments",
    "SELECT _partition, _offset, event_id, state, amount, customer, reference FROM public.payments",
    {1: ("p-2", "OPEN", Decimal("5.25"), 7, None), 2: ("p-1", "PAID", Decimal("5.25"), 7, "R 17")},
)


def customer(op: str, id: int, name: str = "", notes: str | None = None) -> Record:
    row = {"customerId": id, "firstName": name, "creditLimit": "100.50", "born": 7300, "notes": notes}
    key, topic = json.dumps({"customerId": id}).encode(), "shop.Sales.Customers"
    value = event(op, {"customerId": id}) if op == "d" else event(op, None, row)
    return Record(key, value, partition=id % 2, topic=topic)


CUSTOMERS = Case(
    "customers",
    [
        customer("r", 1, "Ada", "a long text"),
        customer("r", 2, "Bob"),
        customer("c", 3, "Cleo", "new"),
        customer("u", 1, "Ada Mary", UNAVAILABLE),
        customer("d", 2),
        Record(b'{"customerId": 2}', None, partition=0, topic="shop.Sales.Customers"),
    ],
    '"Sales"."Customers"',
    """SELECT _partition, _offset, t.* FROM "Sales"."Customers" t
    JOIN offset_ledger_rows.customers USING ("customerId")""",
    {
        2: (3, "Cleo", Decimal("100.50"), date(1989, 12, 27), "new"),
        3: (1, "Ada Mary", Decimal("100.50"), date(1989, 12, 27), "a long text"),
    },
    before="""INSERT INTO "Sales"."Customers" VALUES (1, 'A.', 0, NULL, 'short')""",
)


def click(country: str, id: str, second: int, page: str, **more: Any) -> Record:
    at = f"2026-01-01T12:00:{second:02}Z"
    return plain(f"shop.clicks.{country}", 0, id=id, at=at, user_id=1, page=page, **more)


CLICKS = Case(
    "clicks",
    [click("eu", "c-1", 2, "/eu"), click("us", "c-1", 1, "/us"), click("us", "c-2", 1, "/", seconds=9)],
    "public.clicks",
    "SELECT _topic, _partition, _offset, event_id, user_id, page, seconds FROM public.clicks",
    {0: ("c-1", 1, "/eu", None), 2: ("c-2", 1, "/", 9)},
)


def logged(partition: int, day: int, kind: str, **more: Any) -> Record:
    return plain("shop.events", partition, at=f"2026-01-{day:02}T23:30:00Z", kind=kind, **more)


EVENTS = Case(
    "events",
    [
        logged(0, 1, "login", user_id=1),
        logged(0, 1, "login", user_id=1),
        logged(1, 2, "sale", details={"sku": "a"}),
        logged(0, 5, "logout", user_id=1, details=None),
    ],
    "public.events",
    "SELECT _partition, _offset, tableoid::regclass::text, kind, user_id, details FROM public.events",
    {
        0: ("events_p20260101", "login", 1, None),
        1: ("events_p20260101", "login", 1, None),
        2: ("events_p20260102", "sale", None, {"sku": "a"}),
        3: ("events_p20260105", "logout", 1, None),
    },
)


def profile(user_id: int, second: int, **more: Any) -> Record:
    return plain("shop.profiles", user_id % 2, user_id=user_id, at=f"2026-01-01T12:00:{second:02}Z", **more)


PROFILES = Case(
    "profiles",
    [
        profile(1, 1, name="Ada", email="ada@example.com", street="Old Road", city="Ely"),
        profile(2, 1, name="Bob"),
        profile(1, 5, street="New Road"),
        profile(1, 3, name="Ada Mary", city="Late"),
        profile(2, 4, name=None, email="bob@example.com"),
    ],
    "public.profiles",
    """SELECT _partition, _offset, user_id, t.name, t.email, t.street, t.city FROM public.profiles t
    JOIN offset_ledger_rows.profiles USING (user_id)""",
    {2: (1, "Ada Mary", "ada@example.com", "New Road", None), 4: (2, None, "bob@example.com", None, None)},
)
CASES = [ORDERS, PAYMENTS, CUSTOMERS, CLICKS, EVENTS, PROFILES]


@dataclass(frozen=True, slots=True)
class Trial:
    """A copy of an example whose topics are ``prefix`` instead of shop, and the commands that try it."""

    servers: Servers
    session: Session
    prefix: str
    path: Path
    capsys: pytest.CaptureFixture[str]

    @classmethod
    def of(
        cls,
        case: Case,
        servers: Servers,
        session: Session,
        prefix: str,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> Trial:
        """Copy the example, and make the table that it needs."""
        path = folder / f"{case.name}.yaml"
        text, found = re.subn(r"\bshop\b", prefix, (EXAMPLES / path.name).read_text())
        assert found
        path.write_text(text)
        table = EXAMPLES / f"{case.name}.sql"
        if table.exists():
            execute(servers.postgres, table.read_text() + case.before)
        return cls(servers, session, prefix, path, capsys)

    def publish(self, records: Sequence[Record]) -> list[tuple[str, int, int]]:
        """Publish them to topics of two partitions, and return the place of each."""
        kafka, places = dict(self.servers.kafka.extra), []
        topics = [self.topic(str(each.topic)) for each in records]
        for topic in dict.fromkeys(topics):
            create_topic(kafka, topic, 2, 1)
        for record, topic in zip(records, topics, strict=True):
            sent = Record(record.key, record.value, partition=record.partition)
            publish(
                [sent],
                kafka,
                topic,
                on_ack=lambda _, partition, offset, of=topic: places.append((of, partition, offset)),
            )
        return places

    def topic(self, name: str) -> str:
        return name.replace("shop", self.prefix)

    def run(self, verb: str, *options: str) -> str:
        code = main([verb, str(self.path), *options])
        said = self.capsys.readouterr()
        assert code == 0, said.out + said.err
        return said.out

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in rows(self.session, query)), key=str)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_every_example_has_a_case() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(case.name for case in CASES)


def test_an_example_loads_its_topics(
    case: Case,
    servers: Servers,
    topic_name: Callable[[], str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with connect(servers.postgres) as session:
        trial = Trial.of(case, servers, session, topic_name(), tmp_path, capsys)
        records = case.records
        if case is PAYMENTS:
            connection: Connection = request.getfixturevalue("registry_connection")
            subject = f"{trial.topic('shop.payments')}-value"
            schema_id = connect_registry(connection).register(subject, SchemaLanguage.AVRO, json.dumps(PAYMENT))
            records = [
                Record(None, framed(schema_id, each.value), (), None, each.partition, each.topic) for each in records
            ]
        places = trial.publish(records)
        assert "no mistakes" in trial.run("check")
        trial.run("ingest", "--until-drained")
        assert trial.rows(COMMITTED) == sorted(places, key=str)
        first = 0 if "_topic" in case.query else 1
        expected = [(*places[index][first:], *values) for index, values in case.expected.items()]
        assert trial.rows(case.query) == sorted(expected, key=str)
        trial.run("verify", "--against-topic")

        everything = f"SELECT tableoid, ctid::text, xmin::text, t::text FROM {case.table} t"
        before = trial.rows(everything), trial.rows("SELECT batch_id FROM offset_ledger.batch")
        assert "nothing is new, nothing changed" in trial.run("ingest", "--until-drained")
        assert (trial.rows(everything), trial.rows("SELECT batch_id FROM offset_ledger.batch")) == before
