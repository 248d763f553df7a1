"""COPY of decoded records: binary where its encoder is installed, CSV where there is none for the machine.

A numeric travels as groups of four decimal digits: how many there are, the power of 10,000 of the first, the sign, how
many digits follow the point, and the groups. An array travels as its elements behind their sizes.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from pyarrow import csv

from offset_ledger.decoding.arrow import with_too_large
from offset_ledger.decoding.counts import days_of
from offset_ledger.decoding.kinds import content, moments, valid_flags
from offset_ledger.decoding.texts import uuid_texts
from offset_ledger.errors import one_line
from offset_ledger.pipeline_file.pipeline import RecordShape
from offset_ledger.postgres.ledger.database import Cursor, savepoint
from offset_ledger.postgres.ledger.sqlstates import is_of_size
from offset_ledger.postgres.ledger.staging import PIECE_BYTES, CopyFormat, copy_into, refused_types, row_types

# CSV takes more than twice the CPU to write, and Postgres reads binary with 40 % less. Linux on ARM has no pgpq.
if BINARY := find_spec("pgpq") is not None:
    import pgpq
    from pgpq import encoders, schema


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
    if not rows.num_rows:
        return []
    try:
        with savepoint(cursor):
            copy_into(cursor, table, rows.column_names, *copy_form(types, rows))
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
    """Return the format that COPY is told, and the rows in it."""
    return ("binary", copy_binary(types, rows)) if binary else ("csv", copy_csv(rows))


def copy_binary(types: Mapping[str, str], rows: pa.Table) -> Iterator[bytes]:
    """Yield the rows in pieces of about ``PIECE_BYTES``, some of them empty, for columns of these Postgres types.

    Raises:
        ValueError: a value has no binary form.
    """
    texts = {field.name for field in rows.schema if pa.types.is_string(field.type)}
    of_texts = {name: type_ for name in texts if (type_ := types[name].partition("(")[0]) in ("numeric", *_CALENDAR)}
    arrays = {field.name for field in rows.schema if pa.types.is_list(field.type)}
    own = of_texts.keys() | arrays
    sent = pa.schema([field.with_type(pa.binary()) if field.name in own else field for field in rows.schema])
    builders = {field.name: pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field) for field in sent}
    for field in sent:
        if types[field.name] == "jsonb":
            builders[field.name] = encoders.StringEncoderBuilder.new_with_output(field, schema.Jsonb())
    encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(sent, builders)
    yield encoder.write_header()
    for batch in rows.to_batches(max(1, PIECE_BYTES * len(rows) // max(rows.nbytes, 1))):
        columns = [
            array_binary(column, types[name])
            if name in arrays
            else (_element_binary(column, of_texts[name]) if name in of_texts else _with_one_nan(column))
            for name, column in zip(rows.column_names, batch.columns, strict=True)
        ]
        yield encoder.write_batch(pa.RecordBatch.from_arrays(columns, schema=sent))
    yield encoder.finish()


def _with_one_nan(column: pa.Array) -> pa.Array:
    """The column with NaN as Postgres writes it, which keeps the bits of any NaN that it is sent."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pc.is_nan(column)
    return pc.if_else(nan, pa.scalar(float("nan"), column.type), column) if pc.any(nan).as_py() else column


Integers = npt.NDArray[np.int64]

_PLAIN = r"^-?[0-9]+(?:\.[0-9]+)?$"
_MAX_WIDTH = 80
_NEGATIVE = 0x4000
_NOT_FINITE = {
    word: sign.to_bytes(6).ljust(8, b"\0")
    for word, sign in (("NaN", 0xC000), ("Infinity", 0xD000), ("-Infinity", 0xF000))
}
_MAX_WHOLE, _MAX_SCALE = 131_072, 16_383
_GROUP = np.array([1000, 100, 10, 1], np.int16)


def numeric_binary(texts: pa.StringArray) -> pa.BinaryArray:
    """Return each number as Postgres sends and takes it; null stays null.

    Raises:
        ValueError: a text is no number, or one that no numeric can hold.
    """
    if not len(texts):
        return pa.array([], pa.binary())
    if not _all(pc.match_substring_regex(texts, _PLAIN)):
        if not _all(finite := pc.invert(pc.is_in(texts, pa.array(list(_NOT_FINITE))))):
            own = pa.array([_NOT_FINITE.get(text) for text in texts.to_pylist()], pa.binary())
            return pc.coalesce(own, numeric_binary(pc.if_else(finite, texts, None)))
        texts = pa.array([None if text is None else _spelled_out(text) for text in texts.to_pylist()], pa.string())
    fits = pc.fill_null(pc.less_equal(pc.binary_length(texts), _MAX_WIDTH), True)
    if _all(fits):
        return _encoded(texts)
    # Some are too wide to share a matrix with the others.
    wide = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    encoded = [_encoded(pc.if_else(fits, texts, None)), *(_encoded(texts.slice(place, 1)) for place in wide.tolist())]
    order = np.arange(len(texts))
    order[wide] = len(texts) + np.arange(len(wide))
    return pa.concat_arrays(encoded).take(pa.array(order))


def _all(flags: pa.BooleanArray) -> bool:
    return bool(pc.all(flags, min_count=0).as_py())


def _spelled_out(text: str) -> str:
    """The number without an exponent."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"expected a number, got {text}")
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
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [validity, pa.py_buffer(offsets), pa.py_buffer(words[kept])])


_OIDS = {  # of the elements' types, as format_type() prints them; the server compares them with its own
    "boolean": 16,
    "bytea": 17,
    "bigint": 20,
    "smallint": 21,
    "integer": 23,
    "text": 25,
    "real": 700,
    "double precision": 701,
    "character varying": 1043,
    "date": 1082,
    "time without time zone": 1083,
    "timestamp with time zone": 1184,
    "numeric": 1700,
    "uuid": 2950,
    "jsonb": 3802,
}
_MICROSECONDS_PER_DAY = 86_400_000_000
_CALENDAR = {  # bytes, and units in a day
    "date": (4, 1),
    "time without time zone": (8, _MICROSECONDS_PER_DAY),
    "timestamp with time zone": (8, _MICROSECONDS_PER_DAY),
}
_WRITTEN = re.compile(r"(?:([0-9]{4,})-([0-9]{2})-([0-9]{2}))? ?(?:([0-9:]{8})(?:\.([0-9]{1,6}))?Z?)?( BC)?")
_EPOCH_DAYS = 10_957  # from 1970 to 2000, where Postgres's calendar begins
_EPOCH = {pa.date32(): _EPOCH_DAYS, pa.timestamp("us", "UTC"): _EPOCH_DAYS * _MICROSECONDS_PER_DAY}


def array_binary(lists: pa.ListArray, type_: str) -> pa.BinaryArray:
    """Return each array of this type as Postgres sends and takes it; null stays null.

    It is words of four bytes: 1, or 0 without elements, whether a NULL is among them, the element's type, and where
    there are elements how many and the index of the first; then each element behind its size, -1 for NULL.
    """
    name = type_.removesuffix("[]").partition("(")[0]
    elements = lists.flatten()
    data = _element_binary(elements, name)
    absent = ~valid_flags(elements)
    sizes = np.where(absent, -1, pc.fill_null(pc.binary_length(data), 0).to_numpy().astype(np.int64))
    framed = pc.binary_join_element_wise(_fixed(sizes, ">i4"), pc.fill_null(data, b""), b"")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
    with_null = np.bincount(np.repeat(np.arange(len(lists)), lengths)[absent], minlength=len(lists)) > 0
    words = np.empty((len(lists), 5), ">i4")
    for place, word in enumerate((lengths > 0, with_null, _OIDS[name], lengths, 1)):
        words[:, place] = word
    kept = np.ones(words.shape, np.bool_)
    kept[:, 3:] = (lengths > 0)[:, None]
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1) * 4)]).astype(np.int32)
    heads = pa.BinaryArray.from_buffers(pa.binary(), len(lists), [None, pa.py_buffer(ends), pa.py_buffer(words[kept])])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, framed), b"")
    return _as_valid(pc.binary_join_element_wise(heads, joined, b""), lists)


def _element_binary(column: pa.Array, name: str) -> pa.BinaryArray:
    """The values of a column of this type as Postgres sends and takes them, without their sizes."""
    if name == "numeric":
        return numeric_binary(column.cast(pa.string()))
    if name in _CALENDAR and pa.types.is_string(column.type):
        counts = [0 if text is None else calendar_count(text, *_CALENDAR[name]) for text in column.to_pylist()]
        return _as_valid(_fixed(np.array(counts, np.int64), f">i{_CALENDAR[name][0]}"), column)
    if name == "jsonb":
        return pc.binary_join_element_wise(b"\x01", column.cast(pa.binary()), b"")
    if not pa.types.is_primitive(column.type):
        return column.cast(pa.binary())
    width = column.type.bit_width
    if pa.types.is_boolean(column.type) or pa.types.is_floating(column.type):
        numbers = pc.fill_null(_with_one_nan(column), False)
    else:
        numbers = pc.fill_null(column.cast(pa.int64() if width == 64 else pa.int32()), 0)
    values = numbers.to_numpy(zero_copy_only=False) - _EPOCH.get(column.type, 0)
    form = f">{'f' if pa.types.is_floating(column.type) else 'i'}{max(width // 8, 1)}"
    return _as_valid(_fixed(values, form), column)


def calendar_count(text: str, width: int, units: int) -> int:
    """Return what Postgres counts for a day, a time or a moment: units since 2000, or since midnight.

    The texts are those of :func:`~offset_ledger.decoding.kinds.as_texts` and of values that Python's types lack.
    """
    if text.endswith("infinity"):
        return -(1 << (8 * width - 1)) if text[0] == "-" else (1 << (8 * width - 1)) - 1
    match = _WRITTEN.fullmatch(text)
    assert match is not None
    year, month, day, time, fraction, before_christ = match.groups()
    days = days_of(1 - int(year) if before_christ else int(year), int(month), int(day)) if year else 0
    hours, minutes, seconds = map(int, (time or "00:00:00").split(":"))
    count = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return days * units + count


def _fixed(values: npt.NDArray[Any], form: str) -> pa.BinaryArray:
    """The numbers in that form."""
    written = values.astype(form)
    offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int32) * written.itemsize)
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, offsets, pa.py_buffer(written)])


def _as_valid(column: pa.Array, like: pa.Array) -> pa.Array:
    """The column, null where the other one is."""
    return pc.if_else(like.is_valid(), column, None) if like.null_count else column


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
    """The column as its Postgres type reads it."""
    if pa.types.is_list(column.type):
        return pa.chunked_array([_array_texts(chunk) for chunk in column.chunks], pa.string())
    if pa.types.is_binary(column.type):
        return _bytea(column)
    if pa.types.is_fixed_size_binary(column.type):
        return pa.chunked_array([uuid_texts(chunk) for chunk in column.chunks], pa.string())
    if not pa.types.is_timestamp(column.type):
        return column
    if moments(column) is not None:
        return pa.chunked_array([list(map(_far_moment, column.cast(pa.int64()).to_pylist()))], pa.string())
    # Written without their zone and given it back: that way takes a twentieth of the time.
    texts = column.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(texts, "Z", "")


def _array_texts(lists: pa.ListArray) -> pa.StringArray:
    """Arrays as text: each element in quotes, or NULL."""
    elements = lists.flatten()
    texts = _written(pa.chunked_array([elements])).cast(pa.string()).combine_chunks()
    escaped = pc.replace_substring_regex(texts, r'(["\\])', r"\\\1")
    quoted = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    offsets = pa.array(np.cumsum([0, *pc.fill_null(pc.list_value_length(lists), 0).to_pylist()]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, quoted), ",")
    return _as_valid(pc.binary_join_element_wise("{", joined, "}", ""), lists)


def _bytea(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text with its backslashes doubled where all are text, else in hexadecimal."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = None
    if texts is None or _any_has(texts, "\0"):
        texts = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
        return pa.chunked_array([texts], pa.string())
    return pc.replace_substring(texts, "\\", "\\\\") if _any_has(texts, "\\") else texts


def _any_has(texts: pa.ChunkedArray, character: str) -> bool:
    return any(bool((content(chunk) == ord(character)).any()) for chunk in texts.chunks)


def _far_moment(microseconds: int | None) -> str | None:
    """A moment of any year as Postgres reads it."""
    if microseconds is None:
        return None
    text = str(np.datetime64(microseconds, "us"))
    year, rest = (text[1:] if text.startswith("-") else text).split("-", 1)
    if text.startswith("-") or int(year) == 0:
        return f"{int(year) + 1:04}-{rest}Z BC"
    return f"{year}-{rest}Z"
