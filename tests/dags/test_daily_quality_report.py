"""The daily report's DAG as Airflow's parser meets it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dags.fresh import answer_of

_LOOK = """
import json, runpy, sys
from datetime import datetime
from offset_ledger.interfaces.airflow.dags import day_of
found = runpy.run_path("dags/daily_quality_report.py")
dag = found["daily_quality_report"]
heavy = ["great_expectations", "pyspark", "kafka", "psycopg2", "pyarrow", "pandas"]
interval = {"data_interval_start": datetime(2026, 1, 2)}
print(json.dumps({
    "dag_id": dag.dag_id, "timetable": dag.timetable.expression, "catchup": dag.catchup, "doc": dag.doc_md,
    "heavy": [name for name in heavy if name in sys.modules],
    "outlets": {t.task_id: [a.name for a in t.outlets] for t in dag.tasks},
    "days": [str(day_of(context)) for context in (interval, {**interval, "params": {"date": "2025-12-24"}})],
}))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("airflow")
    return answer_of(_LOOK, home)


def test_one_task_a_day_that_updates_its_asset(parsed: Any) -> None:
    assert (parsed["dag_id"], parsed["timetable"], parsed["catchup"]) == ("daily_quality_report", "0 0 * * *", False)
    assert parsed["outlets"] == {"report": ["daily_quality_report"]}
    assert parsed["heavy"] == []


def test_the_day_is_that_of_the_interval_or_of_the_form(parsed: Any) -> None:
    assert parsed["days"] == ["2026-01-02", "2025-12-24"]
