"""``publish`` with a topic and a schema registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.schema_registry.client import Registry, connect_registry
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def extra(stack: Stack) -> dict[str, str]:
    return {"bootstrap.servers": stack.kafka.bootstrap}


@pytest.fixture
def topic(extra: dict[str, str], topic_name: Callable[[], str]) -> str:
    name = topic_name()
    create_topic(extra, name, 2, 1, {"retention.ms": "-1"})
    return name


@pytest.fixture
def registry(registry_connection: Connection) -> Registry:
    return connect_registry(registry_connection)


@pytest.fixture
def command(
    extra: dict[str, str],
    registry_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """``offset-ledger kafka publish`` with these arguments: its exit code, stdout and stderr."""
    for connection in Connection("kafka_default", "kafka", extra=extra), registry_connection:
        monkeypatch.setenv(environment_name(connection.conn_id), connection.to_json())

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["kafka", "publish", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run
