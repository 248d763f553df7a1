"""The redrive DAGs as Airflow's parser meets them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LOOK = """
import json, runpy, sys
found = runpy.run_path(sys.argv[1])
from airflow.sdk import DAG
heavy = ["great_expectations", "pyspark", "kafka", "psycopg2", "pyarrow", "pandas"]
print(json.dumps({
    "heavy": [name for name in heavy if name in sys.modules],
    "dags": {k: {
        "tasks": {t.task_id: sorted(t.downstream_task_ids) for t in d.tasks},
        "params": {name: d.params.get_param(name).dump() for name in d.params},
        "outlets": {t.task_id: [a.uri for a in t.outlets] for t in d.tasks if t.outlets},
        "doc": d.doc_md, "tags": sorted(d.tags), "owner": d.owner, "timetable": type(d.timetable).__name__,
        "paused": d.is_paused_upon_creation,
        "max_active_runs": d.max_active_runs, "retries": sorted({t.retries for t in d.tasks}),
    } for k, d in found.items() if isinstance(d, DAG)},
}))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The repository's DAG file beside two pipeline files, of which one has dead letters."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "redrive.py").write_text((ROOT / "dags" / "redrive.py").read_text())
    (dags / "pipelines").mkdir()
    flights = (ROOT / "dags" / "pipelines" / "flights.yaml").read_text()
    (dags / "pipelines" / "flights.yaml").write_text(flights)
    other = flights.replace("pipeline: flights", "pipeline: other").replace("public.flights", "public.other")
    (dags / "pipelines" / "other.yaml").write_text(other.replace("quality:", "quality:\n  dead_letter_topic: dead"))
    return answer_of(_LOOK, dags / "home", str(dags / "redrive.py"))


def test_each_pipeline_file_has_its_redrive_and_nothing_heavy_is_imported(parsed: Any) -> None:
    assert (set(parsed["dags"]), parsed["heavy"]) == ({"redrive_flights", "redrive_other"}, [])


def test_the_steps_follow_each_other_and_dead_letters_come_last(parsed: Any) -> None:
    without = parsed["dags"]["redrive_flights"]["tasks"]
    assert without == {
        "plan": ["stage"],
        "stage": ["validate"],
        "validate": ["approve_batch", "commit"],
        "approve_batch": ["commit"],
        "commit": ["report"],
        "report": [],
    }
    assert parsed["dags"]["redrive_other"]["tasks"]["commit"] == ["dead_letters", "report"]


def test_the_form_asks_what_a_redrive_or_a_dismissal_takes(parsed: Any) -> None:
    params = parsed["dags"]["redrive_flights"]["params"]
    assert all(each["description"] for each in params.values())
    assert {name: (each["value"], each["schema"]["type"]) for name, each in params.items()} == {
        "action": ("redrive", "string"),
        "reason": (None, ["null", "string"]),
        "since": (None, ["null", "string"]),
        "limit": (None, ["null", "integer"]),
        "partition": (None, ["null", "integer"]),
        "offsets": (None, ["null", "string"]),
        "why": (None, ["null", "string"]),
    }
    assert params["action"]["schema"]["enum"] == ["redrive", "dismiss", "undo_dismissal"]
    assert {each["schema"].get("section") for each in params.values()} == {
        None,
        "Which records",
        "Records to dismiss (actions dismiss, undo_dismissal)",
        "For the record",
    }


def test_the_dag_says_what_it_is(parsed: Any) -> None:
    dag = parsed["dags"]["redrive_flights"]
    assert (dag["owner"], dag["tags"], dag["max_active_runs"]) == (
        "data-platform",
        ["demo", "flights", "offset-ledger"],
        1,
    )
    assert (dag["timetable"], dag["paused"], dag["retries"]) == ("NullTimetable", False, [3])
    assert dag["outlets"] == {"commit": ["offset-ledger://postgres_default/public.flights"]}
    assert "Redrive flights" in dag["doc"]
