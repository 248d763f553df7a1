"""A batch of Kafka records -> the rows and the refusals to stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.kafka_columns import KafkaColumns, kafka_fields, take, timestamp_of
from offset_ledger.decoding.kinds import ColumnKind, event_ids, kinds, moments, staged_type
from offset_ledger.decoding.outcome import (
    WHOLE,
    Code,
    DecodedRow,
    Decoder,
    Places,
    Proven,
    Reason,
    Refusal,
    Skip,
    printable,
)
from offset_ledger.decoding.texts import uuid_texts

_VALUE = ("_value", pa.binary())
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The rows and refusals of one batch; both tables have the columns of their staging table, in Kafka's order."""

    rows: pa.Table
    refusals: pa.Table
    skipped: int


@dataclass(slots=True)
class _Decoded:
    """The outcomes that the decoder gave record by record, with their places."""

    row_places: list[int] = field(default_factory=list)
    rows: list[DecodedRow] = field(default_factory=list)
    refused_places: list[int] = field(default_factory=list)
    reasons: list[tuple[Reason, ...]] = field(default_factory=list)
    skipped: int = 0


def staging_schema(record: RecordShape) -> pa.Schema:
    """Return the columns of the staged rows, of types that hold every value exactly."""
    names = ["event_id", "publish_at", *(column.name for column in record.columns)]
    declared = [(name, staged_type(kind)) for name, kind in zip(names, kinds(record), strict=True)]
    return pa.schema([*declared, *kafka_fields(record), ("_deleted", pa.bool_()), _VALUE])


def refusal_schema(record: RecordShape) -> pa.Schema:
    """The columns of the refusals."""
    return pa.schema([*kafka_fields(record), _VALUE, ("reasons", pa.string())])


def decode_batch(decoder: Decoder, batch: pa.RecordBatch) -> DecodedColumns:
    """Decode a batch with the columns key, value, partition, offset, timestamp and headers."""
    kafka = KafkaColumns(batch)
    if decoder.keys and decoder.record.event_id is None:
        kafka.read_keys(decoder.keys)
    if decoder.record.schema_ids:
        kafka.read_schema_ids(batch.column("headers"))
    proven = _with_kafka_slots(decoder.prove(kafka.values), kafka)
    if kafka.against:
        proven = proven.kept(~np.isin(proven.places, list(kafka.against)))
    rest = np.ones(batch.num_rows, np.bool_)
    rest[proven.places] = False
    rest[proven.skipped] = False
    decoded = _decode(decoder, kafka, np.flatnonzero(rest))
    rows = _rows(decoder.record, kafka, proven, decoded)
    skipped = decoded.skipped + len(proven.skipped)
    return DecodedColumns(rows, _refusals(decoder.record, kafka, decoded), skipped)


def with_too_large(refusals: pa.Table, refused: Iterable[tuple[pa.Table, str]]) -> pa.Table:
    """Return the refusals, and each row that Postgres cannot hold, with what it says of that."""
    parts = [refusals]
    for row, message in refused:
        reason = Reason(WHOLE, Code.TOO_LARGE, f"expected a row that Postgres can hold, got: {printable(message, 200)}")
        text = pa.array([_encode([reason]).decode()], pa.string())
        parts.append(row.select(refusals.column_names[:-1]).append_column("reasons", text))
    return pa.concat_tables(parts).combine_chunks()  # pyarrow writes no CSV of a table whose first chunk is empty


def with_texts(rows: pa.Table) -> pa.Table:
    """Return rows with decimals, floats and UUIDs as texts, which lose no digit in JSON and are read by people."""
    columns = []
    for column in rows.columns:
        if pa.types.is_decimal(column.type):
            texts = [None if value is None else f"{value:f}" for value in column.to_pylist()]
            column = pa.chunked_array([texts], pa.string())
        elif pa.types.is_fixed_size_binary(column.type):
            column = pa.chunked_array([uuid_texts(chunk) for chunk in column.chunks], pa.string())
        columns.append(column.cast(pa.string()) if pa.types.is_floating(column.type) else column)
    return pa.Table.from_arrays(columns, names=rows.column_names)


def _with_kafka_slots(proven: Proven | None, kafka: KafkaColumns) -> Proven:
    """Put the key and the timestamp where the record's own event_id and publish_at are not wanted."""
    if proven is None or not proven.columns:
        return proven or Proven()
    places, (event_id, publish_at, *values) = proven.places, proven.columns
    flags = np.ones(len(places), np.bool_)
    if event_id is None:
        event_id, flags = _key_texts(take(kafka.event_keys, places))
    if publish_at is None:
        publish_at = take(kafka.timestamps, places)
        in_range = moments(publish_at)
        flags = flags & publish_at.is_valid().to_numpy(zero_copy_only=False)
        flags = flags if in_range is None else flags & in_range
    return Proven(places, [event_id, publish_at, *values], proven.skipped).kept(flags)


def _key_texts(keys: pa.BinaryArray) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    flags = keys.is_valid().to_numpy(zero_copy_only=False)
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.nulls(len(keys), pa.string()), np.zeros(len(keys), np.bool_)
    fits = event_ids(texts)
    return texts, flags if fits is None else flags & fits


def _decode(decoder: Decoder, kafka: KafkaColumns, places: Places) -> _Decoded:
    """Ask the decoder itself about the records that nothing was proven of."""
    decoded = _Decoded()
    values, keys = take(kafka.values, places).to_pylist(), take(kafka.event_keys, places).to_pylist()
    moments = take(kafka.timestamps, places).cast(pa.int64()).to_pylist()
    for place, value, key, moment in zip(places.tolist(), values, keys, moments, strict=True):
        timestamp = kafka.unheld.get(place) or timestamp_of(moment)
        outcome = decoder.decode(value, kafka.wrong_keys.get(place, key), timestamp)
        if (reasons := kafka.against.get(place)) and not isinstance(outcome, Skip):
            of_decoder = outcome.reasons if isinstance(outcome, Refusal) else ()
            outcome = Refusal(tuple(dict.fromkeys((*of_decoder, *reasons))))
        if isinstance(outcome, DecodedRow):
            decoded.row_places.append(place)
            decoded.rows.append(outcome)
        elif isinstance(outcome, Refusal):
            decoded.refused_places.append(place)
            decoded.reasons.append(outcome.reasons)
        else:
            decoded.skipped += 1
    return decoded


def _rows(record: RecordShape, kafka: KafkaColumns, proven: Proven, decoded: _Decoded) -> pa.Table:
    schema = staging_schema(record)
    parts = []
    if len(proven.places):
        not_deleted = pa.repeat(False, len(proven.places))
        parts.append(_table(schema, list(proven.columns), kafka, proven.places, not_deleted))
    if decoded.rows:
        columns = zip(*((row.event_id, row.publish_at, *row.values) for row in decoded.rows), strict=True)
        slots = [staged(kind, column) for kind, column in zip(kinds(record), columns, strict=True)]
        deleted = pa.array([row.deleted for row in decoded.rows])
        parts.append(_table(schema, slots, kafka, np.array(decoded.row_places), deleted))
    table = pa.concat_tables(parts) if parts else schema.empty_table()
    if len(parts) < 2:
        return table
    order = np.argsort(np.concatenate([proven.places, decoded.row_places]), kind="stable")
    return table.take(pa.array(order))


def _table(schema: pa.Schema, slots: list[Any], kafka: KafkaColumns, places: Places, deleted: pa.Array) -> pa.Table:
    columns = [*slots, *kafka.at(places), deleted, take(kafka.values, places)]
    return pa.Table.from_arrays(columns, schema=schema)


def _refusals(record: RecordShape, kafka: KafkaColumns, decoded: _Decoded) -> pa.Table:
    places = np.array(decoded.refused_places, np.int64)
    reasons = pa.array([_encode(reasons).decode() for reasons in decoded.reasons], pa.string())
    columns = [*kafka.at(places), take(kafka.values, places), reasons]
    return pa.Table.from_arrays(columns, schema=refusal_schema(record))


def staged(kind: ColumnKind, values: Sequence[Any]) -> pa.Array:
    """The decoder's Python values as a column of the staged type."""
    type_ = staged_type(kind)
    if kind.name == "uuid":
        values = [None if value is None else value.bytes for value in values]
    elif kind.name == "numeric" and pa.types.is_string(type_):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, type_)
