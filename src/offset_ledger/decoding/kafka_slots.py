"""What a row takes from Kafka itself, whatever the format: event_id from the key, publish_at from the timestamp."""

from __future__ import annotations

from datetime import datetime

from offset_ledger.config.model import Limits, RecordShape, Tombstone
from offset_ledger.decoding.kinds import check_event_id
from offset_ledger.decoding.outcome import KEY_PATH, WHOLE, Code, DecodedRow, Mismatch, Reason, Refusal, Skip


def slot_count(record: RecordShape) -> int:
    """The slots of a row: event_id, publish_at and the declared columns."""
    return len(record.columns) + 2


def row_of(slots: list[object], deleted: bool = False) -> DecodedRow:
    """The row of slots that are filled."""
    event_id, publish_at, *values = slots
    assert isinstance(event_id, str)
    assert isinstance(publish_at, datetime)
    return DecodedRow(event_id, publish_at, tuple(values), deleted)


def tombstone_outcome(
    record: RecordShape, key: bytes | Reason | None, timestamp: datetime | Reason
) -> DecodedRow | Refusal | Skip:
    """What becomes of a record without a value."""
    if record.tombstone is Tombstone.SKIP:
        return Skip()
    if record.tombstone is Tombstone.QUARANTINE:
        return Refusal((Reason(WHOLE, Code.TOMBSTONE, "expected a value, got a tombstone"),))
    slots: list[object] = [None] * slot_count(record)
    reasons = fill_from_kafka(slots, key, timestamp, needs_key=True, needs_timestamp=True)
    return Refusal(reasons) if reasons else row_of(slots, deleted=True)


def outcome_unread(
    record: RecordShape, limits: Limits, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
) -> DecodedRow | Refusal | Skip | None:
    """What becomes of a record whose value is not read: there is none, or it is too long. None of any other."""
    if value is None:
        return tombstone_outcome(record, key, timestamp)
    if len(value) > limits.value_bytes:
        detail = f"expected at most {limits.value_bytes} bytes, got {len(value)}"
        return Refusal((Reason(WHOLE, Code.TOO_LARGE, detail),))
    return None


def fill_from_kafka(
    slots: list[object],
    key: bytes | Reason | None,
    timestamp: datetime | Reason,
    needs_key: bool,
    needs_timestamp: bool,
) -> tuple[Reason, ...]:
    """Fill the slots that the record itself does not hold, and return every reason against them."""
    reasons: list[Reason] = []
    if needs_key:
        slots[0] = key if isinstance(key, Reason) else _event_id_of(key)
        reasons += [slots[0]] if isinstance(slots[0], Reason) else []
    if needs_timestamp and isinstance(timestamp, Reason):
        reasons.append(timestamp)
    elif needs_timestamp:
        slots[1] = timestamp
    return tuple(reasons)


def _event_id_of(key: bytes | None) -> str | Reason:
    try:
        return _text_of(key)
    except Mismatch as mismatch:
        return Reason(KEY_PATH, mismatch.code, mismatch.detail)


def _text_of(key: bytes | None) -> str:
    if key is None:
        raise Mismatch(Code.MISSING, "expected a key to name the event, got none")
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise Mismatch(Code.ENCODING, "expected a key in UTF-8") from None
    if "\0" in text:
        raise Mismatch(Code.NUL, "expected a key without NUL, which Postgres cannot hold")
    return check_event_id(text)
