"""The redrive DAG in a real Airflow: a person gives one up, the next one brings in what was mended."""

from __future__ import annotations

import pytest

from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import environment_name
from tests.fixtures.airflow_world import World
from tests.fixtures.topic_reader import read
from tests.integration.interfaces.airflow.live.conftest import Redriven, stored

pytestmark = [pytest.mark.full, pytest.mark.minutes(4), pytest.mark.timeout(2700)]
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
