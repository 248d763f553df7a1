"""The codec of a Protobuf schema: Google's runtime writes and reads; what it would change is refused before.

Protobuf's own JSON mapping is laxer: it reads 5.0 and true as numbers, rounds to a double, and makes null a 0.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.protobuf.schema import compile_schema, is_entry
from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger_kit.publishing.formats import exact
from offset_ledger_kit.publishing.formats.exact import Misfit, at, refuse
from offset_ledger_kit.publishing.formats.framing import Cell, Codec, Unreadable

_TEXTS = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM, FieldDescriptor.CPPTYPE_MESSAGE)
_TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufCodec(Codec):
    """The documents of the message of that full name, or of the only one.

    Raises:
        ConfigurationError: it is no schema of Protobuf, or the message is not in it.
    """

    def __init__(self, schema: WriterSchema, message: str | None) -> None:
        try:
            self._descriptor = _named(schema, message)
        except SchemaProblem as problem:
            raise ConfigurationError(f"{problem}; correct it") from None
        self._class, self._pool = GetMessageClass(self._descriptor), self._descriptor.file.pool
        self.message = str(self._descriptor.full_name)
        self.prefix = _indexes(self._descriptor)
        self.cells = {each.name: _cell(each) for each in self._descriptor.fields}

    def write(self, value: Any) -> bytes:
        """Return the message in bytes; raises Misfit if the value does not fit its fields."""
        document = message_value(self._descriptor, value)
        try:
            made = ParseDict(document, self._class(), descriptor_pool=self._pool)
            return bytes(made.SerializeToString(deterministic=True))
        except (ParseError, EncodeError, ValueError, TypeError) as error:
            raise Misfit(one_line(error)) from None

    def read(self, data: bytes) -> Any:
        """Return the message in the bytes as a document; raises Unreadable if they are none."""
        try:
            made = self._class.FromString(data)
        except DecodeError as error:
            raise Unreadable(f"expected message {self.message} ({one_line(error)})") from None
        options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
        return MessageToDict(made, descriptor_pool=self._pool, **options)


def _named(schema: WriterSchema, name: str | None) -> Descriptor:
    top = compile_schema(schema).file.message_types_by_name.values()
    known = [*_messages(top)]
    candidates = [each for each in known if each.full_name == name] if name else [*top]
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(each.full_name for each in known) or "none"
    if name:
        raise ConfigurationError(f"the schema has no message {name}; it has {names}")
    raise ConfigurationError(f"the schema has not one message, but {names}; name one with --schema-message")


def _messages(top: Any) -> Iterator[Descriptor]:
    for each in top:
        if not is_entry(each):
            yield each
            yield from _messages(each.nested_types)


def _indexes(message: Descriptor) -> bytes:
    """Return Confluent's message indexes: the place among its siblings of each message around it, and of itself."""
    places, inner = list[int](), cast("Descriptor | None", message)
    while inner is not None:
        outer = inner.containing_type
        siblings = outer.nested_types if outer else inner.file.message_types_by_name.values()
        places.insert(0, [each.full_name for each in siblings if not is_entry(each)].index(inner.full_name))
        inner = outer
    written = bytearray()
    for value in [] if places == [0] else [len(places), *places]:
        left = value << 1  # zigzag, of numbers that are not negative, and base 128
        while left > 0x7F:
            written.append(left & 0x7F | 0x80)
            left >>= 7
        written.append(left)
    return bytes(written) or b"\0"


def _cell(field: FieldDescriptor) -> Cell:
    if field.is_repeated:
        return Cell()
    return Cell(
        text=field.cpp_type in _TEXTS,
        null=field.has_presence,
        string=field.type == FieldDescriptor.TYPE_STRING,
        moment=bool(field.message_type and field.message_type.full_name == _TIMESTAMP),
    )


_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_NAMES = {
    getattr(FieldDescriptor, name): name[5:].lower() for name in vars(FieldDescriptor) if name.startswith("TYPE_")
}
_DIGITS = re.compile(r"0|-?[1-9][0-9]{0,19}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
_DURATION = re.compile(r"-?[0-9]+(?:\.[0-9]{1,9})?s")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def message_value(message: Descriptor, value: Any) -> Any:
    """Return a message's document as ParseDict takes it.

    Raises:
        Misfit: a part of it is not what its field holds.
    """
    if message.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[message.full_name](value)
    if message.file.name == "google/protobuf/wrappers.proto":
        return _scalar(message.fields_by_name["value"], value)
    if not isinstance(value, Mapping):
        refuse(f"message {message.full_name}", value)
    made: dict[str, Any] = {}
    for name, each in value.items():
        at(name, _add_member, made, message, name, each)
    return made


@lru_cache(256)
def _fields(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return each field by the name of the schema and by that of JSON, which counts where it names another field."""
    return {each.name: each for each in message.fields} | {each.json_name: each for each in message.fields}


def _add_member(made: dict[str, Any], message: Descriptor, name: str, value: Any) -> None:
    field = _fields(message).get(name)
    if field is None:
        raise Misfit(f"expected a field of {message.full_name}, found none of this name")
    if field.json_name in made:
        raise Misfit(f"expected field {field.name} once, found it under both of its names")
    made[field.json_name] = _member(field, value)


def _member(field: FieldDescriptor, value: Any) -> Any:
    if value is None:
        if not field.is_repeated and field.has_presence:
            return None  # the same as no value, or a value
        wanted = "array" if field.is_repeated else _NAMES[field.type]
        raise Misfit(f"expected {wanted}, found null, which would be read as its default")
    if field.message_type and is_entry(field.message_type):
        key, of = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        entries = exact.members(value, "map", lambda each: _single(of, each))
        return {_key(key, name): each for name, each in entries.items()}
    if field.is_repeated:
        return exact.items(value, lambda each: _single(field, each))
    return _single(field, value)


def _key(field: FieldDescriptor, name: Any) -> str:
    """Return it as a name of JSON; two spellings of a number would be one key."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        text = str(name).lower() if type(name) is bool else name
        return str(text) if text in ("true", "false") else refuse("true or false as the key of a map", name)
    return str(_scalar(field, name))


def _single(field: FieldDescriptor, value: Any) -> Any:
    return message_value(field.message_type, value) if field.message_type else _scalar(field, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    name = _NAMES[field.type]
    if field.cpp_type in _INTEGERS:
        whole = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
        return exact.integer(whole, name, *_INTEGERS[field.cpp_type])
    if field.enum_type:
        return _symbol(field.enum_type, value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(exact.binary(value, name)).decode()
    if field.type == FieldDescriptor.TYPE_STRING:
        return exact.text(value, name)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return exact.boolean(value)
    if isinstance(value, str):
        if value in _NO_NUMBERS:
            return value
        value = Decimal(value) if _NUMBER.fullmatch(value) else value
    if type(value) is float and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return exact.floating(value, name, field.type == FieldDescriptor.TYPE_FLOAT)


def _symbol(enum: EnumDescriptor, value: Any) -> Any:
    if enum.full_name == "google.protobuf.NullValue" and value is None:
        return None
    if isinstance(value, str) and value in enum.values_by_name:
        return value
    if type(value) is int and (value in enum.values_by_number or not enum.is_closed):
        return exact.integer(value, f"enum {enum.full_name}", *_INTEGERS[FieldDescriptor.CPPTYPE_INT32])
    return refuse(f"a symbol of enum {enum.full_name}", value)


def _timestamp(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    return exact.rfc3339(value)


def _duration(value: Any) -> str:
    matches = isinstance(value, str) and _DURATION.fullmatch(value)
    return str(value) if matches else refuse('duration in seconds, such as "1.5s"', value)


def _json(value: Any) -> Any:
    """Return a part of a Struct, whose numbers are doubles."""
    if isinstance(value, Mapping):
        return exact.members(value, "object", _json)
    if isinstance(value, list | tuple):
        return exact.items(value, _json)
    if isinstance(value, str):
        return exact.text(value, "string")
    return value if value is None or type(value) is bool else exact.floating(value, "double")


def _whole(value: Any) -> Any:
    """Return a part of an Any: its numbers stay whole where they are."""
    if isinstance(value, Mapping):
        return exact.members(value, "object", _whole)
    if isinstance(value, list | tuple):
        return exact.items(value, _whole)
    return exact.floating(value, "double") if isinstance(value, Decimal) else value


_WELL_KNOWN: Mapping[str, Callable[[Any], Any]] = {
    _TIMESTAMP: _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": lambda value: exact.text(value, "field mask"),
    "google.protobuf.Struct": _json,
    "google.protobuf.Value": _json,
    "google.protobuf.ListValue": _json,
    "google.protobuf.Any": _whole,
}
