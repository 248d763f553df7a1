"""The command line as a person meets it: one line and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.fixtures.staged import a_pipeline, planned
from tests.unit.interfaces.cli.test_completion import PRESS, shell

GOOD = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]
CLI = f"{sys.executable} -m offset_ledger_kit.cli"


@pytest.fixture
def run(tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a folder of the test's own; an error that becomes no line ends the test with its traceback."""
    assert servers.bootstrap  # its connections are in the environment

    def call(*arguments: str, **more: str) -> Done:
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name, value in more.items():
                patch.setenv(name, value)
            return Done(main(arguments), *capsys.readouterr())

    return call


def in_bash(tmp_path: Path, line: str, **more: str) -> Done:
    """The command as a process, as a shell starts it."""
    command, environment = ["bash", "-c", f"set -o pipefail; {line}"], {**os.environ, **more}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def topic(servers: Servers, topic_name: Callable[[], str]) -> str:
    """An empty topic of one partition."""
    name = topic_name()
    create_topic(dict(servers.kafka.extra), name, 1, 1)
    return name


def write(folder: Path, topic: str) -> str:
    path = folder / "orders.yaml"
    path.write_text(GOOD.format(topic=topic))
    return str(path)


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def one_line(done: Done, code: int, *parts: str, waited_for: str = "") -> None:
    assert done.code == code, done.stderr
    *waiting, line = done.stderr.splitlines()
    assert [waited_for in each for each in waiting] == [True] * bool(waited_for), done.stderr
    assert all(part in line for part in parts), line


def test_a_broken_pipeline_file_names_every_mistake_with_its_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.format(topic="t").replace("text", "txt").replace("event_id", "event_ids"))
    done = run("ingest", str(path))
    assert done.code == 1
    assert "Traceback" not in done.stderr
    assert "orders.yaml:4:" in done.stderr
    assert "txt" in done.stderr
    assert "event_ids" in done.stderr


def test_an_unknown_pipeline(run: Run) -> None:
    one_line(run("ingest", "nothing"), 1, "nothing")


def test_an_unknown_topic(run: Run, tmp_path: Path) -> None:
    one_line(run("ingest", write(tmp_path, "no.such.topic")), 1, "no.such.topic", "does not exist")


@pytest.mark.usefixtures("servers")
def test_an_unreachable_broker(tmp_path: Path) -> None:
    port = unused_port()
    away = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{port}"}})
    done = in_bash(
        tmp_path,
        f"{CLI} ingest {write(tmp_path, 't')}",
        **{environment_name("kafka_default"): away, "OFFSET_LEDGER_RETRY_SECONDS": "8"},  # one attempt takes four
    )
    kafka = f"Kafka at 127.0.0.1:{port}"
    one_line(done, 75, f"{kafka} did not answer", waited_for=f"waiting for {kafka} (")


def test_an_unreachable_postgres(tmp_path: Path, topic: str) -> None:
    port = unused_port()
    away = json.dumps({"conn_type": "postgres", "host": "127.0.0.1", "port": port, "schema": "x", "login": "x"})
    done = in_bash(
        tmp_path,
        f"{CLI} ingest {write(tmp_path, topic)}",
        **{environment_name("postgres_default"): away, "OFFSET_LEDGER_RETRY_SECONDS": "3"},
    )
    waited_for = "waiting for Postgres of connection 'postgres_default' (OperationalError), "
    one_line(done, 75, f"127.0.0.1:{port}", "not available", waited_for=waited_for)


def test_a_missing_connection(run: Run, tmp_path: Path) -> None:
    path = Path(write(tmp_path, "t"))
    path.write_text(path.read_text().replace("kafka_default", "kafka_other"))
    one_line(run("ingest", str(path)), 1, "'kafka_other' is not defined", "AIRFLOW_CONN_KAFKA_OTHER")


def test_nothing_new(
    run: Run,
    tmp_path: Path,
    topic: str,
) -> None:
    done = run("ingest", write(tmp_path, topic), "--json")
    assert (done.code, json.loads(done.stdout)) == (0, [])
    assert "nothing new" in done.stderr
    status = run("status", write(tmp_path, topic), "--json")
    assert json.loads(status.stdout)["partitions"][0]["cursor"] == 0


def test_an_error_as_json(run: Run, tmp_path: Path) -> None:
    done = run("ingest", write(tmp_path, "no.such.topic"), "--json")
    assert done.code == 1
    assert json.loads(done.stdout)["error"] == "UnknownTopic"


def test_an_unknown_batch(run: Run) -> None:
    one_line(run("batch", "approve", "7", "--why", "x"), 1, "batch 7 is not in the ledger")


def test_the_report_of_a_day_without_batches(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "dags" / "pipelines"
    folder.mkdir(parents=True)
    write(folder, "no.such.topic")
    done = run("report", "--date", "2026-01-31", "--json", OFFSET_LEDGER_REPORTS=str(tmp_path / "pages"))
    report = json.loads(done.stdout)
    assert (report["date"], report["page"]) == ("2026-01-31", str(tmp_path / "pages" / "_daily" / "2026-01-31.html"))
    assert (report["pipelines"]["orders"]["batches"], report["pipelines"]["orders"]["records"]) == ({}, 0)
    assert Path(report["page"]).is_file()
    blocked = run("report", "--date", "2026-01-31", OFFSET_LEDGER_REPORTS="/dev/full/pages")
    unwritten = "ConfigurationError: the report of 2026-01-31 cannot be written ("
    one_line(blocked, 1, unwritten, "pages go to /dev/full/pages: ")
    one_line(run("report", "--date", "yesterday"), 1, "--date takes a day such as 2026-01-31, not 'yesterday'")


def test_a_dry_run_shows_a_plan_and_makes_none(
    run: Run,
    tmp_path: Path,
    servers: Servers,
    topic: str,
) -> None:
    publish([Record(b"k", b"{}", (), None, 0)] * 3, dict(servers.kafka.extra), topic)
    pipeline = write(tmp_path, topic)
    plan = json.loads(run("ingest", pipeline, "--dry-run", "--json").stdout)
    assert (plan["kind"], plan["ranges"][0]["until"], plan["committed"]) == ("head", 3, 0)
    offsets = ("--partition", "0", "--from-offset", "1", "--until-offset", "3", "--limit", "1", "--dry-run")
    shown = run("replay", pipeline, *offsets)
    assert "dry run of a replay batch: nothing was planned" in shown.stdout
    window = ("--since", "1900-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")
    plan = json.loads(run("replay", pipeline, *window, "--dry-run", "--json").stdout)
    assert [(each["from"], each["until"]) for each in plan["ranges"]] == [(0, 3)]
    plan = json.loads(run("replay", pipeline, "--since", "1d", "--dry-run", "--json").stdout)
    assert [(each["from"], each["until"]) for each in plan["ranges"]] == [(0, 3)]
    assert json.loads(run("batch", "list", pipeline, "--json").stdout) == []
    one_line(run("replay", pipeline, *offsets, "--since", "2026-01-01T00:00:00Z"), 1, "and not both")
    one_line(run("accept", "topic", pipeline, "--why", "x"), 1, "is the one its cursors belong to")


@pytest.mark.usefixtures("servers")
def test_a_reader_that_stops_early_and_a_full_disk(topic: str, tmp_path: Path) -> None:
    path = tmp_path / "ordersü.yaml"
    path.write_text(GOOD.format(topic=topic))
    verb = f"{CLI} check {path}"
    head = in_bash(tmp_path, f"{verb} | true")
    assert (head.code, head.stderr) == (0, "")
    full = in_bash(tmp_path, f"{verb} > /dev/full")
    one_line(full, 1, "the result cannot be written (No space left on device)")
    ascii_only = in_bash(tmp_path, verb, PYTHONIOENCODING="ascii")
    shown = f"{tmp_path}/orders\\xfc.yaml: no mistakes\ntopic {topic} is there\n"
    assert ascii_only.code == 0
    assert ascii_only.stdout == f"{shown}table public.orders does not exist yet; the first batch creates it\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["kafka", "topic", "plan", "t", "--brokers", "0"], "--brokers"),
        (["kafka", "topic", "plan", "t", "--brokers", "3", "--partitions", "0"], "--partitions"),
        (["kafka", "topic", "plan", "t", "--brokers", "3", "--replication-factor", "-1"], "--replication-factor"),
        (["batch", "list", "p", "--limit", "-1"], "--limit"),
        (["demo", "--flights", "0"], "--flights"),
    ],
)
def test_a_number_below_1_is_refused_at_once(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"argument {named}: should be a whole number from 1, found '" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            {"security.protocol": "SASL_SLL"},
            "security.protocol should be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "/no/ca.pem"},
            "ssl.ca.location should be a file that is there",
        ),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms should be a whole number"),
        ({"max.partition.fetch.bytes": "1MB"}, "max.partition.fetch.bytes should be a whole number"),
        ({"bootstrap.servers": " "}, "its extra has no bootstrap.servers"),
        ({"bootstrap.servers": "a:b:c"}, "bootstrap.servers should be host:port,host:port, found 'a:b:c'"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_a_kafka_connection_that_no_client_takes(
    extra: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{unused_port()}", **extra}}
    monkeypatch.setenv(environment_name("kafka_default"), json.dumps(made))
    assert main(["kafka", "audit", "--topic", "t"]) == 1
    assert message in capsys.readouterr().err


def test_options_that_libpq_does_not_know(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = replace(servers.postgres, extra={"sslmodus": "prefer"})
    monkeypatch.setenv(environment_name("postgres_default"), odd.to_json())
    assert main(["migrate"]) == 1
    assert "'postgres_default': invalid dsn: invalid connection option \"sslmodus\"" in capsys.readouterr().err
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "a while")
    assert main(["migrate"]) == 1
    assert "OFFSET_LEDGER_RETRY_SECONDS should be a number of seconds, found 'a while'" in capsys.readouterr().err


def test_an_empty_transactional_id_is_no_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "publish", "t", "--file", "f.jsonl", "--transactional-id", ""]) == 1
    assert "--transactional-id is empty" in capsys.readouterr().err


def test_bash_completes_what_the_servers_have(servers: Servers, topic: str, tmp_path: Path) -> None:
    with connect(servers.postgres) as session:
        batch_id = planned(session, a_pipeline(), [OffsetRange(0, 0, 1)])
    away = {environment_name("postgres_default"): f"postgres://127.0.0.1:{unused_port()}/x"}

    def completed(line: str, **more: str) -> list[str]:
        answers = shell(["bash", "-c", PRESS], tmp_path, LINE=line, **more)
        return [answer for answer in answers if not answer.startswith("-")]

    assert completed(f"offset-ledger kafka publish {topic[:-1]}") == [topic]
    assert completed("offset-ledger batch approve ") == [str(batch_id)]
    assert completed("offset-ledger batch approve --connection missing ") == []
    assert completed("offset-ledger batch approve ", **away) == []


def test_check_names_the_topic_that_was_meant(run: Run, topic: str, tmp_path: Path) -> None:
    done = run("check", write(tmp_path, f"{topic}s"))
    one_line(done, 1, "UnknownTopic", f"topic '{topic}s' does not exist on", f"did you mean {topic}?")
