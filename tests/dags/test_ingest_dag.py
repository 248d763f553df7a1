"""The DAG files as Airflow's parser meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

_LOOK = """
import json, runpy, sys
found = runpy.run_path("dags/ingest.py")
from airflow.sdk import DAG
heavy = ["great_expectations", "pyspark", "kafka", "psycopg2", "pyarrow", "pandas"]
dags = {k: v for k, v in found.items() if isinstance(v, DAG)}
print(json.dumps({
    "heavy": [name for name in heavy if name in sys.modules],
    "dags": {k: {
        "tasks": {t.task_id: sorted(t.downstream_task_ids) for t in d.tasks},
        "types": {t.task_id: type(t).__name__ for t in d.tasks},
        "retries": {t.task_id: t.retries for t in d.tasks},
        "outlets": {t.task_id: [a.uri for a in t.outlets] for t in d.tasks if t.outlets},
        "doc": d.doc_md, "tags": sorted(d.tags), "owner": d.owner, "catchup": d.catchup,
        "timetable": type(d.timetable).__name__, "max_active_runs": d.max_active_runs,
        "rendered": list(d.get_task("stage").template_fields),
        "stage": {f: str(getattr(d.get_task("stage"), f)) for f in d.get_task("stage").template_fields},
    } for k, d in dags.items()},
}))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("airflow")
    done = subprocess.run(
        [sys.executable, "-c", _LOOK],
        cwd=ROOT,
        env={"AIRFLOW_HOME": str(home), "PATH": "/usr/bin:/bin", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_there_is_one_dag_for_each_pipeline_file(parsed: Any) -> None:
    files = {f"ingest_{path.stem}" for path in (ROOT / "dags" / "pipelines").glob("*.yaml")}
    assert set(parsed["dags"]) == files


def test_parsing_imports_nothing_heavy(parsed: Any) -> None:
    assert parsed["heavy"] == []


def test_the_steps_follow_each_other(parsed: Any) -> None:
    tasks = parsed["dags"]["ingest_flights"]["tasks"]
    assert "stage" in tasks["plan"]
    assert tasks["stage"] == ["validate"]
    assert tasks["validate"] == ["commit"]
    assert tasks["commit"] == ["report"]
    assert tasks["report"] == []


def test_stage_is_a_spark_submit_whose_rendered_fields_hold_no_connection(parsed: Any) -> None:
    dag = parsed["dags"]["ingest_flights"]
    assert dag["types"]["stage"] == "StageOperator"
    shown = json.dumps(dag["stage"])
    assert "AIRFLOW_CONN" not in shown.replace("|AIRFLOW_CONN", "")
    assert "bootstrap.servers" not in shown


def test_the_dag_says_what_it_is(parsed: Any) -> None:
    dag = parsed["dags"]["ingest_flights"]
    assert dag["timetable"] == "CronDataIntervalTimetable"
    assert dag["catchup"] is False
    assert dag["max_active_runs"] == 1
    assert dag["owner"] == "data-platform"
    assert "offset-ledger" in dag["tags"]
    assert "public.flights" in dag["doc"]
    assert list(dag["outlets"]) == ["commit"]
    assert all(retries == 3 for retries in dag["retries"].values())
