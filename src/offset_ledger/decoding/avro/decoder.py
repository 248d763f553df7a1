"""The decoder of Avro records, for one writer's schema, and keys in Avro that name an event."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.fields import has_path
from offset_ledger.decoding.avro.reader import AvroReader, branch_at
from offset_ledger.decoding.avro.schema import AvroType, Record, Scalar, full_name, parse, record_or_union, shown
from offset_ledger.decoding.avro.values import read_scalar
from offset_ledger.decoding.heads import HeadedDecoder, OtherKind
from offset_ledger.decoding.kinds import EVENT_ID
from offset_ledger.decoding.outcome import Code, Decoder, Mismatch
from offset_ledger.decoding.typed.convert import converter
from offset_ledger.decoding.typed.decoder import Found, TypedDecoder
from offset_ledger.decoding.typed.types import SchemaProblem, TypeName
from offset_ledger.model.writer_schema import WriterSchema


def avro_decoder(schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    """The decoder of the records that a schema wrote.

    Of a union each branch is read by itself, and one that is none of ``record.schemas`` is skipped.

    Raises:
        SchemaProblem: the schema is not valid, or neither a record nor a union with one.
    """
    written = record_or_union(schema)
    if isinstance(written, Record):
        return _of_record(written, record, limits)
    union, branches = written, [_of_branch(branch, record, limits) for branch in written.branches]

    def head(payload: bytes) -> tuple[Decoder, int]:
        index, at = branch_at(union, payload)
        branch = branches[index]
        if isinstance(branch, str):
            raise Mismatch(Code.TYPE, f"expected a record, got {branch}")
        return branch, at

    return HeadedDecoder(record, limits, head)


def _of_branch(branch: AvroType, record: RecordShape, limits: Limits) -> Decoder | str:
    """The decoder of a branch, or what it is instead of a record."""
    if record.schemas and full_name(branch) not in record.schemas:
        return OtherKind(record)
    if isinstance(branch, Record):
        return _of_record(branch, record, limits)
    return shown(branch)


def _of_record(written: Record, record: RecordShape, limits: Limits) -> Decoder:
    return TypedDecoder(record, limits, lambda root_of: AvroReader(written, root_of(partial(has_path, written))))


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
