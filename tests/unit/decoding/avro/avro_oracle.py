"""What a row must hold, from the value that fastavro was given; shares nothing with the reader."""

from __future__ import annotations

import base64
import json
import re
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tests.unit.decoding.avro.avro_records import Written, branch_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOSECONDS = {"millis": 10**6, "micros": 10**3, "nanos": 1}
BITS = {"integer": 32, "bigint": 64}


class Refused(Exception):
    """The column cannot have a value; where, and ``missing``, ``null``, or ``value``."""

    def __init__(self, path: tuple[str, ...] = (), why: str = "value") -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


def place(
    written: Written, said: Any, value: Any, path: tuple[str, ...], done: tuple[str, ...] = ()
) -> tuple[Any, Any]:
    """The schema and the value at a path; raises Refused where there is none."""
    said = written.resolve(said)
    if isinstance(said, list):
        name, inner = value
        branch = next(each for each in said if branch_name(each) == name)
        return place(written, branch, inner, path, done)
    if said["type"] == "null":
        raise Refused(done, "null")
    if not path:
        return said, value
    if said["type"] == "record":
        types = {each["name"]: each["type"] for each in said["fields"]}
    elif said["type"] == "map":
        types = dict.fromkeys(value, said["values"])
    else:
        raise Refused(done, "type")
    step = (*done, path[0])
    if path[0] not in types:
        raise Refused(step, "missing")
    return place(written, types[path[0]], value[path[0]], path[1:], step)


def column_value(said: dict[str, Any], value: Any, name: str, args: tuple[int, ...] = ()) -> Any:
    """The value of a column of that type; raises Refused where it cannot be exact. Not for jsonb."""
    kind = kind_of(said)
    integer = value if kind in ("int", "long") else None
    if kind == "boolean" == name:
        return value
    if name in BITS and integer is not None and -(2 ** (BITS[name] - 1)) <= integer < 2 ** (BITS[name] - 1):
        return value
    if name == "numeric" and (integer is not None or kind == "decimal") and _fits(value, args):
        return Decimal(value)
    if name == "real" and (kind == "float" or (kind in ("int", "long", "double") and _single(value))):
        return float(value)
    if name == "double precision" and (
        kind in ("float", "double") or (integer is not None and int(float(integer)) == integer)
    ):
        return float(value)
    if name in ("text", "varchar", "event_id") and kind in ("string", "enum"):
        text = str(value)
        if "\0" not in text and not (args and len(text) > args[0]) and (text or name != "event_id"):
            return text
    if name == "event_id" and integer is not None:
        return str(integer)
    if name == "date" and kind == "date":
        return _day(value)
    if name == "date" and kind == "string" and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", str(value)):
        return date.fromisoformat(value)
    if name == "time" and kind.startswith("time-"):
        return _time(value, kind)
    if name == "timestamptz" and kind.startswith("timestamp-"):
        return _moment(value, kind)
    if name in ("uuid", "event_id") and kind == "fixed uuid":
        return UUID(bytes=value) if name == "uuid" else str(UUID(bytes=value))
    if name == "uuid" and kind == "string" and isinstance(value, UUID):
        return value
    if name == "bytea" and kind in ("bytes", "fixed"):
        return value
    if name == "bytea" and kind == "string":
        return _base64(str(value))
    raise Refused


def kind_of(said: dict[str, Any]) -> str:
    """The logical type, if there is one that counts, else the type."""
    logical = said.get("logicalType", "of-somebody")
    if said["type"] == "fixed" and logical == "uuid":
        return "fixed uuid"
    return str(said["type"] if logical in ("of-somebody", "uuid") else logical)


def check_document(written: Written, said: Any, value: Any, got: Any) -> None:
    """Check that a jsonb, read with floats as Decimal, says the value; raises Refused if no jsonb could."""
    said = written.resolve(said)
    if isinstance(said, list):
        name, inner = value
        check_document(written, next(each for each in said if branch_name(each) == name), inner, got)
    elif said["type"] == "record":
        parts = [(each["name"], each["type"], value[each["name"]]) for each in said["fields"]]
        assert got is None or list(got) == [name for name, _, _ in parts]
        for name, type_, part in parts:
            check_document(written, type_, part, None if got is None else got[name])
    elif said["type"] == "map":
        assert got is None or list(got) == list(value)
        for key, part in value.items():
            check_document(written, said["values"], part, None if got is None else got[key])
    elif said["type"] == "array":
        assert got is None or len(got) == len(value)
        for index, part in enumerate(value):
            check_document(written, said["items"], part, None if got is None else got[index])
    else:
        in_json = _in_json(said, value)
        assert got is None or _agrees(in_json, got), (said, value, got)


def document(text: str) -> Any:
    """The JSON, with floats as they are written."""
    return json.loads(text, parse_float=Decimal)


def _in_json(said: dict[str, Any], value: Any) -> Any:
    kind = kind_of(said)
    if kind == "duration" or (isinstance(value, str) and "\0" in value):
        raise Refused
    if kind in ("float", "double") and value - value != 0:
        raise Refused
    if kind in ("bytes", "fixed"):
        return base64.b64encode(value).decode()
    if kind == "fixed uuid":
        return str(UUID(bytes=value))
    if kind == "float":
        return struct.pack("<f", value)
    if kind == "date":
        return _day(value).isoformat()
    if kind.startswith("time-"):
        return _time(value, kind)
    if kind.startswith("timestamp-"):
        return _nanoseconds(value, kind, True)
    if kind.startswith("local-"):
        return _nanoseconds(value, kind, False)
    return str(value) if isinstance(value, UUID) else value


def _agrees(expected: Any, got: Any) -> bool:
    if isinstance(expected, bytes):
        return struct.pack("<f", got) == expected
    if isinstance(expected, tuple):
        return _read_moment(got) == expected
    if isinstance(expected, time):
        return time.fromisoformat(got) == expected
    if isinstance(expected, float):
        return float(got) == expected
    return type(got) in (type(expected), Decimal, int) and bool(expected == got)


def _read_moment(text: str) -> tuple[int, bool]:
    match = re.fullmatch(r"([0-9T:-]{19})(?:\.([0-9]+))?(Z?)", text)
    assert match, text
    whole = (datetime.fromisoformat(match[1]).replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
    return whole * 10**9 + int((match[2] or "").ljust(9, "0")), match[3] == "Z"


def _nanoseconds(value: Any, kind: str, zoned: bool) -> tuple[int, bool]:
    unit = NANOSECONDS[kind.rpartition("-")[2]]
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - EPOCH) // timedelta(microseconds=1) * 1000, zoned
    try:
        EPOCH + timedelta(microseconds=value * unit // 1000)
    except OverflowError:
        raise Refused from None
    return value * unit, zoned


def _moment(value: Any, kind: str) -> datetime:
    nanoseconds, _ = _nanoseconds(value, kind, True)
    if nanoseconds % 1000:
        raise Refused
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _day(value: Any) -> date:
    if isinstance(value, date):
        return value
    try:
        return date(1970, 1, 1) + timedelta(days=value)
    except OverflowError:
        raise Refused from None


def _time(value: Any, kind: str) -> time:
    if isinstance(value, time):
        return value
    microseconds = value * NANOSECONDS[kind.rpartition("-")[2]] // 1000
    if not 0 <= microseconds < 86_400_000_000:
        raise Refused
    return (datetime(1, 1, 1) + timedelta(microseconds=microseconds)).time()


def _fits(value: Any, args: tuple[int, ...]) -> bool:
    return not args or (abs(value) < 10 ** (args[0] - args[1]) and value * 10 ** args[1] % 1 == 0)


def _single(value: float) -> bool:
    try:
        return value != value or struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        return False


def _base64(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused from None
    if base64.b64encode(decoded).decode() != text:
        raise Refused
    return decoded
