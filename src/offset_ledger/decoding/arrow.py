"""A batch of Kafka records as Spark gives them -> the rows and the refusals to stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.floats import single_text
from offset_ledger.decoding.frame import NO_SCHEMA, schema_ids
from offset_ledger.decoding.headers import headers_json, schemas_in_headers, wrong_names
from offset_ledger.decoding.kinds import EPOCH, ColumnKind, kinds
from offset_ledger.decoding.outcome import (
    FAR_TIMESTAMP,
    NO_TIMESTAMP,
    DecodedRow,
    Decoder,
    Keys,
    Proven,
    Reason,
    Refusal,
    Skip,
)
from offset_ledger.decoding.staged import MOMENT, event_ids, moments, staged_type

Places = npt.NDArray[np.int64]

_KAFKA = [
    ("_partition", pa.int32()),
    ("_offset", pa.int64()),
    ("_timestamp", MOMENT),
    ("_key", pa.binary()),
    ("_headers", pa.string()),
]
_VALUE = ("_value", pa.binary())
_NONE = pa.scalar(-1000, pa.int64()).cast(MOMENT)  # Kafka's -1 ms, which says that there is no timestamp
_AS_TEXT: dict[str, Callable[[Any], str]] = {
    "numeric": str,
    "real": single_text,
    "double precision": repr,
    "uuid": str,
}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """What one batch becomes; both tables have the columns of their staging table, in Kafka's order."""

    rows: pa.Table
    refusals: pa.Table
    skipped: int


@dataclass(slots=True)
class _Decoded:
    """What the decoder proper said, with the places of the records."""

    row_places: list[int] = field(default_factory=list)
    rows: list[DecodedRow] = field(default_factory=list)
    refused_places: list[int] = field(default_factory=list)
    reasons: list[tuple[Reason, ...]] = field(default_factory=list)
    skipped: int = 0


def staging_schema(record: RecordShape) -> pa.Schema:
    """The columns of the staged rows; numbers, UUIDs and jsonb are the text that Postgres reads exactly."""
    names = ["event_id", "publish_at", *(column.name for column in record.columns)]
    declared = [(name, staged_type(kind)) for name, kind in zip(names, kinds(record), strict=True)]
    return pa.schema([*declared, *_of_kafka(record), ("_deleted", pa.bool_()), _VALUE])


def refusal_schema(record: RecordShape) -> pa.Schema:
    """The columns of the refusals."""
    return pa.schema([*_of_kafka(record), _VALUE, ("reasons", pa.string())])


def _of_kafka(record: RecordShape) -> list[tuple[str, pa.DataType]]:
    return [*_KAFKA, ("_schema_id", pa.int64())] if record.schema_ids else _KAFKA


def decode_batch(decoder: Decoder, batch: pa.RecordBatch) -> DecodedColumns:
    """Decode a batch with Spark's columns key, value, partition, offset, timestamp and headers."""
    kafka = _Kafka(batch)
    if decoder.keys and decoder.record.event_id is None:
        kafka.read_keys(decoder.keys)
    if decoder.record.schema_ids:
        kafka.read_schema_ids(batch.column("headers"))
    proven = _sound(_with_kafka_slots(decoder.prove(kafka.values), kafka), kafka)
    rest = np.ones(batch.num_rows, np.bool_)
    rest[proven.places] = False
    decoded = _decode(decoder, kafka, np.flatnonzero(rest))
    rows = _rows(decoder.record, kafka, proven, decoded)
    return DecodedColumns(rows, _refusals(decoder.record, kafka, decoded), decoded.skipped)


class _Kafka:
    """The batch's own columns, under the names of the staging tables."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.values = batch.column("value").cast(pa.binary())
        self.keys = batch.column("key").cast(pa.binary())
        self.timestamps = timestamps(batch)
        self.wrong_names = wrong_names(batch.column("headers"))
        self.event_keys, self.wrong_keys = self.keys, dict[int, Reason]()
        headers = headers_json(batch.column("headers"))
        self.columns = [batch.column("partition"), batch.column("offset"), self.timestamps, self.keys, headers]

    def read_keys(self, keys: Keys) -> None:
        """Let ``keys`` name the events."""
        read = [keys.read(key) for key in self.keys.to_pylist()]
        self.wrong_keys = {place: key for place, key in enumerate(read) if isinstance(key, Reason)}
        self.event_keys = pa.array([None if isinstance(key, Reason) else key for key in read], pa.binary())

    def read_schema_ids(self, headers: pa.Array) -> None:
        """Take the id of the schema from each record, none from its headers."""
        self.wrong_names |= schemas_in_headers(headers)
        ids = schema_ids(self.values)
        self.columns.append(pa.array(ids, mask=ids == NO_SCHEMA))

    def at(self, places: Places) -> list[pa.Array]:
        """The columns of these records."""
        return [_take(column, places) for column in self.columns]


def timestamps(batch: pa.RecordBatch) -> pa.TimestampArray:
    """The record timestamps; null where Kafka has none."""
    column = batch.column("timestamp").cast(MOMENT)
    return pc.if_else(pc.equal(column, _NONE), None, column)


def _take(column: pa.Array, places: Places) -> pa.Array:
    return column if len(places) == len(column) else column.take(pa.array(places))


def _with_kafka_slots(proven: Proven | None, kafka: _Kafka) -> Proven:
    """Put the key and the timestamp where the record's own event_id and publish_at are not wanted."""
    if proven is None:
        return Proven(np.zeros(0, np.int64), [])
    places, (event_id, publish_at, *values) = proven.places, proven.columns
    flags = np.ones(len(places), np.bool_)
    if event_id is None:
        event_id, flags = _key_texts(_take(kafka.event_keys, places))
    if publish_at is None:
        publish_at = _take(kafka.timestamps, places)
        in_range = moments(publish_at)
        flags = flags & publish_at.is_valid().to_numpy(zero_copy_only=False)
        flags = flags if in_range is None else flags & in_range
    return _kept(Proven(places, [event_id, publish_at, *values]), flags)


def _sound(proven: Proven, kafka: _Kafka) -> Proven:
    """Without the records that have a reason against a header."""
    if not kafka.wrong_names:
        return proven
    return _kept(proven, ~np.isin(proven.places, list(kafka.wrong_names)))


def _kept(proven: Proven, flags: npt.NDArray[np.bool_]) -> Proven:
    if flags.all():
        return proven
    return Proven(proven.places[flags], [pc.filter(column, pa.array(flags)) for column in proven.columns])


def _key_texts(keys: pa.BinaryArray) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    flags = keys.is_valid().to_numpy(zero_copy_only=False)
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.nulls(len(keys), pa.string()), np.zeros(len(keys), np.bool_)
    fits = event_ids(texts)
    return texts, flags if fits is None else flags & fits


def _decode(decoder: Decoder, kafka: _Kafka, places: Places) -> _Decoded:
    """Ask the decoder itself about the records that nothing was proven of."""
    decoded = _Decoded()
    values, keys = _take(kafka.values, places).to_pylist(), _take(kafka.event_keys, places).to_pylist()
    moments = _take(kafka.timestamps, places).cast(pa.int64()).to_pylist()
    for place, value, key, moment in zip(places.tolist(), values, keys, moments, strict=True):
        outcome = decoder.decode(value, kafka.wrong_keys.get(place, key), _moment(moment))
        outcome = _against(outcome, kafka.wrong_names.get(place))
        if isinstance(outcome, DecodedRow):
            decoded.row_places.append(place)
            decoded.rows.append(outcome)
        elif isinstance(outcome, Refusal):
            decoded.refused_places.append(place)
            decoded.reasons.append(outcome.reasons)
        else:
            decoded.skipped += 1
    return decoded


def _against(outcome: DecodedRow | Refusal | Skip, reason: Reason | None) -> DecodedRow | Refusal | Skip:
    """The outcome with one more reason against the record, if there is one."""
    if reason is None or isinstance(outcome, Skip):
        return outcome
    return Refusal((*(outcome.reasons if isinstance(outcome, Refusal) else ()), reason))


def _moment(microseconds: int | None) -> datetime | Reason:
    return NO_TIMESTAMP if microseconds is None else moment_of(microseconds) or FAR_TIMESTAMP


def moment_of(microseconds: int) -> datetime | None:
    """The moment so many microseconds after 1970; None where no datetime can hold it."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def _rows(record: RecordShape, kafka: _Kafka, proven: Proven, decoded: _Decoded) -> pa.Table:
    schema = staging_schema(record)
    parts = []
    if len(proven.places):
        not_deleted = pa.repeat(False, len(proven.places))
        parts.append(_table(schema, list(proven.columns), kafka, proven.places, not_deleted))
    if decoded.rows:
        columns = zip(*((row.event_id, row.publish_at, *row.values) for row in decoded.rows), strict=True)
        slots = [_staged(kind, column) for kind, column in zip(kinds(record), columns, strict=True)]
        deleted = pa.array([row.deleted for row in decoded.rows])
        parts.append(_table(schema, slots, kafka, np.array(decoded.row_places), deleted))
    table = pa.concat_tables(parts) if parts else schema.empty_table()
    if len(parts) < 2:
        return table
    order = np.argsort(np.concatenate([proven.places, decoded.row_places]), kind="stable")
    return table.take(pa.array(order))


def _table(schema: pa.Schema, slots: list[Any], kafka: _Kafka, places: Places, deleted: pa.Array) -> pa.Table:
    columns = [*slots, *kafka.at(places), deleted, _take(kafka.values, places)]
    return pa.Table.from_arrays(columns, schema=schema)


def _refusals(record: RecordShape, kafka: _Kafka, decoded: _Decoded) -> pa.Table:
    places = np.array(decoded.refused_places, np.int64)
    reasons = pa.array([_encode(reasons).decode() for reasons in decoded.reasons], pa.string())
    columns = [*kafka.at(places), _take(kafka.values, places), reasons]
    return pa.Table.from_arrays(columns, schema=refusal_schema(record))


def _staged(kind: ColumnKind, values: Sequence[object]) -> pa.Array:
    """The decoder's Python values as a column of the staged type."""
    write = _AS_TEXT.get(kind.name)
    column = values if write is None else [None if value is None else write(value) for value in values]
    return pa.array(column, staged_type(kind))
