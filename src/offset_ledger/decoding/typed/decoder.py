"""The decoder of typed records: the values that a schema's reader finds become a row or a refusal."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import outcome
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.envelope import have_rows, without_row
from offset_ledger.decoding.jsonb import MAX_BYTES
from offset_ledger.decoding.kafka_columns import fill_from_kafka, outcome_unread, row_of, slot_count
from offset_ledger.decoding.outcome import Code, Flags, Key, Mismatch, Outcome, Proven, Reason, Refusal, Timestamp
from offset_ledger.decoding.paths import Has, Node, add_condition, holds, tree, tree_of
from offset_ledger.decoding.typed.conversions import json_text
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import FieldCondition, Limits, RecordShape


class Malformed(Mismatch):
    """Bytes that are not of the schema; ``steps`` lead to the place, and are collected on the way out."""

    def __init__(self, detail: str, code: Code = Code.SYNTAX) -> None:
        super().__init__(code, detail)
        self.steps: list[str] = []

    def refused(self) -> outcome.RecordRefused:
        """Return the same as a reason against the record, with its path."""
        return outcome.RecordRefused(self.at("$" + "".join(reversed(self.steps))))


@dataclass(slots=True)
class Found:
    """The values that a reader found in one record, by slot of the tree, and the reasons against it by slot."""

    slots: list[object]
    reasons: list[tuple[int, Reason]] = field(default_factory=list)


class Reader(Protocol):
    """The reader of one writer's schema, for the leaves of one tree."""

    def read(self, payload: bytes, reading: Found) -> None:
        """Fill the slots, each with its value or a reason.

        Raises:
            RecordRefused: the bytes are not one record of the schema from the first to the last.
        """

    def rest(self, payload: bytes) -> dict[str, Any]:
        """Return the extra fields of a record that ``read`` read, those that the tree has not taken, as JSON has them.

        Raises:
            RecordRefused: JSON cannot have it.
        """

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """Return candidates that ``read`` surely takes, a column a slot (None: Kafka's); None if not provable."""


RootOf = Callable[[Has], Node]
"""The tree of paths for a schema that has these."""


class TypedDecoder(Decoder):
    """The decoder of typed formats; ``make_reader`` compiles a schema for its tree of paths.

    With ``where``, readers of these values alone come first: the rest of a record of another kind is not read. With
    ``delete_when`` the tree has one more leaf, after the declared columns.
    """

    def __init__(self, record: RecordShape, limits: Limits, make_reader: Callable[[RootOf], Reader]) -> None:
        self.record = record
        self._limits = limits
        self._slots = slot_count(record)
        self._reader = make_reader(self._root)
        own_rest = record.rest and record.delete_when  # the compared value is not a column
        self._rest = make_reader(lambda has: tree(record, has)) if own_rest else self._reader
        self._where = [_Where(each, make_reader) for each in record.where_in_values]
        markers = record.of_deletes()
        self._marker = make_reader(lambda has: tree(markers, has)) if record.envelope else None

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """The row of a record, or every reason against it; never raises."""
        if unread := outcome_unread(self.record, self._limits, value, key, timestamp):
            return unread
        assert value is not None
        try:
            if self._where and (other := outcome.unless_all(each.check(value) for each in self._where)):
                return other
            reading = Found([None] * (self._slots + 1))
            self._reader.read(value, reading)
            if self.record.rest:
                try:
                    reading.slots[self._slots - 1] = self._rest_text(value)
                except outcome.RecordRefused as refused:
                    reading.reasons.append((self._slots - 1, refused.reason))
        except outcome.RecordRefused as unreadable:
            return Refusal((unreadable.reason,))
        record = self.record
        deleted = _truth(record.delete_when, self._slots, reading) if record.delete_when else False
        if isinstance(deleted, Reason):
            return Refusal((deleted,))
        if record.envelope and (outcome_of := without_row(reading.slots[self._slots])):
            return outcome_of
        if deleted and self._marker:
            reading = Found([None] * (self._slots + 1))
            self._marker.read(value, reading)
        kept = self._slots - len(record.columns) if deleted else self._slots
        reasons = [reason for slot, reason in reading.reasons if slot < kept or not deleted]
        slots = [*reading.slots[:kept], *([None] * (self._slots - kept))]
        reasons += fill_from_kafka(record, slots, key, timestamp)
        return Refusal(tuple(dict.fromkeys(reasons))) if reasons else row_of(record, slots, deleted)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """Return the values that surely decode and delete nothing, as columns, and those that are surely skipped."""
        most = min(self._limits.value_bytes, MAX_BYTES)
        length = pc.fill_null(pc.binary_length(values), most + 1).to_numpy(zero_copy_only=False)
        candidates = length <= most
        if not self._where:
            return self._rows(values, candidates)
        skipped = np.zeros(0, np.int64)
        for where in self._where:
            proven_places = where.prove(values, candidates)
            if proven_places is None:
                return None
            wanted, others = proven_places
            skipped = np.sort(np.concatenate([skipped, others]))
            candidates = np.zeros(len(values), np.bool_)
            candidates[wanted] = True
        some = values if len(wanted) == len(values) else values.take(pa.array(wanted))
        rows = self._rows(some, np.ones(len(wanted), np.bool_)) or Proven()
        return Proven(wanted[rows.places], rows.columns, skipped)

    def _rows(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        proven = self._reader.prove(values, candidates)
        if proven is None:
            return None
        columns = [*proven.columns, *([None] * self._slots)]
        rows = Proven(proven.places, columns[: self._slots])
        if self.record.delete_when:
            compared = columns[self._slots]
            assert compared is not None
            rows = rows.kept(have_rows(compared) if self.record.envelope else ~holds(self.record.delete_when, compared))
        return outcome.with_rest(values, rows, self._slots - 1, self._rest_text) if self.record.rest else rows

    def _rest_text(self, value: bytes) -> str | None:
        """Return the JSON of the extra fields, None if there are none; raises RecordRefused."""
        left = self._rest.rest(value)
        if not left:
            return None
        try:
            return json_text(left)
        except Mismatch as mismatch:
            path = outcome.WHOLE
            for name, member in reversed(left.items()):  # the first member that does not become JSON
                try:
                    json_text({name: member})
                except Mismatch:
                    path = outcome.printable(format_path((name,)))
            raise outcome.RecordRefused(mismatch.at(path)) from None

    def _root(self, has: Has) -> Node:
        root = tree(self.record, has)
        if self.record.delete_when:
            add_condition(root, self.record.delete_when, self._slots)
        return root


class _Where:
    """The condition that tells which records of one schema are the pipeline's; its tree's only leaf has slot 0."""

    def __init__(self, condition: FieldCondition, make_reader: Callable[[RootOf], Reader]) -> None:
        self._condition = condition
        self._reader = make_reader(lambda _: tree_of(condition))

    def check(self, payload: bytes) -> bool | Reason:
        """Return whether it is, or why that is not known; raises RecordRefused."""
        reading = Found([None])
        self._reader.read(payload, reading)
        return _truth(self._condition, 0, reading)

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> tuple[outcome.Places, outcome.Places] | None:
        """Return the places of those that surely are, and of those that surely are not."""
        proven = self._reader.prove(values, candidates)
        if proven is None:
            return None
        column = proven.columns[0]
        assert column is not None
        wanted = holds(self._condition, column)
        return proven.places[wanted], proven.places[~wanted]


def _truth(condition: FieldCondition, slot: int, reading: Found) -> bool | Reason:
    """Return whether the condition holds for the record, or why that is not known."""
    return dict(reading.reasons).get(slot) or (reading.slots[slot] == condition.equals) is not condition.negated
