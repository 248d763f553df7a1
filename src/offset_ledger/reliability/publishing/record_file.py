"""Records from a file of JSON lines or CSV, each line named where it cannot be one."""

from __future__ import annotations

import codecs
import csv
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import JsonPath
from offset_ledger.errors import RecordFileError, UnserializableValue
from offset_ledger.reliability.publishing.forms import EVENT_ID, PUBLISH_AT, Form, rfc3339, with_headers
from offset_ledger.reliability.publishing.limits import RecordLimits, RecordTooLarge
from offset_ledger.reliability.publishing.record import Record, least_batch_bytes
from offset_ledger.reliability.publishing.serializers import BYTES, JSON, Serializer

FORMATS = ("jsonl", "csv")
_MOST_TOLD = 20
_LONGEST_FIELD = 2**31 - 1  # of CSV; how long a record may be is not for its parser to say
_IDS = uuid.UUID("6f1f6b3e-5f0c-4d6b-9f57-0c1d5a0d7b11")

_decode = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Digest(Protocol):
    """As much of a hash as a file of records feeds."""

    def update(self, data: bytes, /) -> None:
        """Add these bytes."""


class _BadLine(Exception):
    """What is wrong with a line, without its number."""


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records. ``key`` and ``value`` are paths into a line's object; no value path: the whole object.

    An event id that is missing is made of the line and its number, so that every reading makes the same one.
    """

    path: Path
    format: str = "jsonl"
    form: Form = field(default_factory=Form)
    key: JsonPath | None = None
    value: JsonPath | None = None

    def check(self) -> CheckedFile:
        """Read all of it once; what is published are checked files only.

        Raises:
            RecordFileError: with every line that cannot be a record (the first 20, and how many more).
        """
        if self.path.is_fifo():
            raise RecordFileError([f"{self.path} is a pipe, and is read more than once; write it to a file first"])
        count, largest, problems = 0, 0, list[str]()
        for _, made in self._read(None):
            count += 1
            if isinstance(made, str):
                problems.append(made)
            else:
                largest = max(largest, least_batch_bytes(made))
        _refuse(problems)
        return CheckedFile(self, count, largest)

    def check_sizes(self, limits: RecordLimits) -> None:
        """Return if every record may be sent uncompressed.

        Raises:
            RecordFileError: with every line that may not.
        """
        problems = []
        for number, made in self._read(None):
            try:
                if isinstance(made, Record):
                    limits.check(made)
            except RecordTooLarge as error:
                problems.append(f"{self.path}:{number}: {error}")
        _refuse(problems)

    def records(self, digest: Digest | None = None) -> Iterator[Record]:
        """The records in order; ``digest`` has always been fed with exactly the lines up to the last one.

        Raises:
            RecordFileError: with the first line that cannot be a record.
        """
        for _, made in self._read(digest):
            if isinstance(made, str):
                raise RecordFileError([made])
            yield made

    def _read(self, digest: Digest | None) -> Iterator[tuple[int, Record | str]]:
        lines = _Lines(self.path, digest)
        for number, document in self._csv(lines) if self.format == "csv" else self._jsonl(lines):
            try:
                if isinstance(document, _BadLine):
                    raise document
                yield number, self._record(number, document, lines.last)
            except (_BadLine, UnserializableValue) as error:
                yield number, f"{self.path}:{number}: {error}"

    def _jsonl(self, lines: _Lines) -> Iterator[tuple[int, Any]]:
        for line in lines:
            if line.strip():
                yield lines.number, _document(line)

    def _csv(self, lines: _Lines) -> Iterator[tuple[int, Any]]:
        csv.field_size_limit(_LONGEST_FIELD)
        rows = csv.reader((_text(line) for line in lines), strict=True)
        try:
            names = _names(next(rows, []))
            for row in rows:
                if len(row) == len(names):
                    yield lines.number, dict(zip(names, row, strict=True))
                elif row:
                    yield lines.number, _BadLine(f"should have the {len(names)} fields of line 1, found {len(row)}")
        except (csv.Error, _BadLine) as error:
            yield lines.number, _BadLine(f"is no CSV ({error}); the lines after it were not read")

    def _record(self, number: int, document: Any, line: bytes) -> Record:
        key = None if self.key is None else self._typed(self.form.key, self._at(self.key, document, "key"))
        if self.value is None and self.form.value is JSON:
            return self._whole(number, key, document, line)
        value = document if self.value is None else self._at(self.value, document, "value")
        form = replace(self.form, new_id=lambda: _event_id(number, line))
        return form.record(key, self._typed(form.value, value))

    def _whole(self, number: int, key: Any, document: dict[str, Any], line: bytes) -> Record:
        """The object itself, byte for byte where nothing has to be added to it."""
        found = document.get(EVENT_ID), document.get(PUBLISH_AT)
        if not all(each is None or type(each) in (str, int) for each in found):
            raise _BadLine(f"{EVENT_ID} and {PUBLISH_AT} should be texts or whole numbers, found {found!r}")
        event_id, publish_at = (None if each is None else str(each) for each in found)
        value = line.strip() if self.format == "jsonl" else _encode(document)
        added = {}
        if event_id is None:
            added[EVENT_ID] = event_id = _event_id(number, line)
        if publish_at is None:
            added[PUBLISH_AT] = publish_at = rfc3339(self.form.clock())
        if added:
            value = _with_more(value, document, added)
        return Record(self.form.key.serialize(key), value, with_headers((), event_id, publish_at))

    def _at(self, path: JsonPath, document: Any, what: str) -> Any:
        for name in path:
            if not isinstance(document, dict) or name not in document:
                raise _BadLine(f"has no {what} at {format_path(path)}")
            document = document[name]
        if document is None and what == "key":
            raise _BadLine(f"has null as its key at {format_path(path)}")
        return document

    def _typed(self, serializer: Serializer, value: Any) -> Any:
        if not isinstance(value, str) or not (self.format == "csv" or serializer is BYTES):
            return value
        try:
            return serializer.parse(value)
        except ValueError:
            what = "base64" if serializer is BYTES else serializer.expects
            raise _BadLine(f"should have {what}, found {value[:60]!r}") from None


class CheckedFile(NamedTuple):
    """A file that was read once without a mistake, its number of records, and the bytes of the largest one's batch."""

    file: RecordFile
    records: int
    largest: int

    def read(self, digest: Digest | None = None) -> Iterator[Record]:
        """Exactly the records that were checked, as :meth:`RecordFile.records`; what was appended since is left.

        Raises:
            RecordFileError: the file has changed since.
        """
        count = 0
        for record in islice(self.file.records(digest), self.records):
            count += 1
            yield record
        if count < self.records:
            raise RecordFileError([f"{self.file.path} had {self.records} records when it was checked and has {count}"])


def _refuse(problems: list[str]) -> None:
    if problems:
        more = len(problems) - _MOST_TOLD
        raise RecordFileError(problems[:_MOST_TOLD] + ([f"... and {more} lines more"] if more > 0 else []))


class _Lines:
    """A file's lines with their number; ``last`` is the one given last."""

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


def _document(line: bytes) -> Any:
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _BadLine(f"is no JSON ({error})")
    return found if isinstance(found, dict) else _BadLine("should be one JSON object in one line")


def _with_more(value: bytes, document: dict[str, Any], added: dict[str, str]) -> bytes:
    """The object with these members more, and the others as they stand, even a name that is there twice."""
    if any(name in document for name in added):  # as null
        return _encode({**_decode_raw(value), **added})
    return value[:-1] + (b"," if document else b"") + _encode(added)[1:]


def _names(row: list[str]) -> list[str]:
    if twice := sorted({name for name in row if row.count(name) > 1}):
        raise _BadLine(f"line 1 has {', '.join(map(repr, twice))} twice")
    return row


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise _BadLine(f"not UTF-8 at byte {error.start}") from None


def _event_id(number: int, line: bytes) -> str:
    return str(uuid.uuid5(_IDS, f"{number}:{line.decode(errors='backslashreplace')}"))
