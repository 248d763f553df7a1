"""A record shape with every type, JSON texts good and bad, and an independent reader of them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from hypothesis import strategies as st

from offset_ledger.decoding.outcome import Skip
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape

KAFKA_TIME = datetime(2026, 3, 4, 5, 6, 7, 8000, tzinfo=UTC)
LIMITS = Limits(value_bytes=20_000)


def column(name: str, type_: str, args: tuple[int, ...] = (), nullable: bool = False, encoding: str = "") -> Column:
    """A column whose path is its name, with ``__`` between members."""
    return Column(name, ColumnType(type_, args), tuple(name.split("__")), nullable, encoding)


COLUMNS = (
    column("words", "text"), column("code", "varchar", (3,), nullable=True), column("small", "smallint"),
    column("medium", "integer", nullable=True), column("large", "bigint"), column("price", "numeric", (7, 2)),
    column("share", "numeric", (3, 3), nullable=True), column("count", "numeric", (4, 0)), column("any", "numeric"),
    column("single", "real"), column("double", "double precision", nullable=True), column("flag", "boolean"),
    column("day", "date", nullable=True), column("clock", "time", nullable=True), column("inner__at", "timestamptz"),
    column("inner__ms", "timestamptz", encoding="epoch_ms"), column("inner__deep__id", "uuid"),
    column("options__note", "text", nullable=True), column("options__b64", "bytea", nullable=True),
    column("options__hex", "bytea", nullable=True, encoding="hex"), column("document", "jsonb"),
)  # fmt: skip
SHAPE = RecordShape(("event_id",), ("publish_at",), COLUMNS)
DELETES = (
    FieldCondition(("words",), "a"), FieldCondition(("words",), ""), FieldCondition(("options", "note"), "Zürich"),
    FieldCondition(("flag",), True), FieldCondition(("flag",), False), FieldCondition(("medium",), 7),
    FieldCondition(("price",), 100), FieldCondition(("any",), 0), FieldCondition(("z",), 1),
    FieldCondition(('x"words',), 1), FieldCondition(("inner", "deep"), "x"),
)  # fmt: skip
CONDITIONS = st.one_of(
    st.just(()),
    st.lists(
        st.builds(lambda each, negated: replace(each, negated=negated), st.sampled_from(DELETES), st.booleans()),
        min_size=1,
        max_size=2,
    ).map(tuple),
)
"""What a record has to be for a pipeline: nothing, or one or two conditions."""

GOOD = {
    "text": ['"a"', '""', '"Zürich"', '"\\u00e9\\ud83d\\ude00"', '"\\\\u0000"', '"a\\nb:\\"c\\":"', '":)"', '"{,["',
        '"},"'],
    "varchar": ['"abc"', '"é"', '""', '"\\ud83d\\ude00ab"'],
    "smallint": ["0", "-0", "32767", "-32768"],
    "integer": ["2147483647", "-2147483648", "7"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "1"],
    "numeric(7,2)": ["12345.67", "-0.50", "0", "1e2", "1.230000", "99999.99", "0e5", "1E+4", "12.3e-1"],
    "numeric(3,3)": ["0.123", "0", "-0.999", "1e-3"],
    "numeric(4,0)": ["9999", "-1", "5.000", "1.5e1"],
    "numeric": ["1.000000000000000000000000000000000001", "123456789012345678901234567890", "1e400", "0e-20000",
        "1.5" + "0" * 16_400, "-1e-400", "0.10"],
    "real": ["1.5", "0.1", "16777216", "3.4028235e38", "1e-45", "-0.0", "0.33333334", "1e10"],
    "double precision": ["0.1", "0.30000000000000004", "1e300", "5e-324", "9007199254740992", "-0.0", "123456.789"],
    "boolean": ["true", "false"],
    "date": ['"2024-02-29"', '"0001-01-01"', '"9999-12-31"', '"2026-0\\u0031-01"'],
    "time": ['"00:00:00"', '"23:59:59.999999"', '"12:34:56.1"', '"12:34:56.120000000"', '"12:34:5\\u0036"'],
    "timestamptz": ['"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.123456+05:30"', '"2026-01-02t03:04:05.1z"',
        '"2026-01-02 03:04:05.120000000-23:59"', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"',
        '"2024-02-29T23:59:59-00:00"', '"2013-01-01T00:00:00+16:00"'],
    "epoch_ms": ["0", "-62135596800000", "253402300799999", "1767225600123"],
    "uuid": ['"00000000-0000-4000-8000-0123456789ab"', '"ABCDEF00-0000-4000-8000-0123456789AB"'],
    "base64": ['""', '"AA=="', '"/+8="', '"aGVsbG8h"'],
    "hex": ['""', '"00ff"', '"ABcd"'],
    "jsonb": ["{}", "[]", '"x"', "1.50", "true", '{"a":[1,{"b":null}], "c" : "\\\\u0000"}', "1e1000",
        '[ {"a":1},\n{"a":2}]', '"9e12345"'],
    "event_id": ['"e1"', "17", "-0", "123456789012345678901234567890", '"é"', '"' + "x" * 1024 + '"'],
}  # fmt: skip
BAD = [
    "null", "1.0", "1e2", '"1"', "true", "{}", "[]", "1.5", "NaN", "-Infinity", "01", "+1", ".5", "1.", "'a'", "tru",
    "", "nul", "32768", "-32769", "2147483648", "9223372036854775808", "100000", "123456.78", "0.001", "0.1234",
    "99999.999", "12345", "1e131072", "1e-16384", "1e99999999999999999999", "0e99999999999", "3.4028236e38", "1e400",
    "1e-400", "1e-46", "0.1e-400", "16777217", "9007199254740993", "0.1000000000000000055511151231257827", '"abcd"',
    '"\\u0000"', '"\x00"', '"\n"', '"\\ud800"', '"\\udc00x"', '"\\ud800\\ud800"', '"2023-02-29"', '"2026-1-1"',
    '"0000-01-01"', '"20260101"', '"24:00:01"', '"23:59:60"', '"12:60:00"', '"12:34"', '"1:23:45"',
    '"12:34:56.1234567"', '"12:34:56."', '"12:34:56,1"', '"12:34:56+00"', '"12:34:56\\n"', '"١2:34:56"',
    '"2026-01-01T00:00:00"', '"2026-01-01T00:00:60Z"', '"2026-01-01T24:00:00Z"', '"2026-02-30T00:00:00Z"',
    '"2026-01-01T00:00:00.1234567Z"', '"2026-01-01T00:00:00+24:00"', '"2026-01-01T00:00:00+01"',
    '"0001-01-01T00:00:00+00:01"', '"9999-12-31T23:59:59-00:01"', '"2026-01-01T00:00:00.Z"', '"٢026-01-01T00:00:00Z"',
    '"2026-01-01T00:00:00Z\\n"', '"2026-01-01\\n"', "253402300800000", "-62135596800001",
    '"{00000000-0000-4000-8000-0123456789ab}"', '"00000000000040008000000000000000"', '"AA="', '"AB=="', '"A A="',
    '"AA==\\n"', '"-_8="', '"0"', '"0 0 "', '"\\\\x00"', '"gg"', '"' + "é" * 513 + '"', '"' + "x" * 1025 + '"',
    "1" * 1025, "-" + "1" * 5000, '{"a":1,"a":1}', '{"a":{"b":1,"\\u0062":2}}', '[{"a":1,"a":2}]', '{"a":"\\u0000"}',
    '{"\\u0000":1}', '{"a":1e200000}', "[1e-16384]", '"\\\\\\u0000"', "[" * 600 + "]" * 600,
    '{"a":' * 501 + "1" + "}" * 501,
]  # fmt: skip


def kind(column_: Column) -> str:
    """The key of GOOD for a column."""
    if column_.encoding in GOOD:
        return column_.encoding
    if column_.type.name == "bytea":
        return "base64"
    return column_.type.sql if column_.type.name == "numeric" else column_.type.name


KINDS = {"event_id": "event_id", "publish_at": "timestamptz"} | {c.name: kind(c) for c in COLUMNS}


# Made once: making a strategy costs as much as drawing from it.
_GOOD = {name: st.sampled_from(GOOD[kind_]) for name, kind_ in KINDS.items()}
_ANY = st.sampled_from([*BAD, *(literal for group in GOOD.values() for literal in group)])
_ONE_OF_TEN = st.integers(0, 9)


@st.composite
def literals(draw: st.DrawFn, most_bad: int = 2) -> dict[str, str]:
    """A literal for each value of the shape, some of them perhaps bad or absent."""
    found = {name: draw(good) for name, good in _GOOD.items()}
    for _ in range(draw(st.integers(0, most_bad))):
        name = draw(st.sampled_from(sorted(found)))
        match draw(_ONE_OF_TEN):
            case 0:
                del found[name]
            case 1:
                found[name] = "null"
            case 2:
                found[name] = draw(numbers)
            case 3:
                found[name] = json.dumps(draw(st.text()), ensure_ascii=draw(st.booleans()))
            case _:
                found[name] = draw(_ANY)
    return found


numbers = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda f: str(np.float32(f))),
    st.from_regex(
        r"-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?", fullmatch=True, alphabet="0123456789.eE+-"
    ),
)
EXTRA = [
    '"z":1', '"z":"\\u0000"', '"z":{"z":[]}', '"words":"again"', '"z":[{"k":1},{"k":2}]', '"z":{"k":1,"k":2}',
    '"z":"\\ud800"', '"Words":1', '"w\\u006frds":1', '"z":NaN', '"z" : ":"', '"x\\"words":1', '"":1',
    '"z":1e99999999999', '"\\u0000":1',
]  # fmt: skip


@st.composite
def documents(draw: st.DrawFn, most_bad: int = 2) -> bytes:
    """The text of a record; often right, often wrong in one place."""
    values = draw(literals(most_bad))
    inner = {"inner": {}, "options": {}, "inner__deep": {}}
    root: dict[str, Any] = {}
    for name, literal in values.items():
        *above, last = name.split("__")
        place = root if not above else inner["__".join(above)]
        place[last] = literal
    inner["inner"]["deep"] = inner.pop("inner__deep")
    root |= inner
    if draw(_ONE_OF_TEN) == 0:
        root["options"] = draw(st.sampled_from(["null", "{}", "[]", '"x"']))
    if draw(_ONE_OF_TEN) == 0:
        root["inner"] = draw(st.sampled_from(["null", "{}", "1"]))
    if draw(st.integers(0, 3)) == 0:
        del root["options"]
    colon = draw(st.sampled_from([":", ":", ":", ": ", " :", "\n:\t"]))
    members = _members(root, colon)
    if draw(st.integers(0, 2)) == 0:
        members.insert(draw(st.integers(0, len(members))), draw(st.sampled_from(EXTRA)))
    if draw(st.booleans()):
        members = draw(st.permutations(members))
    text = "{" + ",".join(members) + "}"
    return _spoil(draw, text.encode("utf-8", "surrogatepass"))


def _members(root: dict[str, Any], colon: str) -> list[str]:
    return [
        f'"{name}"{colon}' + (value if isinstance(value, str) else "{" + ",".join(_members(value, colon)) + "}")
        for name, value in root.items()
    ]


def _spoil(draw: st.DrawFn, value: bytes) -> bytes:
    match draw(st.integers(0, 30)):
        case 0:
            return value[: draw(st.integers(0, len(value)))]
        case 1:
            return value + draw(st.sampled_from([b" ", b"\n", b"x", b"{}", b",", b"\x00"]))
        case 2:
            return draw(st.sampled_from([b" ", b"\n\t", b"\xef\xbb\xbf", b"[", b"\x0c", b"\xff"])) + value
        case 3:
            place = draw(st.integers(0, len(value) - 1))
            return value[:place] + bytes([draw(st.integers(0, 255))]) + value[place + 1 :]
        case _:
            return value


class Literal(str):
    """A number as it was written."""


class Wrong(Exception):
    """The independent reader refuses."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise Wrong("duplicate")
    return dict(pairs)


def _constant(name: str) -> Any:
    raise Wrong(name)


_READER = json.JSONDecoder(parse_int=Literal, parse_float=Literal, parse_constant=_constant, object_pairs_hook=_pairs)


def oracle(value: bytes, shape: RecordShape = SHAPE) -> tuple[Any, ...] | Skip | None:
    """event_id, publish_at, the columns, and whether it deletes, by the standard library; None for a refusal."""
    try:
        if len(value) > LIMITS.value_bytes:
            raise Wrong
        root = _READER.decode(value.decode())
        json.dumps(root, ensure_ascii=False).encode()  # lone surrogates
        if not isinstance(root, dict) or _depth(root) > 500:
            raise Wrong
        if not _wanted(root, shape.where):
            return Skip()
        deleted = shape.delete_when is not None and _says(root, shape.delete_when)
        columns = [None if deleted else _read(root, c.path, kind(c), c.nullable) for c in shape.columns]
        return (
            _read(root, ("event_id",), "event_id", False),
            _read(root, ("publish_at",), "timestamptz", False),
            *columns,
            deleted,
        )
    except (Wrong, UnicodeError, json.JSONDecodeError, RecursionError):
        return None


def _wanted(root: Any, conditions: Sequence[FieldCondition]) -> bool:
    """Whether all conditions hold; raises Wrong where no one certainly does not, and one is in doubt."""
    doubt: Wrong | None = None
    for each in conditions:
        try:
            if _says(root, each) is each.negated:
                return False
        except Wrong as wrong:
            doubt = wrong
    if doubt:
        raise doubt
    return True


def _says(root: Any, when: FieldCondition) -> bool:
    value: Any = root
    for name in when.path:
        if value is None:
            return False
        value = _only(value, isinstance(value, dict)).get(name)
    if value is None:
        return False
    if isinstance(when.equals, bool):
        return bool(_only(value, value is True or value is False) == when.equals)
    if isinstance(when.equals, str):
        return bool(_only(value, isinstance(value, str) and not isinstance(value, Literal)) == when.equals)
    _numeric(value, "numeric")
    return _fraction(value) == when.equals


def _depth(value: Any) -> int:
    deepest, pending = 0, [(value, 1)]
    while pending:
        found, depth = pending.pop()
        members = found.values() if isinstance(found, dict) else found if isinstance(found, list) else None
        if members is not None:
            deepest = max(deepest, depth)
            pending += [(member, depth + 1) for member in members]
    return deepest


def _read(root: Any, path: tuple[str, ...], kind_: str, nullable: bool) -> Any:
    value: Any = root
    for name in path:
        if value is None:
            break
        if not isinstance(value, dict):
            raise Wrong(path)
        value = value.get(name)
    if value is None:
        if nullable:
            return None
        raise Wrong(path)
    return _typed(value, kind_)


def _typed(value: Any, kind_: str) -> Any:
    if kind_ in ("smallint", "integer", "bigint", "epoch_ms"):
        bits = {"smallint": 16, "integer": 32}.get(kind_, 64)
        number = _integer(value)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise Wrong(value)
        return _moment_of(number) if kind_ == "epoch_ms" else number
    if kind_.startswith("numeric"):
        return _numeric(value, kind_)
    if kind_ in ("real", "double precision"):
        return _float(value, kind_)
    if kind_ == "boolean":
        return _only(value, value is True or value is False)
    if kind_ == "jsonb":
        return _jsonb(value)
    if kind_ == "event_id" and isinstance(value, Literal):
        return str(_integer(value)) if len(value) <= 1024 else _only(value, False)
    _only(value, isinstance(value, str) and not isinstance(value, Literal))
    return _string(value, kind_)


def _only(value: Any, holds: bool) -> Any:
    if not holds:
        raise Wrong(value)
    return value


def _integer(value: Any) -> int:
    _only(value, isinstance(value, Literal) and not set(value) & set(".eE") and len(value) < 4000)
    return int(value)


def _moment_of(number: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)
    except OverflowError:
        raise Wrong(number) from None


def _fraction(value: Any) -> Fraction:
    _only(value, isinstance(value, Literal))
    mantissa, _, exponent = value.lower().partition("e")
    _only(value, abs(int(exponent or 0)) < 10**6)
    return Fraction(Decimal(mantissa)) * Fraction(10) ** int(exponent or 0)


_LARGEST, _FINEST = 10**131072, 10**16383


def _numeric(value: Any, kind_: str) -> Decimal:
    return _exact(_only(value, isinstance(value, Literal)), kind_)


@lru_cache(maxsize=4096)  # the same few literals again and again, some of them with thousands of digits
def _exact(value: Literal, kind_: str) -> Decimal:
    exact = _fraction(value)
    if kind_ == "numeric":
        _only(value, abs(exact) < _LARGEST and _FINEST % exact.denominator == 0)
    else:
        precision, scale = map(int, kind_[8:-1].split(","))
        _only(value, 10**scale % exact.denominator == 0 and abs(exact) < 10 ** (precision - scale))
    return Decimal(value)


def _float(value: Any, kind_: str) -> float:
    exact = _fraction(value)
    with np.errstate(all="ignore"):
        found = float(value) if kind_ == "double precision" else np.float32(float(value))
    shortest = str(np.float64(found)) if kind_ == "double precision" else str(found)
    _only(value, shortest not in ("inf", "-inf") and Fraction(shortest) == exact)
    return float(found)


def _jsonb(value: Any) -> Any:
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, Literal):
            _numeric(found, "numeric")
            _only(found, int(Decimal(found).as_tuple().exponent) >= -16383)  # it is stored as it is written
        elif isinstance(found, str):
            _only(found, "\0" not in found)
        elif isinstance(found, dict):
            pending += [*found.keys(), *found.values()]
        elif isinstance(found, list):
            pending += found
    return value


def _string(value: str, kind_: str) -> Any:
    try:
        match kind_:
            case "date":
                return date.fromisoformat(_only(value, re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value) is not None))
            case "time":
                return _clock(value)
            case "timestamptz":
                return _rfc3339(value)
            case "uuid":
                return _only(UUID(value), str(UUID(value)) == value.lower())
            case "base64":
                found = base64.b64decode(value, validate=True)
                return _only(found, base64.b64encode(found).decode() == value)
            case "hex":
                return _only(bytes.fromhex(value), bytes.fromhex(value).hex() == value.lower())
    except (ValueError, OverflowError):
        raise Wrong(value) from None
    _only(value, "\0" not in value)
    _only(value, kind_ != "varchar" or len(value) <= 3)
    return _only(value, kind_ != "event_id" or 0 < len(value.encode()) <= 1024)


def _clock(value: str) -> time:
    whole, point, fraction = value.partition(".")
    _only(value, re.sub("[0-9]", "0", whole) == "00:00:00" and (bool(fraction) or not point))
    _only(value, re.sub("[0-9]", "", fraction) == "")
    microseconds = Fraction(int(fraction or 0), 10 ** len(fraction)) * 10**6
    hours, minutes, seconds = (int(part) for part in whole.split(":"))
    _only(value, hours < 24 and minutes < 60 and seconds < 60 and microseconds.denominator == 1)
    return time(hours, minutes, seconds, int(microseconds))


def _rfc3339(value: str) -> datetime:
    match = re.fullmatch(r"(.{19})(?:\.([0-9]+))?(Z|z|[+-][0-9][0-9]:[0-9][0-9])", value)
    if match is None:
        raise Wrong(value)
    moment, fraction, zone = match.groups()
    _only(value, moment[10] in "Tt " and moment.isascii() and (fraction or "0")[6:].strip("0") == "")
    _only(value, re.sub("[0-9]", "0", moment[:10] + moment[11:]) == "0000-00-0000:00:00")
    naive = datetime.strptime(moment[:10] + "T" + moment[11:], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    _only(value, moment[17:] != "60")
    naive = naive.replace(microsecond=int(((fraction or "") + "000000")[:6]))
    if zone in "Zz":
        return naive
    hours, minutes = int(zone[1:3]), int(zone[4:])
    _only(value, hours < 24 and minutes < 60)
    offset = timedelta(hours=hours, minutes=minutes)
    return naive - offset if zone[0] == "+" else naive + offset
