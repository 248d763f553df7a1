"""The decoder of Avro records, for one writer's schema."""

from __future__ import annotations

from functools import partial

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding.avro.fields import has_path
from offset_ledger.decoding.avro.reader import AvroReader
from offset_ledger.decoding.avro.schema import record_schema
from offset_ledger.decoding.outcome import Decoder
from offset_ledger.decoding.typed.decoder import TypedDecoder
from offset_ledger.model.writer_schema import WriterSchema


def avro_decoder(schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    """The decoder of the records that a schema wrote.

    Raises:
        SchemaProblem: the schema is not valid, or no record.
    """
    written = record_schema(schema)
    return TypedDecoder(record, limits, lambda root_of: AvroReader(written, root_of(partial(has_path, written))))
