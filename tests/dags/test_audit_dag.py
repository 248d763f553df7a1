"""The audit DAG as Airflow's parser meets it."""

from __future__ import annotations

from pathlib import Path

from offset_ledger.pipeline_file.parse import parse_pipeline
from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LOOK = """
import json, runpy, sys
dag = runpy.run_path("dags/audit_topics.py")["audit_topics"]
print(json.dumps({
    "heavy": [name for name in ("great_expectations", "pyspark", "kafka", "psycopg2") if name in sys.modules],
    "id": dag.dag_id, "owners": {t.task_id: t.owner for t in dag.tasks}, "doc": dag.doc_md,
    "timetable": type(dag.timetable).__name__, "catchup": dag.catchup,
}))
"""


def test_there_is_one_light_task_for_each_pipeline(tmp_path: Path) -> None:
    found = answer_of(_LOOK, tmp_path)
    pipelines = [parse_pipeline(path) for path in (ROOT / "dags" / "pipelines").glob("*.yaml")]
    assert found["owners"] == {f"audit_{pipeline.name}": pipeline.owner for pipeline in pipelines}
    assert (found["id"], found["catchup"], found["heavy"]) == ("audit_topics", False, [])
    assert found["timetable"] == "CronDataIntervalTimetable"
    assert "docs/audit.md" in found["doc"]
