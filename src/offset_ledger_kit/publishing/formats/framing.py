"""Serializers of one schema: Confluent's wire format around what the schema describes, or a header beside it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from offset_ledger.decoding.wire_format import SIZE, frame_of, header_of
from offset_ledger.errors import ConfigurationError, UnserializableValue
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger_kit.publishing.formats.exact import Misfit
from offset_ledger_kit.publishing.forms import EVENT_ID, PUBLISH_AT
from offset_ledger_kit.publishing.serializers import SchemaSerializer

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Unreadable(Exception):
    """The bytes of a value, behind their frame, are not of the schema."""


class Cell(NamedTuple):
    """A field beside numbers and booleans: it may hold a text as it is, null, and a text or a moment of the kit's."""

    text: bool = True
    null: bool = False
    string: bool = False
    moment: bool = False

    def value(self, text: str) -> Any:
        """Return a text where texts may stand; else null of nothing, and a number or a boolean as JSON writes them."""
        if self.text:
            return text
        if not text and self.null:
            return None
        if text in ("true", "false"):
            return text == "true"
        match = _NUMBER.fullmatch(text)
        if match is None or len(text) > 4_000:
            return text
        return Decimal(text) if match[1] or match[2] else int(text)


class Codec(ABC):
    """One schema, which writes and reads documents.

    ``message`` is the full name of a message of Protobuf; ``prefix`` stands between the schema id and what is written.
    ``cells`` are the members of its documents as the fields of a CSV row, ``cell`` a document that is a single value.
    """

    message: str | None = None
    prefix: bytes = b""
    cells: Mapping[str, Cell] = {}
    cell: Cell = Cell()

    @abstractmethod
    def write(self, value: Any) -> bytes:
        """Return the bytes of a document.

        Raises:
            Misfit: a part of it is not what the schema says.
        """

    @abstractmethod
    def read(self, data: bytes) -> Any:
        """Return the document of bytes.

        Raises:
            Unreadable: they are of no document of the schema.
        """


def framed(name: str, schema: WriterSchema, codec: Codec, header: str | None = None) -> SchemaSerializer:
    """The serializer of a schema that has an id; a ``header`` of that name has the GUID instead of a frame.

    Raises:
        ConfigurationError: the registry has given no GUID.
    """
    frame, named = frame_of(schema.schema_id, codec.prefix), None
    if header:
        if schema.guid is None:
            raise ConfigurationError(
                f"the registry gives schema {schema.schema_id} no GUID for a header, as Confluent's does from 8.0 on; "
                "write --schema-id prefix, and --key-schema-id prefix"
            )
        frame, named = b"", (header, header_of(schema.guid, codec.prefix))

    def write(value: Any) -> bytes:
        try:
            return frame + codec.write(value)
        except Misfit as misfit:
            raise UnserializableValue(f"{name}: {misfit}") from None
        except RecursionError:
            raise UnserializableValue(f"{name}: it is nested too deeply") from None

    def read(data: bytes) -> Any:
        if not data.startswith(frame):
            expected, actual = frame.hex(" "), data[: len(frame)].hex(" ")
            raise UnserializableValue(
                f"{name}: expected a value that begins with {expected}, found {actual or 'nothing'}"
            )
        try:
            return codec.read(data[len(frame) :])
        except Unreadable as unreadable:
            raise UnserializableValue(f"{name}: {unreadable}") from None

    # The members that take the kit's own event ids, which are texts, and moments, which are of RFC 3339.
    id_cell, at_cell = codec.cells.get(EVENT_ID), codec.cells.get(PUBLISH_AT)
    stamps = [EVENT_ID] if id_cell and id_cell.string else []
    stamps += [PUBLISH_AT] if at_cell and (at_cell.string or at_cell.moment) else []
    return SchemaSerializer(
        name,
        f"a value of schema {schema.schema_id}",
        write,
        read,
        codec.cell.value,
        identity=f"{name} {(named[1] if named else frame[:SIZE]).hex()} {codec.prefix.hex()}",
        stamps=frozenset(stamps),
        row=lambda row: {name: codec.cells.get(name, Cell()).value(text) for name, text in row.items()},
        header=named,
    )
