"""A pipeline file with mistakes beside a good one, as Airflow's parser meets them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LOOK = """
import json, pathlib, runpy, sys
from airflow.sdk import DAG
told = {}
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    try:
        found = runpy.run_path(str(file))
    except Exception as error:
        told[file.name] = f"{type(error).__name__}: {error}"
    else:
        told[file.name] = {d.dag_id: sorted(d.task_ids) for d in found.values() if isinstance(d, DAG)}
print(json.dumps(told))
"""

_OF_A_TASK = """
import json, pathlib, sys
from offset_ledger import all_dags, audit_dags, ingest_dags, redrive_dags
folder = pathlib.Path(sys.argv[1])
dags = ingest_dags(folder)
others = [*redrive_dags(folder), *audit_dags(folder)]
print(json.dumps([list(dags), others, dags["ingest_flights"].dag_id, list(dags), list(all_dags(folder))]))
"""


def ledger_file() -> str:
    """The file of docs/add-to-airflow.md that builds every DAG."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/add-to-airflow.md").read_text(), re.M | re.S)
    (found,) = (each for each in blocks if "all_dags" in each)
    return str(found)


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our DAG files, with a pipeline file that has a mistake and another that has a table twice."""
    dags = tmp_path_factory.mktemp("project") / "dags"
    shutil.copytree(ROOT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    flights = (ROOT / "dags" / "pipelines" / "flights.yaml").read_text()
    (dags / "ledger.py").write_text(ledger_file())
    (dags / "pipelines" / "broken.yaml").write_text("pipeline: broken\nsauce: {}\n")
    (dags / "pipelines" / "twin.yml").write_text(flights.replace("pipeline: flights", "pipeline: twin"))
    return dags


@pytest.fixture(scope="module")
def told(dags: Path) -> Any:
    return answer_of(_LOOK, dags / "home", str(dags))


def test_the_other_pipelines_keep_their_dags(told: Any) -> None:
    assert set(told["ingest.py"]) == {"ingest_flights", "ingest_twin"}
    assert set(told["redrive.py"]) == {"redrive_flights", "redrive_twin"}
    assert told["audit_topics.py"] == {"audit_topics": ["audit_flights", "audit_twin"]}


def test_all_dags_are_those_of_our_files(told: Any) -> None:
    ours = [told[f"{name}.py"] for name in ("ingest", "redrive", "audit_topics", "daily_quality_report")]
    assert told["ledger.py"] == {dag: tasks for of_file in ours for dag, tasks in of_file.items()}


def test_one_import_error_names_every_mistake_of_every_file(told: Any) -> None:
    assert [name for name, found in told.items() if isinstance(found, str)] == ["pipeline_files.py"]
    error = told["pipeline_files.py"]
    assert error.startswith("PipelineFileError: ")
    for mistake in (
        "broken.yaml:2: ",
        "twin.yml:",
        "has the target public.flights too; give each pipeline its own table",
    ):
        assert mistake in error


def test_a_task_builds_its_own_dag_and_others_that_are_looked_up(dags: Path) -> None:
    """As Airflow's guide to faster parsing of dynamic DAGs asks for: a task needs no other."""
    of_task = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": "ingest_twin", "_AIRFLOW_PARSING_CONTEXT_TASK_ID": "plan"}
    of_ingest, others, looked_up, then, of_all = answer_of(
        _OF_A_TASK, dags / "home", str(dags / "pipelines"), **of_task
    )
    assert (of_ingest, others, of_all) == (["ingest_twin"], [], ["ingest_twin"])
    assert (looked_up, then) == ("ingest_flights", ["ingest_twin", "ingest_flights"])
