from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from offset_ledger.errors import (
    BrokerUnavailable,
    LostRange,
    OffsetExpired,
    OffsetLedgerError,
    SparkFailed,
    TopicRecreated,
    TransientError,
    UnknownTopic,
)
from offset_ledger.model.batch import FROM_QUARANTINE, Batch, EngineChoice
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import Connection
from offset_ledger.steps.stage import step
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import TopicStager, check_ranges, check_topic
from tests.fixtures.staged import a_pipeline

PLANNED = Batch(
    *(7, "orders", BatchKind.HEAD, State.STAGING, 1, "t", (OffsetRange(0, 10, 20), OffsetRange(1, 0, 5))),
    *(None, None, None, None, None, None, datetime(2026, 1, 1, tzinfo=UTC), None),
)


def snapshot(*bounds: tuple[int, int], topic_id: str = "t") -> TopicSnapshot:
    partitions = tuple(PartitionSnapshot(i, start, stable, stable, 3) for i, (start, stable) in enumerate(bounds))
    return TopicSnapshot("c", "orders", topic_id, False, partitions)


def test_a_topic_that_holds_exactly_the_planned_ranges_passes() -> None:
    now = snapshot((10, 20), (0, 5))
    check_topic(PLANNED, now)
    check_ranges(PLANNED, now)


@pytest.mark.parametrize(
    ("now", "error", "text"),
    [
        (snapshot((10, 19), (0, 5)), LostRange, "stable only up to 19"),
        (snapshot((10, 20)), LostRange, "the partition is missing"),
        (snapshot((11, 20), (0, 5)), OffsetExpired, "the log starts at 11 now; 1 offsets are gone"),
    ],
)
def test_a_planned_range_that_is_gone_is_named(now: TopicSnapshot, error: type[OffsetLedgerError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        check_ranges(PLANNED, now)
    assert type(caught.value) is error


def test_another_topic_of_the_same_name_is_named() -> None:
    with pytest.raises(TopicRecreated, match="topic id t then, x now"):
        check_topic(PLANNED, snapshot((10, 20), (0, 5), topic_id="x"))


class Stager(TopicStager):
    """A stager of a topic that is checked without a broker."""

    lost: OffsetLedgerError | None = None
    checks = -1  # but for the one before the read

    def check(self, *_: Any, **__: Any) -> TopicSnapshot:
        self.checks += 1
        if self.lost and self.checks:
            raise self.lost
        return snapshot((10, 20), (0, 5))


@dataclass
class Reader:
    """A reader that reports a loss."""

    reported: OffsetLedgerError
    transient: type[TransientError]
    choice: EngineChoice = FROM_QUARANTINE

    def read(self, *_: Any) -> int:
        raise self.reported


def a_stager(reader: Reader) -> Stager:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step, "get_connection", lambda _: Connection("kafka_default", "kafka"))
        return Stager(reader, a_pipeline())


def read(stager: Stager) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SliceTask, "of", lambda *_: None)
        unused: Any = None
        stager.stage(unused, PLANNED, unused)


@pytest.mark.parametrize("transient", [BrokerUnavailable, SparkFailed])
@pytest.mark.parametrize("reported", [LostRange("0:[10, 20)"), UnknownTopic("orders")])
def test_a_loss_that_only_the_read_reports_is_transient(
    reported: OffsetLedgerError, transient: type[TransientError]
) -> None:
    stager = a_stager(Reader(reported, transient))
    with pytest.raises(transient, match="the topic has every planned range"):
        read(stager)
    assert stager.checks == 1


def test_a_loss_that_the_topic_has_too_is_named_by_its_check() -> None:
    stager = a_stager(Reader(LostRange("0:[10, 20)"), SparkFailed))
    stager.lost = OffsetExpired("11")
    with pytest.raises(OffsetExpired):
        read(stager)
