"""Which offsets of the consumer group the mirror sets."""

from __future__ import annotations

import pytest

from offset_ledger.steps.report.consumer_group import to_move


@pytest.mark.parametrize(
    ("group", "backwards", "wanted"),
    [
        ({}, False, {0: 10, 1: 20}), ({0: 4, 1: 20}, False, {0: 10}), ({0: 11, 1: 20}, False, {}),
        ({0: 11, 1: 20}, True, {0: 10}), ({0: 10, 1: 20, 2: 7}, True, {}),
    ],
)  # fmt: skip
def test_it_never_goes_back_unless_a_person_approved_a_new_start(
    group: dict[int, int], backwards: bool, wanted: dict[int, int]
) -> None:
    assert to_move({0: 10, 1: 20}, group, backwards) == wanted
