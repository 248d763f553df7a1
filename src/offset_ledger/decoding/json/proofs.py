"""Whole columns of decoded values -> Arrow, with a flag for each value that certainly decodes to it.

Each kind has a ``wire`` type, which msgspec checks while it decodes, and a ``build`` that checks the whole column.
False only means that the decoder reads the record by itself: a false alarm costs time, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import text_columns, texts
from offset_ledger.decoding.kinds import EPOCH_UNITS, FIRST_MOMENT, INTEGER_BITS, LAST_MOMENT, ColumnKind
from offset_ledger.decoding.staged import INTEGERS, MOMENT, as_flags, event_ids
from offset_ledger.decoding.text_columns import Built

Values = Sequence[Any]

_NO_DOCUMENT = r"\\u0000|(?:^|[:,\[ \t\r\n])-?[0-9.]+[eE][-+]?[0-9]{5}|[0-9]{1000}"
_PLAIN_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_SEPARATOR = b"\x01"  # JSON has no control characters but blanks
_MAX_SAFE_DIGITS = 60


@dataclass(frozen=True, slots=True)
class Prover:
    """How msgspec decodes a value of this kind, and how a column of them becomes Arrow."""

    wire: Any
    build: Callable[[Values], Built]


def prover(kind: ColumnKind) -> Prover:
    """The prover of a kind."""
    name = kind.name
    if name in INTEGER_BITS:
        bound = 1 << (INTEGER_BITS[name] - 1)
        wire = Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
        return Prover(wire, lambda values: (pa.array(values, INTEGERS[name]), None))
    if kind.encoding in EPOCH_UNITS:
        return _epochs(EPOCH_UNITS[kind.encoding])
    if name == "varchar":
        return Prover(Annotated[str, msgspec.Meta(max_length=kind.args[0])], _written(text_columns.texts))
    if name == "numeric":
        return Prover(msgspec.Raw, _literals(_numeric_pattern(kind.args)))
    if name == "bytea":
        return Prover(str, _bytes_of(texts.base64_bytes if kind.encoding == "base64" else _hexadecimal))
    return _PLAIN[name]


def _written(build: Callable[[pa.StringArray], Built]) -> Callable[[Values], Built]:
    return lambda values: build(pa.array(values, pa.string()))


def _event_ids(values: Values) -> Built:
    try:
        column = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        column = pa.array([value if isinstance(value, str) else str(value) for value in values], pa.string())
    return column, event_ids(column)


def _epochs(unit: int) -> Prover:
    wire = Annotated[int, msgspec.Meta(ge=FIRST_MOMENT // unit, le=LAST_MOMENT // unit)]
    return Prover(wire, lambda values: (pc.multiply(pa.array(values, pa.int64()), unit).cast(MOMENT), None))


def _raw_texts(values: Values) -> pa.StringArray:
    """The JSON texts as one column, without an object for each; null where the JSON is null."""
    if not values:
        return pa.array([], pa.string())
    joined = _SEPARATOR.join([b"null" if value is None else value for value in values])
    column = pc.split_pattern(pa.array([joined], pa.binary()), _SEPARATOR).flatten().cast(pa.string())
    return pc.if_else(pc.equal(column, "null"), None, column)


def _literals(pattern: str) -> Callable[[Values], Built]:
    def build(values: Values) -> Built:
        column = _raw_texts(values)
        return column, as_flags(pc.match_substring_regex(column, pattern))

    return build


def _numeric_pattern(args: tuple[int, ...]) -> str:
    if not args:
        return r"^-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?$"
    before, after = min(args[0] - args[1], _MAX_SAFE_DIGITS), min(args[1], _MAX_SAFE_DIGITS)
    whole = f"0|[1-9][0-9]{{0,{before - 1}}}" if before else "0"
    fraction = rf"(?:\.[0-9]{{1,{after}}})?" if after else ""
    return f"^-?(?:{whole}){fraction}$"


def _floats(safe_digits: int) -> Callable[[Values], Built]:
    """So many decimal digits survive in any float; longer texts are compared with Python's own."""

    def build(values: Values) -> Built:
        column = _raw_texts(values)
        short = pc.less_equal(pc.binary_length(column), safe_digits)
        safe = pc.fill_null(pc.and_(short, pc.match_substring_regex(column, _PLAIN_NUMBER)), True)
        flags = as_flags(safe)
        if flags is None or safe_digits < 15:
            return column, flags
        doubtful = np.flatnonzero(~flags)
        written = column.take(pa.array(doubtful)).to_pylist()
        flags[doubtful] = [text == _double_text(text) for text in written]
        return column, flags

    return build


def _double_text(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _documents(values: Values) -> Built:
    column = _raw_texts(values)
    return column, as_flags(pc.invert(pc.match_substring_regex(column, _NO_DOCUMENT)))


def _hexadecimal(value: str) -> bytes:
    decoded = bytes.fromhex(value)
    if len(decoded) * 2 != len(value):  # fromhex passes over blanks
        raise ValueError(value)
    return decoded


def _bytes_of(read: Callable[[str], bytes]) -> Callable[[Values], Built]:
    def build(values: Values) -> Built:
        decoded = [_bytes_or_none(read, value) for value in values]
        flags = np.array([a is not None or b is None for a, b in zip(decoded, values, strict=True)], np.bool_)
        return pa.array(decoded, pa.binary()), flags

    return build


def _bytes_or_none(read: Callable[[str], bytes], value: str | None) -> bytes | None:
    try:
        return None if value is None else read(value)
    except ValueError:
        return None


_PLAIN = {
    "event_id": Prover(str | int, _event_ids),
    "text": Prover(str, _written(text_columns.texts)),
    "real": Prover(msgspec.Raw, _floats(6)),
    "double precision": Prover(msgspec.Raw, _floats(15)),
    "boolean": Prover(bool, lambda values: (pa.array(values, pa.bool_()), None)),
    "date": Prover(date, lambda values: (pa.array(values, pa.date32()), None)),
    "time": Prover(str, _written(text_columns.times)),
    "timestamptz": Prover(str, _written(text_columns.moments)),
    "uuid": Prover(str, _written(text_columns.uuids)),
    "jsonb": Prover(msgspec.Raw, _documents),
}
