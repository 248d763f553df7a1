"""``check`` asks Kafka and Postgres: what would stop every batch is a mistake, and a server that is away is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger import ConfigurationError, UnknownTopic, check
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.servers import Servers

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, {topics}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


def written(folder: Path, topics: str) -> Path:
    path = folder / "orders.yaml"
    path.write_text(PIPELINE.format(topics=topics))
    return path


def connect_to(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    monkeypatch.setenv(environment_name("kafka_default"), Connection("", "kafka", extra=extra).to_json())


@pytest.mark.parametrize(
    ("protocol", "line"),
    [(None, "bootstrap.servers"), ("SASL_PLAINTEXT", "and a PLAINTEXT listener of Kafka is there")],
)
def test_a_wrong_connection_is_a_mistake(
    servers: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    protocol: str | None,
    line: str,
) -> None:
    path = written(tmp_path, "topic: shop.orders")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    given = {"bootstrap.servers": servers.bootstrap, "security.protocol": protocol, **login} if protocol else {}
    connect_to(monkeypatch, **given)
    assert main(["check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "no mistakes" not in out
    assert "ConfigurationError: " in err
    assert line in err
    with pytest.raises(ConfigurationError, match=line):
        check(path)


@pytest.mark.parametrize("topics", ["topics: [{}.eu, {}.us]", 'topic_pattern: "{}[.].*"'])
def test_several_topics_of_which_none_is_there_are_a_mistake(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    topics: str,
) -> None:
    name = topic_name()
    path = written(tmp_path, topics.format(name, name))
    assert main(["check", str(path)]) == 1
    assert "has none of the topics of the file: " in capsys.readouterr().err
    with pytest.raises(UnknownTopic):
        check(path)
    create_topic(dict(servers.kafka.extra), f"{name}.eu", 1, 1)
    assert main(["check", str(path)]) == 0
    assert "1 topic" in capsys.readouterr().out.splitlines()[1]


@pytest.mark.usefixtures("servers")
def test_a_broker_that_is_away_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    connect_to(monkeypatch, **{"bootstrap.servers": f"127.0.0.1:{port}"})
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    topic, table = check(path := written(tmp_path, "topic: shop.orders")).splitlines()
    assert topic.startswith("Kafka was not asked about shop.orders: ")
    assert table.startswith("table public.orders")
    assert main(["check", str(path)]) == 75


@pytest.mark.parametrize(
    ("given", "name", "line"),
    [
        ({"password": "wrong"}, "AccessDenied", "refuses the login"),
        ({"schema": "nowhere"}, "ConfigurationError", "cannot be entered"),
        ('{"conn_type": "postgres", ', "ConfigurationError", "is neither Airflow's JSON form nor a connection URI"),
        (None, "ConfigurationError", "connection 'postgres_default' is not defined"),
    ],
)
def test_a_postgres_that_refuses_is_a_mistake(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: dict[str, str] | str | None,
    name: str,
    line: str,
) -> None:
    create_topic(dict(servers.kafka.extra), topic := topic_name(), 1, 1)
    path, variable = written(tmp_path, f"topic: {topic}"), environment_name("postgres_default")
    assert main(["check", str(path)]) == 0
    if given is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, replace(servers.postgres, **given).to_json() if isinstance(given, dict) else given)
    capsys.readouterr()
    assert main(["check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"offset-ledger: {name}: "), line in err) == ("", True, True)


@pytest.mark.usefixtures("servers")
def test_without_a_connection_with_kafka_nothing_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(environment_name("kafka_default"), raising=False)
    assert main(["check", str(written(tmp_path, "topic: shop.orders"))]) == 1
    assert "ConfigurationError: connection 'kafka_default' is not defined" in capsys.readouterr().err
