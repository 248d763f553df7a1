"""Numbers as people read them."""

from __future__ import annotations

import pytest

from offset_ledger.base.units import counted, show_share


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "batch", "0 batches"),
        (1, "batch", "1 batch"),
        (1, "unresolved record", "1 unresolved record"),
        (1_000, "lost offset", "1,000 lost offsets"),
    ],
)
def test_a_count_has_its_noun_in_the_right_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.25, "25%"), (0.1, "10%"), (0.010001, "1.0001%"), (5 / 12, "41.6667%")],
)
def test_a_share_has_no_more_decimals_than_it_needs(share: float, text: str) -> None:
    assert show_share(share, 4) == text
