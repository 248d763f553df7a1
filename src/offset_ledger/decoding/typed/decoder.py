"""The decoder of typed records: what a schema's reader finds at the declared paths becomes a row or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Condition, Limits, RecordShape
from offset_ledger.decoding.kafka_slots import fill_from_kafka, outcome_unread, row_of, slot_count
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import WHOLE, Code, DecodedRow, Mismatch, Proven, Reason, Refusal, Skip, printable
from offset_ledger.decoding.rest import RestRefused, with_rest
from offset_ledger.decoding.shape import Has, Leaf, Node, tree
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.typed.convert import json_text

_KINDS = {str: "text", bool: "boolean", int: "bigint"}


class Unreadable(Exception):
    """The record cannot be read to its end, whatever its columns are."""

    def __init__(self, path: str, code: Code, detail: str) -> None:
        super().__init__(path, code, detail)
        self.reason = Reason(path, code, detail)


@dataclass(slots=True)
class Found:
    """What a reader found in one record: a value for each slot of the tree, and the reasons against it by slot."""

    slots: list[object]
    reasons: list[tuple[int, Reason]] = field(default_factory=list)


class Reader(Protocol):
    """Reads the records of one writer's schema, for the leaves of one tree."""

    def read(self, payload: bytes, found: Found) -> None:
        """Fill the slots, each with its value or a reason.

        Raises:
            Unreadable: the bytes are not one record of the schema from the first to the last.
        """

    def rest(self, payload: bytes) -> dict[str, Any]:
        """What is left of a record that ``read`` read, where the tree has taken its leaves, as JSON has it.

        Raises:
            RestRefused: JSON cannot have it.
        """

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """Those of the candidates that ``read`` certainly reads without a reason, with a column for each slot of the
        tree (None for event_id and publish_at where they are Kafka's); None where there is no such way.
        """


RootOf = Callable[[Has], Node]
"""The tree of paths for a schema that has these."""


class TypedDecoder:
    """See :class:`~offset_ledger.decoding.outcome.Decoder`; ``make_reader`` compiles a schema for its tree of paths.

    With ``where`` and ``delete_when`` the tree has one more leaf each, after the declared columns.
    """

    keys = None

    def __init__(self, record: RecordShape, limits: Limits, make_reader: Callable[[RootOf], Reader]) -> None:
        self.record = record
        self._limits = limits
        self._slots = slot_count(record)
        self._conditions = [each for each in (record.where, record.delete_when) if each]
        self._reader = make_reader(self._root)

    def decode(
        self, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        """The row of a record, or every reason against it; never raises."""
        unread = outcome_unread(self.record, self._limits, value, key, timestamp)
        if unread is not None:
            return unread
        assert value is not None
        found = Found([None] * (self._slots + len(self._conditions)))
        try:
            self._reader.read(value, found)
            if self.record.rest:
                self._read_rest(value, found)
        except Unreadable as unreadable:
            return Refusal((unreadable.reason,))
        return self._outcome(found, key, timestamp)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The values that certainly decode, are the pipeline's and delete nothing, as columns."""
        length = pc.fill_null(pc.binary_length(values), self._limits.value_bytes + 1).to_numpy(zero_copy_only=False)
        proven = self._reader.prove(values, length <= self._limits.value_bytes)
        if proven is None:
            return None
        if self._conditions:
            proven = self._wanted(proven)
        columns = [*proven.columns, *([None] * self._slots)][: self._slots]
        proven = Proven(proven.places, columns)
        return with_rest(values, proven, self._slots - 1, self._rest_text) if self.record.rest else proven

    def _wanted(self, proven: Proven) -> Proven:
        """Those that are the pipeline's and delete nothing."""
        keep = pa.array(np.ones(len(proven.places), np.bool_))
        for slot, condition in enumerate(self._conditions, start=self._slots):
            column = proven.columns[slot]
            assert column is not None
            equal = pc.fill_null(pc.equal(column, pa.scalar(condition.equals, column.type)), False)
            keep = pc.and_(keep, equal if condition is self.record.where else pc.invert(equal))
        return proven.only(keep.to_numpy(zero_copy_only=False))

    def _rest_text(self, value: bytes) -> str | None:
        left = self._reader.rest(value)
        if not left:
            return None
        try:
            return json_text(left)
        except Mismatch as mismatch:
            raise RestRefused.by(_culprit(left), mismatch) from None

    def _read_rest(self, value: bytes, found: Found) -> None:
        slot = self._slots - 1
        try:
            found.slots[slot] = self._rest_text(value)
        except RestRefused as refused:
            found.reasons.append((slot, refused.reason))

    def _root(self, has: Has) -> Node:
        root = tree(self.record, has)
        for slot, condition in enumerate(self._conditions, start=self._slots):
            root.add(condition.path, Leaf(slot, ColumnKind(_KINDS[type(condition.equals)], (), ""), nullable=True))
        return root

    def _outcome(
        self, found: Found, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        record = self.record
        wanted, deleted = self._holds(record.where, found), self._holds(record.delete_when, found)
        if wanted is False:
            return Skip()
        if unclear := [each for each in (wanted, deleted) if isinstance(each, Reason)]:
            return Refusal((unclear[0],))
        reasons = [reason for slot, reason in found.reasons if not deleted or slot < 2]
        slots = found.slots[: self._slots]
        slots = [*slots[:2], *([None] * len(record.columns))] if deleted else slots
        reasons += fill_from_kafka(slots, key, timestamp, record.event_id is None, record.publish_at is None)
        return Refusal(tuple(dict.fromkeys(reasons))) if reasons else row_of(slots, bool(deleted))

    def _holds(self, condition: Condition | None, found: Found) -> bool | Reason | None:
        """Whether the condition holds of the record, or why that cannot be told; None where there is none."""
        if condition is None:
            return None
        slot = self._slots + [each is condition for each in self._conditions].index(True)
        return dict(found.reasons).get(slot) or found.slots[slot] == condition.equals


def _culprit(left: dict[str, Any]) -> str:
    """The path of the first member that does not become JSON."""
    for name, value in left.items():
        try:
            json_text({name: value})
        except Mismatch:
            return printable(format_path((name,)))
    return WHOLE
