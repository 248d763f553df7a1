"""Decimal texts -> the binary form of Postgres's numeric, a column at a time and to the last digit.

A numeric travels as groups of four decimal digits: how many there are, the power of 10,000 of the first, the sign, how
many digits follow the point, and the groups.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.staged import content

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
