"""Avro: what fits is read back by fastavro as the same value, what does not is refused with its path."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offset_ledger.errors import ConfigurationError, UnserializableValue
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.serializers import SchemaSerializer

ID = 0x01020304


def serializer(said: Any, *references: Any) -> SchemaSerializer:
    refers = tuple(SchemaReference(each["name"], "s", 1, json.dumps(each)) for each in references)
    schema = WriterSchema(ID, SchemaLanguage.AVRO, json.dumps(said), refers)
    return framed("avro", schema, compile_codec(schema))


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "a.R", "fields": [{"name": name, "type": said} for name, said in fields.items()]}


def read(said: Any, data: bytes | None) -> Any:
    """The value behind the frame, by fastavro."""
    assert data is not None
    magic, schema_id = struct.unpack(">bI", data[:5])
    assert (magic, schema_id) == (0, ID)
    file = io.BytesIO(data[5:])
    value = fastavro.schemaless_reader(file, said, None)
    assert file.read() == b""
    return value


def logical(kind: str, meaning: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["UP", "DOWN"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
NOON = datetime(2013, 1, 1, 12, 0, 0, 123_000, UTC)
MONEY = logical("bytes", "decimal", precision=6, scale=2)
FIXED_MONEY = logical("fixed", "decimal", name="M", size=3, precision=6, scale=2)
ID_TEXT = "7d444840-9dc0-11d1-b245-5ffdce74fad2"

FITS = [
    (record(a="null"), {"a": None}, {"a": None}),
    ("boolean", True, True),
    ("int", -(2**31), -(2**31)),
    ("int", 2**31 - 1, 2**31 - 1),
    ("long", -(2**63), -(2**63)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("double", Decimal("0.1"), 0.1),
    ("double", Decimal("1e23"), 1e23),
    ("double", 2**53, 2.0**53),
    ("double", 2**60, 2.0**60),
    ("double", Decimal("-0.0"), -0.0),
    ("float", Decimal("0.1"), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("float", 2**24, 2.0**24),
    ("string", "ä漢🦊\0", "ä漢🦊\0"),
    ("bytes", "AP8=", b"\0\xff"),
    (FIXED, "AP8=", b"\0\xff"),
    (ENUM, "DOWN", "DOWN"),
    (MONEY, Decimal("12.30"), Decimal("12.30")),
    (MONEY, Decimal("-1.28"), Decimal("-1.28")),
    (MONEY, Decimal("1.2E+3"), Decimal("1200.00")),
    (MONEY, Decimal("1.000"), Decimal("1.00")),
    (MONEY, 9999, Decimal("9999.00")),
    (MONEY, "0.01", Decimal("0.01")),
    (FIXED_MONEY, Decimal("-9999.99"), Decimal("-9999.99")),
    (logical("int", "date"), "2013-01-01", date(2013, 1, 1)),
    (logical("int", "date"), -1, date(1969, 12, 31)),
    (logical("int", "time-millis"), "12:00:00.123", time(12, 0, 0, 123_000)),
    (logical("long", "time-micros"), "23:59:59.999999", time(23, 59, 59, 999_999)),
    (logical("long", "timestamp-millis"), "2013-01-01T14:00:00.123+02:00", NOON),
    (logical("long", "timestamp-millis"), 1_357_041_600_123, NOON),
    (logical("long", "timestamp-micros"), "2013-01-01t12:00:00.123000z", NOON),
    (logical("long", "timestamp-micros"), "0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    (logical("long", "local-timestamp-micros"), "2013-01-01T12:00:00.123", NOON.replace(tzinfo=None)),
    (logical("string", "uuid"), ID_TEXT, UUID(ID_TEXT)),
    (logical("string", "unknown"), "x", "x"),
    ({"type": "array", "items": "int"}, [1, 2, 3], [1, 2, 3]),
    ({"type": "array", "items": "int"}, [], []),
    ({"type": "map", "values": "long"}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    (record(a=["null", "int"]), {"a": None}, {"a": None}),
    (["null", "int"], 5, 5),
    (["null", "int"], {"int": 5}, 5),
    (["null", "int", "long"], {"long": 5}, 5),
    (["int", "string", "boolean"], "5", "5"),
    (["int", "string", "boolean"], True, True),
    (["null", {"type": "map", "values": "int"}], {"int": 5}, {"int": 5}),
    ({"type": "int"}, 5, 5),
    (record(a="int", b=["null", "string"]), {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
    (record(a=ENUM, b="E"), {"a": "UP", "b": "DOWN"}, {"a": "UP", "b": "DOWN"}),
]


@pytest.mark.parametrize(("said", "value", "expected"), FITS)
def test_fastavro_reads_the_value_that_was_given(said: Any, value: Any, expected: Any) -> None:
    found = read(said, serializer(said).serialize(value))
    assert (repr(found), found) == (repr(expected), expected)


REFUSED = [
    ("null", 0, "$: expected null, found 0"),
    ("boolean", 1, "$: expected boolean, found 1"),
    ("boolean", "true", "$: expected boolean, found 'true'"),
    ("int", True, "$: expected int, found true"),
    ("int", Decimal("1.0"), "$: expected int, found 1.0"),
    ("int", "1", "$: expected int, found '1'"),
    ("int", 2**31, "$: expected int from -2147483648 to 2147483647, found 2147483648"),
    ("long", -(2**63) - 1, "$: expected long from -9223372036854775808 to 9223372036854775807, found -92233720368547"),
    ("double", 2**53 + 1, "$: expected double that holds it, found 9007199254740993"),
    ("double", Decimal("0.12345678901234567890"), "$: expected double that holds it"),
    ("double", Decimal("1e400"), "$: expected double "),
    ("double", Decimal("1e-400"), "$: expected double that holds it, found 1E-400"),
    ("double", 10**400, "$: expected double in its range"),
    ("double", False, "$: expected double, found false"),
    ("float", 2**24 + 1, "$: expected float that holds it, found 16777217"),
    ("float", Decimal("1e39"), "$: expected float in its range"),
    ("float", 0.1234567891, "$: expected float that holds it"),
    ("string", 5, "$: expected string, found 5"),
    ("string", "\ud800", "$: expected string without lone surrogates"),
    ("bytes", "AP8", "$: expected bytes in base64, found 'AP8'"),
    ("bytes", "AP9=", "$: expected bytes in base64, found 'AP9='"),
    (FIXED, "AP8A", "$: expected fixed F of 2 bytes, found 'AP8A'"),
    (ENUM, "LEFT", "$: expected a symbol of enum E, found 'LEFT'"),
    (ENUM, 0, "$: expected a symbol of enum E, found 0"),
    (MONEY, Decimal("0.001"), "$: expected decimal(6,2), found 0.001"),
    (MONEY, Decimal("10000"), "$: expected decimal(6,2), found 10000"),
    (MONEY, Decimal("1.005"), "$: expected decimal(6,2), found 1.005"),
    (MONEY, Decimal("1E+999999"), "$: expected decimal(6,2), found 1E+999999"),
    (MONEY, 1.5, "$: expected decimal(6,2), found 1.5"),
    (logical("int", "date"), "2013-02-30", "$: expected a day of the calendar, found '2013-02-30'"),
    (logical("int", "date"), "2013-1-1", "$: expected date as YYYY-MM-DD, found '2013-1-1'"),
    (logical("int", "time-millis"), "12:00:00.1234", "$: expected at most milliseconds, found '12:00:00.1234'"),
    (logical("long", "time-micros"), "24:00:00", "$: expected time before 24:00:00, found '24:00:00'"),
    (logical("long", "time-micros"), 86_400_000_000, "$: expected time before 24:00:00, found 86400000000"),
    (logical("long", "timestamp-millis"), "2013-01-01T12:00:00", "$: expected timestamp in RFC 3339"),
    (logical("long", "timestamp-millis"), "2013-01-01T12:00:00.0001Z", "$: expected at most milliseconds"),
    (logical("long", "timestamp-nanos"), "9999-01-01T12:00:00Z", "$: expected timestamp in RFC 3339 from -92"),
    (logical("long", "local-timestamp-millis"), "2013-01-01T12:00:00Z", "$: expected local timestamp as "),
    (logical("string", "uuid"), ID_TEXT.replace("-", ""), "$: expected uuid, found "),
    ({"type": "array", "items": "int"}, [1, "2"], "$[1]: expected int, found '2'"),
    ({"type": "array", "items": "int"}, {"a": 1}, "$: expected array, found {'a': 1}"),
    ({"type": "map", "values": "int"}, {"a b": None}, "$['a b']: expected int, found null"),
    (["null", "int"], "5", "$: expected int, found '5'"),
    (["int", "long"], 5, '$: expected a value of one branch, found 5, which fits int and long; write {"int": …}'),
    (["null", "int", "string"], True, "$: expected one of null, int, string, found true"),
    (record(a=["int", "string"]), {"a": None}, "$.a: expected one of int, string, found null"),
    (record(a=record(b="int") | {"name": "a.S"}), {"a": {"b": "x"}}, "$.a.b: expected int, found 'x'"),
    (record(a="int"), {}, "$.a: expected a value, found none, and the schema has no default"),
    (record(a="int"), {"a": 1, "b": 2}, "$.b: expected a field of a.R, found none of this name"),
    (record(a="int"), [1], "$: expected record a.R, found [1]"),
    (record(a=["null", record(b="int") | {"name": "a.S"}]), {"a": {"b": None}}, "$.a.b: expected int, found null"),
]


@pytest.mark.parametrize(("said", "value", "reason"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_path(said: Any, value: Any, reason: str) -> None:
    with pytest.raises(UnserializableValue) as caught:
        serializer(said).serialize(value)
    assert str(caught.value).startswith(f"avro: {reason}"), str(caught.value)


def test_a_missing_member_takes_the_default_of_the_schema() -> None:
    defaults: dict[str, Any] = {
        "i": ("int", 7), "u": (["null", "int"], None), "s": (["string", "null"], "x"), "b": ("bytes", "\u00ff\0"),
        "f": (FIXED, "\u00fe\u0001"), "e": (ENUM, "DOWN"), "d": ("double", 0.5), "m": (MONEY, "\u0001\u0000"),
        "at": (logical("long", "timestamp-millis"), 1_357_041_600_123), "l": ({"type": "array", "items": "int"}, [1]),
        "r": (record(x="int") | {"name": "a.S"}, {"x": 3}),
    }  # fmt: skip
    said = record(**{name: kind for name, (kind, _) in defaults.items()})
    for each in said["fields"]:
        each["default"] = defaults[each["name"]][1]
    expected = {"i": 7, "u": None, "s": "x", "b": b"\xff\0", "f": b"\xfe\1", "e": "DOWN", "d": 0.5,
                "m": Decimal("2.56"), "at": NOON, "l": [1], "r": {"x": 3}}  # fmt: skip
    assert read(said, serializer(said).serialize({})) == expected
    assert read(said, serializer(said).serialize({"i": 1, "u": 2})) == expected | {"i": 1, "u": 2}


def test_a_logical_type_that_is_not_complete_is_ignored() -> None:
    assert serializer(record(a=logical("bytes", "decimal"))).serialize({"a": "AP8="}) == b"\0\1\2\3\4\4\0\xff"


def test_a_record_may_hold_itself() -> None:
    said = record(n="int", next=["null", "a.R"])
    said["fields"][1]["default"] = None
    value = {"n": 1, "next": {"n": 2, "next": {"n": 3, "next": None}}}
    assert read(said, serializer(said).serialize({"n": 1, "next": {"a.R": {"n": 2, "next": {"n": 3}}}})) == value
    assert read(said, serializer(said).serialize(value)) == value
    for _ in range(5_000):
        value = {"n": 0, "next": value}
    with pytest.raises(UnserializableValue, match="nested too deeply"):
        serializer(said).serialize(value)


def test_a_schema_refers_to_another_one() -> None:
    inner = record(x="int") | {"name": "b.Inner"}
    whole = record(a=inner)
    assert read(whole, serializer(record(a="b.Inner"), inner).serialize({"a": {"x": 5}})) == {"a": {"x": 5}}


@pytest.mark.parametrize("text", ["", "5", '{"type": "record"}', '"nothing"', '{"type": "fixed", "name": "F"}'])
def test_what_is_no_schema_is_one_line(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^fastavro, which writes it, refuses the schema \(.+\); correct it$"):
        compile_codec(WriterSchema(1, SchemaLanguage.AVRO, text))


def test_bytes_come_back_and_others_are_refused() -> None:
    numbers = serializer(record(a="int", b=["null", "string"]))
    data = numbers.serialize({"a": 1, "b": "x"})
    assert data == b"\0\1\2\3\4\2\2\2x"
    assert numbers.deserialize(data) == {"a": 1, "b": "x"}
    assert (numbers.serialize(None), numbers.deserialize(None)) == (None, None)
    wrong = [
        (b"", "found nothing"),
        (b"\0\1\2\3\5\2\0", "found 00 01 02 03 05"),
        (data[:-1], "expected a value of the"),
    ]
    for bad, reason in [*wrong, (data + b"\0", "found 1 bytes after it")]:
        with pytest.raises(UnserializableValue, match=reason):
            numbers.deserialize(bad)


# -- random schemas --------------------------------------------------------------------------------------------

_SCALARS = {
    "boolean": st.booleans(), "int": st.integers(-(2**31), 2**31 - 1), "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(), "float": st.floats(width=32), "string": st.text(), "bytes": st.binary(max_size=20),
}  # fmt: skip
Typed = tuple[Any, st.SearchStrategy[Any]]


def _typed(children: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def nullable(typed: Typed) -> Typed:
        return ["null", typed[0]], st.none() | typed[1]

    plain = children.filter(lambda typed: not isinstance(typed[0], list))
    arrays = children.map(lambda typed: ({"type": "array", "items": typed[0]}, st.lists(typed[1], max_size=3)))
    maps = children.map(
        lambda typed: ({"type": "map", "values": typed[0]}, st.dictionaries(st.text(max_size=5), typed[1], max_size=3))
    )
    return arrays | maps | plain.map(nullable)


_TYPES = st.recursive(st.sampled_from([*_SCALARS.items()]), _typed, max_leaves=4)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(_TYPES, min_size=1, max_size=6), st.data())
def test_random_values_of_random_schemas_come_back(fields: list[Typed], data: st.DataObject) -> None:
    said = record(**{f"f{index}": kind for index, (kind, _) in enumerate(fields)})
    value = {f"f{index}": data.draw(values) for index, (_, values) in enumerate(fields)}
    assert repr(read(said, serializer(said).serialize(value))) == repr(value)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(0, 30), st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_the_same_number_or_refused(precision: int, scale: int, number: Decimal) -> None:
    said = logical("bytes", "decimal", precision=max(precision, scale), scale=scale)
    shifted = number.as_tuple().exponent
    assert isinstance(shifted, int)
    try:
        data = serializer(said).serialize(number)
    except UnserializableValue:
        text = f"{number.normalize():f}".lstrip("-")
        whole, _, fraction = text.partition(".")
        digits = len((whole + fraction.ljust(scale, "0")).lstrip("0"))
        assert len(fraction) > scale or digits > said["precision"]
    else:
        assert read(said, data) == number
