"""The threads of a process that stages: a consumer is closed by nobody while a thread may read by it."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from offset_ledger.errors import BrokerUnavailable
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.steps.stage import readers, slices
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.staged import a_pipeline


def test_consumers_are_closed_once_no_thread_reads_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, failed, closed = count(), Event(), Event()
    early: list[bool] = []

    def slice_reader(_: object, __: str, opened: ExitStack) -> object:
        opened.callback(closed.set)
        return object()

    def stage_slices(_: object, __: object, shared: Any, ___: object) -> None:
        if next(turns) == 0:
            failed.wait(10)
            early.append(closed.wait(0.5))
            assert list(shared) == []  # nor does it begin another slice
            return
        failed.set()
        raise BrokerUnavailable("the broker does not answer")

    monkeypatch.setattr(readers, "slice_reader", slice_reader)
    monkeypatch.setattr(slices, "stage_slices", stage_slices)
    batch: Any = SimpleNamespace(ranges=[OffsetRange(partition, 0, 10) for partition in range(3)])
    with pytest.raises(BrokerUnavailable):
        BY_PROCESS.read(object(), batch, a_pipeline(), object())  # type: ignore[arg-type]
    assert (early, closed.is_set()) == ([False], True)
