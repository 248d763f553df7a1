"""New records wake a DAG that has no schedule: through the triggerer, an asset event and the scheduler."""

from __future__ import annotations

import pytest

from tests.fixtures.airflow_world import World

pytestmark = [pytest.mark.full, pytest.mark.minutes(4), pytest.mark.timeout(2700)]


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
