"""The decoder of JSON records: ``decode`` defines, value by value, what is right; ``prove`` reads whole columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import jsonb, outcome
from offset_ledger.decoding.connect_schema import PAYLOAD
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.envelope import all_unwrapped, are_null, is_null, unwrapped, without_row
from offset_ledger.decoding.json import conversions
from offset_ledger.decoding.json.conversions import conversion, json_kind
from offset_ledger.decoding.json.unique import duplicate_path, lone_surrogate
from offset_ledger.decoding.json.wire import FAILURES, Wire
from offset_ledger.decoding.kafka_columns import fill_from_kafka, outcome_unread, row_of, slot_count, tombstone_outcome
from offset_ledger.decoding.kinds import kinds
from offset_ledger.decoding.outcome import Code, Key, Mismatch, Outcome, Proven, Reason, Refusal, Timestamp
from offset_ledger.decoding.paths import Node, places, tree, tree_at
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import FieldCondition, JsonPath, Limits, RecordShape

_BOM = b"\xef\xbb\xbf"
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class JsonDecoder(Decoder):
    """The decoder of one pipeline's JSON records; see :class:`~offset_ledger.decoding.decoder.Decoder`."""

    def __init__(
        self,
        record: RecordShape,
        limits: Limits,
        unwraps: bool = False,
        by_schema: bool = False,
        null_is_tombstone: bool = False,
    ) -> None:
        self.record = record
        self.limits = limits
        self._unwraps, self._null_is_tombstone = unwraps, null_is_tombstone
        self._in_wrapper = any(path[0] == PAYLOAD for place in places(record) for path in place.paths)
        self._root = tree(record)
        self._trees = Trees(record)
        self._markers = Trees(record.of_deletes())
        self._readers = [conversion(kind, by_schema).read for kind in kinds(record)]
        self._deletes = Comparison(record.delete_when) if record.delete_when else None
        self._where = [Comparison(each) for each in record.where_in_values]
        self._slots = slot_count(record)

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """The row of a record, or every reason against it; never raises."""
        if unread := outcome_unread(self.record, self.limits, value, key, timestamp):
            return unread
        assert value is not None
        try:
            value = unwrapped(value) if self._unwraps else value
            if self._null_is_tombstone and is_null(value, self._in_wrapper):
                return tombstone_outcome(self.record, key, timestamp)
            self._check_whole(value)
            if self.record.envelope and (outcome_of := without_row(_operation(value))):
                return outcome_of
            if self._where and (other := outcome.unless_all(each.check(value) for each in self._where)):
                return other
            deleted = self._deletes.check(value) if self._deletes else False
            if isinstance(deleted, Reason):
                return Refusal((deleted,))
            slots: list[object] = [None] * self._slots
            reasons: list[Reason] = []
            raw, record = value.strip(), self.record
            trees = self._markers if deleted else self._trees
            root = trees.of(trees.choice(raw))
            _read(root, raw, self._readers, slots, reasons)
            if record.rest and not deleted:
                try:
                    slots[-1] = rest_text(root, raw)
                except outcome.RecordRefused as refused:
                    reasons.append(refused.reason)
            reasons += fill_from_kafka(record, slots, key, timestamp)
            return Refusal(tuple(reasons)) if reasons else row_of(record, slots, deleted)
        except Mismatch as mismatch:
            return Refusal((mismatch.at(outcome.WHOLE),))
        except outcome.RecordRefused as refused:
            return Refusal((refused.reason,))
        except RecursionError:
            return Refusal((Reason(outcome.WHOLE, Code.DEPTH, jsonb.TOO_DEEP),))

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """Return the values that surely decode and delete nothing, as columns, and those that are surely skipped."""
        most = min(self.limits.value_bytes, jsonb.MAX_BYTES)
        values = all_unwrapped(values, most) if self._unwraps else values
        if self._in_wrapper and self._null_is_tombstone:
            values = pc.if_else(are_null(values), None, values)
        proven = self._wire.prove(values, most) if self._wire else None
        if proven is not None and self._trees:
            proven = self._aliased.prove(values, most, proven)
        if proven is not None and self.record.rest:
            return outcome.with_rest(values, proven, self._slots - 1, self._rest_text)
        return proven

    def _rest_text(self, value: bytes) -> str | None:
        document = value.strip()
        return rest_text(self._trees.of(self._trees.choice(document)), document)

    @cached_property
    def _aliased(self) -> AliasedWires:
        return AliasedWires(self.record, self._trees)

    @cached_property
    def _wire(self) -> Wire | None:
        return Wire.of(self._root, self.record)

    def _check_whole(self, value: bytes) -> None:
        if value.startswith(_BOM):
            raise Mismatch(Code.SYNTAX, "expected a JSON object, got a byte order mark")
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            detail = f"expected UTF-8, got byte {value[error.start]:#04x} at {error.start}"
            raise Mismatch(Code.ENCODING, detail) from None
        try:
            _object(value)
        except msgspec.ValidationError:
            raise Mismatch(Code.TYPE, f"expected object, got {json_kind(value.lstrip())}") from None
        except msgspec.DecodeError as error:
            if "\\u" in text and (lone := lone_surrogate(text)):
                detail = f"expected whole characters, got a lone surrogate ({lone[1]}), half of one"
                raise outcome.RecordRefused(Reason(lone[0], Code.ENCODING, detail)) from None
            raise Mismatch(Code.SYNTAX, f"expected a JSON object: {outcome.printable(str(error))}") from None
        jsonb.check_depth(value)
        if path := duplicate_path(text):
            raise outcome.RecordRefused(Reason(path, Code.DUPLICATE_KEY, "expected each member once, got it again"))


def _operation(value: bytes) -> str | None:
    """Return the operation of a change event, a valid JSON document; None if it has none."""
    try:
        op = msgspec.json.decode(_object(value).get("op", b"null"))
    except msgspec.ValidationError:  # Kafka Connect may have wrapped something other than an object
        return None
    return op if isinstance(op, str) else None


def _read(
    node: Node, raw: bytes, readers: list[Callable[[bytes], object]], slots: list[object], reasons: list[Reason]
) -> None:
    """Fill the slots that the node leads to, and note what was refused."""
    for leaf in node.leaves:
        try:
            slots[leaf.slot] = readers[leaf.slot](raw)
        except Mismatch as mismatch:
            reasons.append(mismatch.at(node.path))
    if not node.members:
        return
    if raw[:1] != b"{":
        reasons.append(Reason(node.path, Code.TYPE, f"expected object, got {json_kind(raw)}"))
        return
    members = _object(raw)
    for name, member in node.members.items():
        value = bytes(members.get(name, b""))
        if value and value != b"null":
            _read(member, value, readers, slots, reasons)
        elif not member.nullable:
            code = Code.NULL if value else Code.MISSING
            reasons.append(Reason(member.path, code, f"expected a value, got {'null' if value else 'nothing'}"))


MAX_TREES = 16
"""Trees of one slice that are proven; the records of further ones are read one by one."""


Choice = tuple[JsonPath, ...]


class AliasedWires:
    """The wires of the trees of one record shape."""

    def __init__(self, record: RecordShape, trees: Trees) -> None:
        self._record, self._trees = record, trees
        self._wires: dict[Choice, Wire | None] = {}

    def prove(self, values: pa.BinaryArray, value_bytes: int, proven: Proven) -> Proven:
        """Return what is proven already, and the other values that surely decode at other paths."""
        left = np.ones(len(values), np.bool_)
        left[proven.places] = False
        left[proven.skipped] = False
        places = np.flatnonzero(left)
        groups: dict[Choice, list[int]] = {}
        for place, text in zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True):
            if text is None or len(text) > value_bytes:
                continue
            try:
                groups.setdefault(self._trees.choice(text.strip()), []).append(place)
            except FAILURES:
                continue
        parts = [proven]
        for choice, group in groups.items():
            if choice not in self._wires and len(self._wires) < MAX_TREES:
                self._wires[choice] = Wire.of(self._trees.of(choice), self._record)
            if wire := self._wires.get(choice):
                parts.append(wire.prove(values.take(pa.array(group)), value_bytes).at(np.array(group)))
        return outcome.joined(parts)


class Comparison:
    """The comparison that tells which records of one pipeline delete their event, and which are its records at all."""

    def __init__(self, when: FieldCondition) -> None:
        self._path, self._equals, self._negated = when.path, when.equals, when.negated
        equals = when.equals
        number_or_boolean = conversions.boolean if isinstance(equals, bool) else conversions.numeric
        self._read: Callable[[bytes], object] = conversions.string if isinstance(equals, str) else number_or_boolean

    def check(self, value: bytes) -> bool | Reason:
        """Return whether the condition holds, or why that is not known; the record is a valid JSON object."""
        raw = value.strip()
        for depth, name in enumerate(self._path):
            if raw[:1] != b"{":
                path = format_path(self._path[:depth])
                return Reason(path, Code.TYPE, f"expected object, got {json_kind(raw)}")
            raw = bytes(_object(raw).get(name, b"null"))
            if raw == b"null":
                return self._negated
        try:
            return (self._read(raw) == self._equals) is not self._negated
        except Mismatch as mismatch:
            return mismatch.at(format_path(self._path))


_encode = msgspec.json.Encoder().encode


def rest_text(root: Node, document: bytes) -> str | None:
    """Return the members that no path of the tree leads to or through, as they are written; None if there are none.

    The document is a valid JSON object that the tree reads.

    Raises:
        RecordRefused: no jsonb can hold one of them.
    """
    text = _left(root, document)
    try:
        jsonb.check_size(text)
    except Mismatch as mismatch:
        raise outcome.RecordRefused(mismatch.at(root.path)) from None
    return text or None


def _left(node: Node, raw: bytes) -> str:
    left = []
    for name, raw_value in _object(raw).items():
        member, value = node.members.get(name), bytes(raw_value)
        if member is not None:
            value = _left(member, value).encode() if not member.leaves and value[:1] == b"{" else b""
        try:
            left += [jsonb.document(_encode(name) + b":" + value)] if value else []
        except Mismatch as mismatch:
            raise outcome.RecordRefused(mismatch.at(node.path + outcome.step_of(name))) from None
    return f"{{{','.join(left)}}}" if left else ""


MAX_KNOWN = 1000


class Trees:
    """The trees of one record shape, one for each choice of aliases."""

    def __init__(self, record: RecordShape) -> None:
        self._places = places(record)
        self._aliased = [place for place in self._places if place.leaf.aliased]
        self._known: dict[Choice, Node] = {}

    def __bool__(self) -> bool:
        """Return whether there are several."""
        return bool(self._aliased)

    def choice(self, document: bytes) -> Choice:
        """Return which place holds each value in the document, a valid JSON object without blanks around it."""

        def has(path: JsonPath) -> bool:
            """Return whether the document has a member at the path, null or not."""
            raw = document
            for name in path:
                if raw[:1] != b"{" or (member := _object(raw).get(name)) is None:
                    return False
                raw = bytes(member)
            return True

        return tuple(place.path(has) for place in self._aliased)

    def of(self, choice: Choice) -> Node:
        """The tree of documents with these."""
        if choice not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            chosen = iter(choice)
            paths = [next(chosen) if place.leaf.aliased else place.paths[0] for place in self._places]
            self._known[choice] = tree_at(self._places, paths)
        return self._known[choice]
