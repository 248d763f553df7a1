"""What commit tells OpenLineage: received over HTTP, checked against the specification, equal to the ledger."""

from __future__ import annotations

import pytest

from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.fixtures.openlineage import Event, facets, has_schema, mistakes, received

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
