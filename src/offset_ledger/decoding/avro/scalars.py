"""Values without parts: the Python value that each is written as, and how it is stepped over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.nodes import Scalar
from offset_ledger.decoding.outcome import Code
from offset_ledger.decoding.typed.types import TypeName

MAX_DECIMAL_BYTES = 4096  # some 9,800 digits; the time to convert grows with their square
Step = Callable[[Cursor], Any]

_READ: dict[str, Step] = {
    "null": Cursor.read_null,
    "boolean": Cursor.read_boolean,
    "int": Cursor.read_int,
    "long": Cursor.read_long,
    "float": Cursor.read_float,
    "double": Cursor.read_double,
    "bytes": Cursor.read_bytes,
    "string": Cursor.read_string,
}


def read_scalar(scalar: Scalar) -> Step:
    """Reads the value, as its :class:`~offset_ledger.decoding.typed.types.TypeName` says."""
    if scalar.wire == "enum":
        return _symbol(scalar)
    read = _fixed(scalar.size) if scalar.wire == "fixed" else _READ[scalar.wire]
    return _unscaled(read) if scalar.value.name is TypeName.DECIMAL else read


def skip_scalar(scalar: Scalar) -> Step:
    """Steps over the value; what is in a text or in bytes is not looked at."""
    if scalar.wire in ("string", "bytes"):
        return skip_bytes
    if scalar.wire in ("float", "double", "fixed"):
        size = {"float": 4, "double": 8}.get(scalar.wire, scalar.size)
        return lambda cursor: cursor.skip(size)
    return read_scalar(scalar)


def skip_bytes(cursor: Cursor) -> None:
    """Step over a length and so many bytes."""
    cursor.skip(cursor.read_long())


def _symbol(scalar: Scalar) -> Step:
    symbols, shown = scalar.symbols, scalar.value.shown
    return lambda cursor: symbols[cursor.read_index(len(symbols), shown)]


def _fixed(size: int) -> Step:
    return lambda cursor: cursor.span(size)


def _unscaled(read: Step) -> Step:
    def unscaled(cursor: Cursor) -> int:
        written = read(cursor)
        if not 0 < len(written) <= MAX_DECIMAL_BYTES:
            detail = f"expected decimal of 1 to {MAX_DECIMAL_BYTES} bytes, got {len(written)}"
            raise Malformed(Code.RANGE, detail)
        return int.from_bytes(written, signed=True)

    return unscaled
