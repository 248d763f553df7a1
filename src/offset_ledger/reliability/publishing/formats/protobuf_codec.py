"""The codec of a Protobuf schema: Google's runtime writes and reads; what it would change is refused before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats.avro_scalars import long
from offset_ledger.reliability.publishing.formats.cells import Cell
from offset_ledger.reliability.publishing.formats.framing import Codec, Unreadable
from offset_ledger.reliability.publishing.formats.misfit import Misfit
from offset_ledger.reliability.publishing.formats.protobuf_values import message_value

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
