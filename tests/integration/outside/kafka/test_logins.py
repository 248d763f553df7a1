"""Logins by token, certificate and password at a real broker, by each client; and what is wrong with one, at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from offset_ledger.errors import AccessDenied, BrokerUnavailable, ConfigurationError, OffsetLedgerError
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.bulk_reader import bulk_reader
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.steps.run.ingest import ingest
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.certificates import Authority
from tests.fixtures.secured import PASSWORD, USER, Secured
from tests.fixtures.servers import Servers
from tests.fixtures.topic_reader import values

pytestmark = pytest.mark.full

Reader = Callable[[Connection, str, OffsetRange], list[bytes | None]]
AT_ONCE = 15.0  # seconds, on a machine that is busy; half of what is retried while a server is away
LOGINS = ("with_token", "with_certificate")
PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: key, publish_at: kafka_timestamp, columns: {{amount: integer}}}}
target: {{connection: postgres_default, table: {schema}.{name}}}
stage: {{engine: {engine}}}
"""


@pytest.fixture(scope="module", autouse=True)
def every_right(secured: Secured) -> Iterator[None]:
    kinds = ("--topic", "--group", "--transactional-id")
    rights = "\n".join(f"--allow-principal User:{USER} {each} * --operation All" for each in kinds)
    secured.allow(rights)
    yield
    secured.forbid(rights)
    with closing(KafkaAdminClient(bootstrap_servers=secured.open)) as admin:
        admin.delete_groups([group["group_id"] for group in admin.list_groups()])


@pytest.fixture
def topic(secured: Secured, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name))}"
    create_topic({"bootstrap.servers": secured.open}, name, 1, 1)
    return name


def changed(connection: Connection, **extra: str) -> Connection:
    """The connection with these keys of its extra, ``_`` for dots."""
    return replace(connection, extra={**connection.extra, **{k.replace("_", "."): v for k, v in extra.items()}})


def read_by_librdkafka(connection: Connection, topic: str, wanted: OffsetRange) -> list[bytes | None]:
    with bulk_reader(connection) as read:
        return [record.value() for records in read(topic, wanted) for record in records]


def read_by_kafka_python(connection: Connection, topic: str, wanted: OffsetRange) -> list[bytes | None]:
    return [record.value for record in read_records(connection, topic, wanted, "read_committed")]


READERS = pytest.mark.parametrize("read", [read_by_librdkafka, read_by_kafka_python])


@pytest.mark.parametrize("login", LOGINS)
def test_every_client_publishes_and_reads(secured: Secured, topic: str, login: str) -> None:
    connection: Connection = getattr(secured, login)
    publish([Record(b"k", b"one by one")], connection.extra, topic)
    publish([Record(b"k", b"in a transaction")], connection.extra, topic, transactional_id=f"login-{login}")
    sent = [b"one by one", b"in a transaction"]
    assert values({"bootstrap.servers": secured.open}, topic) == sent
    for read in (read_by_librdkafka, read_by_kafka_python):
        assert read(connection, topic, OffsetRange(0, 0, len(sent))) == sent


def test_a_token_is_renewed_before_it_ends(secured: Secured, topic: str) -> None:
    connection = changed(secured.with_token, sasl_oauthbearer_scope="short")
    secured.endpoint.seconds, before = 8.0, len(secured.endpoint.issued)
    try:
        with connect_kafka(connection) as kafka, bulk_reader(connection) as read:
            until = time.monotonic() + 20
            sent: list[bytes] = []
            while time.monotonic() < until:
                sent.append(b"%d" % len(sent))
                publish([Record(b"k", sent[-1])], {"bootstrap.servers": secured.open}, topic)
                assert kafka.snapshot(topic).partitions[0].last_stable == len(sent)
                records = read(topic, OffsetRange(0, 0, len(sent)))
                assert [record.value() for each in records for record in each] == sent
                time.sleep(1)
    finally:
        secured.endpoint.seconds = 3600.0
    issued = secured.endpoint.issued[before:]
    assert len(issued) >= 3
    assert len(set(issued)) == len(issued)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("login", LOGINS)
def test_a_pipeline_reads_by_spark_and_without_it(
    servers: Servers, secured: Secured, topic: str, login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection: Connection = getattr(secured, login)
    monkeypatch.setenv(environment_name("kafka_default"), connection.to_json())
    monkeypatch.setenv(environment_name("postgres_default"), servers.postgres.to_json())
    path = tmp_path / f"{topic}.yaml"
    for number, engine in enumerate(("process", "spark")):
        publish([Record(b"%d" % number, b'{"amount": %d}' % number)], connection.extra, topic)
        path.write_text(PIPELINE.format(name=topic, topic=topic, schema="public", engine=engine))
        (done,) = ingest(parse_pipeline(path), Origin("test"), until_drained=False, say=print)
        assert ("session" in done.seconds) == (engine == "spark")
    with connect(servers.postgres) as session:
        assert rows(session, f"SELECT event_id, amount FROM public.{topic} ORDER BY 1") == [["0", 0], ["1", 1]]


WRONG: dict[str, tuple[str, dict[str, str], type[OffsetLedgerError], str]] = {
    "password": (
        "connection",
        {"sasl.password": "wrong"},
        AccessDenied,
        "refuses login 'ledger' by SCRAM-SHA-512 .*invalid credentials",
    ),
    "mechanism": (
        "connection",
        {"sasl.mechanism": "PLAIN"},
        AccessDenied,
        "does not take login 'ledger' by PLAIN ",
    ),
    "client secret": (
        "with_token",
        {"sasl.oauthbearer.client.secret": "wrong"},
        AccessDenied,
        r"the token endpoint .*/token refuses this client \(HTTP 401\); correct sasl\.oauthbearer\.client\.id and",
    ),
    "authority": (
        "connection",
        {"ssl.ca.location": "OTHER"},
        ConfigurationError,
        r"not trusted .*set ssl\.ca\.location",
    ),
    "host": ("connection", {"bootstrap.servers": "LOCALHOST"}, ConfigurationError, "certificate for another name"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named_at_once(secured: Secured, wrong: str, tmp_path: Path) -> None:
    login, extra, kind, message = WRONG[wrong]
    there: Connection = getattr(secured, login)
    port = there.extra["bootstrap.servers"].partition(":")[2]
    stands_for = {"OTHER": str(Authority(tmp_path).file), "LOCALHOST": f"localhost:{port}"}
    connection = changed(there, **{k: stands_for.get(v, v) for k, v in extra.items()})
    began = time.monotonic()
    with pytest.raises(kind, match=message) as caught, connect_kafka(connection) as kafka:
        kafka.topics()
    with pytest.raises(kind, match=message):
        publish([Record(None, b"1")], connection.extra, "t")
    assert time.monotonic() - began < AT_ONCE
    assert not any(secret in str(caught.value) for secret in (PASSWORD, "wrong"))


@READERS
@pytest.mark.parametrize("wrong", ["password", "client secret", "authority"])
def test_each_reader_names_it_too(secured: Secured, wrong: str, read: Reader, tmp_path: Path) -> None:
    login, extra, kind, message = WRONG[wrong]
    stands_for = {"OTHER": str(Authority(tmp_path).file)}
    connection = changed(getattr(secured, login), **{k: stands_for.get(v, v) for k, v in extra.items()})
    began = time.monotonic()
    with pytest.raises(kind, match=message):
        read(connection, "t", OffsetRange(0, 0, 1))
    assert time.monotonic() - began < AT_ONCE


@READERS
def test_brokers_that_are_away_are_named(secured: Secured, read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    connection = changed(secured.connection, bootstrap_servers="127.0.0.1:9")
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="check that the brokers run"):
        read(connection, "t", OffsetRange(0, 0, 1))
    assert time.monotonic() - began < AT_ONCE


def test_a_token_endpoint_that_is_down_is_named(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    connection = changed(secured.with_token, **{"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token"})
    with pytest.raises(BrokerUnavailable, match=r"http://127\.0\.0\.1:9/token did not answer .*token endpoint runs"):
        connect_kafka(connection).__enter__()


def test_a_client_without_a_certificate_is_told_so(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    extra = {k: v for k, v in secured.with_certificate.extra.items() if k in ("bootstrap.servers", "ssl.ca.location")}
    connection = replace(secured.connection, extra={**extra, "security.protocol": "SSL"})
    with pytest.raises(ConfigurationError, match=r"expects one .*ssl\.certificate\.location"):
        connect_kafka(connection).__enter__()


def test_no_secret_is_in_a_representation(secured: Secured) -> None:
    text = json.dumps([repr(secured.with_token), str(secured.with_certificate)])
    assert "secret" not in text
