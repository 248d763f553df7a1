"""A DAG bundle is checked out at another path on each machine and for each version; no DAG may know where."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dags.fresh import answer_of
from tests.paths import ROOT

# DAGs that use all that has ever had a path: a trigger, a deadline, a schema file, several topics.
_MORE = """
schedule: "@hourly"
wake_on_data: true
freshness: 1h
"""
_AVRO = """
pipeline: orders
source: {connection: kafka_default, topics: [orders.eu, orders.us], format: avro, schema: order.avsc}
record: {event_id: $.id, publish_at: kafka_timestamp, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
wake_on_data: true
"""
_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "state", "type": "string"}],
}

_SERIALIZED = """
import json, runpy, sys
from pathlib import Path
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

def dags():
    for file in sorted(Path(sys.argv[1]).glob("*.py")):
        yield from (dag for dag in runpy.run_path(str(file)).values() if isinstance(dag, DAG))

print(json.dumps({dag.dag_id: DagSerialization.to_dict(dag) for dag in dags()}, sort_keys=True))
"""


def bundle(folder: Path) -> Path:
    """A checkout with our DAG files and two pipelines."""
    (folder / "pipelines").mkdir(parents=True)
    for file in (ROOT / "dags").glob("*.py"):
        shutil.copy(file, folder)
    flights = (ROOT / "dags/pipelines/flights.yaml").read_text()
    kept = [line for line in flights.splitlines() if not line.startswith("schedule:")]
    (folder / "pipelines/flights.yaml").write_text("\n".join(kept) + _MORE)
    (folder / "pipelines/orders.yaml").write_text(_AVRO)
    (folder / "pipelines/order.avsc").write_text(json.dumps(_SCHEMA))
    return folder


def serialized(folder: Path, home: Path) -> Any:
    """Every DAG of the bundle as Airflow stores it, without the path that Airflow itself adds."""
    dags = answer_of(_SERIALIZED, home, str(folder))
    for each in dags.values():
        for name in ("fileloc", "_processor_dags_folder"):
            each["dag"].pop(name, None)
    return dags


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="module")
def here(folder: Path) -> Any:
    return serialized(bundle(folder / "one"), folder)


def test_dags_of_two_checkouts_are_the_same_text(here: Any, folder: Path) -> None:
    there = serialized(bundle(folder / "another" / "checkout"), folder)
    assert set(here) == {
        *("ingest_flights", "ingest_orders", "redrive_flights", "redrive_orders"),
        *("audit_topics", "daily_quality_report"),
    }
    assert here == there


def test_no_dag_names_a_place_of_this_machine(here: Any, folder: Path) -> None:
    stored = json.dumps(here)
    assert [place for place in (str(folder), str(ROOT)) if place in stored] == []
