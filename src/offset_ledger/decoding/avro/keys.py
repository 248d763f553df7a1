"""Keys in Avro that name an event."""

from __future__ import annotations

from collections.abc import Callable

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.nodes import Scalar, shown
from offset_ledger.decoding.avro.scalars import read_scalar
from offset_ledger.decoding.avro.schema import parse
from offset_ledger.decoding.kinds import EVENT_ID
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.typed.convert import converter
from offset_ledger.decoding.typed.decoder import Found
from offset_ledger.decoding.typed.types import TypeName
from offset_ledger.model.writer_schema import WriterSchema

_NAMES_AN_EVENT = (TypeName.TEXT, TypeName.INTEGER, TypeName.UUID)


def key_text(schema: WriterSchema) -> Callable[[bytes], str]:
    """How a key of that schema becomes an event id; what it gives raises :class:`Mismatch`.

    Raises:
        SchemaProblem: the schema is not valid, or not of a single value that can name an event.
    """
    type_ = parse(schema)
    if not isinstance(type_, Scalar) or type_.value.name not in _NAMES_AN_EVENT:
        raise SchemaProblem(f"expected an Avro string, int, long, uuid or enum as a key, got {shown(type_)}")
    read, convert = read_scalar(type_), converter(type_.value, EVENT_ID)

    def text(key: bytes) -> str:
        cursor = Cursor(key, Found([]))
        try:
            value = read(cursor)
            cursor.finish()
        except Malformed as malformed:
            raise Mismatch(malformed.code, malformed.detail) from None
        return str(convert(value))

    return text
