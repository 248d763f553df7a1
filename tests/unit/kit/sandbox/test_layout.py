"""Ports and folders of the local stack."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger_kit.sandbox import layout
from offset_ledger_kit.sandbox.layout import HOST, PortChoice, Ports, accepts, free_ports, require_free, stack_home


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "KAFKA_PORT", "POSTGRES_PORT", "AIRFLOW_PORT", "SPARK_PORT", "REGISTRY_PORT"):
        monkeypatch.delenv(f"OFFSET_LEDGER_{name}", raising=False)


def test_default_ports_are_fixed() -> None:
    assert Ports.choose(PortChoice()) == Ports((19092, 19093, 19094), 19091, 15432, 18080, 15002, 18081)


def test_a_named_port_wins_and_the_brokers_count_upwards_from_it() -> None:
    assert Ports.choose(PortChoice(kafka=9092, airflow=8080)) == Ports((9092, 9093, 9094), 9091, 15432, 8080)


def test_what_is_not_asked_for_stays_as_it_was() -> None:
    before = Ports((1, 2, 3), 4, 5, 6, 8, 9)
    assert Ports.choose(PortChoice(postgres=7), before) == Ports((1, 2, 3), 4, 7, 6, 8, 9)


def test_zero_gives_different_free_ports() -> None:
    found = Ports.choose(PortChoice.any_free())
    numbers = {*found.kafka, found.controller, found.postgres, found.airflow, found.spark, found.registry}
    assert len(numbers) == 8
    assert not any(accepts(port) for port in numbers)


def test_the_environment_fills_what_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_KAFKA_PORT", "7000")
    monkeypatch.setenv("OFFSET_LEDGER_POSTGRES_PORT", "8000")
    monkeypatch.setenv("OFFSET_LEDGER_SPARK_PORT", "9500")
    monkeypatch.setenv("OFFSET_LEDGER_REGISTRY_PORT", "9600")
    assert PortChoice(kafka=9000).with_environment() == PortChoice(9000, 8000, None, 9500, 9600)


@pytest.mark.parametrize("raw", ["x", "-1", "65536", "1.5"])
def test_a_port_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_KAFKA_PORT", raw)
    with pytest.raises(ConfigurationError, match="OFFSET_LEDGER_KAFKA_PORT should be a port number"):
        PortChoice().with_environment()


def test_a_contradiction_names_the_part() -> None:
    ports = Ports((1, 2, 3), 4, 5, 6)
    assert ports.contradicts(PortChoice(kafka=1, postgres=0)) is None
    assert ports.contradicts(PortChoice(postgres=9)) == "postgres on port 5 (asked: 9)"


@pytest.mark.parametrize(
    ("part", "variable"),
    [
        ("Postgres", "OFFSET_LEDGER_POSTGRES_PORT"),
        ("the schema registry", "OFFSET_LEDGER_REGISTRY_PORT"),
        ("the Spark master", "OFFSET_LEDGER_SPARK_PORT"),
        ("broker 2", "OFFSET_LEDGER_KAFKA_PORT"),
    ],
)
def test_a_taken_port_names_the_port_its_process_and_its_variable(part: str, variable: str) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(StackError, match=rf"^{part} needs port {port} of .* and pid {os.getpid()} \(.*{variable}$"):
            require_free(part, port)


def test_a_free_port_passes() -> None:
    (port,) = free_ports(1)
    require_free("Postgres", port)


def test_a_free_port_is_none_that_an_outgoing_connection_may_take_before_the_server_starts() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert [port for port in free_ports(50) if first <= port <= last] == []


def test_where_outgoing_connections_may_take_every_port_some_are_still_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = tmp_path / "ip_local_port_range"
    everything.write_text("1024\t65535\n")
    monkeypatch.setattr(layout, "OUTGOING_PORTS", everything)
    assert len({*free_ports(8)}) == 8


def test_the_home_is_the_argument_then_the_environment_then_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert stack_home() == tmp_path.resolve() / ".local"
    monkeypatch.setenv("OFFSET_LEDGER_HOME", str(tmp_path / "b"))
    assert stack_home() == tmp_path.resolve() / "b"
    assert stack_home(tmp_path / "a") == tmp_path.resolve() / "a"
