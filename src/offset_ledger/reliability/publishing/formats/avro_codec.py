"""The codec of an Avro schema: documents to bytes by this package, and back by fastavro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader

from offset_ledger.errors import error_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats.avro import AvroType, avro_writer, parse_avro
from offset_ledger.reliability.publishing.formats.cells import Cell
from offset_ledger.reliability.publishing.formats.framing import Codec, Unreadable

_TEXTS = {"string", "bytes", "enum", "fixed"}


def avro_codec(schema: WriterSchema) -> Codec:
    """Compile it.

    Raises:
        ConfigurationError: it is no schema of Avro.
    """
    type_ = parse_avro(schema)
    record = type_.record
    fields = record["fields"] if record else ()
    cells = {each["name"]: _cell(type_, each["type"]) for each in fields}
    return Codec(avro_writer(type_), _reader(type_), cells=cells, cell=_cell(type_, type_.root))


def _reader(type_: AvroType) -> Any:
    def read(data: bytes) -> Any:
        file = BytesIO(data)
        try:
            value = schemaless_reader(file, type_.root, None)
        except Exception as error:  # noqa: BLE001 - EOFError, IndexError and others, by what is wrong with the bytes
            raise Unreadable(f"expected a value of the schema ({error_line(error)})") from None
        if left := len(data) - file.tell():
            raise Unreadable(f"expected a value of the schema, found {left} bytes after it")
        return value

    return read


def _cell(type_: AvroType, said: Any) -> Cell:
    branches = [*_branches(type_.named, said)]
    kinds = {each["type"] for each in branches}
    logical = {str(each.get("logicalType")) for each in branches}
    return Cell(
        text=any(each["type"] in _TEXTS and each.get("logicalType") != "decimal" for each in branches),
        null="null" in kinds,
        string="string" in kinds,
        moment="long" in kinds and any(name.startswith("timestamp-") for name in logical),
    )


def _branches(named: Mapping[str, Any], said: Any) -> Iterator[Mapping[str, Any]]:
    """The type, or those of a union, each as a mapping."""
    if isinstance(said, list):
        for each in said:
            yield from _branches(named, each)
    elif isinstance(said, str):
        yield named.get(said) or {"type": said}
    elif isinstance(said["type"], str):
        yield named.get(said["type"], said)
    else:
        yield from _branches(named, said["type"])
