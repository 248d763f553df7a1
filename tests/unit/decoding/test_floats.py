"""The shortest text of a 4-byte float names that float, and Postgres reads it."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.decimals import single_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (-0.0, "-0.0"), (16777217.0, "16777216"), (3.4028234663852886e38, "3.4028235e+38"), (1e39, "inf"),
        (-math.inf, "-inf"), (math.nan, "nan"), (-math.nan, "nan"),
    ],
)  # fmt: skip
def test_a_float_has_its_shortest_text(value: float, text: str) -> None:
    assert single_text(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_the_text_names_the_float_it_was_made_of(value: float) -> None:
    assert struct.pack("<f", float(single_text(value))) == struct.pack("<f", value)
