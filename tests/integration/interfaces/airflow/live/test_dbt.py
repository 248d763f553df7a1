"""The DAG of docs/dbt.md on a live Airflow: a commit starts dbt, which builds the model of the page."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.airflow_project import record
from tests.fixtures.airflow_world import World, until
from tests.fixtures.dbt import install_dbt
from tests.integration.interfaces.airflow.live.conftest import FIRST
from tests.integration.operations.init.test_dbt import MODEL, PAGE, PROJECT, profile

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(2700)]

(DAG,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_a_commit_starts_dbt(world: World, stack: Stack, tmp_path: Path) -> None:
    world.write("parcels")
    world.publish("parcels", record(FIRST, "a"), record(FIRST, "b"))
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text(yaml.safe_dump(PROJECT))
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile(world.postgres)))
    (tmp_path / "models/parcels_model.sql").write_text(MODEL.replace("'orders'", "'parcels'"))
    with (tmp_path / "models/sources.yml").open("w") as printed, redirect_stdout(printed):
        assert main(["dbt", "sources", "--folder", str(world.project / "dags/pipelines")]) == 0
    dbt = install_dbt(stack)
    text = DAG.replace("orders", "parcels").replace("/opt/dbt/bin/dbt", str(dbt)).replace("/opt/shop", str(tmp_path))
    text = text.replace("dbt build", "dbt build --select +parcels_model")
    (world.project / "dags/dbt_parcels.py").write_text(text)
    for name in ("parcels", "dbt_parcels"):
        world.unpause(name)
    world.succeeded("parcels", world.trigger("parcels"))
    (run,) = until(lambda: world.runs("dbt_parcels"), "the run that the commit starts")
    assert run["run_type"] == "asset_triggered"
    world.succeeded("dbt_parcels", run["dag_run_id"])
    assert world.rows("SELECT event_id, state FROM analytics.parcels_model ORDER BY 1") == [("a", "new"), ("b", "new")]
    (tmp_path / "profiles.yml").unlink()  # another test looks for passwords in the folders of its worker
