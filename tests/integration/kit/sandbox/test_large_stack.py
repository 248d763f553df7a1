"""The large stack, three brokers, Postgres, Spark and Airflow with its real scheduler, as the demo leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import StackError
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import HOST, Ports
from offset_ledger_kit.sandbox.process import Daemon
from offset_ledger_kit.sandbox.stack import SparkKind, Stack
from tests.fixtures.servers import end
from tests.fixtures.stacks import LOOPBACK, listeners, pids, read, write
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(900)]

DAGS = {"ingest_flights", "redrive_flights", "daily_quality_report", "audit_topics"}


@dataclass(frozen=True)
class Demo:
    """A small demo that has ended, and the stack that it left running."""

    claims: list[dict[str, Any]]
    stack: Stack


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
    ports = {f"OFFSET_LEDGER_{part}_PORT": "0" for part in ("KAFKA", "POSTGRES", "AIRFLOW", "SPARK")}
    outside = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-m", "offset_ledger_kit.cli", "demo", "--flights", "4000", "--json"],
        env={**outside, **ports, "OFFSET_LEDGER_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        stack = local.load(home)
        assert stack is not None
        yield Demo(json.loads(done.stdout), stack)
    finally:
        end(home)


@pytest.fixture
def large(demo: Demo) -> Stack:
    return demo.stack


def test_the_main_job_runs_through_airflow_and_proves_its_result(demo: Demo) -> None:
    assert [claim["text"] for claim in demo.claims if claim["expected"] != claim["found"]] == []
    found = {claim["text"]: claim["found"] for claim in demo.claims}
    assert {"rows", "a second run changed no row"} <= found.keys()
    assert found["what staged each batch (spark from 10,000 offsets on)"] == {"1": "spark"}
    assert (demo.stack.home / "reports" / "flights" / "index.html").exists()
    with connect(demo.stack.postgres.connection()) as session:
        audited = rows(session, "SELECT DISTINCT pipeline FROM offset_ledger.topic_audit")
    assert [tuple(each) for each in audited] == [("flights",)]


def test_all_parts_of_the_large_stack_run_on_the_loopback_only(large: Stack) -> None:
    names = ["postgres", "kafka-1", "kafka-2", "kafka-3", "spark-connect"]
    names += ["api-server", "scheduler", "dag-processor", "triggerer"]
    assert {daemon.name: listeners(daemon) - LOOPBACK for daemon, _ in large.parts()} == {name: set() for name in names}


def test_the_stack_shows_its_spark_connect_server_and_its_connection_names_it(large: Stack) -> None:
    parts = {part.name: part for part in local.status(large.home)}
    assert parts["spark-connect"].address == f"sc://{HOST}:{large.ports.spark}"
    assert parts["spark-connect"].detail.startswith("ready, ")
    spark = large.connections()[2]
    assert (spark.conn_id, spark.conn_type, spark.host) == (
        "spark_default",
        "spark_connect",
        f"sc://{HOST}:{large.ports.spark}",
    )


def test_airflow_gives_a_token_for_the_rest_api(large: Stack) -> None:
    token = large.airflow.token()
    status, answer = large.airflow.request("GET", "/api/v2/dags", token=token)
    assert (status, {dag["dag_id"] for dag in answer["dags"]}) == (200, DAGS)
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


def test_airflow_keeps_the_spark_that_it_was_started_with(large: Stack) -> None:
    with pytest.raises(StackError, match=r"^--spark none was asked for and the stack .* runs with --spark connect; "):
        local.up(home=large.home, spark=SparkKind.NONE)


def test_a_description_is_read_as_it_was_written(large: Stack) -> None:
    assert local.load(large.home) == large
    assert json.loads((large.home / "stack.json").read_text())["ports"]["kafka"] == list(large.ports.kafka)
    assert replace(large, ports=Ports((1, 2, 3), 4, 5, 6)) != large
