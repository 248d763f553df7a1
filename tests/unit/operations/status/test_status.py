"""The lag of partitions, and of all of them together, as the command line shows them."""

from __future__ import annotations

from offset_ledger.interfaces.cli.inspect import _text
from offset_ledger.model.snapshot import PartitionSnapshot
from offset_ledger.operations.status.pipeline import BrokerAnswer, Ledger, LedgerPartition, assess
from offset_ledger.operations.status.status import PartitionStatus, PipelineStatus, partition_statuses
from tests.fixtures.staged import a_pipeline
from tests.unit.operations.status.snapshots import NOW, ROW, a_snapshot

CUT_OFF = PartitionSnapshot(0, 0, 5, 5, 1)
BEHIND = PartitionSnapshot(1, 0, 9, 9, 1)
LOST = PartitionSnapshot(2, 50, 60, 60, 1)


def status_of(*partitions: PartitionSnapshot) -> tuple[tuple[PartitionStatus, ...], str]:
    cursors = {0: 100, 1: 2, 2: 20}
    known = [LedgerPartition(each.partition, cursors[each.partition]) for each in partitions]
    ledger = Ledger({"orders": ROW}, {"orders": known})
    found = partition_statuses(assess(a_pipeline(), ledger, BrokerAnswer(a_snapshot(*partitions)), NOW))
    return found, _text(PipelineStatus("orders", found, None))


def test_a_partition_whose_log_ends_below_the_cursor_takes_nothing_from_the_lag_of_the_others() -> None:
    found, text = status_of(CUT_OFF, BEHIND)
    assert [(each.lag, each.cut_off) for each in found] == [(0, True), (7, False)]
    assert "\nlag: 7 offsets\n" in text
    assert "ends below the cursor: partition 0\n" in text


def test_offsets_that_were_deleted_unread_are_lost_and_no_lag() -> None:
    found, text = status_of(BEHIND, LOST)
    assert [(each.lag, each.lost) for each in found] == [(7, 0), (10, 30)]
    assert "\nlag: 17 offsets\nlost: 30 offsets deleted before they were read\n" in text
