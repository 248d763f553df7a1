"""The codec of a Protobuf schema: Google's runtime writes and reads; what it would change is refused before.

Protobuf's own JSON mapping is laxer: it reads 5.0 and true as numbers, rounds to a double, and makes null a 0.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats import exact
from offset_ledger.reliability.publishing.formats.avro import long
from offset_ledger.reliability.publishing.formats.exact import Cell, Misfit, refuse
from offset_ledger.reliability.publishing.formats.framing import Codec, Unreadable

_TEXTS = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM, FieldDescriptor.CPPTYPE_MESSAGE)
_TIMESTAMP = "google.protobuf.Timestamp"


def protobuf_codec(schema: WriterSchema, message: str | None) -> Codec:
    """Compile it, for the message of that full name, or the only one.

    Raises:
        ConfigurationError: it is no schema of Protobuf, or the message is not in it.
    """
    try:
        file = compile_schema(schema).file
    except SchemaProblem as problem:
        raise ConfigurationError(f"{problem}; correct it") from None
    descriptor = _named(file.message_types_by_name.values(), message)
    cells = {each.name: _cell(each) for each in descriptor.fields}
    return Codec(_writer(descriptor), _reader(descriptor), _indexes(descriptor), cells)


def message_name(schema: WriterSchema, message: str | None) -> str:
    """The full name of the message that :func:`protobuf_codec` compiles."""
    return str(_named(compile_schema(schema).file.message_types_by_name.values(), message).full_name)


def _named(top: Any, name: str | None) -> Descriptor:
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
        if not each.GetOptions().map_entry:
            yield each
            yield from _messages(each.nested_types)


def _indexes(message: Descriptor) -> bytes:
    """Confluent's message indexes: the place among its siblings of each message around it, and of itself."""
    places = [*_places(message)]
    return b"\0" if places == [0] else long(len(places)) + b"".join(map(long, places))


def _places(message: Descriptor) -> Iterator[int]:
    outer = message.containing_type
    if outer:
        yield from _places(outer)
    siblings = outer.nested_types if outer else message.file.message_types_by_name.values()
    yield [each.full_name for each in siblings if not each.GetOptions().map_entry].index(message.full_name)


def _writer(descriptor: Descriptor) -> Any:
    message, pool = GetMessageClass(descriptor), descriptor.file.pool

    def write(value: Any) -> bytes:
        document = message_value(descriptor, value)
        try:
            made = ParseDict(document, message(), descriptor_pool=pool)
            return bytes(made.SerializeToString(deterministic=True))
        except (ParseError, EncodeError, ValueError, TypeError) as error:
            raise Misfit(one_line(error)) from None

    return write


def _reader(descriptor: Descriptor) -> Any:
    message, pool = GetMessageClass(descriptor), descriptor.file.pool

    def read(data: bytes) -> Any:
        try:
            made = message.FromString(data)
        except DecodeError as error:
            raise Unreadable(f"expected message {descriptor.full_name} ({one_line(error)})") from None
        return MessageToDict(
            made, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool
        )

    return read


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
    """A message's document.

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
        _at(name, _add_member, made, message, name, each)
    return made


def _at(step: str | int, read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except Misfit as misfit:
        misfit.steps.append(step)
        raise


@lru_cache(256)
def _fields(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Each field by the name of the schema and by that of JSON, which counts where it is the name of another field."""
    by_name = {each.name: each for each in message.fields}
    return by_name | {each.json_name: each for each in message.fields}


def _add_member(made: dict[str, Any], message: Descriptor, name: str, value: Any) -> None:
    field = _fields(message).get(name)
    if field is None:
        raise Misfit(f"expected a field of {message.full_name}, found none of this name")
    if field.json_name in made:
        raise Misfit(f"expected field {field.name} once, found it under both of its names")
    made[field.json_name] = _member(field, value)


def _member(field: FieldDescriptor, value: Any) -> Any:
    if value is None and not _takes_null(field):
        raise Misfit(f"expected {_shown(field)}, found null, which would be read as its default")
    if value is None:
        return None
    if _is_map(field):
        return _map(field, value)
    if not field.is_repeated:
        return _single(field, value)
    if not isinstance(value, list | tuple):
        refuse("array", value)
    return [_at(index, _single, field, each) for index, each in enumerate(value)]


def _takes_null(field: FieldDescriptor) -> bool:
    """Whether null is the same as no value, or a value."""
    return bool(field.has_presence) and not field.is_repeated


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _shown(field: FieldDescriptor) -> str:
    return "array" if field.is_repeated else _NAMES[field.type]


def _map(field: FieldDescriptor, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        refuse("map", value)
    assert field.message_type is not None
    key, of = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    return {_key(key, name): _at(str(name), _single, of, each) for name, each in value.items()}


def _key(field: FieldDescriptor, name: Any) -> str:
    """As a name of JSON; two spellings of a number would be one key."""
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
        return exact.text(value, name).decode()
    if field.type == FieldDescriptor.TYPE_BOOL:
        return exact.boolean(value)
    return _float(value, name, field.type == FieldDescriptor.TYPE_FLOAT)


def _float(value: Any, name: str, single: bool = False) -> Any:
    if isinstance(value, str):
        if value in _NO_NUMBERS:
            return value
        value = Decimal(value) if _NUMBER.fullmatch(value) else value
    if type(value) is float and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return exact.floating(value, name, single)


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
    """A part of a Struct, whose numbers are doubles."""
    if isinstance(value, Mapping):
        return {name: _at(name, _json, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_at(index, _json, each) for index, each in enumerate(value)]
    if isinstance(value, str):
        return exact.text(value, "string").decode()
    return value if value is None or type(value) is bool else exact.floating(value, "double")


def _whole(value: Any) -> Any:
    """A part of an Any: its numbers stay whole where they are."""
    if isinstance(value, Mapping):
        return {name: _at(name, _whole, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_at(index, _whole, each) for index, each in enumerate(value)]
    return exact.floating(value, "double") if isinstance(value, Decimal) else value


_WELL_KNOWN: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": lambda value: exact.text(value, "field mask").decode(),
    "google.protobuf.Struct": _json,
    "google.protobuf.Value": _json,
    "google.protobuf.ListValue": _json,
    "google.protobuf.Any": _whole,
}
