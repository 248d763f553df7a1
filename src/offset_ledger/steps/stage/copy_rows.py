"""COPY of decoded records in Postgres's binary format, as ``COPY TO`` and the ``_send`` function of each type write it.

A tuple is how many fields it has, and each field behind its length, which is -1 for NULL. CSV takes more than twice the
CPU to write, and Postgres reads binary with 40 % less.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from offset_ledger.decoding.arrow import with_too_large
from offset_ledger.decoding.counts import days_of
from offset_ledger.decoding.kinds import content, valid_flags
from offset_ledger.errors import one_line
from offset_ledger.pipeline_file.pipeline import RecordShape
from offset_ledger.postgres.ledger.database import Cursor, savepoint
from offset_ledger.postgres.ledger.sqlstates import is_of_size
from offset_ledger.postgres.ledger.staging import copy_into, refused_types, row_types


def copy_rows(cursor: Cursor, table: sql.Identifier, types: Mapping[str, str], rows: pa.Table) -> None:
    """COPY the rows into a table whose columns have these Postgres types."""
    if rows.num_rows:
        copy_into(cursor, table, rows.column_names, copy_binary(types, rows))


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
            copy_into(cursor, table, rows.column_names, copy_binary(types, rows))
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


_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, and no extension of the header
_TRAILER = b"\xff\xff"
_PIECE_BYTES = 1 << 20  # about as much as COPY is sent at a time
_BATCH_BYTES = 6 << 20  # a call of pyarrow costs as much as some thousand values
_INT4, _BOOL = np.dtype(">i4"), np.dtype("i1")


def copy_binary(types: Mapping[str, str], rows: pa.Table) -> Iterator[bytes]:
    """Yield the rows in pieces of about a mebibyte for columns of these Postgres types.

    Raises:
        ValueError: a value has no binary form.
    """
    yield _SIGNATURE
    for batch in rows.to_batches(max(1, _BATCH_BYTES * len(rows) // max(rows.nbytes, 1))):
        fields = [_sent(column, types[name]) for name, column in zip(rows.column_names, batch.columns, strict=True)]
        tuples = content(_behind_lengths(fields, len(batch), np.array(len(fields), ">i2")))
        for start in range(0, len(tuples), _PIECE_BYTES):
            yield tuples[start : start + _PIECE_BYTES].tobytes()
    yield _TRAILER


class Words(NamedTuple):
    """A number, or some bytes, of each row in the form ``dtype``, and which rows have it; None: all."""

    values: npt.NDArray[Any]
    dtype: np.dtype[Any]
    valid: npt.NDArray[np.bool_] | None = None


def _behind_lengths(
    fields: Sequence[Words | pa.BinaryArray], rows: int, first: npt.NDArray[Any] | None = None
) -> pa.BinaryArray:
    """Each row's fields as one value, each behind its length.

    Neighbours of one width, or NULL, are one part of it; only what varies is a part by itself.
    """
    block = [] if first is None else [Words(first, first.dtype)]
    parts = list[pa.Array]()
    for field in fields:
        if isinstance(field, Words):
            width, valid = field.dtype.itemsize, field.valid
            block += [Words(np.array(width) if valid is None else np.where(valid, width, -1), _INT4), field]
            continue
        _, offsets, _ = field.buffers()
        lengths = np.diff(np.frombuffer(offsets, np.int32)[field.offset : field.offset + rows + 1])
        if field.null_count:
            lengths = np.where(valid_flags(field), lengths, np.int32(-1))
        width = int(lengths[0])
        if width > 0 and (lengths == width).all():
            dtype = np.dtype(f"V{width}")
            block += [Words(np.array(width), _INT4), Words(content(field).view(dtype), dtype)]
            continue
        block.append(Words(lengths, _INT4))
        if field.null_count < rows:
            parts += [*_parts(rows, block), field]
            block = []
    parts += _parts(rows, block)
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")


def _parts(rows: int, block: Sequence[Words]) -> list[pa.Array]:
    """The words of each row in one part, or in three: from the first to the last that some rows do not have, apart."""
    places = [place for place, words in enumerate(block) if words.valid is not None]
    first, last = (places[0], places[-1] + 1) if places else (len(block), len(block))
    return [_packed(rows, part) for part in (block[:first], block[first:last], block[last:]) if part]


def _packed(rows: int, block: Sequence[Words]) -> pa.BinaryArray:
    """The words of each row, one after the other, without those that it does not have."""
    fields = [(f"f{place}", words) for place, words in enumerate(block)]
    constant = np.zeros((), [(name, words.dtype) for name, words in fields])
    for name, words in fields:
        if not words.values.ndim:
            constant[name] = words.values
    packed = np.full(rows, constant.view(f"V{constant.itemsize}")).view(constant.dtype)  # copied as one, not by fields
    for name, words in fields:
        if words.values.ndim:
            packed[name] = words.values
    sizes = np.full(rows, packed.itemsize, np.int32)
    if any(words.valid is not None for words in block):
        unit = gcd(*(words.dtype.itemsize for words in block))
        kept = np.ones((rows, packed.itemsize // unit), np.bool_)
        end = 0
        for words in block:
            start, end = end, end + words.dtype.itemsize // unit
            if words.valid is not None:
                for place in range(start, end):
                    kept[:, place] = words.valid
                sizes -= ~words.valid * np.int32(words.dtype.itemsize)
        packed = packed.view(f"V{unit}").reshape(kept.shape)[kept]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])


_EPOCH_DAYS = 10_957  # from 1970 to 2000, where Postgres's calendar begins
_MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = {pa.date32(): _EPOCH_DAYS, pa.timestamp("us", "UTC"): _EPOCH_DAYS * _MICROSECONDS_PER_DAY}
_CALENDAR = {  # bytes, and units in a day
    "date": (4, 1),
    "time without time zone": (8, _MICROSECONDS_PER_DAY),
    "timestamp with time zone": (8, _MICROSECONDS_PER_DAY),
}


def _sent(column: pa.Array, type_: str) -> Words | pa.BinaryArray:
    """The values of a column of this Postgres type as its ``_send`` function writes them."""
    name = type_.partition("(")[0]
    if pa.types.is_list(column.type):
        return array_binary(column, name.removesuffix("[]"))
    if name == "numeric":
        return numeric_binary(column)
    if name == "jsonb" and column.null_count < len(column):
        return pc.binary_join_element_wise(b"\x01", column.cast(pa.binary()), b"")
    if name in _CALENDAR and pa.types.is_string(column.type):
        width, units = _CALENDAR[name]
        counts = [0 if text is None else calendar_count(text, width, units) for text in column.to_pylist()]
        return Words(np.array(counts), np.dtype(f">i{width}"), valid_flags(column))
    valid = valid_flags(column) if column.null_count else None
    if pa.types.is_boolean(column.type):
        return Words(_raw(column.cast(pa.int8()), _BOOL), _BOOL, valid)
    if pa.types.is_fixed_size_binary(column.type):
        dtype = np.dtype(f"V{column.type.byte_width}")
        return Words(_raw(column, dtype), dtype, valid)
    if not pa.types.is_primitive(column.type):
        return column.cast(pa.binary())
    if since_1970 := _EPOCH.get(column.type):
        counts = column.view(f"int{column.type.bit_width}")
        column = pc.subtract_checked(counts, pa.scalar(since_1970, counts.type))
    dtype = np.dtype(f"{'f' if pa.types.is_floating(column.type) else 'i'}{column.type.bit_width // 8}")
    values = _raw(column, dtype)
    if dtype.kind == "f" and (nan := np.isnan(values)).any():  # Postgres keeps the bits of any NaN that it is sent
        values = np.where(nan, np.array(np.nan, dtype), values)
    return Words(values, dtype.newbyteorder(">"), valid)


def _raw(column: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of a column, of which those that are null mean nothing."""
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


Integers = npt.NDArray[np.int64]

_PLAIN = r"^-?[0-9]+(?:\.[0-9]+)?$"
_MAX_TEXT = 80
_DEC_DIGITS, _NBASE = 4, 10_000
_NEGATIVE = 0x4000
_SPECIAL = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}
_MAX_WHOLE, _MAX_SCALE = 131_072, 16_383
_POWERS = np.array([1000, 100, 10, 1], np.int16)
_SAFE_SCALE = 16  # whose digits are counted in 64 bits also when zeros fill the last group


def numeric_binary(numbers: pa.Array) -> Words | pa.BinaryArray:
    """Return each number, a text or a decimal, as Postgres takes it; null stays null.

    It is ``ndigits``, how many digits of base 10,000 follow; ``weight``, the power of 10,000 of the first; the sign;
    ``dscale``, how many decimal digits are behind the point; and the digits. Zeros at both ends make all of one width;
    Postgres strips them.

    Raises:
        ValueError: a text is no number, or one that no numeric can hold.
    """
    if pa.types.is_decimal(numbers.type):
        words = _of_decimals(numbers)
        return numeric_binary(numbers.cast(pa.string())) if words is None else words
    signs = None
    if not _all(pc.match_substring_regex(numbers, _PLAIN)):
        texts = numbers.to_pylist()
        signs = np.array([_SPECIAL.get(text, 0) for text in texts])
        plain = [text if text is None or text in _SPECIAL else _spelled_out(text) for text in texts]
        numbers = pa.array([None if text is None else "0" if text in _SPECIAL else text for text in plain], pa.string())
    wide = np.flatnonzero(pc.fill_null(pc.greater(pc.binary_length(numbers), _MAX_TEXT), False))
    if not len(wide):
        return _of_texts(numbers, signs)
    # Too wide to share a matrix with the others.
    order = np.arange(len(numbers))
    order[wide] = len(numbers) + np.arange(len(wide))
    rest = pc.if_else(pa.array(order < len(numbers)), numbers, "0")
    each = [_of_texts(rest, signs), *(_of_texts(numbers.slice(place, 1)) for place in wide.tolist())]
    encoded = pa.concat_arrays([_packed(len(words.values), [words]) for words in each]).take(pa.array(order))
    return pc.if_else(numbers.is_valid(), encoded, None)


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


def _of_decimals(numbers: pa.Decimal128Array) -> Words | None:
    """Decimals whose digits fit into 64 bits; None where one has more."""
    halves = _raw(numbers, np.dtype("2<i8"))
    scale, valid = numbers.type.scale, valid_flags(numbers) if numbers.null_count else None
    low = halves[:, 0] if valid is None else np.where(valid, halves[:, 0], 0)
    high = halves[:, 1] if valid is None else np.where(valid, halves[:, 1], 0)
    if scale > _SAFE_SCALE or not np.array_equal(high, low >> 63):
        return None
    after = -(-scale // _DEC_DIGITS)
    size = np.abs(low).view(np.uint64)  # also of -2**63, which has no negative
    whole = size // 10**scale
    fraction = (size - whole * 10**scale) * 10 ** (after * _DEC_DIGITS - scale)
    before = -(-len(str(whole.max(initial=0))) // _DEC_DIGITS)
    digits = np.empty((len(low), before + after), np.int16)
    for rest, places in ((whole, range(before)), (fraction, range(before, before + after))):
        for place in reversed(places):
            quotient = rest // _NBASE
            digits[:, place] = rest - quotient * _NBASE
            rest = quotient
    return _numeric(digits, before, np.where(low < 0, _NEGATIVE, 0), scale, valid)


def _of_texts(texts: pa.StringArray, signs: Integers | None = None) -> Words:
    """Texts of one batch that are plain numbers; they share a matrix, as wide as the widest. ``signs`` are others'."""
    filled = pc.fill_null(texts, "0")
    length = pc.binary_length(filled).to_numpy().astype(np.int64)
    negative = pc.starts_with(filled, "-").to_numpy(zero_copy_only=False)
    point = pc.find_substring(filled, ".").to_numpy().astype(np.int64)
    whole = np.where(point < 0, length, point)
    dscale = np.where(point < 0, 0, length - point - 1)
    if (whole - negative).max(initial=0) > _MAX_WHOLE or dscale.max(initial=0) > _MAX_SCALE:
        raise ValueError("expected numbers within Postgres's numeric")
    digits, before = _digits(content(filled), length, whole, dscale)
    sign = np.where(negative, _NEGATIVE, 0 if signs is None else signs)
    return _numeric(digits, before, sign, dscale, valid_flags(texts))


def _digits(
    characters: npt.NDArray[np.uint8], length: Integers, whole: Integers, dscale: Integers
) -> tuple[npt.NDArray[np.int16], int]:
    """The digits of base 10,000, the points of all numbers below each other, and how many are before them."""
    before = -(-int(whole.max(initial=1)) // _DEC_DIGITS)
    after = -(-int(dscale.max(initial=0)) // _DEC_DIGITS)
    decimal = np.zeros((len(length), (before + after) * _DEC_DIGITS), np.uint8)
    starts = np.cumsum(length) - length
    position = np.arange(len(characters)) - np.repeat(starts - before * _DEC_DIGITS + whole, length)
    position -= position > before * _DEC_DIGITS  # the point itself takes no place
    rows = np.repeat(np.arange(len(length)), length)
    is_digit = characters >= ord("0")
    decimal[rows[is_digit], position[is_digit]] = characters[is_digit] - ord("0")
    return decimal.reshape(len(length), -1, _DEC_DIGITS) @ _POWERS, before


def _numeric(
    digits: npt.NDArray[np.int16],
    before: int,
    sign: Integers,
    dscale: int | Integers,
    valid: npt.NDArray[np.bool_] | None,
) -> Words:
    """Header and digits of each number."""
    rows, ndigits = digits.shape
    words = np.empty((rows, 4 + ndigits), ">u2")
    for place, word in enumerate((ndigits, before - 1, sign, dscale)):
        words[:, place] = word
    words[:, 4:] = digits
    dtype = np.dtype(f"V{words.itemsize * words.shape[1]}")
    return Words(words.view(dtype).reshape(rows), dtype, valid)


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


def array_binary(lists: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return each array of elements of this type as Postgres sends and takes it; null stays null.

    Its header is how many dimensions it has, which is 0 without elements, whether an element is NULL, the OID of their
    type, and of the one dimension the length and the lower bound. The elements follow, each behind its length.
    """
    elements = lists.flatten()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    row = np.repeat(np.arange(len(lists)), lengths)
    with_null = np.bincount(row[~valid_flags(elements)], minlength=len(lists)) > 0
    some = lengths > 0
    header = [(some, None), (with_null, None), (_OIDS[name], None), (lengths, some), (1, some)]
    words = [Words(np.asarray(values), _INT4, valid) for values, valid in header]
    framed = _behind_lengths([_sent(elements, name)], len(elements)) if len(elements) else pa.array([], pa.binary())
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, framed), b"")
    arrays = pc.binary_join_element_wise(_packed(len(lists), words), joined, b"")
    return pc.if_else(lists.is_valid(), arrays, None) if lists.null_count else arrays


_WRITTEN = re.compile(r"(?:([0-9]{4,})-([0-9]{2})-([0-9]{2}))? ?(?:([0-9:]{8})(?:\.([0-9]{1,6}))?Z?)?( BC)?")


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
