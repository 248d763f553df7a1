"""Connections that lead to another listener than they describe: one line at once; a right one asks nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from offset_ledger.errors import BrokerUnavailable, ConfigurationError, DatabaseUnavailable, UnknownHost
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka import python_client
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.postgres.ledger import database
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.secured import Secured
from tests.fixtures.servers import Servers

AT_ONCE = 10.0  # seconds, on a machine that is busy; a server that is away is waited for three times as long
NOWHERE = "no-such-host.invalid"


@contextmanager
def at_once() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < AT_ONCE


def kafka(servers: str, protocol: str = "PLAINTEXT") -> Connection:
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}
    more = login if protocol.startswith("SASL") else {}
    return Connection("k", "kafka", extra={"bootstrap.servers": servers, "security.protocol": protocol, **more})


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_a_plaintext_port_is_named(servers: Servers, protocol: str) -> None:
    wanted = (
        rf"^Kafka at {servers.bootstrap}: security\.protocol of the connection is {protocol}, and a PLAINTEXT listener "
        r"of Kafka is there; set security\.protocol PLAINTEXT, or correct bootstrap\.servers$"
    )
    with at_once(), pytest.raises(ConfigurationError, match=wanted):
        connect_kafka(kafka(servers.bootstrap, protocol)).__enter__()


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_a_port_with_tls_and_a_login_is_named(secured: Secured, protocol: str) -> None:
    there = secured.connection.extra
    connection = kafka(there["bootstrap.servers"], protocol)
    connection = replace(connection, extra={**connection.extra, "ssl.ca.location": there["ssl.ca.location"]})
    with at_once(), pytest.raises(ConfigurationError, match=rf" is {protocol}, and a SASL_SSL listener .*set security"):
        connect_kafka(connection).__enter__()


@pytest.mark.full
def test_a_port_that_asks_for_a_certificate_is_named(secured: Secured) -> None:
    with (
        at_once(),
        pytest.raises(ConfigurationError, match=r"is PLAINTEXT, and a.* (TLS|SSL).*set security\.protocol SSL"),
    ):
        connect_kafka(kafka(secured.by_certificate)).__enter__()


def test_the_port_of_postgres_is_named(servers: Servers) -> None:
    wrong = kafka(f"{servers.postgres.host}:{servers.postgres.port}")
    line = "is PLAINTEXT, and Postgres is there; write the port of a broker, or correct bootstrap.servers"
    with at_once(), pytest.raises(ConfigurationError, match=line):
        connect_kafka(wrong).__enter__()
    with at_once(), pytest.raises(ConfigurationError, match=line):
        create_topic(wrong.extra, "t", 1, 1)


def test_the_port_of_kafka_is_named_for_postgres(servers: Servers) -> None:
    host, _, port = servers.bootstrap.split(",")[0].partition(":")
    # The broker waits for the rest of a request: libpq gives up after its own timeout, usually 10 s.
    wrong = replace(servers.postgres, host=host, port=int(port), extra={"connect_timeout": "2"})
    line = "Postgres is expected, and a PLAINTEXT listener of Kafka is there; correct host and port of the connection"
    with at_once(), pytest.raises(ConfigurationError, match=line):
        database.connect(wrong).__enter__()


def test_a_host_name_that_does_not_resolve_is_named(servers: Servers) -> None:
    with at_once(), pytest.raises(UnknownHost, match=rf"Kafka at {NOWHERE}:9092: the host name '{NOWHERE}' does not"):
        connect_kafka(kafka(f"{NOWHERE}:9092")).__enter__()
    with at_once(), pytest.raises(UnknownHost, match=rf"Postgres of .*: the host name '{NOWHERE}' does not resolve"):
        database.connect(replace(servers.postgres, host=NOWHERE)).__enter__()


def test_one_right_server_of_several_is_enough(servers: Servers) -> None:
    with connect_kafka(kafka(f"{NOWHERE}:9092,{servers.bootstrap}")) as client:
        assert client.count_brokers() >= 1


def test_servers_that_are_away_are_waited_for(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    with pytest.raises(BrokerUnavailable, match="did not answer"):
        connect_kafka(kafka("127.0.0.1:9")).__enter__()
    with pytest.raises(DatabaseUnavailable, match="is not available"):
        database.connect(replace(servers.postgres, port=9)).__enter__()


def test_a_right_connection_is_not_looked_at(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("looked at")

    monkeypatch.setattr(python_client, "listener_at", looked)
    monkeypatch.setattr(database, "listener_at", looked)
    with connect_kafka(servers.kafka) as client, database.connect(servers.postgres) as session:
        assert client.count_brokers() >= 1
        assert database.rows(session, "SELECT 1") == [[1]]
