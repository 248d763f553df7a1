"""The DAGs over all pipelines in a real Airflow: the audit of the topics, and the daily quality report."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from offset_ledger.operations.audit.rules import RULES
from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.integration.interfaces.airflow.live.conftest import Redriven, subjects

pytestmark = [pytest.mark.full, pytest.mark.minutes(4), pytest.mark.timeout(2700)]


def scheduled(world: World, dag_id: str) -> str:
    """The run of the last interval, which the scheduler starts as soon as the DAG is no longer paused."""
    world.unpause(dag_id)
    (run,) = until(lambda: world.runs(dag_id, run_type="scheduled"), f"the scheduled run of {dag_id}")
    return str(run["dag_run_id"])


def test_the_audit_keeps_what_it_finds_and_fails_on_an_error_alone(world: World, hooks: Answering) -> None:
    run_id = scheduled(world, "audit_topics")
    assert world.ended("audit_topics", run_id) == "failed"
    assert world.tasks("audit_topics", run_id) == {"audit_orders": "success", "audit_gone": "failed"}
    for pipeline in ("orders", "gone"):
        kept = world.rows(f"SELECT rule FROM offset_ledger.topic_audit WHERE pipeline = '{pipeline}'")
        assert sorted(rule for (rule,) in kept) == sorted(rule.name for rule in RULES)
    errors = "SELECT pipeline, rule, found FROM offset_ledger.topic_audit WHERE severity = 'error'"
    found = {(pipeline, rule): found for pipeline, rule, found in world.rows(errors)}
    assert ("gone", "unclean-election") in found
    assert {pipeline for pipeline, _ in found} == {"gone"}
    log = world.log("audit_topics", run_id, "audit_gone")
    assert [rule for (_, rule), text in found.items() if f"{rule}: {json.dumps(text)[1:-1]}" not in log] == []
    task = world.call("GET", f"{world.run('audit_topics', run_id)}/taskInstances/audit_gone")
    assert task["try_number"] == 1
    told = [subject for cause, subject in subjects(hooks, "gone") if cause == "audit_error"]
    assert sorted(told) == sorted(f"gone: audit error {rule}" for _, rule in found)


def test_the_daily_report_is_a_page_whose_numbers_equal_the_ledgers(world: World, redriven: Redriven) -> None:
    world.succeeded("redrive_woken", redriven.mended)
    nightly = scheduled(world, "daily_quality_report")
    ((day,),) = world.rows(
        "SELECT max(ended_at AT TIME ZONE 'UTC')::date::text FROM offset_ledger.batch WHERE pipeline = 'woken'"
    )
    known: set[str] = set()
    while known != (known := pipelines(world)):  # again, if a play beside this test has written a file meanwhile
        asked = world.trigger("daily_quality_report", date=day)
        world.succeeded("daily_quality_report", asked)
    pages = {}
    for run_id in (nightly, asked):
        world.succeeded("daily_quality_report", run_id)
        pages[run_id] = world.xcom("daily_quality_report", run_id, "report", "return_value")
    assert pages[asked] == str(world.project / "reports" / "_daily" / f"{day}.html")
    told = {event["extra"]["date"]: event["extra"]["pipelines"] for event in world.events("daily_quality_report")}
    reported = {name.partition("@")[0] for name in told[day]}
    assert reported == known >= {"away", "gone", "late", "lossy", "orders", "strict", "woken"}
    found, counted = told[day]["woken"], by_the_ledger(world, day)
    assert {name: found[name] for name in counted} == counted
    shown = section((world.project / "reports" / "_daily" / f"{day}.html").read_text(), "woken")
    assert shown["Records read"] == str(counted["records"])
    assert shown["Quarantined"].split()[0] == str(counted["quarantined"])


def pipelines(world: World) -> set[str]:
    """Those that have a file by now."""
    return {file.stem for file in (world.project / "dags" / "pipelines").glob("*.yaml")}


def by_the_ledger(world: World, day: str) -> dict[str, Any]:
    """The same figures of woken, from the balance sheets."""
    on_day = f"pipeline = 'woken' AND (ended_at AT TIME ZONE 'UTC')::date = '{day}'"
    ended = world.rows(f"SELECT state, count(*) FROM offset_ledger.batch WHERE {on_day} GROUP BY 1")
    ((records, refused),) = world.rows(
        "SELECT sum(inserted + updated + superseded + duplicate + deleted + quarantined)::int, sum(quarantined)::int"
        f" FROM offset_ledger.batch_range JOIN offset_ledger.batch USING (batch_id, pipeline) WHERE {on_day}"
        " AND state = 'committed'"
    )
    return {"batches": dict(ended), "records": records, "quarantined": refused}


def section(page: str, pipeline: str) -> dict[str, str]:
    """The figures of one pipeline as the page shows them."""
    (part,) = (part for part in page.split("<section>") if re.search(rf"<h2>.*{pipeline}.*</h2>", part))
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part)
    return {name: re.sub("<.*?>", "", value) for name, value in found}
