"""Quarantined records, a rejected batch and the timeline, through the page's routes on a real ledger and topics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from offset_ledger.interfaces.page import answers, quarantine
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.history import WINDOWS
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Cursor, connect, rows, transaction
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.decide.answers import batch_question
from offset_ledger.steps.run.redrive import dismiss
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.asgi import Client
from tests.fixtures.page_world import FULL, VIEWER, PageWorld, make_world
from tests.fixtures.servers import new_database
from tests.fixtures.staged import ME

SHEET = tuple(Dispositions.__dataclass_fields__)
SECRETS = ("12.345", "order 500", "7f3a", "cut off")


@dataclass(frozen=True)
class Site:
    """A page over the world, and its ledger."""

    folder: Path
    brokers: BrokerCache
    postgres: Connection

    def get(self, path: str, rights: Rights = FULL, status: int = 200) -> Any:
        answer = Client(create_app(lambda: rights, partial(read_pipelines, self.folder), self.brokers)).get(
            f"/api/pipelines{path}"
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with connect(self.postgres) as session:
            return [tuple(row) for row in rows(session, query)]


@pytest.fixture(scope="module")
def site(stack: Stack, template_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One world for all tests, none of which changes what another one reads."""
    home = tmp_path_factory.mktemp("page")
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
    with pytest.MonkeyPatch.context() as patch, new_database(stack, template_database) as postgres:
        for connection in (kafka, postgres):
            patch.setenv(environment_name(connection.conn_id), connection.to_json())
        patch.setenv("OFFSET_LEDGER_REPORTS", str(home / "reports"))
        ours = uuid.uuid4().hex[:8]
        world = PageWorld(home / "pipelines", dict(kafka.extra), lambda name: f"{name}.{ours}")
        with connect(postgres) as session:
            brokers = make_world(session, world)
        yield Site(world.folder, brokers, postgres)


def test_the_overview_begins_with_what_needs_a_decision(site: Site) -> None:
    shown = site.get("")["pipelines"]
    levels = [(each["name"], each["condition"]["level"]) for each in shown]
    assert levels == [("events", "warn"), ("orders", "warn"), ("refunds", "plain"), ("bookings", "good")]
    orders, refunds = shown[1], shown[2]
    assert [(each["kind"], each["state"]) for each in orders["recent"]] == [
        ("head", "committed"),
        ("head", "committed"),
        ("replay", "committed"),
        ("head", "rejected"),
    ]
    rejected = orders["open_batch"]["batch_id"]
    assert orders["question"] == f"batch {rejected} is rejected and requires a decision"
    assert (orders["judged_batch"], orders["quarantined_share"]) == (rejected, pytest.approx(65 / 365))
    assert orders["max_quarantined_share"] == 0.02
    assert (refunds["recent"], refunds["quarantined_share"], refunds["question"]) == ([], None, None)
    assert len(shown[0]["recent"]) == 20


def test_a_rejected_batch_says_why_and_shows_what_it_refused(site: Site) -> None:
    rejection = site.get("/orders")["rejection"]
    (reason,) = rejection["reasons"]
    assert "above the limit" in reason
    assert rejection["report"] == f"orders/{rejection['batch_id']}.html"
    assert len(rejection["records"]) == 5
    table = f"offset_ledger_staging.b{rejection['batch_id']}_e1_refused"
    staged = f"SELECT _partition, _offset, convert_from(_value, 'UTF8') FROM {table}"
    shown = {(each["partition"], each["offset"], each["value"]["text"]) for each in rejection["records"]}
    assert shown <= {*site.rows(staged)}
    assert {reason["code"] for each in rejection["records"] for reason in each["reasons"]} <= {"missing", "syntax"}
    assert site.get("/bookings")["rejection"] is None


def test_a_record_that_it_refused_opens_in_full(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine.first_refused, "__defaults__", ((None, None), 4))  # bytes
    record = site.get("/orders")["rejection"]["records"][0]
    assert record["value"]["shown"] == 4 < record["value"]["size"]
    at = f"/orders/refused/{record['partition']}/{record['offset']}"
    whole = site.get(at)["value"]
    assert (whole["shown"], len(whole["text"].encode())) == (record["value"]["size"],) * 2
    assert site.get(at, VIEWER)["value"]["text"] is None
    site.get("/orders/refused/0/99999999", status=404)
    site.get("/bookings/refused/0/0", status=404)


def test_the_question_about_it_shows_places_and_reasons_as_the_page_does_to_whoever_may_not_read_values(
    site: Site,
) -> None:
    batch_id = site.get("/orders")["rejection"]["batch_id"]
    question = batch_question(parse_pipeline(site.folder / "orders.yaml"), batch_id)
    assert question is not None
    refused = (
        "SELECT format('%%s:%%s', _partition, _offset), format('%%s at %%s', reason->>'code', reason->>'path')"
        f" FROM offset_ledger_staging.b{batch_id}_e1_refused, jsonb_array_elements(reasons) AS reason"
    )
    staged = site.rows(refused)
    assert question.text.startswith(f"Commit batch {batch_id} of orders? The quality gate rejected it: ")
    assert question.details["samples"]
    for places, reason in question.details["samples"]:
        said, records = reason.removesuffix(")").split(" (")
        those = [place for place, why in staged if why == said]
        assert records == f"{len(those)} records"
        assert places.split(", ") == sorted(those, key=lambda each: [*map(int, each.split(":"))])[:3]
    assert all(
        f"| refused (partition:offset) {places} |" in question.body() for places, _ in question.details["samples"]
    )
    assert not [secret for secret in SECRETS if secret in question.body()]


def test_the_waterfall_of_a_batch_begins_with_its_offsets_and_ends_with_its_rows(site: Site) -> None:
    batches = site.get("/orders/batches?state=committed")["batches"]
    for batch in batches:
        opened = site.get(f"/orders/batches/{batch['batch_id']}")
        steps = {step["name"]: step["count"] for step in opened["waterfall"]}
        assert steps.pop("offsets") == batch["offsets"]
        assert {name: steps.get(name, 0) for name in SHEET} == batch["sheet"]
    (rejected,) = site.get("/orders/batches?state=rejected")["batches"]
    assert site.get(f"/orders/batches/{rejected['batch_id']}")["waterfall"] is None


def test_records_come_in_pages_newest_first_and_none_twice(site: Site) -> None:
    listed: list[int] = []
    after = ""
    while True:
        page = site.get(f"/orders/quarantine?limit=2{after}")
        assert len(page["records"]) <= 2
        listed += [each["quarantine_id"] for each in page["records"]]
        if page["before"] is None:
            break
        after = f"&before={page['before']}"
    kept = "SELECT quarantine_id FROM offset_ledger.quarantine WHERE pipeline = 'orders' ORDER BY 1 DESC"
    assert [(each,) for each in listed] == site.rows(kept)
    assert len(listed) == 9


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("partition=1", "partition = 1"),
        ("reason=precision", "true"),
        ("reason=syntax", "false"),
        ("since=2000-01-01T00:00:00Z", "true"),
        ("until=2000-01-01T00:00:00Z", "false"),
        ("state=resolved", "false"),
    ],
)
def test_records_are_filtered(site: Site, query: str, where: str) -> None:
    kept = f"SELECT quarantine_id FROM offset_ledger.quarantine WHERE pipeline = 'orders' AND {where} ORDER BY 1 DESC"
    shown = site.get(f"/orders/quarantine?{query}")["records"]
    assert [(each["quarantine_id"],) for each in shown] == site.rows(kept)


def test_an_opened_record_has_its_bytes_reasons_headers_and_coordinates(site: Site) -> None:
    (listed,) = site.get("/orders/quarantine?limit=1")["records"]
    shown = site.get(f"/orders/quarantine/{listed['quarantine_id']}")
    ((partition, offset, topic_id, key, value),) = site.rows(
        "SELECT partition, \"offset\", topic_id, convert_from(key, 'UTF8'), convert_from(value, 'UTF8')"
        f" FROM offset_ledger.quarantine WHERE quarantine_id = {listed['quarantine_id']}"
    )
    assert [shown[name] for name in ("partition", "offset", "topic_id", "state")] == [
        partition,
        offset,
        topic_id,
        "unresolved",
    ]
    assert (shown["key"]["text"], shown["value"]["text"]) == (key, value)
    assert shown["headers"] == [{"name": "trace", "value": {"size": 4, "shown": 4, "form": "text", "text": "7f3a"}}]
    assert [(each["code"], each["path"]) for each in shown["reasons"]] == [("precision", "$.amount")]
    assert "12.345" in shown["reasons"][0]["detail"]


def test_who_may_not_edit_the_dag_gets_sizes_and_no_content(site: Site) -> None:
    page = site.get("/orders/quarantine", VIEWER)
    record_id = page["records"][0]["quarantine_id"]
    answers = [page, site.get(f"/orders/quarantine/{record_id}", VIEWER), site.get("/orders", VIEWER)]
    assert [secret for secret in SECRETS if secret in json.dumps(answers)] == []
    assert [answers[0]["masked"], answers[1]["masked"], answers[2]["rejection"]["masked"]] == [True] * 3
    assert answers[1]["value"] == {
        "size": page["records"][0]["value_bytes"],
        "shown": 0,
        "form": "masked",
        "text": None,
    }
    assert answers[1]["reasons"] == [{"code": "precision", "path": "$.amount"}]
    readable = json.dumps([site.get("/orders/quarantine"), site.get(f"/orders/quarantine/{record_id}")])
    assert "12.345" in readable  # so that what is missing above would be found


def test_a_record_belongs_to_its_pipeline(site: Site) -> None:
    (listed,) = site.get("/orders/quarantine?limit=1")["records"]
    site.get(f"/bookings/quarantine/{listed['quarantine_id']}", status=404)
    site.get(f"/orders/quarantine/{listed['quarantine_id']}", Rights(), status=404)
    site.get("/orders/quarantine?before=1", status=422)
    site.get("/orders/quarantine?state=lost", status=422)


def test_of_a_large_record_the_first_part_is_shown(site: Site) -> None:
    value = b"x" * 10_000_000
    with connect(site.postgres) as session:
        ((batch_id,),) = rows(session, "SELECT min(batch_id) FROM offset_ledger.batch WHERE pipeline = 'bookings'")
        with transaction(session) as cursor:
            cursor.execute(
                "INSERT INTO offset_ledger.quarantine"
                " VALUES (DEFAULT, 'bookings', 't', 0, 0, now(), NULL, NULL, %s, %s, %s) RETURNING quarantine_id",
                [value, json.dumps([{"code": "too_large"}]), batch_id],
            )
            record_id = cursor.one()[0]
    shown = site.get(f"/bookings/quarantine/{record_id}")
    assert (shown["value"]["size"], shown["value"]["shown"], shown["key"]) == (10_000_000, 65_536, None)
    assert shown["value"]["text"] == "x" * 65_536
    whole = site.get(f"/bookings/quarantine/{record_id}?whole=true")
    assert (whole["value"]["shown"], whole["value"]["text"]) == (10_000_000, value.decode())
    (listed,) = site.get("/bookings/quarantine")["records"]
    assert (listed["value_bytes"], listed["key_bytes"]) == (10_000_000, None)
    dismiss(parse_pipeline(site.folder / "bookings.yaml"), Selection(0, (0,)), ME, "a test record")
    dismissed = site.get(f"/bookings/quarantine/{record_id}")
    assert [dismissed[name] for name in ("state", "dismissed_who", "dismissed_why")] == [
        "dismissed",
        "test",
        "a test record",
    ]
    assert site.get("/bookings/quarantine")["records"] == []
    assert [each["quarantine_id"] for each in site.get("/bookings/quarantine?state=dismissed")["records"]] == [
        record_id
    ]


def test_a_replay_says_what_it_would_read_and_plans_nothing(site: Site) -> None:
    before = site.rows("SELECT count(*) FROM offset_ledger.batch")
    ((since, until, read),) = site.rows(
        "SELECT min(min_timestamp), max(max_timestamp) + interval '1 s', sum(until_offset - from_offset)::int"
        " FROM offset_ledger.batch JOIN offset_ledger.batch_range USING (batch_id)"
        " WHERE batch.pipeline = 'bookings' AND state = 'committed'"
    )
    times = urlencode({"action": "window", "since": since.isoformat(), "until": until.isoformat()})
    shown = site.get(f"/bookings/replay?{times}")
    assert (shown["kind"], shown["offsets"], shown["committed"], len(shown["ranges"])) == ("backfill", read, read, 3)
    assert site.get(f"/bookings/replay?{times}&limit=7")["offsets"] == 7
    assert site.get("/bookings/replay?action=ranges&ranges=0:1-3")["offsets"] == 2
    assert site.get("/bookings/replay?action=window") == {
        "problem": "action window needs since and until; fill in what is missing"
    }
    assert "partition 0" in site.get("/bookings/replay?action=ranges&ranges=0:1-99999999")["problem"]
    site.get("/bookings/replay?action=approve", status=422)
    site.get(f"/bookings/replay?{times}", Rights(), status=404)
    assert site.rows("SELECT count(*) FROM offset_ledger.batch") == before


def test_partitions_come_with_the_largest_lag_first(site: Site) -> None:
    shown = site.get("/orders")
    lags = [(each["partition"], each["lag"]) for each in shown["partitions"]]
    assert lags == sorted(lags, key=lambda each: (-each[1], each[0]))
    assert lags[0][0] == 3
    assert shown["lag_steps"][-1] == lags[0][1]
    assert [shown["partitions"][0][name] for name in ("length", "lag_length", "step")] == [1.0, 1.0, 5]


def test_the_timeline_accounts_for_what_the_balance_sheets_say(site: Site) -> None:
    shown = site.get("/orders/completeness?window=7d")
    found = [
        (each["partition"], each["records"], each["again"], each["quarantined"], each["gap"])
        for each in shown["partitions"]
    ]
    sums = """
        SELECT partition, coalesce(sum(until_offset - from_offset - gap) FILTER (WHERE kind = 'head'), 0)::int,
               coalesce(sum(until_offset - from_offset - gap) FILTER (WHERE kind <> 'head'), 0)::int,
               sum(quarantined) FILTER (WHERE kind = 'head')::int, sum(gap) FILTER (WHERE kind = 'head')::int
        FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id)
        WHERE b.pipeline = 'orders' AND state = 'committed' GROUP BY 1 ORDER BY 1
    """
    assert found == site.rows(sums)
    refused = sum(mark["records"] for line in shown["partitions"] for mark in line["refused"])
    assert refused == sum(each[3] for each in found) == 9
    assert all(line["runs"][-1]["cover"] == "pending" for line in shown["partitions"])
    assert [line["runs"][-1]["cover"] for line in site.get("/bookings/completeness")["partitions"]] == ["empty"] * 3
    for line in shown["partitions"]:
        ends = [(run["start"], run["end"]) for run in line["runs"]]
        assert (ends[0][0], ends[-1][1]) == (0, shown["steps"])
        assert all(before[1] == after[0] for before, after in pairwise(ends))


def test_refused_records_are_marked_at_their_own_time_and_those_pruned_where_their_range_ends(site: Site) -> None:
    window, now = WINDOWS["24h"], datetime.now(UTC)
    with connect(site.postgres) as session, session.cursor(cursor_factory=Cursor) as cursor:

        def marks() -> dict[tuple[int, datetime], int]:
            refused = answers.completeness_rows(cursor, "orders", window, now)[1]
            return {(row["partition"], row["at"]): row["records"] for row in refused}

        of_record, of_range = cursor.execute(
            "SELECT date_bin(%(step)s, (SELECT min(timestamp) FROM offset_ledger.quarantine), 'epoch'),"
            " date_bin(%(step)s, max(max_timestamp), 'epoch') FROM offset_ledger.batch_range"
            " WHERE pipeline = 'orders' AND quarantined > 0",
            {"step": window.step},
        ).one()
        assert of_record < of_range
        assert marks() == {(partition, of_record): 3 for partition in range(3)}
        cursor.execute("DELETE FROM offset_ledger.quarantine WHERE partition = 1 AND pipeline = 'orders'")
        assert marks() == {(0, of_record): 3, (1, of_range): 3, (2, of_record): 3}
        session.rollback()


def test_the_charts_have_the_share_of_the_rejected_batch(site: Site) -> None:
    points = site.get("/orders/history?window=24h")
    shares = [point["quarantined_share"] for point in points if point["quarantined_share"] is not None]
    assert max(shares) == pytest.approx(65 / 365)
    assert [point["lag_after"] for point in points if point["lag_after"] is not None][-1] == 0
