"""Columns from keys, headers or constants; moments and conditions of headers; replacements for NULL."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.headers import last_headers
from offset_ledger.decoding.json.conversions import conversion, from_text
from offset_ledger.decoding.kinds import ColumnKind, as_texts, kind_of, kinds, staged, valid_flags
from offset_ledger.decoding.outcome import (
    HEADERS_PATH,
    KEY_PATH,
    Code,
    Flags,
    Mismatch,
    Places,
    Reason,
    printable,
    step_of,
)
from offset_ledger.decoding.paths import compared, holds
from offset_ledger.errors import ConfigurationError
from offset_ledger.pipeline_file.pipeline import Column, FieldCondition, RecordShape

_reasons = msgspec.json.Decoder(list[Reason]).decode


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The columns of a batch by slot, the reasons against records by place, and what stands instead of NULL by slot.

    The first slots, ``in_key``, are those of the key, which a delete has too; ``against_key`` are reasons against it.
    ``moments`` are those of a header, null where one is ``against_moment``.
    """

    in_key: int = 0
    columns: dict[int, pa.Array] = field(default_factory=dict)
    against: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    against_key: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    defaults: dict[int, pa.Scalar] = field(default_factory=dict)
    moments: pa.TimestampArray | None = None
    against_moment: dict[int, Reason] = field(default_factory=dict)

    def fill(self, slots: Sequence[pa.Array | None], places: Places, deleted: pa.BooleanArray) -> list[pa.Array | None]:
        """The slots of the records at these places with these columns; those of a delete stay NULL."""
        filled, any_deleted = list(slots), pc.any(deleted, min_count=0).as_py()
        for slot in self.columns.keys() | self.defaults.keys():
            column = self.columns[slot].take(pa.array(places)) if slot in self.columns else filled[slot]
            if (default := self.defaults.get(slot)) is not None:
                column = pa.nulls(len(places), default.type) if column is None else column
                default = default if column.type == default.type else as_texts(pa.array([default], default.type))[0]
                column = pc.if_else(column.is_valid(), column, default)
            filled[slot] = pc.if_else(deleted, None, column) if any_deleted and slot >= self.in_key else column
        return filled


def columns_elsewhere(
    record: RecordShape, keys: pa.BinaryArray, headers: pa.ListArray, in_keys: tuple[pa.Table, pa.Table] | None
) -> Elsewhere:
    """Return the columns that keys, headers and the pipeline file itself give the records of a batch.

    ``in_keys`` are rows and refusals of a batch that has the keys as values, and their places as offsets.
    """
    elsewhere = Elsewhere(record.key_width)
    if record.publish_at_header is not None:
        kind = kinds(record)[record.key_width]
        moments, wrong = _of_headers(kind, headers, record.publish_at_header, optional=False)
        elsewhere = replace(elsewhere, moments=moments, against_moment=wrong)
    if in_keys:
        rows, refusals = in_keys
        positions = np.full(len(keys), -1)
        positions[rows.column("_offset").to_numpy()] = np.arange(rows.num_rows)
        of_key = any(column.key for column in record.key)
        for each in refusals.select(["_offset", "reasons"]).to_pylist():
            reasons = tuple(Reason(KEY_PATH + r.path[1:], r.code, r.detail) for r in _reasons(each["reasons"]))
            (elsewhere.against_key if of_key else elsewhere.against)[each["_offset"]] = reasons
    slots = [*enumerate(record.key), *enumerate(record.columns, start=elsewhere.in_key + 1)]
    for slot, column in slots:
        if column.default is not None:
            elsewhere.defaults[slot] = staged(kind_of(column), [_default(column)])[0]
        if column.header is None and column.key is None:
            continue
        wrong = dict[int, Reason]()
        if column.header is not None:
            elsewhere.columns[slot], wrong = _of_headers(kind_of(column), headers, column.header, column.optional)
        elif column.of_text:
            elsewhere.columns[slot], wrong = _of_texts(kind_of(column), keys, KEY_PATH, "the key")
        elif in_keys:
            values = rows.column(column.name).combine_chunks()
            elsewhere.columns[slot] = values.take(pa.array(positions, mask=positions < 0))
        if column.header is None and not column.optional:
            missing = Reason(KEY_PATH, Code.MISSING, "expected a key, got none")
            wrong |= dict.fromkeys(np.flatnonzero(~valid_flags(keys)).tolist(), missing)
        against = elsewhere.against_key if slot < elsewhere.in_key else elsewhere.against
        for place, reason in wrong.items():
            against[place] = (*against.get(place, ()), reason)
    return elsewhere


def wanted_by_headers(
    conditions: Sequence[FieldCondition], headers: pa.ListArray, is_tombstone: Flags
) -> tuple[Flags, dict[int, tuple[Reason, ...]]]:
    """Return which records no header condition surely skips, and by number among these why some are in doubt.

    A tombstone without the header is not skipped: what writes tombstones need not give them headers.
    """
    wanted, doubtful = np.ones(len(headers), np.bool_), dict[int, tuple[Reason, ...]]()
    for condition in conditions:
        assert condition.header is not None
        column, wrong = _of_headers(compared(condition), headers, condition.header, optional=True)
        may_hold = holds(condition, column) | (is_tombstone & ~last_headers(headers, condition.header)[1])
        may_hold[[*wrong]] = True
        wanted &= may_hold
        for place, reason in wrong.items():
            doubtful[place] = (*doubtful.get(place, ()), reason)
    numbers = np.cumsum(wanted) - 1
    return wanted, {int(numbers[place]): reasons for place, reasons in doubtful.items() if wanted[place]}


def check_defaults(record: RecordShape) -> None:
    """Check that each replacement for NULL in the file is a value of its column; raises ConfigurationError."""
    for column in record.all_columns:
        if column.default is not None:
            _default(column)


def _default(column: Column) -> Any:
    try:
        plain = replace(column, encoding="", transform=(), split=None, coerce=False)
        return conversion(kind_of(plain)).read((column.default or "").encode())
    except Mismatch as mismatch:
        what = f"record.columns.{column.name}: {mismatch.detail}"
        raise ConfigurationError(f"{what}; correct its value or default in the pipeline file") from None


def _of_headers(
    kind: ColumnKind, headers: pa.ListArray, name: str, optional: bool
) -> tuple[pa.Array, dict[int, Reason]]:
    """The column that the headers of this name are, and the reasons against records."""
    (raw, there), path, what = (
        last_headers(headers, name),
        HEADERS_PATH + step_of(name),
        f"the header {printable(name)}",
    )
    column, wrong = _of_texts(kind, raw, path, what)
    for place in () if optional else np.flatnonzero(~valid_flags(raw)).tolist():
        wrong[place] = Reason(path, Code.MISSING, "expected a header, got none")
        if there[place]:
            wrong[place] = Reason(path, Code.NULL, _empty(kind, what))
    return column, wrong


def _empty(kind: ColumnKind, what: str) -> str:
    return f"expected {kind.name}, and {what} is empty"


def _of_texts(kind: ColumnKind, raw: pa.BinaryArray, path: str, what: str) -> tuple[pa.Array, dict[int, Reason]]:
    """Return the column of bytes as text, null if they are not a value of it, and the reasons against these."""
    read, values, wrong = from_text(kind), list[Any](), dict[int, Reason]()
    for place, each in enumerate(raw.to_pylist()):
        try:
            values.append(each if each is None or kind.name == "bytea" else read(each.decode()))
        except (Mismatch, UnicodeDecodeError) as error:
            values.append(None)
            mismatch = error if isinstance(error, Mismatch) else Mismatch(Code.ENCODING, "expected text in UTF-8")
            mismatch = mismatch if each else Mismatch(mismatch.code, _empty(kind, what))
            wrong[place] = mismatch.at(path)
    return staged(kind, values), wrong
