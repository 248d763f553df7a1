"""Typed values as bytes and back, in the forms of Kafka's own serializers.

Numbers are big-endian, doubles IEEE 754, text and JSON UTF-8: what ``org.apache.kafka.common.serialization`` writes and
reads. None stays None. Nothing is rounded, cut or guessed: a value that does not fit is refused.
"""

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from offset_ledger.errors import UnserializableValue


@dataclass(frozen=True, slots=True)
class Serializer:
    """One form, by the name that the command line takes.

    ``serialize`` and ``deserialize`` raise :class:`UnserializableValue`; ``parse`` reads a value from text, bytes from
    base64, and raises ValueError.
    """

    name: str
    expects: str
    _write: Callable[[Any], bytes]
    _read: Callable[[bytes], Any]
    parse: Callable[[str], Any]

    def serialize(self, value: Any) -> bytes | None:
        """The bytes of a value."""
        if value is None:
            return None
        try:
            return self._write(value)
        except (TypeError, ValueError, OverflowError, AttributeError, struct.error):
            raise UnserializableValue(f"{self.name} takes {self.expects}, found {_shown(value)}") from None

    def deserialize(self, data: bytes | None) -> Any:
        """The value of bytes."""
        if data is None:
            return None
        try:
            return self._read(data)
        except (ValueError, struct.error):
            raise UnserializableValue(f"{self.name} is {self.expects}, found the bytes {_shown(data)}") from None


@dataclass(frozen=True, slots=True)
class SchemaSerializer(Serializer):
    """A serializer of documents by a schema of a registry; their numbers may be Decimals.

    ``identity`` names what decides the bytes besides the document. ``stamps``: the members, of event id and publish_at,
    that are added if missing. ``row`` makes a document of the texts of a CSV row. ``header`` names the schema, if no
    frame does.
    """

    identity: str
    stamps: frozenset[str]
    row: Callable[[Mapping[str, str]], Any]
    header: tuple[str, bytes] | None = None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(name: str, layout: str, bits: int) -> Serializer:
    packed = struct.Struct(layout)

    def write(value: Any) -> bytes:
        return packed.pack(_of(value, type(value) is int))

    return Serializer(name, f"a whole number of {bits} bits", write, lambda data: int(packed.unpack(data)[0]), int)


def _of(value: Any, fits: bool) -> Any:
    if not fits:
        raise TypeError
    return value


_DOUBLE = struct.Struct(">d")


def _write_double(value: Any) -> bytes:
    exact = type(value) is float or (type(value) is int and int(float(value)) == value)
    return _DOUBLE.pack(_of(value, exact))


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(f"{name} is no number of JSON")


_encode_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
STRING = Serializer(
    "string", "a text", lambda value: _of(value, isinstance(value, str)).encode(), lambda data: data.decode(), str
)
SHORT = _number("short", ">h", 16)
INTEGER = _number("integer", ">i", 32)
LONG = _number("long", ">q", 64)
DOUBLE = Serializer(
    "double", "a number that 64 bits hold exactly", _write_double, lambda data: float(_DOUBLE.unpack(data)[0]), float
)
BYTES = Serializer(
    "bytes",
    "bytes",
    lambda value: bytes(_of(value, isinstance(value, bytes | bytearray | memoryview))),
    bytes,
    lambda text: base64.b64decode(text, validate=True),
)
JSON = Serializer(
    "json",
    "what JSON can say",
    lambda value: _encode_json(value).encode(),
    lambda data: json.loads(data.decode(), parse_constant=no_constant),
    str,
)

SERIALIZERS: Mapping[str, Serializer] = {
    each.name: each for each in (STRING, SHORT, INTEGER, LONG, DOUBLE, BYTES, JSON)
}
