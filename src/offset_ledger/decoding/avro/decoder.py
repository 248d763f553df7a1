"""The decoder of Avro records, for one writer's schema."""

from __future__ import annotations

from functools import partial

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding.avro.fields import has_path
from offset_ledger.decoding.avro.nodes import AvroType, Record, full_name, shown
from offset_ledger.decoding.avro.reader import AvroReader
from offset_ledger.decoding.avro.schema import record_or_union
from offset_ledger.decoding.avro.unions import branch_at
from offset_ledger.decoding.heads import HeadedDecoder, OtherKind
from offset_ledger.decoding.outcome import Code, Decoder, Mismatch
from offset_ledger.decoding.typed.decoder import TypedDecoder
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
