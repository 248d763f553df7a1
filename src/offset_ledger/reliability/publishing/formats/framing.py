"""Serializers of one schema: Confluent's wire format around what the schema describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from offset_ledger.decoding.frame import SIZE
from offset_ledger.errors import UnserializableValue
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats.exact import TEXT, Cell, Misfit, row_reader, typed_cell
from offset_ledger.reliability.publishing.forms import EVENT_ID, PUBLISH_AT
from offset_ledger.reliability.publishing.serializers import SchemaSerializer


class Unreadable(Exception):
    """What is wrong with the bytes of a value, behind their frame."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One schema compiled: ``write`` raises Misfit, ``read`` raises Unreadable.

    ``prefix`` stands between the schema id and what is written. ``cells`` are the members of its documents as the
    fields of a CSV row, ``cell`` a document that is a single value.
    """

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    prefix: bytes = b""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    cell: Cell = TEXT


def framed(name: str, schema: WriterSchema, codec: Codec) -> SchemaSerializer:
    """The serializer of a schema that has an id."""
    frame = b"\0" + schema.schema_id.to_bytes(4) + codec.prefix

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

    return SchemaSerializer(
        name,
        f"a value of schema {schema.schema_id}",
        write,
        read,
        lambda text: typed_cell(text, codec.cell),
        identity=f"{name} {frame[:SIZE].hex()} {codec.prefix.hex()}",
        stamps=frozenset(_stamps(codec.cells)),
        row=row_reader(codec.cells),
    )


def _stamps(cells: Mapping[str, Cell]) -> Iterator[str]:
    """The members that take the kit's own event ids, which are texts, and moments, which are of RFC 3339."""
    if EVENT_ID in cells and cells[EVENT_ID].string:
        yield EVENT_ID
    if PUBLISH_AT in cells and (cells[PUBLISH_AT].string or cells[PUBLISH_AT].moment):
        yield PUBLISH_AT
