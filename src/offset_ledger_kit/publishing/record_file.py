"""Records from a file of JSON lines or CSV; a line that cannot be one is reported by its number."""

import codecs
import csv
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from offset_ledger.errors import RecordFileError, UnserializableValue
from offset_ledger.outside.producer.record import Record, RecordLimits, RecordTooLarge, min_batch_bytes
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import JsonPath
from offset_ledger_kit.publishing.forms import EVENT_ID, PUBLISH_AT, Form, rfc3339
from offset_ledger_kit.publishing.serializers import BYTES, JSON, SchemaSerializer, Serializer, no_constant

_SHOWN_PROBLEMS = 20
_LONGEST_FIELD = 2**31 - 1  # of CSV: the limits of a record are checked elsewhere
_IDS = uuid.UUID("6f1f6b3e-5f0c-4d6b-9f57-0c1d5a0d7b11")

_decode = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class BadLine(Exception):
    """A line that is no record; the text has not its number."""


class Digest(Protocol):
    """The part of a hash that a file of records feeds."""

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
                    # As it will be when the file has grown, so that it stays the same record.
                    whole = line if line.endswith(b"\n") else line + b"\n"
                    if self._digest is not None:
                        self._digest.update(whole)
                    self.last = whole.removeprefix(codecs.BOM_UTF8) if self.number == 1 else whole
                    yield self.last
        except OSError as error:
            raise RecordFileError([f"{self.path} cannot be read ({error.strerror})"]) from None

    def json_documents(self, exact: bool = False) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
        """Yield each line's number and object, or what is wrong with it.

        ``exact``: a number with a fraction or an exponent becomes a Decimal, and a name that is there twice is wrong.
        """
        decode = _decode_exactly if exact else _decode
        for line in self:
            if line.strip():
                try:
                    document = decode(line)
                except (ValueError, ArithmeticError, RecursionError) as error:
                    yield self.number, BadLine(f"is no JSON ({error})")
                    continue
                one = isinstance(document, dict)
                yield self.number, document if one else BadLine("should be one JSON object in one line")

    def csv_documents(self) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
        """Yield each row's line number and the row by names, or what is wrong with it."""
        csv.field_size_limit(_LONGEST_FIELD)
        rows = csv.reader((_text(line) for line in self), strict=True)
        try:
            names = next(rows, [])
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise BadLine(f"line 1 has {', '.join(map(repr, twice))} twice")
            for row in rows:
                if len(row) == len(names):
                    yield self.number, dict(zip(names, row, strict=True))
                elif row:
                    yield self.number, BadLine(f"should have the {len(names)} fields of line 1, found {len(row)}")
        except (csv.Error, BadLine) as error:
            yield self.number, BadLine(f"is no CSV ({error}); the lines after it were not read")


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records. ``key`` and ``value`` are paths into a line's object; no value path: the whole object.

    An event id that is missing or empty is made of the line and its number, so that every reading makes the same one.
    """

    path: Path
    format: str = "jsonl"
    form: Form = field(default_factory=Form)
    key: JsonPath | None = None
    value: JsonPath | None = None

    def check(self) -> "CheckedFile":
        """Read all of it once; what is published are checked files only.

        Raises:
            RecordFileError: with every line that cannot be a record (the first 20, and how many more).
        """
        if self.path.is_fifo():
            raise RecordFileError([f"{self.path} is a pipe, and is read more than once; write it to a file first"])
        count, largest, problems = 0, 0, list[str]()
        for _, record in self._read(None):
            count += 1
            if isinstance(record, str):
                problems.append(record)
            else:
                largest = max(largest, min_batch_bytes(record))
        _refuse(problems)
        return CheckedFile(self, count, largest)

    def check_sizes(self, limits: RecordLimits) -> None:
        """Return if every record may be sent uncompressed.

        Raises:
            RecordFileError: with every line that may not.
        """
        problems = []
        for number, record in self._read(None):
            try:
                if isinstance(record, Record):
                    limits.check(record)
            except RecordTooLarge as error:
                problems.append(f"{self.path}:{number}: {error}")
        _refuse(problems)

    def records(self, digest: Digest | None = None) -> Iterator[Record]:
        """The records in order; ``digest`` has always been fed with exactly the lines up to the last one.

        Raises:
            RecordFileError: with the first line that cannot be a record.
        """
        for _, record in self._read(digest):
            if isinstance(record, str):
                raise RecordFileError([record])
            yield record

    def _read(self, digest: Digest | None) -> Iterator[tuple[int, Record | str]]:
        """Yield each line's number with its record, or with what is wrong."""
        lines = Lines(self.path, digest)
        exact = bool(self.form.identity)
        for number, document in lines.csv_documents() if self.format == "csv" else lines.json_documents(exact):
            try:
                if isinstance(document, BadLine):
                    raise document
                yield number, self._record(number, document, lines.last)
            except (BadLine, UnserializableValue) as error:
                yield number, f"{self.path}:{number}: {error}"

    def _record(self, number: int, document: Any, line: bytes) -> Record:
        key = None if self.key is None else self._typed(self.form.key, self._at(self.key, document, "key"))
        if self.value is None and self.form.value is JSON:
            return self._whole(number, key, document, line)
        value = document if self.value is None else self._at(self.value, document, "value")
        form = replace(self.form, new_id=lambda: _event_id(number, line))
        return form.record(key, self._typed(form.value, value))

    def _whole(self, number: int, key: Any, document: dict[str, Any], line: bytes) -> Record:
        """Return the object itself, byte for byte if nothing has to be added to its value."""
        given = document.get(EVENT_ID), document.get(PUBLISH_AT)
        if not all(each is None or type(each) in (str, int) for each in given):
            raise BadLine(f"{EVENT_ID} and {PUBLISH_AT} should be texts or whole numbers, found {given!r}")
        event_id, publish_at = (None if each in (None, "") else str(each) for each in given)
        value = line.strip() if self.format == "jsonl" else _encode(document)
        added = {}
        if event_id is None:
            added[EVENT_ID] = event_id = _event_id(number, line)
        if publish_at is None:
            added[PUBLISH_AT] = publish_at = rfc3339(self.form.clock())
        if added and self.form.stamp_values:
            if any(name in document for name in added):  # as null, or empty
                value = _encode({**_decode_raw(value), **added})
            else:  # the others stay as they are, even a name that is there twice
                value = value[:-1] + (b"," if document else b"") + _encode(added)[1:]
        headers = self.form.with_schemas(self.form.with_headers((), event_id, publish_at), key, None)
        return Record(self.form.key.serialize(key), value, headers)

    def _at(self, path: JsonPath, document: Any, what: str) -> Any:
        for name in path:
            if not isinstance(document, dict) or name not in document:
                raise BadLine(f"has no {what} at {format_path(path)}")
            document = document[name]
        if document is None and what == "key":
            raise BadLine(f"has null as its key at {format_path(path)}")
        return document

    def _typed(self, serializer: Serializer, value: Any) -> Any:
        if isinstance(serializer, SchemaSerializer):
            if self.format != "csv":
                return value
            return serializer.row(value) if isinstance(value, dict) else serializer.parse(value)
        value = _plain(value)
        if not isinstance(value, str) or not (self.format == "csv" or serializer is BYTES):
            return value
        try:
            return serializer.parse(value)
        except ValueError:
            what = "base64" if serializer is BYTES else serializer.expects
            raise BadLine(f"should have {what}, found {value[:60]!r}") from None


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


def _plain(value: Any) -> Any:
    """The value with floats in the place of Decimals, as a serializer without a schema takes it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def _refuse(problems: list[str]) -> None:
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        raise RecordFileError(problems[:_SHOWN_PROBLEMS] + ([f"... and {more} lines more"] if more > 0 else []))


def _event_id(number: int, line: bytes) -> str:
    return str(uuid.uuid5(_IDS, f"{number}:{line.decode(errors='backslashreplace')}"))


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) < len(members):
        names = [name for name, _ in members]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is twice in one object")
    return made


def _decode_exactly(line: bytes) -> Any:
    return json.loads(line.decode(), object_pairs_hook=_unique, parse_float=Decimal, parse_constant=no_constant)


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8 at byte {error.start}") from None
