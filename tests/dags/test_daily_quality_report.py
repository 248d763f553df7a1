"""The daily report's DAG as Airflow's parser meets it."""

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
from datetime import datetime
found = runpy.run_path("dags/daily_quality_report.py")
dag = found["dag"]
heavy = ["great_expectations", "pyspark", "kafka", "psycopg2", "pyarrow", "pandas"]
interval = {"data_interval_start": datetime(2026, 1, 2)}
print(json.dumps({
    "dag_id": dag.dag_id, "timetable": dag.timetable.expression, "catchup": dag.catchup, "doc": dag.doc_md,
    "heavy": [name for name in heavy if name in sys.modules],
    "outlets": {t.task_id: [a.name for a in t.outlets] for t in dag.tasks},
    "days": [str(found["_day"](context)) for context in (interval, {**interval, "params": {"date": "2025-12-24"}})],
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


def test_one_task_a_day_that_tells_its_asset(parsed: Any) -> None:
    assert (parsed["dag_id"], parsed["timetable"], parsed["catchup"]) == ("daily_quality_report", "0 0 * * *", False)
    assert parsed["outlets"] == {"report": ["daily_quality_report"]}
    assert parsed["heavy"] == []


def test_the_day_is_that_of_the_interval_or_of_the_form(parsed: Any) -> None:
    assert parsed["days"] == ["2026-01-02", "2025-12-24"]
