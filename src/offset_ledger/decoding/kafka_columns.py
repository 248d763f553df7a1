"""Columns that every format takes from Kafka itself, the event id and the moment among them if the file says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.base.without_pandas import without_pandas
from offset_ledger.decoding import outcome
from offset_ledger.decoding.decoder import Keys
from offset_ledger.decoding.headers import headers_json, wrong_names
from offset_ledger.decoding.kinds import EPOCH, MOMENT, check_event_id
from offset_ledger.decoding.outcome import Code, DecodedRow, Key, Mismatch, Outcome, Places, Reason, Refusal, Timestamp
from offset_ledger.decoding.schemas import HeaderFrames
from offset_ledger.decoding.wire_format import NO_SCHEMA, schema_ids
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape, Tombstone

without_pandas()
_KAFKA = [
    ("_partition", pa.int32()),
    ("_offset", pa.int64()),
    ("_timestamp", MOMENT),
    ("_key", pa.binary()),
    ("_headers", pa.string()),
]
TIMESTAMP = pa.timestamp("ms", "UTC")
"""Kafka's own unit, which takes any timestamp of Kafka."""
TIMESTAMP_PATH = "_timestamp"
NO_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.MISSING, "expected a record timestamp, Kafka has none (-1)")
FAR_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.RANGE, "expected a moment in the years 1 to 9999")
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000  # Postgres has none before, 64 bits of µs none after
_NONE = -1  # says that there is no timestamp


def kafka_fields(record: RecordShape) -> list[tuple[str, pa.DataType]]:
    """Name and type of each."""
    return [*_KAFKA, ("_schema_id", pa.int64())] if record.schema_ids else _KAFKA


class KafkaColumns:
    """The columns that Kafka gives one batch, and what of it names events and schemas.

    Decoders read ``framed_values``, but for those of the ``unframed``, of which a header names no schema. ``against``
    are the reasons against a record, by place, that are no matter of its value; ``unheld`` those of them that are
    against its timestamp.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.values = batch.column("value").cast(pa.binary())
        self.keys = batch.column("key").cast(pa.binary())
        self.framed_values, self.framed_keys = self.values, self.keys
        self.unframed, self._unframed_keys = dict[int, Reason](), dict[int, Reason]()
        self.timestamps = timestamps(batch)
        milliseconds = _milliseconds(batch)
        self.unheld: dict[int, Reason] = {}
        for place in pc.indices_nonzero(pc.invert(_held(milliseconds))).to_pylist():
            # Such a timestamp is kept nowhere else: a redrive reads it from the reason.
            years = "expected a record timestamp of the years 4714 BC to 294,246"
            self.unheld[place] = Reason(TIMESTAMP_PATH, Code.RANGE, f"{years}, got {milliseconds[place].as_py()} ms")
        self.against = dict[int, tuple[Reason, ...]]()
        self._refuse(self.unheld)
        self._refuse(wrong_names(batch.column("headers")))
        self.event_keys, self.wrong_keys = self.keys, dict[int, Reason]()
        headers = headers_json(batch.column("headers"))
        self.columns = [batch.column("partition"), batch.column("offset"), self.timestamps, self.keys, headers]

    def read_keys(self, keys: Keys) -> None:
        """Take the event ids from ``keys``."""
        keys.look_up(self.framed_keys)
        read = [keys.read(key) for key in self.framed_keys.to_pylist()]
        self.wrong_keys = {place: key for place, key in enumerate(read) if isinstance(key, Reason)}
        self.wrong_keys |= self._unframed_keys
        self.event_keys = pa.array([None if isinstance(key, Reason) else key for key in read], pa.binary())

    def frame(self, frames: HeaderFrames, headers: pa.ListArray) -> None:
        """Put the frames before values and keys whose schema a header names."""
        self.framed_values, self.unframed = frames.values.framed(self.values, headers)
        self._refuse(self.unframed)
        if frames.keys:
            self.framed_keys, self._unframed_keys = frames.keys.framed(self.keys, headers)
            self._refuse(self._unframed_keys)

    def read_schema_ids(self) -> None:
        """Take the id of the schema from each record."""
        ids = schema_ids(self.framed_values)
        self.columns.append(pa.array(ids, mask=ids == NO_SCHEMA))

    def reasons(self, place: int, own: tuple[Reason, ...]) -> tuple[Reason, ...]:
        """The decoder's own reasons; one more where the value has a header and seems to have a frame too."""
        if self.framed_values is self.values or all(each.path != outcome.WHOLE for each in own):
            return own
        value = self.values[place : place + 1]
        schema_id = schema_ids(value)[0]
        if schema_id == NO_SCHEMA or value.equals(self.framed_values[place : place + 1]):
            return own
        detail = f"expected no frame, for a header names the schema, got what begins like that of schema id {schema_id}"
        return (*own, Reason(outcome.WHOLE, Code.FRAME, detail))

    def _refuse(self, reasons: Mapping[int, Reason]) -> None:
        for place, reason in reasons.items():
            self.against[place] = (*self.against.get(place, ()), reason)

    def at(self, places: Places) -> list[pa.Array]:
        """The columns of these records."""
        return [take(column, places) for column in self.columns]


def timestamps(batch: pa.RecordBatch) -> pa.TimestampArray:
    """Return the record timestamps; null if Kafka has none, or one that Postgres cannot hold."""
    milliseconds = _milliseconds(batch)
    known = pc.and_(_held(milliseconds), pc.not_equal(milliseconds, _NONE))
    return pc.if_else(known, milliseconds, None).cast(TIMESTAMP).cast(MOMENT)


def _milliseconds(batch: pa.RecordBatch) -> pa.Int64Array:
    return batch.column("timestamp").cast(TIMESTAMP).cast(pa.int64())


def _held(milliseconds: pa.Int64Array) -> pa.BooleanArray:
    return pc.and_(pc.greater_equal(milliseconds, _EARLIEST), pc.less_equal(milliseconds, _LATEST))


def take(column: pa.Array, places: Places) -> pa.Array:
    """The values at these places, ascending."""
    return column if len(places) == len(column) else column.take(pa.array(places))


def timestamp_of(microseconds: int | None) -> Timestamp:
    """Return the timestamp of a record; the reason against it if Kafka has none, or one that no datetime can hold."""
    return NO_TIMESTAMP if microseconds is None else moment_of(microseconds) or FAR_TIMESTAMP


def moment_of(microseconds: int) -> datetime | None:
    """Return the moment ``microseconds`` after 1970; None if no datetime can hold it."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def slot_count(record: RecordShape) -> int:
    """The slots of a row: those of the key, publish_at and the declared columns."""
    return record.key_width + 1 + len(record.columns)


def row_of(record: RecordShape, slots: list[object], deleted: bool = False) -> DecodedRow:
    """The row of slots that are filled."""
    in_key = record.key_width
    publish_at = slots[in_key]
    assert isinstance(publish_at, datetime)
    return DecodedRow(tuple(slots[:in_key]), publish_at, tuple(slots[in_key + 1 :]), deleted)


def tombstone_outcome(record: RecordShape, key: Key, timestamp: Timestamp) -> Outcome:
    """Return what becomes of a record without a value."""
    if record.tombstone is Tombstone.SKIP:
        return outcome.Skip()
    if record.tombstone is Tombstone.QUARANTINE:
        return Refusal((Reason(outcome.WHOLE, Code.TOMBSTONE, "expected a value, got a tombstone"),))
    slots: list[object] = [None] * slot_count(record)
    reasons = fill_from_kafka(record, slots, key, timestamp, has_value=False)
    return Refusal(reasons) if reasons else row_of(record, slots, deleted=True)


def outcome_unread(
    record: RecordShape, limits: Limits, value: bytes | None, key: Key, timestamp: Timestamp
) -> Outcome | None:
    """Return what becomes of a record whose value is not read, as it is missing or too long; None for any other."""
    if value is None:
        return tombstone_outcome(record, key, timestamp)
    if len(value) > limits.value_bytes:
        detail = f"expected at most {limits.value_bytes} bytes (limits.value_bytes), got {len(value)}"
        return Refusal((Reason(outcome.WHOLE, Code.TOO_LARGE, detail),))
    return None


def fill_from_kafka(
    record: RecordShape, slots: list[object], key: Key, timestamp: Timestamp, has_value: bool = True
) -> tuple[Reason, ...]:
    """Fill the slots of event id and moment that are Kafka's, without a value both; every reason against these."""
    reasons: list[Reason] = []
    if record.is_kafka_key or not (has_value or record.key):
        try:
            slots[0] = key if isinstance(key, Reason) else _event_id_of(key)
        except Mismatch as mismatch:
            slots[0] = mismatch.at(outcome.KEY_PATH)
        reasons += [slots[0]] if isinstance(slots[0], Reason) else []
    of_kafka = record.publish_at is None or not has_value
    if of_kafka and isinstance(timestamp, Reason):
        reasons.append(timestamp)
    elif of_kafka:
        slots[record.key_width] = timestamp
    return tuple(reasons)


def _event_id_of(key: bytes | None) -> str:
    if key is None:
        raise Mismatch(Code.MISSING, "expected a key to name the event, got none")
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise Mismatch(Code.ENCODING, "expected a key in UTF-8") from None
    if "\0" in text:
        raise Mismatch(Code.NUL, "expected a key without NUL, which Postgres cannot hold")
    return check_event_id(text)
