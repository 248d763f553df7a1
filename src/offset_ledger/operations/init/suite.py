"""A Great Expectations suite of the rules that a sample never breaks."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.pipeline_file.pipeline import Column

PART_OF_NAME = re.compile(r"_(?:id|uuid|guid|key|no|number)$")
"""The end of the names of values that identify something."""
_ENOUGH = 50
_FEW = 8
_OFTEN = 5
_LARGEST = 10**15  # a larger number rather names something than measures it
_NUMBERS = ("bigint", "numeric", "real", "double precision")
_Entry = dict[str, Any]


def suite_document(name: str, columns: Sequence[Column], values: Mapping[str, Sequence[object]]) -> _Entry | None:
    """Return the suite in Great Expectations' JSON; None if there is nothing to expect.

    Its expectations warn: a sample proves nothing. What the table itself refuses, such as a null, needs none.
    """
    entries = list[_Entry]()
    for column in columns:
        known = [value for value in values[column.name] if value is not None]
        if len(known) < _ENOUGH:
            continue
        if column.nullable and len(known) == len(values[column.name]):
            entries.append(_entry("expect_column_values_to_not_be_null", column, "was never null in the sample"))
        if column.type.name == "text":
            entries.append(_of_texts(column, list(map(str, known))))
        elif column.type.name in _NUMBERS:
            entries += _of_numbers(column, known)
    return {"name": name, "expectations": entries} if entries else None


def _of_texts(column: Column, texts: Sequence[str]) -> _Entry:
    counts, lengths = Counter(texts), sorted(map(len, texts))
    if len(counts) <= _FEW and min(counts.values()) >= _OFTEN:
        text = f"is one of the {len(counts)} texts of the sample"
        return _entry("expect_column_values_to_be_in_set", column, text, value_set=sorted(counts))
    shortest, longest = lengths[0], lengths[-1]
    if shortest == longest:
        text = f"has {counted(longest, 'character')}, as each in the sample"
        return _entry("expect_column_value_lengths_to_equal", column, text, value=longest)
    bounds = {"min_value": min(shortest, 1), "max_value": _above(longest)}
    text = f"has {bounds['min_value']} to {bounds['max_value']} characters; the sample has {shortest} to {longest}"
    return _entry("expect_column_value_lengths_to_be_between", column, text, **bounds)


def _of_numbers(column: Column, known: Sequence[Any]) -> Iterator[_Entry]:
    numbers: list[Any] = [each for each in known if isinstance(each, int | float | Decimal)]
    if len(numbers) < len(known) or not all(isfinite(each) and abs(each) < _LARGEST for each in numbers):
        return
    lowest, highest = min(numbers), max(numbers)
    low = 0 if lowest >= 0 else -_above(-lowest)
    if PART_OF_NAME.search(f"_{column.name}"):  # numbers that count on
        if low == 0:
            text = "was never negative in the sample"
            yield _entry("expect_column_values_to_be_between", column, text, min_value=0)
        return
    bounds = {"min_value": low, "max_value": _above(max(highest, 0))}
    text = f"is from {low} to {bounds['max_value']}; the sample has {lowest} to {highest}"
    yield _entry("expect_column_values_to_be_between", column, text, **bounds)


def _above(largest: int | float | Decimal) -> int:
    """A power of ten that is at least twice as large."""
    return int(10 ** len(str(int(2 * largest))))


def _entry(type_: str, column: Column, text: str, **kwargs: Any) -> _Entry:
    return {
        "type": type_,
        "kwargs": {"column": column.name, **kwargs},
        "meta": {"action": "warn"},
        "description": f"{column.name} {text}",
        "severity": "warning",
    }
