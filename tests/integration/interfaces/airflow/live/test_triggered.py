"""Runs that new records, people and schedules trigger: their lineage, a redrive, the summaries over all pipelines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from offset_ledger.operations.audit.rules import RULES
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import environment_name
from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.fixtures.openlineage import Event, facets, has_schema, mistakes, received
from tests.fixtures.topic_reader import read
from tests.integration.interfaces.airflow.live.conftest import Redriven, stored, subjects

pytestmark = [pytest.mark.full, pytest.mark.minutes(4), pytest.mark.timeout(2700)]

COUNTS = ("inserted", "updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap")
OUR_FACETS = {
    *("offsetLedger_batch", "inputStatistics", "dataQualityAssertions"),
    *("schema", "columnLineage", "outputStatistics"),
}


@pytest.fixture(scope="module")
def commits(world: World, woken: list[str], lineage: Answering) -> dict[int, Event]:
    """By batch the event with which the commit of woken ended."""

    def sent() -> dict[int, Event] | None:
        ended = [each for each in received(lineage, "ingest_woken.commit") if each["eventType"] == "COMPLETE"]
        found = {each["run"]["facets"]["offsetLedger_batch"]["batchId"]: each for each in ended}
        return found if len(found) == len(woken) else None

    return dict(until(sent, "the commits of woken", lambda: world.told("woken", woken[0])))


def test_every_event_fits_the_specification(commits: dict[int, Event], lineage: Answering) -> None:
    assert [found for event in received(lineage) if (found := mistakes(event))] == []
    for event in commits.values():
        assert {name for name, facet in facets(event) if has_schema(facet)} >= OUR_FACETS


def test_the_facet_of_a_batch_is_what_the_ledger_says(world: World, commits: dict[int, Event]) -> None:
    sheets = world.rows(
        f"SELECT batch_id, kind, partition, from_offset, until_offset, {', '.join(f'r.{each}' for each in COUNTS)}"
        " FROM offset_ledger.batch_range r JOIN offset_ledger.batch USING (batch_id, pipeline)"
        " WHERE pipeline = 'woken' AND kind = 'head'"
    )
    assert {batch_id for batch_id, *_ in sheets} == set(commits)
    for batch_id, kind, partition, first, until_offset, *counts in sheets:
        sheet = dict(zip(COUNTS, counts, strict=True))
        facet = commits[batch_id]["run"]["facets"]["offsetLedger_batch"]
        assert {name: value for name, value in facet.items() if not name.startswith("_")} == {
            "pipeline": "woken",
            "batchId": batch_id,
            "kind": kind,
            "ranges": [
                {"partition": partition, "fromOffset": first, "untilOffset": until_offset, "balanceSheet": sheet}
            ],
            "total": sheet,
        }


def test_a_commit_leads_from_the_topic_to_the_table(world: World, commits: dict[int, Event]) -> None:
    event = commits[min(commits)]
    cluster = f"kafka://{world.kafka.extra['bootstrap.servers'].split(',')[0]}"
    (topic,), (table,) = event["inputs"], event["outputs"]
    assert (topic["namespace"], topic["name"]) == (cluster, "woken")
    server = f"postgres://{world.postgres.host}:{world.postgres.port}"
    assert (table["namespace"], table["name"]) == (server, "runs.public.woken")
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 1
    (judged,) = topic["inputFacets"]["dataQualityAssertions"]["assertions"]
    shown = ("assertion", "column", "success", "severity")
    assert [judged[name] for name in shown] == ["expect_column_values_to_be_in_set", "state", False, "warn"]


def test_a_table_has_its_columns_and_where_they_come_from(world: World, commits: dict[int, Event]) -> None:
    event = commits[min(commits)]
    (topic,), (table,) = event["inputs"], event["outputs"]
    in_postgres = world.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'public.woken'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    assert [(field["name"], field["type"]) for field in table["facets"]["schema"]["fields"]] == in_postgres
    fields = table["facets"]["columnLineage"]["fields"]
    came_from = {
        name: [(each["namespace"], each["name"], each["field"]) for each in field["inputFields"]]
        for name, field in fields.items()
    }
    place = (topic["namespace"], topic["name"])
    assert came_from == {
        "event_id": [(*place, "$.id")],
        "publish_at": [(*place, "$.at")],
        "state": [(*place, "$.state")],
    }


def test_no_event_contains_a_password(world: World, commits: dict[int, Event], lineage: Answering) -> None:
    assert len(lineage.asked) >= len(commits)
    assert world.postgres.password is not None
    assert [each.path for each in lineage.asked if world.postgres.password.encode() in each.body] == []


RULE = "expect_column_values_to_be_in_set"


def test_a_rejected_redrive_is_given_up_by_a_person_and_its_records_stay(world: World, redriven: Redriven) -> None:
    assert "2 of 2 rows fail" in redriven.asked
    world.succeeded("redrive_woken", redriven.given_up)
    tasks = world.tasks("redrive_woken", redriven.given_up)
    assert (tasks["approve_batch"], tasks["commit"], tasks["report"]) == ("success", "skipped", "skipped")
    batch = world.xcom("redrive_woken", redriven.given_up, "plan", "return_value")
    end = (
        "SELECT from_state, to_state, who, why FROM offset_ledger.batch_event"
        f" WHERE batch_id = {batch} ORDER BY event_id DESC LIMIT 1"
    )
    assert world.rows(end) == [("rejected", "abandoned", "admin", "the suite is wrong")]


def test_what_was_fixed_is_merged_and_every_attempt_is_kept(
    world: World, redriven: Redriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.succeeded("redrive_woken", redriven.mended)
    given_up, mended = (
        world.xcom("redrive_woken", run_id, "plan", "return_value") for run_id in (redriven.given_up, redriven.mended)
    )
    attempts = (
        "SELECT q.\"offset\", r.batch_id, r.outcome, r.reasons->0->>'code' FROM offset_ledger.redrive_record r"
        " JOIN offset_ledger.quarantine q USING (quarantine_id) WHERE pipeline = 'woken' ORDER BY 1, 2"
    )
    assert world.rows(attempts) == [
        (1, given_up, "abandoned", None),
        (1, mended, "resolved", None),
        (2, given_up, "abandoned", None),
        (2, mended, "refused", RULE),
    ]
    left = (
        "SELECT \"offset\", resolved_by, retried_by FROM offset_ledger.quarantine WHERE pipeline = 'woken' ORDER BY 1"
    )
    assert world.rows(left) == [(1, mended, None), (2, None, mended)]
    found = world.rows("SELECT event_id, state, _partition, _offset FROM public.woken")
    assert set(found) == {("a", "new", 0, 0), ("b", "returned", 0, 1), ("d", "new", 0, 3)}
    assert world.rows("SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'woken'") == [(4,)]
    for each in stored(world):
        monkeypatch.setenv(environment_name(each.conn_id), each.to_json())
    assert verify(world.pipeline("woken"))[0] == []


def test_each_refused_record_became_one_dead_letter(world: World, redriven: Redriven) -> None:
    world.succeeded("redrive_woken", redriven.mended)
    told = [dict(letter.headers) for letter in read(world.kafka.extra, "undelivered").values()]
    places = [(each["offset-ledger.topic"], each["offset-ledger.offset"]) for each in told]
    assert places == [(b"woken", b"1"), (b"woken", b"2")]
    assert world.tasks("redrive_woken", redriven.mended)["dead_letters"] == "success"


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


def test_records_wake_a_run_also_those_that_come_while_it_works_and_the_triggerer_is_down(
    world: World, woken: list[str]
) -> None:
    read = (
        "SELECT run_id, from_offset, until_offset FROM offset_ledger.batch JOIN offset_ledger.batch_range"
        " USING (batch_id, pipeline) WHERE pipeline = 'woken' AND kind = 'head' AND state = 'committed' ORDER BY 2"
    )
    assert world.rows(read) == [(woken[0], 0, 3), (woken[1], 3, 4)]
    assert {run["run_type"] for run in world.runs("woken")} == {"asset_triggered"}
    places = (
        "SELECT topic, 0, _offset, event_id FROM public.woken CROSS JOIN offset_ledger.pipeline p"
        " WHERE p.pipeline = 'woken' AND _partition = 0 AND _offset IN (0, 3)"
    )
    assert set(world.rows(places)) == {("woken", 0, 0, "a"), ("woken", 0, 3, "d")}
    refused = "SELECT partition, \"offset\" FROM offset_ledger.quarantine WHERE pipeline = 'woken'"
    assert set(world.rows(refused)) == {(0, 1), (0, 2)}


def test_no_run_was_woken_without_new_records(world: World, woken: list[str]) -> None:
    """By now the trigger has looked many times: at records that a run was about to read, and at none."""
    told = [(event["extra"]["from_trigger"], event["extra"]["payload"]) for event in world.events("new_records_woken")]
    assert told == [(True, {"last_stable": {"0": 3}}), (True, {"last_stable": {"0": 4}})]
    assert [run["dag_run_id"] for run in world.runs("woken")] == woken
