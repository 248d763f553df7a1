"""The member names of JSON texts: each may stand once in its object, and its characters have to be whole.

``duplicate_path`` reads one text. :class:`UniqueNames` proves whole columns of texts at once, without reading them.
Records of one topic come in few shapes. The first record of a shape shows its sequence of names; whichever record has
the same bytes before each of its colons has the same names. That is sound because

* a colon after a name follows a quote at once, unless there is blank space before it: such records are left out;
* a quote after a single backslash is inside a string; records with more backslashes there are left out;
* ``"name":`` with a plain name cannot stand inside a string, where its last quote would be escaped, and its quotes
  cannot be the end of one string and the beginning of the next, between which there is only punctuation.

Where all names of a shape differ, wherever they stand, that is enough. Otherwise all the punctuation before each name
has to be the same as well: it has every brace between two names, unless an array ends there, and so fixes which names
share an object.
"""

import json
import re
from operator import add
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from offset_ledger.decoding.outcome import Code, Flags, Mismatch, printable, step_of

Positions = npt.NDArray[np.int64]

MAX_SHAPES = 64
MAX_NAMES = 1_000
"""The most names of a record that is compared; reading one with more by itself takes less time."""
_PAD = 8
_NAME = re.compile(rb'"[A-Za-z0-9_.$@/\x80-\xff-]+":')
_BETWEEN = b"{}[],: \t\r\n"
_IS_BETWEEN = np.isin(np.arange(256, dtype=np.uint8), np.frombuffer(_BETWEEN, np.uint8))


class UniqueNames:
    """The colons of a column of texts, found once."""

    def __init__(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32]) -> None:
        self._bytes = np.zeros(int(offsets[-1]) - int(offsets[0]) + _PAD, np.uint8)
        self._bytes[_PAD:] = data[offsets[0] : offsets[-1]]
        self._bounds = offsets.astype(np.int64) - int(offsets[0]) + _PAD
        self._words = np.ndarray((len(self._bytes) - _PAD + 1,), np.dtype("<u8"), self._bytes, 0, (1,))
        colons = np.flatnonzero(self._bytes == ord(":"))
        before = self._bytes[colons - 1]
        named = colons[before == ord('"')]
        escaped = self._bytes[named - 2] == ord("\\")
        self._colons = named[~escaped]
        self._first = np.searchsorted(self._colons, self._bounds)
        self._counts = np.diff(self._first)
        doubly = named[escaped & (self._bytes[named - 3] == ord("\\"))]
        unclear = np.concatenate([colons[before <= ord(" ")], doubly])
        self._unclear = np.zeros(len(self._counts), np.bool_)
        self._unclear[np.searchsorted(self._bounds, unclear, side="right") - 1] = True

    def prove(self, valid: Flags, shapes: int = MAX_SHAPES) -> Flags:
        """Return which of the valid JSON texts surely repeat no name; False for a text that is not valid."""
        pending = valid & ~self._unclear & (self._counts <= MAX_NAMES)
        proven: Flags = pending & (self._counts == 0)
        pending &= ~proven
        for _ in range(shapes):
            left = np.flatnonzero(pending)
            if not left.size:
                break
            pending[left[0]] = False
            if shape := self._shape(int(left[0])):
                same = self._having(*shape, left)
                proven[same] = True
                pending[same] = False
        return proven

    def _shape(self, row: int) -> tuple[list[bytes], bool] | None:
        """The bytes before each colon of a text, and whether they include all punctuation; None: it has no shape."""
        start = int(self._bounds[row])
        text = self._bytes[start : int(self._bounds[row + 1])].tobytes()
        colons = [int(colon) - start for colon in self._colons[self._first[row] : self._first[row + 1]]]
        quotes = [text.rfind(b'"', 0, colon - 1) for colon in colons]
        tokens = [text[quote : colon + 1] for quote, colon in zip(quotes, colons, strict=True)]
        if not all(map(_NAME.fullmatch, tokens)):
            return None
        if len(set(tokens)) == len(tokens):
            return tokens, False
        parts = [text[start:quote] for start, quote in zip([0, *colons], quotes, strict=False)]
        between = [part[len(part.rstrip(_BETWEEN)) :] for part in parts]
        escaped = not all(between)  # a name begins after punctuation: this quote is inside of one
        if escaped or any(b"]" in part for part in between) or duplicate_path(text.decode()) is not None:
            return None
        return list(map(add, between, tokens)), True

    def _having(self, tokens: list[bytes], nested: bool, rows: Positions) -> Positions:
        """Return those of the rows that have the shape."""
        width = len(tokens)
        rows = rows[self._counts[rows] == width]
        ends = self._colons[self._first[rows][:, None] + np.arange(width)]
        # Each token right up to its colon, compared in words of 8 bytes.
        wanted = np.array([int.from_bytes(token[-8:].rjust(8, b"\0"), "little") for token in tokens], np.uint64)
        shift = np.array([8 * max(8 - len(token), 0) for token in tokens], np.uint64)
        same: Flags = (self._words[ends - 7] >> shift << shift == wanted).all(axis=1)
        for column, token in enumerate(tokens):
            for begin in range(0, max(len(token) - 8, 0), 8):
                word = np.uint64(int.from_bytes(token[begin : begin + 8], "little"))
                places = np.maximum(ends[:, column] - (len(token) - 1 - begin), 0)
                same &= self._words[places] == word
        if nested:
            before = ends[:, 1:] - [len(token) for token in tokens[1:]]
            same &= ~_IS_BETWEEN[self._bytes[np.maximum(before, 0)]].any(axis=1)
        return rows[same]


_LONE = re.compile("[\ud800-\udfff]")  # in a decoded text: a surrogate pair is one character there


class _Duplicate(Exception):
    pass


class _Members(list[tuple[str, Any]]):
    """The members of one object as they stand in the text."""


def _unique(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        raise _Duplicate


def _nothing(_: str) -> None:
    """Numbers are not converted: int() refuses a very long one."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_NUMBERS: dict[str, Any] = {"parse_int": _nothing, "parse_float": _nothing, "parse_constant": _no_constant}
_check = json.JSONDecoder(object_pairs_hook=_unique, **_NUMBERS).decode
_members = json.JSONDecoder(object_pairs_hook=_Members, **_NUMBERS).decode


def duplicate_path(text: str) -> str | None:
    """The path of the first member that repeats a name of its object, None if there is none; the text is valid JSON."""
    try:
        _check(text)
    except _Duplicate:
        return _find_duplicate(_members(text))
    except ValueError as error:
        raise Mismatch(Code.SYNTAX, f"expected a JSON object: {printable(str(error))}") from None
    return None


def _find_duplicate(root: Any) -> str:
    pending: list[tuple[str, Any]] = [("$", root)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _Members):
            names = set[str]()
            for name, _ in value:
                if name in names:
                    return path + step_of(name)
                names.add(name)
            pending += [(path + step_of(name), member) for name, member in value]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", member) for index, member in enumerate(value)]
    raise AssertionError("expected a repeated name, found none")


def lone_surrogate(text: str) -> tuple[str, str] | None:
    """The path of the first text or member name with half a character, and that half; None if there is none."""
    try:
        pending: list[tuple[str, Any]] = [("$", _members(text))]
    except ValueError:  # it is no JSON for another reason
        return None
    while pending:
        path, value = pending.pop()
        if isinstance(value, str) and (half := _LONE.search(value)):
            return path, printable(half[0])
        if isinstance(value, _Members):
            steps = [(path + step_of(name), name, member) for name, member in value]
            pending += [each for at, name, member in reversed(steps) for each in ((at, member), (at, name))]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", member) for index, member in reversed([*enumerate(value)])]
    return None
