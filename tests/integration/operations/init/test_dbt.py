"""docs/dbt.md with a real dbt: the sources that the command line writes, and a model that misses no batch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.steps.commit.step import commit
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.dbt import Dbt, install_dbt, running_dbt
from tests.fixtures.servers import new_database
from tests.fixtures.staged import ME, Event, planned, staged, validated
from tests.fixtures.tables import do
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(600)]

PAGE = (ROOT / "docs/dbt.md").read_text()
(MODEL,) = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)
PIPELINE = """
pipeline: orders
description: Orders of the shop
schedule: "@hourly"
source: {connection: kafka_default, topic: orders}
record:
  event_id: key
  publish_at: $.at
  delete_when: {path: $.op, equals: d}
  columns:
    state: {type: text, description: new or paid}
    note: {type: text, nullable: true}
target: {connection: postgres_default, table: public.orders, view: orders_now}
quality: {suite: orders}
"""
STATES = [f"{second}/0/{offset}" for second in range(6) for offset in range(9)]
SUITE = {
    "name": "orders",
    "expectations": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "state", "value_set": STATES},
            "meta": {"action": "quarantine"},
        }
    ],
}
PROJECT = {"name": "shop", "version": "1.0", "profile": "shop", "flags": {"send_anonymous_usage_stats": False}}


@dataclass(frozen=True)
class Project:
    """A dbt project beside a pipeline file, with the model of the page."""

    folder: Path
    dbt: Dbt
    session: Session

    @property
    def pipeline(self) -> Pipeline:
        return parse_pipeline(self.folder / "pipelines/orders.yaml")

    def runs(self, *command: str, fails: bool = False) -> str:
        """The output of dbt, which has nothing to warn of in the project."""
        success, printed = self.dbt.run("--warn-error", "--no-use-colors", *command)
        assert success != fails, printed
        return printed

    def agrees(self) -> list[tuple[object, ...]]:
        """The rows of the model that are not deleted, which are those of the view."""
        shown = self.read("SELECT event_id, state FROM orders_now ORDER BY 1")
        assert self.read("SELECT event_id, state FROM analytics.orders_model WHERE NOT _deleted ORDER BY 1") == shown
        return shown

    def read(self, query: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in rows(self.session, query)]


@pytest.fixture(scope="module")
def project(stack: Stack, template_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("shop")
    with new_database(stack, template_database) as database, pytest.MonkeyPatch.context() as patch:
        patch.setenv(environment_name(database.conn_id), database.to_json())
        for name in ("pipelines", "models", "expectations"):
            (folder / name).mkdir()
        (folder / "pipelines/orders.yaml").write_text(PIPELINE)
        (folder / "expectations/orders.json").write_text(json.dumps(SUITE))
        (folder / "dbt_project.yml").write_text(yaml.safe_dump(PROJECT))
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile(database)))
        (folder / "models/orders_model.sql").write_text(MODEL)
        with (folder / "models/sources.yml").open("w") as printed, redirect_stdout(printed):
            assert main(["dbt", "sources", "--folder", str(folder / "pipelines")]) == 0
        environment = {**os.environ, "DBT_PROFILES_DIR": str(folder), "DO_NOT_TRACK": "1"}
        with connect(database) as session, running_dbt(install_dbt(stack), folder, environment) as dbt:
            yield Project(folder, dbt, session)
        (folder / "profiles.yml").unlink()  # another test looks for passwords in the folders of its worker


def profile(database: Connection) -> dict[str, object]:
    place = {"host": database.host, "port": database.port, "dbname": database.schema, "schema": "analytics"}
    output = {"type": "postgres", "user": database.login, "password": database.password, "threads": 1, **place}
    return {"shop": {"target": "test", "outputs": {"test": output}}}


def ready(project: Project, offsets: range, *events: Event, kind: BatchKind = BatchKind.HEAD) -> int:
    """A validated batch, which anybody may commit."""
    session, pipeline = project.session, project.pipeline
    batch_id = planned(session, pipeline, [OffsetRange(0, offsets.start, offsets.stop)], kind)
    validated(session, staged(session, pipeline, batch_id, events, "transaction"))
    return batch_id


def test_the_model_is_right_after_late_commits_replays_and_deletes(project: Project) -> None:
    commit(project.pipeline, ready(project, range(3), *(Event(1, 0, n, f"e{n}") for n in range(3))), ME)
    project.runs("build")
    assert project.agrees() == [("e0", "1/0/0"), ("e1", "1/0/1"), ("e2", "1/0/2")]

    waits = ready(project, range(3, 6), Event(2, 0, 3, "e0"), Event(2, 0, 4, "e3"), Event(2, 0, 5, "e1", deleted=True))
    overtakes = ready(project, range(2), Event(3, 0, 0, "e2"), Event(3, 0, 1, "e4"), kind=BatchKind.REPLAY)
    commit(project.pipeline, overtakes, ME)
    project.runs("run")
    assert project.agrees() == [("e0", "1/0/0"), ("e1", "1/0/1"), ("e2", "3/0/0"), ("e4", "3/0/1")]

    commit(project.pipeline, waits, ME)
    newer = "SELECT FROM orders WHERE _batch_id > (SELECT max(_batch_id) FROM analytics.orders_model)"
    assert project.read(newer) == []  # what the usual filter would load
    project.runs("run")
    assert project.agrees() == [("e0", "2/0/3"), ("e2", "3/0/0"), ("e3", "2/0/4"), ("e4", "3/0/1")]

    commit(project.pipeline, ready(project, range(6, 7), Event(5, 0, 6, "e4", deleted=True)), ME)
    built = project.runs("build")
    assert project.agrees() == [("e0", "2/0/3"), ("e2", "3/0/0"), ("e3", "2/0/4")]
    for name in ("unique_public_orders_event_id", "not_null_public_orders_state", "accepted_values_public_orders"):
        assert re.search(f"PASS source_{name}", built), built

    project.runs("source", "freshness")
    (result,) = json.loads((project.folder / "target/sources.json").read_text())["results"]
    assert (result["status"], result["criteria"]["warn_after"]) == (
        "warn",
        {"count": 120, "period": "minute"},
    )  # of January


def test_a_row_that_breaks_a_rule_of_the_suite_fails_a_test_of_dbt(project: Project) -> None:
    do(project.session, "UPDATE orders SET state = 'else' WHERE event_id = 'e0'")
    assert "FAIL 1 source_accepted_values_public_orders" in project.runs("test", fails=True)
