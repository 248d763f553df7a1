"""``status`` without a name: a line for each pipeline, whatever is wrong with the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.errors import BatchRejected
from offset_ledger.model.batch import Origin
from offset_ledger.operations.status.overview import PipelineLine, overview
from offset_ledger.operations.status.status import status
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect, open_ledger, transaction
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import ingest
from offset_ledger.steps.stage.claim import claim
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.layout import free_ports
from tests.chaos.short import until
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import quiet

FILE = """
pipeline: {name}
source: {{connection: {kafka}, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: {postgres}, table: public.{name}}}
quality: {{max_quarantined_share: 0.4}}
"""
GOOD = b'{"id": "a", "at": "2026-01-01T12:00:00Z", "state": "new"}'
MILLIS = 1_767_268_800_000
AWAY = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "postgres": {}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "dags/pipelines"
    made.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    for kind, extra in AWAY.items():
        away = Connection(f"{kind}_away", kind, host="127.0.0.1", port=1, schema="x", login="x", extra=extra)
        monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    return made


def write(
    folder: Path, name: str, topic: str, kafka: str = "kafka_default", postgres: str = "postgres_default"
) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(FILE.format(name=name, topic=topic, kafka=kafka, postgres=postgres))
    return path


def send(servers: Servers, topic: str, *values: bytes) -> None:
    records = (Record(key=b"k", value=value, partition=0, timestamp_ms=MILLIS) for value in values)
    publish(records, dict(servers.kafka.extra), topic)


def drain(path: Path) -> None:
    list(ingest(parse_pipeline(path), Origin("test"), True, quiet))


def test_each_pipeline_has_a_line_whatever_is_wrong_with_the_others(
    servers: Servers, topic_name: Callable[[], str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = topic_name(), topic_name()
    for topic in (good, bad):
        create_topic(dict(servers.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    send(servers, good, GOOD, b"{", GOOD)
    done, gone = write(folder, "done", good), write(folder, "gone", good)
    for path in (done, gone):
        drain(path)
    gone.unlink()
    send(servers, bad, b"{")
    rejected = write(folder, "rejected", bad)
    with pytest.raises(BatchRejected):
        drain(rejected)
    send(servers, good, GOOD, GOOD)
    write(folder, "new", good)
    write(folder, "no_kafka", good, kafka="kafka_away")
    write(folder, "no_postgres", good, postgres="postgres_away")
    write(folder, "no_topic", "no.such.topic")
    (folder / "broken.yaml").write_text("pipeline: broken\n")

    found = {line.pipeline: line for line in overview()}
    newest = found["done"].newest_record
    assert newest is not None
    assert newest.timestamp() * 1000 == MILLIS
    assert list(found) == ["broken", "done", "gone", "new", "no_kafka", "no_postgres", "no_topic", "rejected"]
    assert found["done"] == PipelineLine("done", "behind", 2, newest, None, 1)
    assert found["gone"] == PipelineLine("gone", "no file", None, newest, None, 1)
    assert found["new"] == PipelineLine("new", "not started", 5, quarantined=0)
    blocked = found["rejected"]
    assert (blocked.state, blocked.lag, blocked.quarantined, blocked.error) == ("blocked", 1, 0, None)
    assert "decide with: offset-ledger batch approve" in str(blocked.blocked_by)
    for name, message in {
        "broken": "broken.yaml:1: ",
        "no_kafka": "BrokerUnavailable: Kafka at 127.0.0.1:1 did not answer",
        "no_postgres": "DatabaseUnavailable: Postgres of connection 'postgres_away'",
        "no_topic": "UnknownTopic: topic 'no.such.topic' does not exist",
    }.items():
        assert message in str(found[name].error)
        state = {"broken": "broken file", "no_topic": "not started"}.get(name, "not known")  # as the ledger page says
        assert replace(found[name], error=None, quarantined=None) == PipelineLine(name, state)

    assert main(["status", "--json"]) == 1
    assert [line["pipeline"] for line in json.loads(capsys.readouterr().out)] == list(found)
    for name in ("broken", "no_kafka", "no_postgres", "no_topic"):
        (folder / f"{name}.yaml").unlink()
    assert main(["status"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2].split()[:3] == ["done", "behind", "2"]
    assert shown[-1] == f"rejected: {blocked.blocked_by}"


REGISTERED = """
pipeline: registered
source: {{connection: kafka_default, topic: {topic}, format: avro, registry: registry_away}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.registered}}
"""


def test_a_server_that_refuses_all_pipelines_is_one_line(
    servers: Servers, topic_name: Callable[[], str], folder: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    for name in ("a", "b"):
        write(folder, name, topic)
    wrong = replace(servers.postgres, password="wrong")
    monkeypatch.setenv(environment_name("postgres_default"), wrong.to_json())
    assert main(["status"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "refuses the login" in line]
    assert line.startswith("a, b: AccessDenied: ")


def test_a_name_of_two_files_is_a_mistake_of_the_second(
    servers: Servers, topic_name: Callable[[], str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    first = write(folder, "orders", topic)
    (folder / "orders_copy.yaml").write_text(first.read_text())
    again, orders = overview()
    first, second = (Path("dags/pipelines") / name for name in ("orders.yaml", "orders_copy.yaml"))
    assert (orders.pipeline, orders.state, orders.error) == ("orders", "not started", None)
    error = f"{second}: {first} has the pipeline orders too; give each pipeline its own name"
    assert again == PipelineLine("orders_copy", "broken file", error=error)
    assert main(["check", str(second)]) == 1
    assert f"{first} and {second} are both called orders" in capsys.readouterr().err


def test_a_registry_that_does_not_answer_is_not_known_as_on_the_page(
    topic_name: Callable[[], str], servers: Servers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    (folder / "registered.yaml").write_text(REGISTERED.format(topic=topic))
    away = Connection("registry_away", "http", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    (line,) = overview()
    assert (line.state, line.lag) == ("not known", 0)
    assert "check that the schema registry runs" in str(line.error)
    assert main(["status"]) == 1
    assert status(parse_pipeline(folder / "registered.yaml")).state == "not known"


def test_servers_are_asked_once_for_all_their_pipelines(
    servers: Servers, topic_name: Callable[[], str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, asked = topic_name(), []
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    for name in ("a", "b", "c"):
        write(folder, name, topic)

    def count(name: str) -> None:
        from offset_ledger.operations.status import overview as module

        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **more: (asked.append(name), real(*args, **more))[1])

    count("reading")
    count("connect_kafka")
    assert [line.state for line in overview()] == ["not started"] * 3
    assert asked == ["reading", "connect_kafka"]


def test_a_batch_that_nobody_stages_any_more_says_so(
    servers: Servers, topic_name: Callable[[], str], folder: Path
) -> None:
    """As after a kill of the task: Postgres ends its session, and only the time of the claim is left."""
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    send(servers, topic, GOOD)
    pipeline = parse_pipeline(write(folder, "killed", topic))
    with open_ledger(pipeline) as session:
        batch = plan(pipeline, Origin("test"), session=session).batch
        assert batch is not None
        claim(session, pipeline, batch.batch_id, Origin("test"))
        with connect(servers.postgres) as other, transaction(other) as cursor:
            cursor.execute("UPDATE offset_ledger.batch SET claimed_at = now() - interval '2 minutes'")
        assert status(pipeline).waits_for is None
    silence = f"no sign of the attempt at batch {batch.batch_id} for 2 min"
    until(lambda: status(pipeline).waits_for)  # the server ends the session a moment later
    assert str(status(pipeline).waits_for).startswith(silence)
    (line,) = overview()
    assert (line.state, str(line.blocked_by).startswith(silence)) == ("batch staging", True)
