"""A batch of Kafka records -> the rows and the refusals to stage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from offset_ledger.decoding.column_groups import GROUPS, against_unsent, sent_flags, with_groups
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.envelope import are_null
from offset_ledger.decoding.headers import HEADERS
from offset_ledger.decoding.kafka_columns import TIMESTAMP, KafkaColumns, kafka_fields, take, timestamp_of
from offset_ledger.decoding.key_and_headers import Elsewhere, columns_elsewhere, wanted_by_headers
from offset_ledger.decoding.kinds import as_texts, event_ids, kinds, listed, moments, staged, staged_type, valid_flags
from offset_ledger.decoding.outcome import WHOLE, Code, DecodedRow, Proven, Reason, Refusal, Skip, printable
from offset_ledger.decoding.texts import utf8, with_uuid_texts
from offset_ledger.pipeline_file.pipeline import RecordShape

_VALUE = ("_value", pa.binary())
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The rows and refusals of one batch; both tables have the columns of their staging table, in Kafka's order.

    ``framed`` are the values of the rows with the frames by which they were decoded, where headers stand for some.
    """

    rows: pa.Table
    refusals: pa.Table
    skipped: int
    framed: pa.BinaryArray | None = None


def staging_schema(record: RecordShape) -> pa.Schema:
    """Return the columns of the staged rows, whose types hold every value exactly."""
    key, columns = ([column.name for column in each] for each in (record.key_columns, record.columns))
    names = [*key, "publish_at", *columns]
    declared = [(name, staged_type(kind)) for name, kind in zip(names, kinds(record), strict=True)]
    groups = [(GROUPS, pa.list_(pa.string()))] if record.groups else []
    return pa.schema([*declared, *kafka_fields(record), ("_deleted", pa.bool_()), *groups, _VALUE])


def refusal_schema(record: RecordShape) -> pa.Schema:
    """The columns of the refusals."""
    return pa.schema([*kafka_fields(record), _VALUE, ("reasons", pa.string())])


def decode_batch(decoder: Decoder, batch: pa.RecordBatch, proves: bool = True) -> DecodedColumns:
    """Decode a batch with the columns key, value, partition, offset, timestamp and headers.

    Unless it ``proves``, no value is read as one of a whole column: each goes through ``decode``.
    """
    count, doubtful = batch.num_rows, dict[int, tuple[Reason, ...]]()
    if conditions := decoder.record.where_in_headers:
        is_tombstone = are_null(batch.column("value")).to_numpy(zero_copy_only=False)
        wanted, doubtful = wanted_by_headers(conditions, batch.column("headers"), is_tombstone)
        batch = batch if wanted.all() else batch.filter(pa.array(wanted))
    kafka = KafkaColumns(batch)
    if decoder.frames:
        kafka.frame(decoder.frames, batch.column("headers"))
    if decoder.keys and decoder.record.is_kafka_key:
        kafka.read_keys(decoder.keys)
    if decoder.record.schema_ids:
        kafka.read_schema_ids()
    elsewhere = _elsewhere(decoder, kafka, batch)
    for place, reasons in doubtful.items():
        elsewhere.against_key[place] = (*elsewhere.against_key.get(place, ()), *reasons)
    moments_of = kafka.timestamps if elsewhere.moments is None else elsewhere.moments
    proven = decoder.prove(kafka.framed_values) if proves else None
    proven = _with_kafka_slots(decoder.record, proven, kafka, moments_of)
    if decoder.record.unavailable:
        proven = proven.kept(sent_flags(decoder.record, proven))
    if against_all := kafka.against.keys() | elsewhere.against.keys() | elsewhere.against_key.keys():
        proven = proven.kept(~np.isin(proven.places, list(against_all)))
    rest = np.ones(batch.num_rows, np.bool_)
    rest[proven.places] = False
    rest[proven.skipped] = False
    places, skipped = np.flatnonzero(rest), count - batch.num_rows + len(proven.skipped)
    values, keys = take(kafka.framed_values, places).to_pylist(), take(kafka.event_keys, places).to_pylist()
    microseconds = take(moments_of, places).cast(pa.int64()).to_pylist()
    decoded: dict[int, DecodedRow] = {}
    refused: dict[int, tuple[Reason, ...]] = {}
    for place, value, key, moment in zip(places.tolist(), values, keys, microseconds, strict=True):
        timestamp = elsewhere.against_moment.get(place) or kafka.unheld.get(place) or timestamp_of(moment)
        if place in kafka.unframed:
            refused[place] = kafka.against[place]
            continue
        outcome = decoder.decode(value, kafka.wrong_keys.get(place, key), timestamp)
        is_delete = isinstance(outcome, DecodedRow) and outcome.deleted
        if is_delete and decoder.record.refuses_deletes:
            outcome = Refusal((Reason(WHOLE, Code.DELETE, "expected no delete of an event (target.deletes), got one"),))
        against = kafka.against.get(place, ()) + elsewhere.against_key.get(place, ())
        against += against_unsent(decoder.record, outcome) if isinstance(outcome, DecodedRow) else ()
        against += () if is_delete else elsewhere.against.get(place, ())
        if isinstance(outcome, Skip):
            skipped += 1
        elif isinstance(outcome, DecodedRow) and not against:
            decoded[place] = outcome
        else:
            own = kafka.reasons(place, outcome.reasons) if isinstance(outcome, Refusal) else ()
            refused[place] = tuple(dict.fromkeys((*own, *against))) if against else own
    places = np.array([*refused], np.int64)
    reasons = pa.array([_encode(each).decode() for each in refused.values()], pa.string())
    columns = [*kafka.at(places), take(kafka.values, places), reasons]
    refusals = pa.Table.from_arrays(columns, schema=refusal_schema(decoder.record))
    rows = _rows(decoder.record, kafka, elsewhere, proven, decoded)
    if kafka.framed_values is kafka.values and not decoder.given:
        return DecodedColumns(rows, refusals, skipped)
    framed = take(kafka.framed_values, np.sort(np.concatenate([proven.places, np.array([*decoded], np.int64)])))
    if decoder.given:
        rows = with_groups(decoder.record, rows, decoder.given(framed))
    return DecodedColumns(rows, refusals, skipped, None if kafka.framed_values is kafka.values else framed)


def _elsewhere(decoder: Decoder, kafka: KafkaColumns, batch: pa.RecordBatch) -> Elsewhere:
    in_keys, count = None, batch.num_rows
    if decoder.key_columns:
        columns = {
            **{name: batch.column(name) for name in batch.schema.names},
            "value": kafka.framed_keys,
            "key": pa.repeat(pa.scalar(b"key"), count),
            "offset": pa.array(np.arange(count)),
            "timestamp": pa.repeat(pa.scalar(0, TIMESTAMP), count),
            "headers": pa.nulls(count, HEADERS),
        }
        decoded = decode_batch(decoder.key_columns, pa.RecordBatch.from_pydict(columns))
        in_keys = (decoded.rows, decoded.refusals)
    return columns_elsewhere(decoder.record, kafka.keys, batch.column("headers"), in_keys)


def with_too_large(refusals: pa.Table, refused: Iterable[tuple[pa.Table, str]]) -> pa.Table:
    """Return the refusals, and each row that Postgres cannot hold with the reason."""
    parts = [refusals]
    for row, message in refused:
        reason = Reason(WHOLE, Code.TOO_LARGE, f"expected a row that Postgres can hold, got: {printable(message, 200)}")
        text = pa.array([_encode([reason]).decode()], pa.string())
        parts.append(row.select(refusals.column_names[:-1]).append_column("reasons", text))
    return pa.concat_tables(parts).combine_chunks()  # pyarrow writes no CSV of a table whose first chunk is empty


def with_texts(rows: pa.Table) -> pa.Table:
    """Return rows with decimals, floats and UUIDs as texts, which lose no digit in JSON and are read by people."""
    return pa.Table.from_arrays([_readable(each) for each in rows.columns], names=rows.column_names)


def _readable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(column.type):
        return listed(_readable(column.flatten()), column.to_pylist())
    if pa.types.is_decimal(column.type):
        return pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    return column.cast(pa.string()) if pa.types.is_floating(column.type) else with_uuid_texts(column)


def _with_kafka_slots(
    record: RecordShape, proven: Proven | None, kafka: KafkaColumns, moments_of: pa.TimestampArray
) -> Proven:
    """Put the key and a moment of Kafka's where the record's own event_id and publish_at are not wanted."""
    if proven is None or not proven.columns:
        return proven or Proven()
    places, columns, moment = proven.places, list(proven.columns), record.key_width
    flags = np.ones(len(places), np.bool_)
    if record.is_kafka_key:
        keys = take(kafka.event_keys, places)
        columns[0], utf8_flags = utf8(keys)
        fits = event_ids(columns[0])
        flags = valid_flags(keys) if utf8_flags is None else valid_flags(keys) & utf8_flags
        flags = flags if fits is None else flags & fits
    if columns[moment] is None:
        columns[moment] = publish_at = take(moments_of, places)
        in_range = moments(publish_at)
        flags = flags & valid_flags(publish_at)
        flags = flags if in_range is None else flags & in_range
    return Proven(places, columns, proven.skipped).kept(flags)


def _rows(
    record: RecordShape, kafka: KafkaColumns, elsewhere: Elsewhere, proven: Proven, decoded: dict[int, DecodedRow]
) -> pa.Table:
    """The rows that were proven, and those that were decoded one by one, in the order of their places."""
    schema = staging_schema(record)
    if record.groups:
        schema = schema.remove(schema.get_field_index(GROUPS))
    parts = []
    if len(proven.places):
        parts.append((proven.places, proven.columns, pa.repeat(False, len(proven.places))))
    if decoded:
        columns = zip(*((*row.key, row.publish_at, *row.values) for row in decoded.values()), strict=True)
        slots = [staged(kind, column) for kind, column in zip(kinds(record), columns, strict=True)]
        parts.append((np.array([*decoded]), slots, pa.array([row.deleted for row in decoded.values()])))
    tables = [
        pa.Table.from_arrays(
            [*elsewhere.fill(slots, places, deleted), *kafka.at(places), deleted, take(kafka.values, places)],
            names=schema.names,
        )
        for places, slots, deleted in parts
    ]
    if len(tables) < 2:
        return tables[0] if tables else schema.empty_table()
    order = np.argsort(np.concatenate([places for places, _, _ in parts]), kind="stable")
    return in_one(tables).take(pa.array(order))


def in_one(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables one after the other; a column has texts where it has them in one, of values that its type lacks."""
    for slot, name in enumerate(tables[0].column_names):
        if len({each.schema.field(slot).type for each in tables}) > 1:
            tables = [each.set_column(slot, name, as_texts(each.column(slot).combine_chunks())) for each in tables]
    return pa.concat_tables(tables)
