"""Postgres over TLS with sslmode=verify-full, and with tokens by Airflow's hook."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.connection import postgres_arguments, postgres_url, takes_token, with_token
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.postgres.ledger.sessions import session_arguments
from offset_ledger_kit.sandbox.layout import HOST
from tests.fixtures.certificates import Authority
from tests.fixtures.servers import Servers
from tests.fixtures.tls_front import tls_front

AT_ONCE = 10.0  # seconds; a server that is away is waited for three times as long


@dataclass(frozen=True)
class Encrypted:
    """A server with a certificate for 127.0.0.1, and the file of who signed it."""

    connection: Connection
    authority: Path


@pytest.fixture
def encrypted(servers: Servers, tmp_path: Path) -> Iterator[Encrypted]:
    authority = Authority(tmp_path)
    assert servers.postgres.port is not None
    with tls_front(servers.postgres.port, authority.issue("postgres")) as port:
        yield Encrypted(replace(servers.postgres, port=port), authority.file)


def verified(encrypted: Encrypted, **extra: str) -> Connection:
    given = {"sslmode": "verify-full", "sslrootcert": str(encrypted.authority), **extra}
    return replace(encrypted.connection, extra=given)


def test_a_verified_server_is_entered(encrypted: Encrypted) -> None:
    with connect(verified(encrypted)) as session:
        assert rows(session, "SELECT current_database()") == [[encrypted.connection.schema]]
        assert session.info.ssl_in_use


def test_what_does_not_fit_is_named_at_once(encrypted: Encrypted, tmp_path: Path) -> None:
    other = verified(encrypted, sslrootcert=str(Authority(tmp_path, "other").file))
    named = replace(verified(encrypted), host="localhost")
    missing = verified(encrypted, sslrootcert=str(tmp_path / "none.pem"))
    began = time.monotonic()
    for wrong, reason in (
        (other, "certificate verify failed"),
        (named, "does not match host name"),
        (missing, "exist"),
    ):
        with pytest.raises(ConfigurationError, match=rf"{reason}.*check sslmode, sslrootcert"):
            connect(wrong).__enter__()
    assert time.monotonic() - began < AT_ONCE


def test_a_server_without_tls_is_named(servers: Servers, encrypted: Encrypted) -> None:
    plain = replace(servers.postgres, extra=verified(encrypted).extra)
    with pytest.raises(ConfigurationError, match="does not support SSL"):
        connect(plain).__enter__()


def test_what_airflows_hook_reads_does_not_reach_libpq() -> None:
    extra = {"iam": "false", "aws_conn_id": "aws", "cursor": "dictcursor", "sslmode": "require"}
    connection = Connection("db", "postgres", HOST, 5432, "shop", "me", "secret", extra)
    assert postgres_arguments(connection) == {
        "host": HOST,
        "port": 5432,
        "dbname": "shop",
        "user": "me",
        "password": "secret",
        "sslmode": "require",
    }
    assert parse_qs(urlsplit(postgres_url(connection)).query) == {"sslmode": ["require"]}


def test_each_session_has_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("airflow.providers.amazon", reason="apache-airflow-providers-amazon is not installed")
    for name, value in {
        "ACCESS_KEY_ID": "AKIDEXAMPLE",
        "SECRET_ACCESS_KEY": "x",
        "DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", '{"conn_type": "aws", "extra": {"region_name": "eu-west-1"}}')
    connection = Connection("db", "postgres", "db.example.com", 5433, "shop", "ledger", extra={"iam": "true"})
    first = session_arguments(connection, "test")
    time.sleep(1.1)  # the signature has the second in it
    second = session_arguments(connection, "test")
    assert first["password"] != second["password"]
    token = urlsplit(f"https://{second['password']}")
    asked = parse_qs(token.query)
    assert (token.hostname, token.port) == ("db.example.com", 5433)
    assert (asked["Action"], asked["DBUser"], asked["X-Amz-Expires"]) == (["connect"], ["ledger"], ["900"])
    assert "iam" not in second
    for_executors = with_token(connection)  # they have no Airflow to ask
    assert not takes_token(for_executors)
    assert urlsplit(f"https://{session_arguments(for_executors, 'test')['password']}").hostname == "db.example.com"


def test_a_token_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", '{"conn_type": "aws"}')
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    connection = Connection("db", "postgres", "db.example.com", 5433, "shop", "ledger", extra={"iam": "true"})
    with pytest.raises(ConfigurationError, match="Postgres hook gave no token for iam") as caught:
        connect(connection).__enter__()
    assert "\n" not in str(caught.value)
