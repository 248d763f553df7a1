"""Protobuf: Google's own parser reads what was given; what the JSON mapping would change is refused."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offset_ledger.errors import ConfigurationError, UnserializableValue
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.serializers import SchemaSerializer
from tests.fixtures.protoc import described, message_class

ID = 77
PROTO = """
syntax = "proto3";
package a;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message Other { int32 x = 1; }
message All {
  message Inner { string s = 1; message Deep { bool b = 1; } map<string, Other> m = 2; message Later { int32 n = 1; } }
  enum Way { NONE = 0; UP = 1; DOWN = -2; }
  int32 i = 1; int64 l = 2; uint32 u = 3; uint64 v = 4; sint64 z = 5; fixed32 f4 = 6; sfixed64 f8 = 7;
  float f = 8; double d = 9; bool b = 10; string s = 11; bytes y = 12; Way w = 13; Inner inner = 14;
  repeated int32 many = 15; map<int32, Inner> by = 16; optional int32 maybe = 17; repeated Inner inners = 18;
  oneof one { string left = 19; int32 right = 20; }
  google.protobuf.Timestamp at = 21; google.protobuf.Duration took = 22; google.protobuf.Struct any = 23;
  google.protobuf.Int64Value wrapped = 24; string camel_case = 25; map<bool, string> yes = 26;
  google.protobuf.Value free = 27;
}
"""


def serializer(message: str, text: str = PROTO, *references: SchemaReference) -> SchemaSerializer:
    schema = WriterSchema(ID, SchemaLanguage.PROTOBUF, text, references)
    return framed("protobuf", schema, compile_codec(schema, message))


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The message classes of PROTO by name, compiled apart from the package."""
    file = tmp_path_factory.mktemp("proto") / "a.proto"
    file.write_text(PROTO)
    return partial(message_class, described(file))


def read(oracle: Any, data: bytes | None) -> Message:
    """The first message All behind the frame: its index is 1, behind Other."""
    assert data is not None
    assert data[:7] == struct.pack(">bI", 0, ID) + b"\x02\x02"
    made: Message = oracle("a.All").FromString(data[7:])
    return made


WHOLE = {
    "i": -(2**31), "l": 2**63 - 1, "u": 2**32 - 1, "v": 2**64 - 1, "z": -(2**63), "f4": 0, "f8": -1,
    "f": Decimal("0.1"), "d": Decimal("1e23"), "b": True, "s": "ä\0🦊", "y": "AP8=", "w": "DOWN",
    "inner": {"s": "x", "m": {"k": {"x": 1}}}, "many": [1, 2, 3], "by": {"-5": {"s": "y"}}, "maybe": 0,
    "inners": [{}, {"s": "z"}], "right": 0, "at": "2013-01-01T12:00:00.123456789+02:00", "took": "-1.5s",
    "any": {"a": [1, Decimal("0.5"), None, {"b": "c"}]}, "wrapped": 5, "camelCase": "c", "yes": {"true": "t"},
    "free": None,
}  # fmt: skip


def test_googles_parser_reads_what_was_given(oracle: Any) -> None:
    made: Any = read(oracle, serializer("a.All").serialize(WHOLE))
    numbers = [made.i, made.l, made.u, made.v, made.z, made.f4, made.f8, made.maybe, made.right, made.wrapped.value]
    assert numbers == [-(2**31), 2**63 - 1, 2**32 - 1, 2**64 - 1, -(2**63), 0, -1, 0, 0, 5]
    assert (made.f, made.d) == (struct.unpack("<f", struct.pack("<f", 0.1))[0], 1e23)
    assert (made.b, made.s, made.y, made.w, made.camel_case) == (True, "ä\0🦊", b"\0\xff", -2, "c")
    assert (made.inner.s, made.inner.m["k"].x, [*made.many]) == ("x", 1, [1, 2, 3])
    assert ({key: each.s for key, each in made.by.items()}, dict(made.yes)) == ({-5: "y"}, {True: "t"})
    assert [each.s for each in made.inners] == ["", "z"]
    assert (made.HasField("maybe"), made.WhichOneof("one"), made.free.WhichOneof("kind")) == (
        True,
        "right",
        "null_value",
    )
    assert (made.at.seconds, made.at.nanos) == (1_357_034_400, 123_456_789)
    assert (made.took.seconds, made.took.nanos) == (-1, -500_000_000)
    assert made.any["a"][0] == 1
    assert (made.any["a"][1], made.any["a"][2], made.any["a"][3]["b"]) == (0.5, None, "c")


def test_values_of_python_are_taken_too(oracle: Any) -> None:
    at = datetime(2013, 1, 1, 12, 0, 0, 5, UTC)
    made: Any = read(oracle, serializer("a.All").serialize({"y": b"\xff", "at": at, "d": float("inf"), "f": "NaN"}))
    assert (made.y, made.at.ToDatetime(UTC), made.d, made.f != made.f) == (b"\xff", at, float("inf"), True)


REFUSED = [
    ({"i": True}, "$.i: expected int32, found true"),
    ({"i": Decimal("5.0")}, "$.i: expected int32"),
    ({"i": 5.0}, "$.i: expected int32"),
    ({"i": 2**31}, "$.i: expected int32 from -2147483648 to 2147483647, found 2147483648"),
    ({"i": "05"}, "$.i: expected int32, found '05'"),
    ({"i": None}, "$.i: expected int32, found null, which would be read as its default"),
    ({"many": None}, "$.many: expected array, found null, which would be read as its default"),
    ({"u": -1}, "$.u: expected uint32 from 0 to 4294967295, found -1"),
    ({"v": 2**64}, "$.v: expected uint64 from 0"),
    ({"l": "9223372036854775808"}, "$.l: expected int64 from"),
    ({"d": 2**53 + 1}, "$.d: expected double that holds it, found 9007199254740993"),
    ({"d": "0.12345678901234567890"}, "$.d: expected double that holds it"),
    ({"f": Decimal("1e39")}, "$.f: expected float in its range"),
    ({"f": 16_777_217}, "$.f: expected float that holds it"),
    ({"b": "true"}, "$.b: expected boolean, found 'true'"),
    ({"b": 1}, "$.b: expected boolean, found 1"),
    ({"s": 5}, "$.s: expected string, found 5"),
    ({"s": "\udc00"}, "$.s: expected string without lone surrogates"),
    ({"y": "AP8"}, "$.y: expected bytes in base64, found 'AP8'"),
    ({"y": "_w=="}, "$.y: expected bytes in base64, found '_w=='"),
    ({"w": "LEFT"}, "$.w: expected a symbol of enum a.All.Way, found 'LEFT'"),
    ({"w": True}, "$.w: expected a symbol of enum a.All.Way, found true"),
    ({"inner": {"t": 1}}, "$.inner.t: expected a field of a.All.Inner, found none of this name"),
    ({"inner": 5}, "$.inner: expected message a.All.Inner, found 5"),
    ({"inners": [{"s": 1}]}, "$.inners[0].s: expected string, found 1"),
    ({"inners": [None]}, "$.inners[0]: expected message a.All.Inner, found null"),
    ({"many": 5}, "$.many: expected array, found 5"),
    ({"by": {"01": {}}}, "$.by: expected int32, found '01'"),
    ({"yes": {"1": "x"}}, "$.yes: expected true or false as the key of a map, found '1'"),
    ({"left": "x", "right": 1}, "$: "),
    ({"camel_case": "a", "camelCase": "b"}, "$.camelCase: expected field camel_case once, found it under both"),
    ({"at": "2013-01-01T12:00:00"}, "$.at: expected timestamp in RFC 3339"),
    ({"at": "2013-01-01T12:00:00.1234567890Z"}, "$.at: expected timestamp in RFC 3339"),
    ({"at": 5}, "$.at: expected timestamp in RFC 3339, found 5"),
    ({"took": 5}, "$.took: expected duration in seconds"),
    ({"any": {"a": 2**53 + 1}}, "$.any.a: expected double that holds it"),
    ({"wrapped": "x"}, "$.wrapped: expected int64, found 'x'"),
    ([], "$: expected message a.All, found []"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_would_be_changed_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(UnserializableValue) as caught:
        serializer("a.All").serialize(value)
    assert str(caught.value).startswith(f"protobuf: {reason}"), str(caught.value)
    assert "\n" not in str(caught.value)


# The places among the siblings, the length before them, each as zigzag; the first message is one byte.
INDEXES = [
    ("a.Other", b"\0"), ("a.All", b"\2\2"), ("a.All.Inner", b"\4\2\0"), ("a.All.Inner.Deep", b"\6\2\0\0"),
    ("a.All.Inner.Later", b"\6\2\0\2"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "indexes"), INDEXES)
def test_the_message_is_named_by_its_indexes(message: str, indexes: bytes) -> None:
    made = serializer(message)
    assert made.serialize({}) == b"\0\0\0\0\x4d" + indexes
    assert made.identity == f"protobuf 000000004d {indexes.hex()}"


def test_bytes_come_back_as_the_document() -> None:
    made = serializer("a.All.Inner")
    data = made.serialize({"s": "x", "m": {"k": {"x": 7}}})
    assert made.deserialize(data) == {"s": "x", "m": {"k": {"x": 7}}}
    assert made.deserialize(made.serialize({})) == {"s": "", "m": {}}
    with pytest.raises(UnserializableValue, match="begins with 00 00 00 00 4d 04 02 00, found 00 00 00 00 4d 00 08 01"):
        made.deserialize(serializer("a.Other").serialize({"x": 1}))
    with pytest.raises(UnserializableValue, match=r"expected message a\.All\.Inner"):
        made.deserialize(b"\0\0\0\0\x4d\4\2\0\x0a\x05x")


def test_a_required_field_has_to_be_there() -> None:
    made = serializer("R", 'syntax = "proto2"; message R { required int32 i = 1; optional int32 j = 2 [default = 4]; }')
    assert made.serialize({"i": 0}) == b"\0\0\0\0\x4d\0\x08\x00"
    with pytest.raises(UnserializableValue, match=r"^protobuf: \$: .*required.*i"):
        made.serialize({"j": 1})


def test_a_message_is_named_unless_there_is_only_one() -> None:
    text = 'syntax = "proto3"; message One { int32 i = 1; message In {} }'
    one = compile_codec(WriterSchema(1, SchemaLanguage.PROTOBUF, text))
    assert one.prefix + one.write({"i": 5}) == b"\0\x08\x05"
    with pytest.raises(ConfigurationError, match=r"not one message, but a\.Other, a\.All, .*; name one with"):
        compile_codec(WriterSchema(1, SchemaLanguage.PROTOBUF, PROTO))
    with pytest.raises(ConfigurationError, match=r"has no message One\.Out; it has One, One\.In$"):
        compile_codec(WriterSchema(1, SchemaLanguage.PROTOBUF, text), "One.Out")
    with pytest.raises(ConfigurationError, match=r"protoc refuses the schema: .*; correct it$"):
        compile_codec(WriterSchema(1, SchemaLanguage.PROTOBUF, "message {"))


def test_a_schema_imports_another_one() -> None:
    other = SchemaReference("b/other.proto", "s", 1, 'syntax = "proto3"; package b; message Other { int32 x = 1; }')
    text = 'syntax = "proto3"; import "b/other.proto"; message M { b.Other o = 1; }'
    assert serializer("M", text, other).serialize({"o": {"x": 1}}) == b"\0\0\0\0\x4d\0\x0a\x02\x08\x01"


_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "i": st.integers(-(2**31), 2**31 - 1), "l": st.integers(-(2**63), 2**63 - 1), "u": st.integers(0, 2**32 - 1),
        "v": st.integers(0, 2**64 - 1), "z": st.integers(-(2**63), 2**63 - 1), "f": st.floats(width=32),
        "d": st.floats(), "b": st.booleans(), "s": st.text(), "y": st.binary(), "maybe": st.integers(-5, 5),
        "many": st.lists(st.integers(-(2**31), 2**31 - 1)),
    },
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)
@given(value=_VALUES)
def test_random_values_are_read_by_googles_parser(oracle: Any, value: dict[str, Any]) -> None:
    made = read(oracle, serializer("a.All").serialize(value))
    for name, given_ in value.items():
        found = getattr(made, name)
        assert repr([*found] if name == "many" else found) == repr(given_)
