"""Runs of the ingest DAG in a real Airflow, as somebody meets them who knows nothing but Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from offset_ledger.model.request import NOTHING_NEW, OUTCOME
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.kafka.client import connect_kafka
from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.integration.interfaces.airflow.live.conftest import FIRST, LATE_RUN, Played, Scene, notified, subjects

pytestmark = [pytest.mark.minutes(4), pytest.mark.timeout(2700)]

KEPT = "SELECT kind, answer, who, why FROM offset_ledger.decision WHERE pipeline = 'lossy' ORDER BY decision_id"
NO_ANSWER = ("lost_range", "reject", "nobody (no answer in time)", "none given")
# What the unanswered question of lossy, and a run of it that is late, have people notified of.
TOLD = [
    ("approval_needed", "lossy: an approval is needed for the next batch"),
    LATE_RUN,
    ("run_failed", "lossy: task approve_loss failed"),
]


@pytest.mark.full
def test_no_answer_in_time_is_a_no(world: World, started: dict[str, str]) -> None:
    assert world.ended("lossy", started["lossy"]) == "failed"
    tasks = world.tasks("lossy", started["lossy"])
    assert (tasks["plan"], tasks["approve_loss"], tasks["stage"]) == ("success", "failed", "upstream_failed")
    assert world.rows(KEPT) == [NO_ANSWER]


@pytest.mark.full
def test_a_cleared_task_that_asks_and_fails_again_notifies_nobody_again(
    world: World, started: dict[str, str], hooks: Answering
) -> None:
    run_id = started["lossy"]
    world.ended("lossy", run_id)
    until(lambda: len(subjects(hooks, "lossy")) >= len(TOLD), "the notifications", lambda: str(hooks.asked))
    world.clear("lossy", run_id, "approve_loss")
    assert world.ended("lossy", run_id) == "failed"
    assert world.rows(KEPT) == [NO_ANSWER, NO_ANSWER]
    assert sorted(subjects(hooks, "lossy")) == TOLD
    page = f"{world.airflow.address}/dags/ingest_lossy/runs/{quote(run_id, safe='')}"
    links = {each["cause"]: each["link"] for each in notified(hooks, "lossy")}
    assert links == {
        "approval_needed": f"{page}/required_actions",
        "freshness_missed": page,
        "run_failed": page,
    }


@pytest.mark.full
def test_a_person_may_decide_with_the_form(world: World) -> None:
    run_id = world.trigger("lossy", action="skip", why="retention was too short")
    world.succeeded("lossy", run_id)
    assert set(world.tasks("lossy", run_id).values()) == {"success", "skipped"}
    skipped = "SELECT changed_by FROM offset_ledger.batch WHERE pipeline = 'lossy' AND state = 'committed'"
    assert world.rows(skipped) == [("admin",)]
    with connect_kafka(world.kafka) as kafka:
        assert kafka.group_offsets("offset-ledger.lossy", "lossy") == {0: 3}


def test_a_loss_that_a_person_approves_is_skipped_and_the_run_goes_on(world: World, hooks: Answering) -> None:
    run_id = world.trigger("gone")
    asked = world.question("gone", run_id)
    assert asked["subject"].startswith(
        "Skip 4 offsets of topic gone that retention deleted before they were read: partition 0, offsets 0 to 3? "
        "Then batch "
    )
    assert asked["subject"].endswith(" is abandoned, because it would read them.")
    (told,) = notified(hooks, "gone")
    assert (told["cause"], told["text"].splitlines()[1]) == ("approval_needed", asked["subject"])
    assert asked["assigned_users"] == [{"id": "admin", "name": "admin"}]
    world.answer("gone", run_id, "approve_loss", "Approve", " ")
    world.succeeded("gone", run_id)
    tasks = world.tasks("gone", run_id)
    assert (tasks["approve_loss"], tasks["stage"], tasks["commit"]) == ("success", "skipped", "skipped")
    sheet = "SELECT from_offset, until_offset, r.skipped, changed_by FROM offset_ledger.batch_range r"
    kept = (
        f"{sheet} JOIN offset_ledger.batch USING (batch_id, pipeline) WHERE pipeline = 'gone' AND state = 'committed'"
    )
    assert world.rows(kept) == [(0, 4, 4, "admin")]
    answered = "SELECT answer, who, why FROM offset_ledger.decision WHERE pipeline = 'gone'"
    assert world.rows(answered) == [("approve", "admin", "none given")]


@pytest.mark.full
def test_a_run_of_a_backlog_stages_the_batch_of_the_next_run(world: World) -> None:
    first = world.trigger("backlog")
    world.succeeded("backlog", first)
    assert world.tasks("backlog", first)["stage_ahead"] == "success"
    batches = "SELECT state, epoch, run_id FROM offset_ledger.batch WHERE pipeline = 'backlog' ORDER BY batch_id"
    assert world.rows(batches) == [("committed", 1, first), ("staged", 1, first)]
    second = world.trigger("backlog")
    world.succeeded("backlog", second)
    assert world.tasks("backlog", second)["stage_ahead"] == "skipped"
    assert world.rows(batches) == [("committed", 1, first), ("committed", 1, second)]
    assert world.rows("SELECT event_id, _offset FROM public.backlog ORDER BY 1") == [(f"{n}", n) for n in range(4)]


@pytest.mark.full
def test_a_run_that_is_late_is_named_in_the_triggerers_log(world: World, started: dict[str, str]) -> None:
    line = f"pipeline lossy is not fresh: run {started['lossy']} has not ended 1 s after it was queued"

    def said() -> bool:
        return any(line in log.read_text(errors="replace") for log in world.airflow.directory.rglob("*.log"))

    until(said, "the deadline alert")


def two_runs(scene: Scene) -> tuple[str, str]:
    """The ids of two runs of late, one after the other."""
    first, second = (finished(scene.world, "late") for _ in range(2))
    return first, second


def finished(world: World, name: str) -> str:
    """A run that has succeeded."""
    run_id = world.trigger(name)
    world.succeeded(name, run_id)
    return run_id


@pytest.fixture(scope="module")
def late(played: Played) -> tuple[str, str]:
    return played(two_runs)


@pytest.mark.full
def test_a_loss_ahead_is_told_once_until_the_records_are_committed(
    world: World, hooks: Answering, late: tuple[str, str]
) -> None:
    first, second = late
    assert world.tasks("late", first)["commit"] == "success"
    assert world.xcom("late", second, "plan", OUTCOME) == NOTHING_NEW
    (told,) = notified(hooks, "late")
    assert (told["cause"], told["subject"][:29]) == ("loss_ahead", "late: records will be lost in")
    assert told["link"] == f"{world.airflow.address}/dags/ingest_late/runs/{quote(first, safe='')}"
    ended = "SELECT cause, attempts, ended_at IS NOT NULL FROM offset_ledger.notification WHERE pipeline = 'late'"
    assert world.rows(ended) == [("loss_ahead", 1, True)]


@dataclass(frozen=True)
class Away:
    """What people were told while the registry was away, and the state of the run then."""

    told: list[dict[str, Any]]
    state: str


def without_registry(scene: Scene) -> Away:
    world = scene.world
    run_id = world.trigger("away")
    told = until(lambda: notified(scene.hooks, "away"), "the notification", lambda: world.told("away", run_id))
    state = world.state("away", run_id)
    world.call("PATCH", world.run("away", run_id), {"state": "failed"})
    return Away(told, state)


@pytest.fixture(scope="module")
def away(played: Played) -> Away:
    return played(without_registry)


PLAYS = {"late": two_runs, "away": without_registry}


@pytest.mark.full
def test_a_registry_that_is_away_is_told_while_airflow_tries_again(away: Away) -> None:
    subjects_told = [(each["cause"], each["subject"]) for each in away.told]
    assert subjects_told == [("server_away", "away: the schema registry is away")]
    assert away.told[0]["text"].splitlines()[1].startswith("RegistryUnavailable: ")
    assert away.state == "running"


@pytest.mark.full
def test_a_contradiction_fails_the_first_task_with_one_plain_line(world: World, hooks: Answering) -> None:
    run_id = world.trigger("lossy", action="window", since="2026-03-01T00:00:00Z")
    assert world.ended("lossy", run_id) == "failed"
    assert world.tasks("lossy", run_id)["plan"] == "failed"
    told = "ContradictoryRequest: action window needs until; fill in what is missing"
    assert told in world.log("lossy", run_id, "plan")
    message = ("run_failed", "lossy: task plan failed with ContradictoryRequest")
    until(lambda: message in subjects(hooks, "lossy"), "the notification", lambda: str(subjects(hooks, "lossy")))


def test_a_rejected_batch_waits_for_a_person_whose_answer_is_kept(
    world: World, started: dict[str, str], hooks: Answering
) -> None:
    asked = world.question("strict", started["strict"])
    assert asked["subject"].startswith("Commit batch ")
    assert "1 of 2 rows fail" in asked["subject"]
    assert "| ranges | partition 0, offsets 0 to 1 (2 offsets) |" in asked["body"]
    page = f"{world.airflow.address}/dags/ingest_strict/runs/{quote(started['strict'], safe='')}"
    assert f"[tab Ledger]({page}/plugin/offset-ledger-run)" in asked["body"]
    assert asked["options"] == ["Approve", "Abandon", "Reject"]
    assert subjects(hooks, "strict") == rejection(world)
    beside = world.trigger("strict")
    world.succeeded("strict", beside)
    assert world.xcom("strict", beside, "plan", "outcome") == "busy"
    world.answer("strict", started["strict"], "approve_batch", "Approve", "a new state, seen")
    world.succeeded("strict", started["strict"])
    kept = "SELECT answer, who, why, answered_at > asked_at FROM offset_ledger.decision WHERE pipeline = 'strict'"
    assert world.rows(kept) == [("approve", "admin", "a new state, seen", True)]
    events = (
        "SELECT who, why FROM offset_ledger.batch_event JOIN offset_ledger.batch USING (batch_id)"
        " WHERE pipeline = 'strict' AND from_state = 'rejected'"
    )
    assert world.rows(events) == [("admin", "a new state, seen")]
    found = world.rows("SELECT event_id, state FROM public.strict ORDER BY 1")
    assert found == [("bad", "broken"), ("good", "new")]


def test_a_backfill_reads_its_intervals_during_a_live_run(world: World, started: dict[str, str]) -> None:  # noqa: ARG001
    runs = world.backfills("orders")
    assert len(runs) == 2
    scheduled = until(lambda: world.runs("orders", run_type="scheduled"), "the scheduled run")
    for run_id in [*runs, *(run["dag_run_id"] for run in scheduled)]:
        world.succeeded("orders", run_id)
    read = (
        "SELECT run_id, kind, state, from_offset, until_offset FROM offset_ledger.batch JOIN offset_ledger.batch_range"
        " USING (batch_id, pipeline) WHERE pipeline = 'orders' AND kind = 'backfill' ORDER BY from_offset"
    )
    assert world.rows(read) == [
        (runs[0], "backfill", "committed", 0, 3),
        (runs[1], "backfill", "committed", 3, 6),
    ]
    days = {1: range(3), 2: range(3), 5: range(3)}
    wanted = {(f"{day}-{n}", "new") for day, numbers in days.items() for n in numbers}
    assert set(world.rows("SELECT event_id, state FROM public.orders")) == wanted
    assert world.rows("SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'orders'") == [(9,)]
    assert verify(world.pipeline("orders"))[0] == []
    told = {tuple(event["extra"]["ranges"]["0"]) for event in world.events("postgres_default/public.orders")}
    assert {(0, 3), (3, 6), (0, 9)} <= told


@pytest.mark.full
def test_all_runs_again_with_other_parameters_reuse_the_run_and_the_ledger_decides(world: World) -> None:
    before = world.rows("SELECT count(*) FROM offset_ledger.batch WHERE pipeline = 'orders'")
    again = {"reprocess_behavior": "completed", "dag_run_conf": {"dry_run": True}}
    backfill = world.backfill("orders", FIRST, FIRST, **again)
    (run_id, _) = world.backfills("orders")

    def shown() -> dict[str, str] | None:
        tasks = world.tasks("orders", run_id)
        return tasks if tasks["report"] == "skipped" else None

    tasks = until(shown, "the dry run", lambda: world.told("orders", run_id))
    assert set(tasks.values()) == {"success", "skipped"}
    world.succeeded("orders", run_id)
    close(world, backfill)
    preview = world.xcom("orders", run_id, "plan", "preview")
    assert (preview["kind"], preview["offsets"], preview["committed"]) == ("backfill", 3, 3)
    assert world.rows("SELECT count(*) FROM offset_ledger.batch WHERE pipeline = 'orders'") == before


@pytest.mark.full
def test_a_failed_backfill_run_runs_again_only_where_that_was_asked_for(world: World, started: dict[str, str]) -> None:  # noqa: ARG001
    day = FIRST + timedelta(days=10)
    first = world.backfill("orders", day, day, dag_run_conf={"action": "skip"})
    (*_, run_id) = world.backfills("orders")
    assert world.ended("orders", run_id) == "failed"
    close(world, first)
    none = world.backfill("orders", day, day, reprocess_behavior="none", dag_run_conf={"dry_run": True})
    close(world, none)
    assert (world.backfills("orders")[-1], world.state("orders", run_id)) == (run_id, "failed")
    world.backfill("orders", day, day, reprocess_behavior="failed", dag_run_conf={"dry_run": True})
    until(lambda: world.state("orders", run_id) == "success", "the run again", lambda: world.told("orders", run_id))
    preview = world.xcom("orders", run_id, "plan", "preview")
    assert (preview["kind"], preview["offsets"]) == ("backfill", 0)


def close(world: World, backfill: int) -> None:
    """End a backfill whose runs have ended: the scheduler would, after a while."""
    status, found = world.airflow.request("PUT", f"/api/v2/backfills/{backfill}/cancel", None, world.token)
    assert status in (200, 409), (status, found)  # 409: it has just ended by itself


@pytest.mark.full
def test_clearing_commit_of_an_approved_batch_changes_nothing(
    world: World, started: dict[str, str], hooks: Answering
) -> None:
    world.succeeded("strict", started["strict"])
    query = (
        "SELECT batch_id, to_state, e.epoch FROM offset_ledger.batch_event e JOIN offset_ledger.batch USING (batch_id)"
        " WHERE pipeline = 'strict' ORDER BY event_id"
    )
    before = world.rows(query), world.rows("SELECT *, xmin::text FROM public.strict ORDER BY event_id")
    world.clear("strict", started["strict"], "commit")
    world.succeeded("strict", started["strict"])
    again = world.call("GET", f"{world.run('strict', started['strict'])}/taskInstances/commit")
    assert (again["state"], again["try_number"]) == ("success", 2)
    after = world.rows(query), world.rows("SELECT *, xmin::text FROM public.strict ORDER BY event_id")
    assert after == before
    assert subjects(hooks, "strict") == rejection(world)


def rejection(world: World) -> list[tuple[str, str]]:
    """What people are notified of the rejected batch of strict; the question about it says nothing more."""
    ((batch_id,),) = world.rows("SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'strict' AND kind = 'head'")
    return [("batch_rejected", f"strict: batch {batch_id} was rejected")]
