"""The lag of partitions, and of all of them together."""

from __future__ import annotations

from offset_ledger.cli.inspect import _text
from offset_ledger.model.snapshot import Cursors, PartitionSnapshot, TopicSnapshot
from offset_ledger.operations.overview import lag_of
from offset_ledger.operations.status import PipelineStatus, partition_statuses

CUT_OFF = PartitionSnapshot(0, 0, 5, 5, 1)
BEHIND = PartitionSnapshot(1, 0, 9, 9, 1)


def test_a_partition_whose_log_ends_below_the_cursor_takes_nothing_from_the_lag_of_the_others() -> None:
    snapshot = TopicSnapshot("cluster", "orders", "t", False, (CUT_OFF, BEHIND))
    cursors = Cursors("cluster", "t", {0: 100, 1: 2}, {})
    found = partition_statuses(cursors, snapshot)
    assert [(each.lag, each.cut_off) for each in found] == [(0, True), (7, False)]
    assert lag_of(cursors, snapshot) == 7
    assert "\nlag: 7 offsets\n" in _text(PipelineStatus("orders", found, None))
