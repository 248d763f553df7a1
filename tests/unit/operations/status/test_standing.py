"""Where partitions and pipelines stand, from what the ledger knows and the broker answered."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from offset_ledger.model.retention import Retention, SizedLog
from offset_ledger.model.snapshot import PartitionSnapshot
from offset_ledger.operations.status.pipeline import (
    BrokerAnswer,
    BrokerSnapshot,
    Ledger,
    LedgerPartition,
    Level,
    Position,
    Standing,
    assess,
    positions,
    totals,
)
from tests.fixtures.staged import a_pipeline
from tests.unit.operations.status.snapshots import AWAY, BEHIND, CAUGHT_UP, HOUR, LAGGING, NOW, ROW, a_snapshot


def test_a_partition_without_lag_is_complete_up_to_the_snapshot() -> None:
    assert positions([BEHIND], a_snapshot(PartitionSnapshot(0, 0, 100, 100, 1))) == (
        Position(0, 100, 0, 100, 100, lag=0, complete_to=NOW),
    )


def test_a_partition_behind_is_complete_up_to_its_newest_committed_record() -> None:
    (found,) = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 20, 300, 340, 1)))
    assert found == Position(
        0, 100, 20, 300, 340,
        lag=200,
        complete_to=NOW - 3 * HOUR,
        gone_after=NOW - 3 * HOUR + timedelta(days=7),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log", "at"),
    [
        (SizedLog(1000, NOW - 10 * HOUR), NOW + 6 * HOUR),  # 100 bytes an hour, and 400 of 1000 are unread
        (SizedLog(None, NOW - 10 * HOUR), NOW + 21 * HOUR),
    ],
)
def test_an_unread_record_is_gone_by_the_limit_that_is_reached_first(log: SizedLog, at: datetime) -> None:
    kept = Retention(24 * HOUR, 1000)
    topic = replace(a_snapshot(PartitionSnapshot(0, 0, 167, 167, 1), retention=kept), logs={0: log})
    (found,) = positions([replace(BEHIND, cursor=100)], topic)
    assert found.gone_after is not None
    assert abs(found.gone_after - at) < timedelta(minutes=5)


def test_a_producer_whose_clock_runs_ahead_moves_nothing_into_the_future() -> None:
    ahead = replace(BEHIND, complete_to=NOW + HOUR)
    (found,) = positions([ahead], a_snapshot(PartitionSnapshot(0, 0, 101, 101, 1)))
    assert found.complete_to == NOW


def test_without_the_broker_the_newest_batch_is_what_is_known_and_the_lag_is_not() -> None:
    waiting = replace(BEHIND, last_stable=130, high_watermark=140)
    assert positions([BEHIND, replace(waiting, partition=1)], None) == (
        Position(0, 100, 0, 100, 100, complete_to=NOW - 2 * HOUR),
        Position(1, 100, 0, 130, 140, complete_to=NOW - 3 * HOUR),
    )
    assert totals(positions([BEHIND], None)).lag is None


def test_a_partition_that_only_the_broker_knows_waits_from_its_log_start() -> None:
    (found,) = positions([], a_snapshot(PartitionSnapshot(3, 50, 60, 60, 1)))
    assert found == Position(3, None, 50, 60, 60, lag=10)


def test_a_partition_that_was_planned_but_never_asked_about_leaves_the_totals_open() -> None:
    found = positions([LedgerPartition(0, 5)], None)
    assert found == (Position(0, 5, None, None, None),)
    assert totals(found).lag is None


def test_deleted_offsets_are_lost_and_not_lag() -> None:
    (found,) = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 150, 200, 200, 1)))
    assert (found.lost, found.lag) == (50, 50)


def test_a_log_that_ends_below_the_cursor_has_neither_lag_nor_times_and_hides_no_other_lag() -> None:
    cut = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 0, 90, 90, 1), PartitionSnapshot(1, 0, 7, 7, 1)))
    assert cut == (Position(0, 100, 0, 90, 90, lag=0, cut_off=True), Position(1, None, 0, 7, 7, lag=7))
    assert (totals(cut).lag, totals(cut).complete_to, totals(cut).cut_off) == (7, None, True)


def test_a_snapshot_older_than_the_newest_batch_is_no_sign_of_a_truncated_log() -> None:
    committed = replace(BEHIND, last_stable=120, high_watermark=130, seen_at=NOW + timedelta(seconds=5))
    (found,) = positions([committed], a_snapshot(PartitionSnapshot(0, 0, 90, 90, 1)))
    assert (found.high_watermark, found.lag) == (130, 20)
    (grown,) = positions([committed], a_snapshot(PartitionSnapshot(0, 0, 150, 150, 1)))
    assert (grown.high_watermark, grown.lag) == (150, 50)


def test_totals_are_as_far_as_the_last_partition() -> None:
    one = Position(0, 1, 0, 5, 5, lag=4, complete_to=NOW, gone_after=NOW + 5 * HOUR)
    two = Position(1, 1, 0, 7, 7, lag=6, lost=2, complete_to=NOW - HOUR, gone_after=NOW + HOUR)
    found = totals([one, two])
    assert (found.partitions, found.lag, found.lost) == (2, 10, 2)
    assert (found.complete_to, found.gone_after) == (NOW - HOUR, NOW + HOUR)
    assert totals([one, replace(two, complete_to=None)]).complete_to is None
    assert totals([]).lag is None


SHORT = replace(LAGGING, retention=Retention(5 * HOUR))
PASSED = replace(LAGGING, retention=Retention(2 * HOUR))
TRUNCATED = a_snapshot(PartitionSnapshot(0, 0, 90, 90, 1))
LOST = a_snapshot(PartitionSnapshot(0, 130, 150, 150, 1))


def stands(
    broker: BrokerSnapshot | BrokerAnswer, known: LedgerPartition = BEHIND, retired: str | None = None, **row: Any
) -> Standing:
    """Where ``orders`` stands by this row of its ledger."""
    ledger = Ledger({"orders": {**ROW, **row}}, {"orders": [known]}, {"orders": retired} if retired else {})
    answer = broker if isinstance(broker, BrokerAnswer) else BrokerAnswer(broker)
    return assess(a_pipeline(), ledger, answer, NOW)


def said(found: Standing) -> tuple[Level, str, str]:
    return found.condition.level, found.condition.text, found.condition.state


@pytest.mark.parametrize(
    ("topic_id", "open_state", "broker", "expected"),
    [
        ("t1", None, CAUGHT_UP, (Level.GOOD, "up to date", "up to date")),
        ("t1", None, LAGGING, (Level.PLAIN, "behind", "behind")),
        ("t1", "staging", LAGGING, (Level.PLAIN, "batch 7 is staging", "batch staging")),
        ("t1", "rejected", LAGGING, (Level.WARN, "batch 7 is rejected and requires a decision", "blocked")),
        ("t1", None, SHORT, (Level.WARN, "retention is close to the cursor", "behind")),
        ("t1", None, PASSED, (Level.WARN, "retention may delete unread records at any moment", "behind")),
        ("t0", "rejected", LAGGING, (Level.BAD, "the topic was recreated", "blocked")),
        ("t1", "staging", LOST, (Level.BAD, "30 offsets were deleted before they were read", "blocked")),
        ("t1", None, TRUNCATED, (Level.BAD, "the log ends below a cursor", "blocked")),
    ],
)  # fmt: skip
def test_the_condition_is_the_most_severe_that_applies(
    topic_id: str, open_state: str | None, broker: BrokerSnapshot, expected: tuple[Level, str, str]
) -> None:
    found = stands(broker, topic_id=topic_id, batch_id=7 if open_state else None, state=open_state)
    assert said(found) == expected


def test_an_attempt_without_a_session_is_no_batch_at_work() -> None:
    found = stands(LAGGING, batch_id=7, state="staging", silent_since=NOW - timedelta(seconds=40))
    assert said(found) == (Level.PLAIN, "batch 7 is staging; no sign of its attempt", "batch staging")
    assert found.silence == (
        "no sign of the attempt at batch 7 for 40 s, and no session of it in Postgres; the next try of its task "
        "goes on, or run: offset-ledger ingest orders"
    )
    assert stands(LAGGING, batch_id=7, state="staging").silence is None


def test_a_pipeline_without_a_plan_or_a_topic_says_so() -> None:
    nothing = assess(a_pipeline(), Ledger(), BrokerAnswer(CAUGHT_UP), NOW)
    assert said(nothing) == (Level.PLAIN, "nothing was planned yet", "not started")
    nowhere = assess(a_pipeline(), Ledger(), BrokerAnswer(problem="no such topic", gone=True), NOW)
    assert said(nowhere) == (Level.BAD, "the topic does not exist", "not started")


def test_a_topic_that_is_gone_has_cursors_and_no_lag() -> None:
    gone = BrokerAnswer(problem="no such topic", gone=True)
    found = stands(gone)
    assert [(each.cursor, each.lag, each.log_start, each.complete_to) for each in found.partitions] == [
        (BEHIND.cursor, None, None, None)
    ]
    assert said(found) == (Level.BAD, "the topic is gone", "not known")
    assert said(stands(gone, retired="ann: closed")) == (Level.PLAIN, "retired: the topic is gone", "retired")
    assert stands(CAUGHT_UP, retired="ann: closed").condition.text == "up to date"  # it exists again


def test_a_recreated_topic_is_not_the_log_of_the_cursors() -> None:
    found = stands(LAGGING, topic_id="t0")
    assert found.partitions == (Position(0, None, 0, 150, 150, lag=150, cut_off=True),)
    assert (found.recreated, found.problem) == (True, "the topic was recreated")


@pytest.mark.parametrize("row", [{}, {"batch_id": 7, "state": "rejected"}, {"batch_id": 7, "state": "staging"}])
def test_without_the_brokers_answer_nothing_is_known_of_the_lag_and_nothing_is_good(row: dict[str, Any]) -> None:
    found = stands(AWAY, **row)
    assert said(found) == (Level.UNKNOWN, "Kafka does not answer", "not known")
    assert (found.totals.lag, found.totals.gone_after) == (None, None)
    assert found.condition.severity == max(level for level in range(len(Level)))
    assert said(stands(replace(AWAY, refused=True), **row))[1] == "its topic cannot be read"


def test_a_ledger_or_a_registry_that_is_silent_is_a_condition_of_its_own() -> None:
    silent = BrokerAnswer(CAUGHT_UP, registry_problem="the registry did not answer")
    found = stands(silent)
    assert said(found) == (Level.UNKNOWN, "the schema registry does not answer", "not known")
    assert found.totals.lag == 0
    assert stands(replace(silent, snapshot=LOST)).condition.level is Level.BAD
    unread = assess(a_pipeline(), Ledger(problem="Postgres is not available"), BrokerAnswer(CAUGHT_UP), NOW)
    assert said(unread) == (Level.UNKNOWN, "its ledger cannot be read", "not known")
    assert unread.totals.lag is None


@pytest.mark.parametrize(
    ("row", "level", "text"),
    [
        ({"quarantined": 6}, Level.GOOD, "up to date, 6 in quarantine"),
        ({"quarantined": 10_000}, Level.GOOD, "up to date, 10,000+ in quarantine"),
        ({"judged_share": 0.6, "quarantined": 6}, Level.PLAIN,
         "up to date, 6 in quarantine; batch 6 refused 60% (limit 1%)"),
        ({"judged_share": 0.6, "judged_approved": True}, Level.PLAIN,
         "up to date; batch 6 refused 60% (limit 1%), and was approved"),
        ({"judged_share": 0.6, "judged_committed": False}, Level.GOOD, "up to date"),
    ],
)  # fmt: skip
def test_up_to_date_names_what_was_refused(row: dict[str, Any], level: Level, text: str) -> None:
    assert said(stands(CAUGHT_UP, **row)) == (level, text, "up to date")
    assert said(stands(LAGGING, **row)) == (Level.PLAIN, "behind", "behind")


def test_a_question_without_an_answer_stops_the_pipeline() -> None:
    found = stands(LAGGING, question="Skip these offsets?")
    assert said(found) == (Level.WARN, "a question requires an answer", "blocked")


COMPACTED = replace(LAGGING, retention=Retention(tombstones=24 * HOUR))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, (Level.PLAIN, "behind")),
        (15 * HOUR, (Level.PLAIN, "behind")),
        (17 * HOUR, (Level.WARN, "compaction is close to unread tombstones")),
        (25 * HOUR, (Level.WARN, "compaction may remove unread tombstones at any moment")),
    ],
)
def test_the_tombstone_deadline_counts_from_when_the_log_was_last_seen_without_them(
    since: timedelta | None, expected: tuple[Level, str]
) -> None:
    known = replace(BEHIND, unread_since=NOW - since if since else None)
    for broker, condition_of in ((COMPACTED, expected), (LAGGING, (Level.PLAIN, "behind"))):
        assert said(stands(broker, known))[:2] == condition_of
    after = totals(positions([known], COMPACTED)).tombstones_after
    assert after == (NOW - since + 24 * HOUR if since else None)
    caught_up = replace(CAUGHT_UP, retention=COMPACTED.retention)
    assert totals(positions([known], caught_up)).tombstones_after is None


def test_a_batch_that_may_lack_tombstones_requires_a_decision() -> None:
    found = stands(COMPACTED, batch_id=7, state="staging", late={"missing": {"0": 1}})
    assert said(found) == (Level.WARN, "batch 7 may lack tombstones and requires a decision", "blocked")


def test_timestamps_of_long_ago_say_nothing_about_waiting() -> None:
    old = replace(BEHIND, complete_to=NOW - timedelta(days=5000))
    year = replace(BEHIND, complete_to=NOW - timedelta(days=366))
    found = [totals(positions([known], broker)) for known in (old, year) for broker in (LAGGING, CAUGHT_UP)]
    assert [whole.dated_long_ago(NOW) for whole in found] == [True, False, False, False]
    assert not totals([]).dated_long_ago(NOW)
