"""Arrow tables -> what ``COPY ... FROM STDIN (FORMAT binary)`` reads, exact for every value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pgpq
import pyarrow as pa
from pgpq import encoders, schema

from offset_ledger.decoding.staged import content
from offset_ledger.ledger.copy_into import PIECE_BYTES
from offset_ledger.stage.numeric_binary import numeric_binary

Form = tuple[pa.DataType, Callable[[pa.Array], pa.Array]]

_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")
_DECIMAL_DIGITS = 38
_UUID = pa.binary(16)


def copy_binary(types: Mapping[str, str], rows: pa.Table) -> Iterator[bytes]:
    """The rows in pieces of about ``PIECE_BYTES``, some of them empty, for columns of these Postgres types.

    Raises:
        ValueError: a value has no binary form.
    """
    forms = [_form(types[name]) for name in rows.column_names]
    sent = pa.schema(
        [field.with_type(form[0]) if form else field for field, form in zip(rows.schema, forms, strict=True)]
    )
    encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(
        sent, {field.name: _builder(field, types[field.name]) for field in sent}
    )
    yield encoder.write_header()
    for batch in rows.to_batches(_rows_per_piece(rows)):
        columns = [form[1](column) if form else column for column, form in zip(batch.columns, forms, strict=True)]
        yield encoder.write_batch(pa.RecordBatch.from_arrays(columns, schema=sent))
    yield encoder.finish()


def _builder(field: pa.Field, type_: str) -> Any:
    if type_ == "jsonb":
        return encoders.StringEncoderBuilder.new_with_output(field, schema.Jsonb())
    return pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)


def _rows_per_piece(table: pa.Table) -> int:
    size: int = table.nbytes
    return max(1, PIECE_BYTES * len(table) // max(size, 1))


def _form(type_: str) -> Form | None:
    """What the staged texts of that Postgres type are sent as; None where the staged column is sent as it is."""
    if not type_.startswith("numeric"):
        return _FORMS.get(type_)
    decimal = _DECIMAL.fullmatch(type_)
    if decimal and int(decimal[1]) <= _DECIMAL_DIGITS:  # Arrow's decimals have one scale, and end there
        return _cast(pa.decimal128(int(decimal[1]), int(decimal[2])))
    return pa.binary(), numeric_binary


def _cast(type_: pa.DataType) -> Form:
    return type_, lambda column: column.cast(type_)


def _uuids(texts: pa.StringArray) -> pa.Array:
    """UUIDs of 36 lower-case characters as their 16 bytes."""
    digits = content(texts).reshape(-1, 36)[:, _UUID_DIGITS]
    packed = np.ascontiguousarray(_NIBBLES[digits[:, 0::2]] << 4 | _NIBBLES[digits[:, 1::2]])
    values = pa.FixedSizeBinaryArray.from_buffers(_UUID, len(packed), [None, pa.py_buffer(packed)])
    if not texts.null_count:
        return values
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _nibbles() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[np.frombuffer(b"0123456789abcdef", np.uint8)] = range(16)
    return table


_NIBBLES = _nibbles()
_UUID_DIGITS = [place for place in range(36) if place not in (8, 13, 18, 23)]
_FORMS: dict[str, Form] = {
    "uuid": (_UUID, _uuids),
    "real": _cast(pa.float32()),
    "double precision": _cast(pa.float64()),
}
