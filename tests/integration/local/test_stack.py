"""The local stack with its real servers: started, found again, broken, mended, stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg2
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from offset_ledger.connections import environment_name, parse_connection
from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.local import stack as local
from offset_ledger.local.layout import HOST, PortChoice, Ports
from offset_ledger.local.process import Daemon
from offset_ledger.local.stack import Stack

pytestmark = pytest.mark.minutes(2)

LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "KAFKA_PORT", "POSTGRES_PORT", "AIRFLOW_PORT", "SPARK_PORT"):
        monkeypatch.delenv(f"OFFSET_LEDGER_{name}", raising=False)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not pytest's: as root, each session that starts closes that to Postgres's user again."""
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as name:
        yield Path(name).resolve()


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[Stack]:
    """One broker and Postgres, shared; each test leaves it running."""
    home = folder / "small"
    home.mkdir()
    yield local.up(ports=PortChoice.any_free(), home=home, project=home)
    local.down(home)


@pytest.fixture
def empty() -> Iterator[Path]:
    """A home without a stack."""
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as name:
        yield Path(name).resolve()
        local.down(Path(name))


def pids(stack: Stack) -> dict[str, int | None]:
    return {part.name: part.pid for part in local.status(stack.home)}


def listeners(daemon: Daemon) -> set[str]:
    leader = psutil.Process(daemon.pid())
    opened = []
    for process in (leader, *leader.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a Postgres backend ends with its session
            opened += process.net_connections("tcp")
    return {each.laddr.ip for each in opened if each.status == psutil.CONN_LISTEN}


def write(stack: Stack, topic: str, value: bytes) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, 1, stack.brokers)])
    with closing(KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)) as producer:
        producer.send(topic, value).get(20)


def read(stack: Stack, topic: str) -> bytes:
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=stack.kafka.bootstrap, consumer_timeout_ms=20000)) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        return bytes(next(consumer).value)


def query(stack: Stack, statement: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(stack.postgres.url())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


def test_kafka_and_postgres_are_usable(small: Stack) -> None:
    write(small, "usable", b"one")
    assert read(small, "usable") == b"one"
    assert query(small, "SELECT current_user, current_database(), current_setting('fsync')") == [
        ("offset_ledger", "offset_ledger", "on")
    ]


def test_everything_listens_on_the_loopback_only(small: Stack) -> None:
    assert {daemon.name: listeners(daemon) - LOOPBACK for daemon, _ in small.parts()} == {
        "postgres": set(),
        "kafka-1": set(),
    }


def test_a_shell_that_reads_the_env_file_has_the_same_connections(small: Stack) -> None:
    script = ". ./env && exec env -0"
    shown = subprocess.run(["sh", "-c", script], cwd=small.home, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in shown.split("\0") if line)
    ids = [each.conn_id for each in small.connections()]
    assert ids == ["kafka_default", "postgres_default", "spark_default"]
    assert tuple(parse_connection(each, found[environment_name(each)]) for each in ids) == small.connections()
    assert {name: found[name] for name in small.environment()} == small.environment()


def test_state_files_with_secrets_are_private(small: Stack) -> None:
    assert [oct((small.home / name).stat().st_mode & 0o777) for name in ("env", "stack.json")] == ["0o600", "0o600"]


def test_a_second_up_finds_what_runs(small: Stack) -> None:
    before = pids(small)
    assert local.up(home=small.home) == small
    assert pids(small) == before


def test_other_brokers_than_run_are_refused(small: Stack) -> None:
    with pytest.raises(StackError, match=r"^3 brokers were asked for and the stack in .* runs with 1; run `offset-"):
        local.up(brokers=3, home=small.home)


def test_another_port_than_in_use_is_refused(small: Stack) -> None:
    with pytest.raises(StackError, match=rf"runs with postgres on port {small.ports.postgres} \(asked: 1\)"):
        local.up(ports=PortChoice(postgres=1), home=small.home)


def test_two_brokers_are_refused(empty: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^a stack has 1 or 3 brokers, found 2"):
        local.up(brokers=2, home=empty)


def test_a_killed_broker_comes_back_with_its_records_and_postgres_is_left_alone(small: Stack) -> None:
    write(small, "survives", b"acknowledged")
    before = pids(small)
    small.kafka.broker(1).kill()
    assert pids(small) == {**before, "kafka-1": None}
    local.up(home=small.home)
    after = pids(small)
    assert (after["postgres"], after["kafka-1"] is None) == (before["postgres"], False)
    assert read(small, "survives") == b"acknowledged"


def test_a_paused_broker_is_reported_and_resumes(small: Stack) -> None:
    small.kafka.broker(1).pause()
    try:
        (found,) = [part for part in local.status(small.home) if part.name == "kafka-1"]
        assert (found.running, found.detail) == (True, f"not ready, see {small.kafka.broker(1).daemon.log}")
    finally:
        small.kafka.broker(1).resume()
    small.kafka.wait()


def _kill_and_start(stack: Stack) -> None:
    stack.postgres.kill()
    stack.postgres.start()
    stack.postgres.wait()


@pytest.mark.parametrize(
    "break_it",
    [_kill_and_start, lambda stack: stack.postgres.restart(immediate=True), lambda stack: stack.postgres.restart()],
    ids=["killed", "immediate", "restarted"],
)
def test_postgres_keeps_what_was_committed(small: Stack, break_it: Callable[[Stack], None]) -> None:
    query(small, "CREATE TABLE IF NOT EXISTS kept (id int); TRUNCATE kept; INSERT INTO kept VALUES (7)")
    break_it(small)
    assert query(small, "SELECT id FROM kept") == [(7,)]


def test_down_and_up_again_keeps_ports_and_data(small: Stack) -> None:
    write(small, "kept", b"over the night")
    assert (local.down(small.home), local.down(small.home)) == (True, False)
    assert {part.running for part in local.status(small.home)} == {False}
    again = local.up(home=small.home, project=small.project)
    assert again == small
    assert read(small, "kept") == b"over the night"


def test_three_brokers_on_the_data_of_one_are_refused_and_postgres_is_stopped_again(small: Stack) -> None:
    local.down(small.home)
    try:
        with pytest.raises(StackError, match=r"^3 brokers were asked for and the data in .* are of 1; ask for 1, or"):
            local.up(brokers=3, home=small.home)
        assert {part.running for part in local.status(small.home)} == {False}
    finally:
        local.up(brokers=1, home=small.home, project=small.project)


def test_a_taken_port_is_named_and_what_was_started_is_stopped(empty: Path) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(StackError, match=rf"^broker 1 needs port {port} of .* and pid {os.getpid()} "):
            local.up(ports=PortChoice(port, 0, 0), home=empty)
    assert {part.name: part.running for part in local.status(empty)} == {"postgres": False, "kafka-1": False}


def test_a_broker_that_dies_while_starting_shows_why_and_what_ran_stays(small: Stack) -> None:
    broker = small.kafka.broker(1)
    meta = broker.directory / "data" / "meta.properties"
    intact = meta.read_text()
    broker.stop()
    postgres = pids(small)["postgres"]
    meta.write_text(intact.replace("node.id=1", "node.id=9"))
    try:
        with pytest.raises(
            StackError, match=r"(?s)^kafka-1 ended while it started; end of .*kafka-1\.log:\n.*Stored node id 9"
        ):
            local.up(home=small.home)
        assert pids(small) == {"postgres": postgres, "kafka-1": None}
    finally:
        meta.write_text(intact)
        local.up(home=small.home)


def test_a_stack_that_never_was_has_no_parts(empty: Path) -> None:
    assert (local.status(empty), local.down(empty)) == ((), False)


def test_a_damaged_description_says_what_to_do(empty: Path) -> None:
    (empty / "stack.json").write_text("{")
    with pytest.raises(StackError, match=r"stack\.json cannot be read .*; end the servers by hand and remove"):
        local.status(empty)
    (empty / "stack.json").unlink()


@pytest.fixture(scope="module")
def large(folder: Path) -> Iterator[Stack]:
    """Three brokers, Postgres and Airflow on an empty project."""
    home, project = folder / "large", folder / "project"
    for name in ("dags", "plugins"):
        (project / name).mkdir(parents=True)
    yield local.up(brokers=3, airflow=True, ports=PortChoice.any_free(), home=home, project=project)
    local.down(home)


def test_all_parts_of_the_large_stack_run_on_the_loopback_only(large: Stack) -> None:
    names = ["postgres", "kafka-1", "kafka-2", "kafka-3", "api-server", "scheduler", "dag-processor", "triggerer"]
    assert {daemon.name: listeners(daemon) - LOOPBACK for daemon, _ in large.parts()} == {name: set() for name in names}


def test_airflow_gives_a_token_for_the_rest_api(large: Stack) -> None:
    token = large.airflow.token()
    assert large.airflow.request("GET", "/api/v2/dags", token=token) == (200, {"dags": [], "total_entries": 0})
    assert large.airflow.request("GET", "/api/v2/dags")[0] == 401


def test_airflow_secrets_are_private(large: Stack) -> None:
    names = ("secrets.json", "passwords.json")
    assert [oct((large.airflow.directory / name).stat().st_mode & 0o777) for name in names] == ["0o600", "0o600"]


def test_a_record_survives_a_killed_broker(large: Stack) -> None:
    write(large, "replicated", b"three times")
    large.kafka.broker(2).kill()
    try:
        assert read(large, "replicated") == b"three times"
    finally:
        large.kafka.broker(2).start()
        large.kafka.wait()


def test_only_the_missing_component_is_started(large: Stack) -> None:
    before = pids(large)
    Daemon("triggerer", large.airflow.directory).kill()
    assert local.up(home=large.home) == large
    after = pids(large)
    assert {name for name in before if after[name] != before[name]} == {"triggerer"}
    assert None not in after.values()


def test_a_description_is_read_as_it_was_written(large: Stack) -> None:
    assert local.load(large.home) == large
    assert json.loads((large.home / "stack.json").read_text())["ports"]["kafka"] == list(large.ports.kafka)
    assert replace(large, ports=Ports((1, 2, 3), 4, 5, 6)) != large
