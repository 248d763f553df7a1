"""The local stack with its real servers: started, found again, broken, mended, stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.outside.connections import environment_name, parse_connection
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import HOST, PortChoice, free_ports
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.stacks import pids, read, write

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "KAFKA_PORT", "POSTGRES_PORT", "AIRFLOW_PORT", "SPARK_PORT", "REGISTRY_PORT"):
        monkeypatch.delenv(f"OFFSET_LEDGER_{name}", raising=False)


@pytest.fixture
def empty() -> Iterator[Path]:
    """A home without a stack."""
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as name:
        yield Path(name).resolve()
        local.down(Path(name))


def query(stack: Stack, statement: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(**postgres_arguments(stack.postgres.connection()))) as connection:
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


def test_a_shell_that_reads_the_env_file_has_the_same_connections(small: Stack) -> None:
    script = ". ./env && exec env -0"
    shown = subprocess.run(["sh", "-c", script], cwd=small.home, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in shown.split("\0") if line)
    ids = [each.conn_id for each in small.connections()]
    assert ids == ["kafka_default", "postgres_default", "spark_default"]
    assert tuple(parse_connection(each, found[environment_name(each)]) for each in ids) == small.connections()
    assert {name: found[name] for name in small.connections_environment()} == small.connections_environment()


def test_the_env_file_exports_connections_and_where_the_stack_is_only(small: Stack) -> None:
    exported = {line.split("=")[0].split()[-1] for line in (small.home / "env").read_text().splitlines()}
    own = {name for name in exported if not name.startswith("AIRFLOW_CONN_")}
    assert own == {"OFFSET_LEDGER_HOME", "PGPASSFILE"}


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


def test_another_port_for_what_does_not_run_needs_no_down(small: Stack) -> None:
    (free,) = free_ports(1)
    assert local.up(ports=PortChoice(registry=free), home=small.home) == replace(
        small, ports=replace(small.ports, registry=free)
    )
    assert local.up(ports=PortChoice(registry=small.ports.registry), home=small.home) == small


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
