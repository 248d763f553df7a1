"""Positions of partitions and conditions of pipelines on the ledger page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.model.retention import Retention, SizedLog
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.page.conditions import Condition, Level, condition
from offset_ledger.page.positions import LedgerPartition, Position, positions, shares, totals, without_log
from offset_ledger.page.snapshots import BrokerSnapshot

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEEK = Retention(timedelta(days=7))


def a_snapshot(*partitions: PartitionSnapshot, retention: Retention = WEEK, topic_id: str = "t1") -> BrokerSnapshot:
    return BrokerSnapshot(TopicSnapshot("cluster", "events", topic_id, False, partitions), retention, NOW)


BEHIND = LedgerPartition(0, 100, 0, 100, 100, NOW - 2 * HOUR, NOW - 3 * HOUR)


def test_a_partition_without_lag_is_complete_up_to_the_snapshot() -> None:
    assert positions([BEHIND], a_snapshot(PartitionSnapshot(0, 0, 100, 100, 1))) == (
        Position(0, 100, 0, 100, 100, lag=0, complete_to=NOW, bar=(0.0, 1.0, 0.0, 0.0)),
    )


def test_a_partition_behind_is_complete_up_to_its_newest_committed_record() -> None:
    (found,) = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 20, 300, 340, 1)))
    assert found == Position(
        0, 100, 20, 300, 340,
        lag=200,
        complete_to=NOW - 3 * HOUR,
        gone_after=NOW - 3 * HOUR + timedelta(days=7),
        bar=(0.0, 0.25, 0.625, 0.125),
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


def test_without_the_broker_the_newest_batch_is_what_is_known() -> None:
    waiting = replace(BEHIND, last_stable=130, high_watermark=140)
    assert positions([BEHIND, replace(waiting, partition=1)], None) == (
        Position(0, 100, 0, 100, 100, lag=0, complete_to=NOW - 2 * HOUR, bar=(0.0, 1.0, 0.0, 0.0)),
        Position(1, 100, 0, 130, 140, lag=30, complete_to=NOW - 3 * HOUR, bar=(0.0, 0.7143, 0.2143, 0.0714)),
    )


def test_a_partition_that_only_the_broker_knows_waits_from_its_log_start() -> None:
    (found,) = positions([], a_snapshot(PartitionSnapshot(3, 50, 60, 60, 1)))
    assert found == Position(3, None, 50, 60, 60, lag=10, bar=(0.0, 0.0, 1.0, 0.0))


def test_a_partition_that_was_planned_but_never_asked_about_leaves_the_totals_open() -> None:
    found = positions([LedgerPartition(0, 5)], None)
    assert found == (Position(0, 5, None, None, None),)
    assert totals(found).lag is None


def test_deleted_offsets_are_lost_and_not_lag() -> None:
    (found,) = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 150, 200, 200, 1)))
    assert (found.lost, found.lag, found.bar) == (50, 50, (0.5, 0.0, 0.5, 0.0))


def test_a_log_that_ends_below_the_cursor_has_neither_lag_nor_times() -> None:
    cut = positions([BEHIND], a_snapshot(PartitionSnapshot(0, 0, 90, 90, 1)))
    assert cut == (Position(0, 100, 0, 90, 90, bar=(0.0, 1.0, 0.0, 0.0)),)
    assert (totals(cut).lag, totals(cut).complete_to) == (None, None)


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


OFFSETS = st.integers(0, 10**12)


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_every_part_of_a_bar_that_exists_is_visible(cursor: int, a: int, b: int, c: int) -> None:
    log_start, last_stable, high_watermark = sorted((a, b, c))
    found = shares(cursor, log_start, last_stable, high_watermark)
    exists = (
        cursor < log_start,
        min(cursor, high_watermark) > log_start,
        last_stable > max(cursor, log_start),
        high_watermark > max(last_stable, cursor),
    )
    assert [part > 0.01 for part in found] == list(exists)
    assert sum(found) == pytest.approx(1 if any(exists) else 0, abs=0.001)


CAUGHT_UP = a_snapshot(PartitionSnapshot(0, 0, 100, 100, 1))
LAGGING = a_snapshot(PartitionSnapshot(0, 0, 150, 150, 1))
SHORT = replace(LAGGING, retention=Retention(5 * HOUR))
PASSED = replace(LAGGING, retention=Retention(2 * HOUR))
TRUNCATED = a_snapshot(PartitionSnapshot(0, 0, 90, 90, 1))
LOST = a_snapshot(PartitionSnapshot(0, 130, 150, 150, 1))


@pytest.mark.parametrize(
    ("topic_id", "open_state", "broker", "expected"),
    [
        ("t1", None, CAUGHT_UP, Condition(Level.GOOD, "up to date")),
        ("t1", None, LAGGING, Condition(Level.PLAIN, "behind")),
        ("t1", "staging", LAGGING, Condition(Level.PLAIN, "batch 7 is staging")),
        ("t1", "rejected", LAGGING, Condition(Level.WARN, "batch 7 is rejected and requires a decision")),
        ("t1", None, SHORT, Condition(Level.WARN, "retention is close to the cursor")),
        ("t1", None, PASSED, Condition(Level.WARN, "retention may delete unread records at any moment")),
        ("t0", "rejected", LAGGING, Condition(Level.BAD, "the topic was recreated")),
        ("t1", "staging", LOST, Condition(Level.BAD, "30 offsets were deleted before they were read")),
        ("t1", None, TRUNCATED, Condition(Level.BAD, "the log ends below a cursor")),
        (None, None, CAUGHT_UP, Condition(Level.PLAIN, "nothing was planned yet")),
    ],
)  # fmt: skip
def test_the_condition_is_the_most_severe_that_applies(
    topic_id: str | None, open_state: str | None, broker: BrokerSnapshot, expected: Condition
) -> None:
    head: dict[str, Any] | None = {"batch_id": 7, "state": open_state} if open_state else None
    assert condition(topic_id, head, positions([BEHIND], broker), broker, NOW) == expected


def test_a_topic_that_is_gone_has_cursors_and_no_lag() -> None:
    left = positions(without_log([BEHIND]), None)
    assert [(each.cursor, each.lag, each.log_start, each.complete_to) for each in left] == [
        (BEHIND.cursor, None, None, None)
    ]
    assert condition("t1", None, left, None, NOW, gone=True) == Condition(Level.BAD, "the topic is gone")
    assert condition(None, None, (), None, NOW, gone=True) == Condition(Level.PLAIN, "nothing was planned yet")


COMPACTED = replace(LAGGING, retention=Retention(tombstones=24 * HOUR))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, Condition(Level.PLAIN, "behind")),
        (15 * HOUR, Condition(Level.PLAIN, "behind")),
        (17 * HOUR, Condition(Level.WARN, "compaction is close to unread tombstones")),
        (25 * HOUR, Condition(Level.WARN, "compaction may remove unread tombstones at any moment")),
    ],
)
def test_the_tombstone_deadline_counts_from_when_the_log_was_last_seen_without_them(
    since: timedelta | None, expected: Condition
) -> None:
    known = replace(BEHIND, unread_since=NOW - since if since else None)
    for broker, condition_of in ((COMPACTED, expected), (LAGGING, Condition(Level.PLAIN, "behind"))):
        assert condition("t1", None, positions([known], broker), broker, NOW) == condition_of
    after = totals(positions([known], COMPACTED)).tombstones_after
    assert after == (NOW - since + 24 * HOUR if since else None)
    caught_up = replace(CAUGHT_UP, retention=COMPACTED.retention)
    assert totals(positions([known], caught_up)).tombstones_after is None


def test_a_batch_that_may_lack_tombstones_requires_a_decision() -> None:
    head = {"batch_id": 7, "state": "staging", "late": {"missing": {"0": 1}}}
    found = condition("t1", head, positions([BEHIND], COMPACTED), COMPACTED, NOW)
    assert found == Condition(Level.WARN, "batch 7 may lack tombstones and requires a decision")


def test_timestamps_of_long_ago_say_nothing_about_waiting() -> None:
    old = replace(BEHIND, complete_to=NOW - timedelta(days=5000))
    year = replace(BEHIND, complete_to=NOW - timedelta(days=366))
    found = [totals(positions([known], broker)) for known in (old, year) for broker in (LAGGING, CAUGHT_UP)]
    assert [whole.dated_long_ago(NOW) for whole in found] == [True, False, False, False]
    assert not totals([]).dated_long_ago(NOW)
