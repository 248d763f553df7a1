"""The lines of a file of JSON lines or CSV, as objects."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec

from offset_ledger.errors import RecordFileError

_LONGEST_FIELD = 2**31 - 1  # of CSV: the limits of a record are checked elsewhere
_decode = msgspec.json.Decoder().decode
Decode = Callable[[bytes], Any]


class BadLine(Exception):
    """What is wrong with a line, without its number."""


class Digest(Protocol):
    """As much of a hash as a file of records feeds."""

    def update(self, data: bytes, /) -> None:
        """Add these bytes."""


class Lines:
    """The lines of a file; ``number`` and ``last`` are those of the line given last."""

    def __init__(self, path: Path, digest: Digest | None) -> None:
        self.path, self.number, self.last = path, 0, b""
        self._digest = digest

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                for self.number, line in enumerate(file, start=1):
                    # As it will be when the file has grown: else it would be another record then.
                    whole = line if line.endswith(b"\n") else line + b"\n"
                    if self._digest is not None:
                        self._digest.update(whole)
                    self.last = whole.removeprefix(codecs.BOM_UTF8) if self.number == 1 else whole
                    yield self.last
        except OSError as error:
            raise RecordFileError([f"{self.path} cannot be read ({error.strerror})"]) from None

    def documents(self, form: str, exact: bool = False) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
        """Each line's number and object, or what is wrong with it; ``form`` is ``jsonl`` or ``csv``.

        ``exact``: a JSON number with a fraction or an exponent becomes a Decimal, and a name that is there twice is
        wrong.
        """
        return self._csv() if form == "csv" else self._jsonl(_decode_exactly if exact else _decode)

    def _jsonl(self, decode: Decode) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
        for line in self:
            if line.strip():
                yield self.number, _document(line, decode)

    def _csv(self) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
        csv.field_size_limit(_LONGEST_FIELD)
        rows = csv.reader((_text(line) for line in self), strict=True)
        try:
            names = _names(next(rows, []))
            for row in rows:
                if len(row) == len(names):
                    yield self.number, dict(zip(names, row, strict=True))
                elif row:
                    yield self.number, BadLine(f"should have the {len(names)} fields of line 1, found {len(row)}")
        except (csv.Error, BadLine) as error:
            yield self.number, BadLine(f"is no CSV ({error}); the lines after it were not read")


def _document(line: bytes, decode: Decode) -> dict[str, Any] | BadLine:
    try:
        document = decode(line)
    except (ValueError, ArithmeticError, RecursionError) as error:
        return BadLine(f"is no JSON ({error})")
    return document if isinstance(document, dict) else BadLine("should be one JSON object in one line")


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) < len(members):
        names = [name for name, _ in members]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is twice in one object")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_exactly = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_no_constant).decode


def _decode_exactly(line: bytes) -> Any:
    return _exactly(line.decode())


def _names(row: list[str]) -> list[str]:
    if twice := sorted({name for name in row if row.count(name) > 1}):
        raise BadLine(f"line 1 has {', '.join(map(repr, twice))} twice")
    return row


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8 at byte {error.start}") from None
