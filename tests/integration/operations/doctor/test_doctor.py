"""``doctor`` against real servers: all of them well, and one thing after the other wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.client import KafkaClient
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers, execute

FILE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""
GOOD = {
    "Python": "ok",
    "packages": "ok",
    "Spark": "ok",
    "Java": "ok",
    "reports folder": "ok",
    "Kafka kafka_default": "ok",
    "Postgres postgres_default": "ok",
    "Postgres postgres_default: clock": "ok",
    "Postgres postgres_default: ledger": "ok",
    "Postgres postgres_default: rights for public.orders": "ok",
    "Spark spark_default": "ok",
    "Airflow": "skipped",
    "orders: stage": "ok",
    "orders: suite": "ok",
    "orders: table": "ok",
    "orders: topic TOPIC: rights": "ok",
}


@pytest.fixture
def topic(servers: Servers, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = topic_name()
    create_topic(dict(servers.kafka.extra), name, 1, 1)
    (tmp_path / "dags/pipelines").mkdir(parents=True)
    (tmp_path / "dags/pipelines/orders.yaml").write_text(FILE.format(topic=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv(environment_name("spark_default"), '{"conn_type": "spark", "host": "local[2]"}')
    return name


def doctor(capsys: pytest.CaptureFixture[str], topic: str, *arguments: str) -> tuple[int, dict[str, str], str]:
    """Exit code, the level of each subject but of the audit's and of free disk space, and all that was said."""
    capsys.readouterr()
    code = main(["check", "--system", "--json", *arguments])
    shown = capsys.readouterr().out
    found = {each["subject"].replace(topic, "TOPIC"): each["level"] for each in json.loads(shown)}
    audited = "orders: topic TOPIC: "
    own = {name: level for name, level in found.items() if not name.startswith(audited) or name == f"{audited}rights"}
    own.pop("temporary folder")
    assert code == (1 if "problem" in found.values() else 0)
    return code, own, shown


def test_all_is_well_and_nothing_is_written(servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("orders",)):
        assert doctor(capsys, topic, *arguments)[1] == GOOD
    with connect(servers.postgres) as session:
        for table in ("pipeline", "batch", "topic_audit"):
            assert rows(session, f"SELECT * FROM offset_ledger.{table}") == []
    main(["check", "--system", "orders"])
    lines = capsys.readouterr().out.splitlines()
    assert "ok       Postgres postgres_default: clock: within 2 s of that of this machine" in lines
    assert lines[-1].startswith(f"{len([line for line in lines if line.startswith('ok ')])} ok, ")


def away(kind: str) -> str:
    extra = {"bootstrap.servers": "127.0.0.1:1"} if kind == "kafka" else {}
    return Connection(f"{kind}_default", kind, "127.0.0.1", 1, "x", "x", extra=extra).to_json()


def test_a_server_that_is_away_does_not_keep_the_others_from_being_checked(
    topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(environment_name("kafka_default"), away("kafka"))
        _, found, shown = doctor(capsys, topic)
    wrong = {"Kafka kafka_default": "problem", "orders: topic": "skipped"}
    assert found == {**{name: level for name, level in GOOD.items() if "TOPIC" not in name}, **wrong}
    assert "BrokerUnavailable: Kafka at 127.0.0.1:1 did not answer" in shown

    monkeypatch.setenv(environment_name("postgres_default"), away("postgres"))
    _, found, shown = doctor(capsys, topic)
    assert {name: level for name, level in found.items() if name not in GOOD or GOOD[name] != level} == {
        "Postgres postgres_default": "problem",
        "orders: table": "skipped",
        "orders: topic": "problem",  # the audit asks the ledger for the cursors
    }
    assert "DatabaseUnavailable: Postgres of connection 'postgres_default' at 127.0.0.1:1" in shown


def test_brokers_that_are_too_old_are_named_by_the_first_plan(servers: Servers) -> None:
    arguments = {"bootstrap_servers": servers.bootstrap, "api_version": (3, 5)}  # a client that speaks no newer one
    expected = rf"Kafka 3\.6 or newer is needed, found brokers at {servers.bootstrap} that speak the protocol of 3\.5;"
    with closing(Admin(servers.bootstrap, arguments)) as admin, pytest.raises(ConfigurationError, match=expected):
        KafkaClient(admin).check_version()


def test_a_database_without_a_ledger_and_a_file_with_a_mistake(
    servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(servers.postgres, "DELETE FROM offset_ledger.migration")
    Path("dags/pipelines/broken.yaml").write_text("pipeline: broken\n")
    _, found, shown = doctor(capsys, topic)
    assert found["Postgres postgres_default: ledger"] == "problem"
    assert "the database has no ledger yet" in shown
    assert found["file broken.yaml"] == "problem"
    assert found["Postgres postgres_default: rights for public.orders"] == "ok"
