"""DAGs and pipeline files from a Git repository: a run keeps its version, and the ledger page shows the newest one."""

from __future__ import annotations

import json

import pytest

from offset_ledger.postgres.ledger.database import connect, rows
from tests.fixtures.airflow_project import pipeline_text
from tests.fixtures.airflow_world import World, until
from tests.fixtures.git_bundle import GitBundle

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(2700)]

STORED = """
SELECT data::text FROM serialized_dag WHERE dag_id = 'ingest_versioned'
UNION ALL SELECT value::text FROM xcom WHERE dag_id = 'ingest_versioned'
"""
# What Airflow itself stores of a file.
ITS_OWN = ("fileloc", "_processor_dags_folder", "bundle_path")


def on_the_page(world: World) -> set[str]:
    status, answer = world.airflow.request("GET", "/offset-ledger/api/pipelines", None, world.token)
    assert (status, answer["problems"]) == (200, [])
    return {each["name"] for each in answer["pipelines"]}


def stored(world: World) -> list[str]:
    """The DAG and the XComs as Airflow's database has them."""
    with connect(world.airflow.postgres.connection(world.airflow.database)) as session:
        found = [json.loads(text) for (text,) in rows(session, STORED)]
    for each in found:
        if isinstance(each, dict) and "dag" in each:
            each["dag"] = {name: value for name, value in each["dag"].items() if name not in ITS_OWN}
    return [json.dumps(each) for each in found]


@pytest.mark.usefixtures("spark_ready")
def test_a_run_commits_in_its_version_and_the_page_follows_the_repository(world: World, shop: GitBundle) -> None:
    world.unpause("versioned")
    run_id = world.trigger("versioned")
    world.succeeded("versioned", run_id)
    assert world.rows("SELECT event_id FROM versioned ORDER BY event_id") == [("a",), ("b",)]
    assert world.call("GET", world.run("versioned", run_id))["bundle_version"] == shop.head()
    assert world.rows("SELECT engine FROM offset_ledger.batch WHERE pipeline = 'versioned'") == [("spark",)]
    assert "spark-submit" not in world.log("versioned", run_id, "stage")  # its connection is that of the server
    found = stored(world)
    assert len(found) > 1
    places = (str(world.project / "bundles"), str(shop.folder))
    assert [text for text in found if any(place in text for place in places)] == []
    assert {"versioned", "orders"} <= on_the_page(world)
    assert "later" not in on_the_page(world)
    shop.commit(later=pipeline_text("later"))
    until(lambda: "later" in on_the_page(world), "the page to have the second version", world.parser)
