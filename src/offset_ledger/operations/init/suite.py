"""A first suite: what the sample never breaks, so that a batch unlike it is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from offset_ledger.config.model import Column

MAX_NOT_NULL = 20
ENOUGH = 50
_FEW = 8
_OFTEN = 5
_Entry = dict[str, Any]


def suite_document(name: str, columns: Sequence[Column], values: Mapping[str, Sequence[object]]) -> _Entry | None:
    """The suite in Great Expectations' JSON; None where there is nothing to expect."""
    not_null = [_not_null(column.name) for column in columns if not column.nullable][:MAX_NOT_NULL]
    entries = [*not_null, *(entry for column in columns for entry in _of_values(column, values[column.name]))]
    return {"name": name, "expectations": entries} if entries else None


def _not_null(column: str) -> _Entry:
    text = f"{column} was never null in the sample"
    return _entry("expect_column_values_to_not_be_null", {"column": column}, "quarantine", text)


def _of_values(column: Column, sampled: Sequence[object]) -> Iterator[_Entry]:
    values = [value for value in sampled if value is not None]
    if len(values) < ENOUGH:
        return
    if column.type.name == "text":
        counts = Counter(map(str, values))
        if len(counts) <= _FEW and min(counts.values()) >= _OFTEN:
            kwargs = {"column": column.name, "value_set": sorted(counts)}
            text = f"{column.name} is one of the {len(counts)} texts of the sample"
            yield _entry("expect_column_values_to_be_in_set", kwargs, "warn", text)
    elif column.type.name in ("bigint", "numeric") and all(isinstance(v, int | Decimal) and v >= 0 for v in values):
        text = f"{column.name} was never negative in the sample"
        yield _entry("expect_column_values_to_be_between", {"column": column.name, "min_value": 0}, "warn", text)


def _entry(type_: str, kwargs: _Entry, action: str, description: str) -> _Entry:
    severity = "warning" if action == "warn" else "critical"
    return {
        "type": type_,
        "kwargs": kwargs,
        "meta": {"action": action},
        "description": description,
        "severity": severity,
    }
