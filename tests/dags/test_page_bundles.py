"""The ledger page reads the pipeline files of DAG bundles, in the versions that the DAG processor has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dags.fresh import answer_of
from tests.fixtures.git_bundle import GitBundle, bundle_settings

_PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: orders}}
record: {{event_id: $.id, publish_at: kafka_timestamp, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.{name}}}
"""
# What the DAG processor has written into Airflow's database, case by case, and what the API server then shows.
_SHOWN = """
import json, sys
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import delete
initdb()
from offset_ledger.interfaces.page.mounted import known

def shown(versions):
    with create_session() as session:
        session.execute(delete(DagBundleModel))
        session.add_all(DagBundleModel(name=name, version=version) for name, version in versions.items())
    found = known()
    return {"paths": {name: str(each.path) for name, each in found.pipelines.items()}, "problems": found.problems}

print(json.dumps([shown(versions) for versions in json.loads(sys.argv[1])]))
"""

# The newest runs of three DAGs, and which of these failed.
_FAILING = """
import json
from datetime import UTC, datetime
from airflow.models.dagrun import DagRun
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
initdb()
from offset_ledger.interfaces.page.mounted import failing

runs = [("ingest_a", "success"), ("ingest_a", "failed"), ("ingest_b", "failed"), ("ingest_b", "running"),
        ("other", "failed"), ("ingest_c", "success")]
with create_session() as session:
    for n, (dag_id, state) in enumerate(runs):
        at = datetime(2026, 11, 25, n, tzinfo=UTC)
        session.add(DagRun(dag_id=dag_id, run_id=f"run_{n}", run_type=DagRunType.MANUAL, logical_date=at, run_after=at,
                           state=state))
        session.flush()
    print(json.dumps(sorted(failing(session, ["ingest_a", "ingest_b", "ingest_c"]))))
    session.rollback()
"""


def text(name: str) -> str:
    return _PIPELINE.format(name=name)


def test_pipelines_of_every_bundle_are_shown_as_the_dag_processor_saw_them(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    (dags / "pipelines").mkdir(parents=True)
    (dags / "pipelines" / "local.yaml").write_text(text("local"))
    shop = GitBundle.create(tmp_path / "shop")
    seen = shop.commit(orders=text("orders"))
    shop.commit(unseen=text("unseen"))
    away = GitBundle(tmp_path / "away")
    settings = {**bundle_settings(tmp_path / "bundles", shop, away), "AIRFLOW__CORE__DAGS_FOLDER": str(dags)}
    cases = [{"dags-folder": None, "shop": seen, "away": seen}, {"shop": None}]
    found, before = answer_of(_SHOWN, tmp_path, json.dumps(cases), **settings)
    assert found["paths"] == {
        "local": str(dags / "pipelines/local.yaml"),
        "orders": str(tmp_path / "bundles/shop/versions" / seen / "dags/pipelines/orders.yaml"),
    }
    (problem,) = found["problems"]
    assert problem.startswith(f"expected version {seen} of DAG bundle away on the API server, found RuntimeError: ")
    assert before == {
        "paths": {},
        "problems": [
            "expected a folder pipelines in a DAG bundle, found DAG bundles without one: shop; "
            "let OFFSET_LEDGER_PIPELINES name the folder of the pipeline files"
        ],
    }


@pytest.mark.full
def test_a_dag_fails_while_its_newest_run_is_a_failed_one(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    assert answer_of(_FAILING, tmp_path, AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path / "dags")) == ["ingest_a"]
