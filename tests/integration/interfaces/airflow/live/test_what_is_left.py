"""What the runs of all tests here have left behind: metrics, asset events, and nowhere a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest
from psycopg2 import sql

from offset_ledger.postgres.connection import postgres_arguments
from tests.fixtures.airflow_world import World, until
from tests.fixtures.statsd import Metric

pytestmark = [pytest.mark.full, pytest.mark.minutes(1), pytest.mark.timeout(2700)]
SPARK_STEPS = {"seconds.stage", "seconds.validate", "seconds.commit"}


def test_the_metrics_have_the_documented_names_and_the_numbers_of_the_ledger(world: World, woken: list[str]) -> None:  # noqa: ARG001
    ours = "airflow.offset_ledger.woken."
    committed = "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'woken' AND state = 'committed'"

    def sent() -> list[Metric] | None:
        found = [each for each in world.statsd.received if each.name.startswith(ours)]
        lags = [each for each in found if each.name.endswith(".lag")]
        return found if len(lags) == len(world.rows(committed)) else None

    found = until(sent, "the metrics of every committed batch of woken", lambda: str(world.statsd.received))
    kinds = {(each.name.removeprefix(ours), each.kind) for each in found}
    timers = {(name, "ms") for name in SPARK_STEPS}
    assert kinds == {("lag", "g"), ("records", "c"), ("quarantined", "c"), *timers}
    ((records, refused),) = world.rows(
        "SELECT sum(until_offset - from_offset - gap)::int, sum(quarantined)::int FROM offset_ledger.batch_range"
        f" WHERE batch_id IN ({committed})"
    )
    total = {each.name: 0.0 for each in found if each.kind == "c"}
    for each in found:
        if each.kind == "c":
            total[each.name] += each.value
    assert total == {f"{ours}records": records, f"{ours}quarantined": refused}
    assert {each.value for each in found if each.kind == "g"} <= {0.0, 1.0}  # one record came meanwhile
    assert all(each.value > 0 for each in found if each.kind == "ms")


def test_the_events_of_a_table_say_what_was_committed(world: World, woken: list[str]) -> None:
    events = [event for event in world.events("postgres_stored/public.woken") if event["source_run_id"] in woken]
    extra = {event["source_run_id"]: event["extra"] for event in events}
    batches = "SELECT run_id, batch_id FROM offset_ledger.batch WHERE pipeline = 'woken' AND kind = 'head'"
    numbers: dict[Any, Any] = dict(world.rows(batches))  # type: ignore[arg-type]
    empty = dict.fromkeys(("updated", "superseded", "duplicate", "deleted", "skipped", "gap"), 0)
    for run_id, ends, inserted, quarantined in ((woken[0], [0, 3], 1, 2), (woken[1], [3, 4], 1, 0)):
        assert extra[run_id] == {
            "batch_id": numbers[run_id],
            "kind": "head",
            "topic": "woken",
            "ranges": {"0": ends},
            "counts": {**empty, "inserted": inserted, "quarantined": quarantined},
        }


def test_assets_have_the_uris_of_openlineage_where_the_environment_knows_their_connections(world: World) -> None:
    found = {asset["name"]: asset["uri"] for asset in world.call("GET", "/assets?limit=100")["assets"]}
    server, port = world.kafka.extra["bootstrap.servers"], world.postgres.port
    wanted = {
        "kafka_default/orders": f"kafka://{server}/orders",
        "postgres_default/public.orders": f"postgres://{world.postgres.host}:{port}/runs/public/orders",
        "kafka_stored/woken": "offset-ledger://kafka_stored/woken",
        "postgres_stored/public.woken": "offset-ledger://postgres_stored/public.woken",
    }
    assert {name: found[name] for name in wanted} == wanted


def test_tasks_are_forked_from_a_process_that_has_imported_what_they_need(world: World) -> None:
    with_pandas = {daemon.name for daemon in world.airflow.daemons if maps(daemon.pid(), "/pandas/")}
    assert with_pandas == {"scheduler"}  # Great Expectations brings pandas; no other component of Airflow loads it


def maps(pid: int | None, part: str) -> bool:
    """Whether the process has a library loaded whose path has this part."""
    return any(part in each.path for each in psutil.Process(pid).memory_maps())


def test_no_log_rendered_field_xcom_or_report_contains_a_password(world: World, woken: list[str]) -> None:
    password = world.postgres.password
    assert password is not None
    stage = world.call("GET", f"{world.run('woken', woken[0])}/taskInstances/stage")
    assert '"application": "stage_batch.py"' in json.dumps(stage["rendered_fields"])
    places = [*files(world.airflow.directory), *files(world.project)]
    logs = [path.read_text() for path in places if {"dag_id=ingest_woken", "task_id=stage"} <= set(path.parts)]
    assert any("spark-submit" in log for log in logs)
    assert [str(path) for path in places if password.encode() in path.read_bytes()] == []
    assert [table for table, text in metadata(world) if password in text] == []
    assert [row for row in world.rows("SELECT b::text FROM offset_ledger.batch b") if password in row[0]] == []


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def metadata(world: World) -> list[tuple[str, str]]:
    """Every row of Airflow's database as text; passwords of connections are encrypted in it."""
    session = psycopg2.connect(**postgres_arguments(world.airflow.postgres.connection(world.airflow.database)))
    try:
        with session, session.cursor() as cursor:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            tables = [name for (name,) in cursor.fetchall()]
            assert {"xcom", "rendered_task_instance_fields", "log", "connection"} <= set(tables)
            found: list[tuple[str, str]] = []
            for name in tables:
                cursor.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(name)))
                found += [(name, text) for (text,) in cursor.fetchall()]
            return found
    finally:
        session.close()
