"""COPY of decoded records: binary where its encoder is installed, CSV where there is none for the machine.

A numeric travels as groups of four decimal digits: how many there are, the power of 10,000 of the first, the sign, how
many digits follow the point, and the groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pgpq
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from pgpq import encoders, schema
from psycopg2 import sql
from pyarrow import csv

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.arrow import with_too_large
from offset_ledger.decoding.staged import content, moments
from offset_ledger.errors import one_line
from offset_ledger.ledger.database import Cursor, savepoint
from offset_ledger.ledger.sqlstates import is_of_size
from offset_ledger.ledger.staging import PIECE_BYTES, CopyFormat, copy_into, refused_types, row_types

BINARY = find_spec("pgpq") is not None


def copy_rows(cursor: Cursor, table: sql.Identifier, types: Mapping[str, str], rows: pa.Table) -> None:
    """COPY the rows into a table whose columns have these Postgres types."""
    if rows.num_rows:
        copy_into(cursor, table, rows.column_names, *copy_form(types, rows))


def copy_decoded(
    cursor: Cursor,
    into: tuple[sql.Identifier, sql.Identifier],
    record: RecordShape,
    rows: pa.Table,
    refusals: pa.Table,
) -> pa.Table:
    """COPY rows and refusals, and a row that Postgres cannot hold as a refusal; gives all that were refused."""
    if too_large := _copy_fitting(cursor, into[0], row_types(record), rows):
        refusals = with_too_large(refusals, too_large)
    copy_rows(cursor, into[1], refused_types(record), refusals)
    return refusals


def _copy_fitting(
    cursor: Cursor, table: sql.Identifier, types: Mapping[str, str], rows: pa.Table
) -> list[tuple[pa.Table, str]]:
    """COPY those of the rows that Postgres can hold; gives each other one, and what Postgres says of its size."""
    try:
        with savepoint(cursor):
            copy_rows(cursor, table, types, rows)
        return []
    except psycopg2.Error as error:
        if not is_of_size(error, rows.nbytes):
            raise
        message = one_line(error.diag.message_primary)
    if rows.num_rows == 1:
        return [(rows, message)]
    half = rows.num_rows // 2
    parts = rows.slice(0, half), rows.slice(half)
    return [each for part in parts for each in _copy_fitting(cursor, table, types, part)]


def copy_form(types: Mapping[str, str], rows: pa.Table, binary: bool = BINARY) -> tuple[CopyFormat, Iterator[bytes]]:
    """The format that COPY is told, and the rows in it."""
    if not binary:
        return "csv", copy_csv(rows)

    return "binary", copy_binary(types, rows)


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


Integers = npt.NDArray[np.int64]

_PLAIN = r"^-?[0-9]+(?:\.[0-9]+)?$"
_MAX_WIDTH = 80
_NEGATIVE = 0x4000
_MAX_WHOLE, _MAX_SCALE = 131_072, 16_383
_GROUP = np.array([1000, 100, 10, 1], np.int16)


def numeric_binary(texts: pa.StringArray) -> pa.BinaryArray:
    """Each number as Postgres sends and takes it; null stays null.

    Raises:
        ValueError: a text is no finite number, or one that no numeric can hold.
    """
    plain = texts if _all(pc.match_substring_regex(texts, _PLAIN)) else _spelled_out(texts)
    fits = pc.fill_null(pc.less_equal(pc.binary_length(plain), _MAX_WIDTH), True)
    return _encoded(plain) if _all(fits) else _one_by_one(plain, fits)


def _one_by_one(texts: pa.StringArray, fits: pa.BooleanArray) -> pa.BinaryArray:
    """Where some numbers are too wide to share a matrix with the others."""
    wide = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    encoded = [_encoded(pc.if_else(fits, texts, None)), *(_encoded(texts.slice(place, 1)) for place in wide.tolist())]
    order = np.arange(len(texts))
    order[wide] = len(texts) + np.arange(len(wide))
    return pa.concat_arrays(encoded).take(pa.array(order))


def _all(flags: pa.BooleanArray) -> bool:
    return bool(pc.all(flags, min_count=0).as_py())


def _spelled_out(texts: pa.StringArray) -> pa.StringArray:
    """The numbers without exponents."""
    return pa.array([None if text is None else _spelled_one_out(text) for text in texts.to_pylist()], pa.string())


def _spelled_one_out(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"expected a finite number, got {text}")
    return f"{number:f}"


def _encoded(texts: pa.StringArray) -> pa.BinaryArray:
    """Texts of one batch that are plain numbers; they share a matrix, as wide as the widest."""
    filled = pc.fill_null(texts, "0")
    length = pc.binary_length(filled).to_numpy().astype(np.int64)
    negative = pc.starts_with(filled, "-").to_numpy(zero_copy_only=False)
    point = pc.find_substring(filled, ".").to_numpy().astype(np.int64)
    whole = np.where(point < 0, length, point)
    scale = np.where(point < 0, 0, length - point - 1)
    if (whole - negative).max() > _MAX_WHOLE or scale.max() > _MAX_SCALE:
        raise ValueError("expected numbers within Postgres's numeric")
    groups, before = _groups(content(filled), length, whole, scale)
    return _assembled(groups, before, negative, scale, texts)


def _groups(
    characters: npt.NDArray[np.uint8], length: Integers, whole: Integers, scale: Integers
) -> tuple[npt.NDArray[np.int16], int]:
    """The digits in groups of four, the points of all numbers below each other, and how many groups are before them."""
    before, after = -(-int(whole.max()) // 4), -(-int(scale.max()) // 4)
    digits = np.zeros((len(length), (before + after) * 4), np.uint8)
    starts = np.cumsum(length) - length
    position = np.arange(len(characters)) - np.repeat(starts - before * 4 + whole, length)
    position -= position > before * 4  # the point itself takes no place
    rows = np.repeat(np.arange(len(length)), length)
    is_digit = characters >= ord("0")
    digits[rows[is_digit], position[is_digit]] = characters[is_digit] - ord("0")
    return digits.reshape(len(length), -1, 4) @ _GROUP, before


def _assembled(
    groups: npt.NDArray[np.int16],
    before: int,
    negative: npt.NDArray[np.bool_],
    scale: Integers,
    texts: pa.StringArray,
) -> pa.BinaryArray:
    """Head and groups of each number; leading and trailing groups of zeros are left out."""
    rows, width = groups.shape
    used = groups != 0
    some = used.any(axis=1)
    first = np.where(some, used.argmax(axis=1), width)
    last = np.where(some, width - used[:, ::-1].argmax(axis=1), width)
    words = np.empty((rows, 4 + width), ">i2")
    words[:, 0] = last - first
    words[:, 1] = np.where(some, before - 1 - first, 0)
    words[:, 2] = np.where(negative & some, _NEGATIVE, 0)
    words[:, 3] = scale
    words[:, 4:] = groups
    places = np.arange(width)
    kept = np.ones((rows, 4 + width), np.bool_)
    kept[:, 4:] = (places >= first[:, None]) & (places < last[:, None])
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    kept &= valid[:, None]
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1) * 2)]).astype(np.int32)
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(words[kept])]
    )


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


_OPTIONS = csv.WriteOptions(include_header=False, batch_size=8192, quoting_style="needed")


def copy_csv(table: pa.Table) -> Iterator[bytes]:
    """The rows as CSV in pieces of ``PIECE_BYTES``: NULL is empty, an empty text is ``""``."""
    columns = [_written(column) for column in table.columns]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.Table.from_arrays(columns, names=table.column_names), out, _OPTIONS)
    written = out.getvalue()
    for start in range(0, written.size, PIECE_BYTES):
        yield written.slice(start, min(PIECE_BYTES, written.size - start)).to_pybytes()


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return _bytea(column)
    return _moments(column) if pa.types.is_timestamp(column.type) else column


def _bytea(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as Postgres's bytea reads them: text with its backslashes doubled where all are text, else hex."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return _hex(column)
    if _any_has(texts, "\0"):
        return _hex(column)
    return pc.replace_substring(texts, "\\", "\\\\") if _any_has(texts, "\\") else texts


def _any_has(texts: pa.ChunkedArray, character: str) -> bool:
    return any(bool((content(chunk) == ord(character)).any()) for chunk in texts.chunks)


def _hex(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [
        [None if value is None else "\\x" + value.hex() for value in chunk.to_pylist()] for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.string())


def _far_moment(microseconds: int | None) -> str | None:
    """A moment of any year as Postgres reads it."""
    if microseconds is None:
        return None
    text = str(np.datetime64(microseconds, "us"))
    year, rest = (text[1:] if text.startswith("-") else text).split("-", 1)
    if text.startswith("-") or int(year) == 0:
        return f"{int(year) + 1:04}-{rest}Z BC"
    return f"{year}-{rest}Z"


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if moments(column) is not None:
        return pa.chunked_array([list(map(_far_moment, column.cast(pa.int64()).to_pylist()))], pa.string())
    # Written without their zone and given it back: that way takes a twentieth of the time.
    texts = column.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(texts, "Z", "")
