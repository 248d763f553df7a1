"""The fields of a Protobuf message by number, read strictly and as the specification says."""

from collections.abc import Callable
from typing import Any

from offset_ledger.decoding.outcome import Code
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.wire import MAX_DEPTH, TOO_DEEP, TRUNCATED, Read, Wire, skip, span, tag
from offset_ledger.decoding.typed.decoder import Malformed

Parsed = dict[int, Any]
"""The fields that are set: scalars as :mod:`~offset_ledger.decoding.protobuf.wire` reads them (enums as numbers),
messages as their own fields, repeated fields as lists."""
_Store = Callable[[bytes, int, int, Parsed, int], int]
_Plan = dict[int, tuple[str, _Store]]


class Parser:
    """The parser of the messages of one schema.

    The last of several values of a field counts, messages are merged, and the last field set of a oneof wins. It is
    stricter than Google's parsers: a known field of another wire type is not an unknown field, a number that its type
    cannot hold is not cut, and a map entry has no unknown fields (Google's parsers differ on it).
    """

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._plans: dict[str, _Plan] = {}
        self._checked: dict[str, bool] = {}

    def parse(self, payload: bytes, message: Message) -> Parsed:
        """The fields of a whole payload.

        Raises:
            Malformed: it is not a message of this type.
        """
        parsed = self.parse_some(payload, message)
        if self._has_required(message.full_name):
            self._check_required(message, parsed)
        return parsed

    def parse_some(self, part: bytes, message: Message) -> Parsed:
        """The fields in a part of a payload, which need not have all that are required.

        Raises:
            Malformed: it has no such fields.
        """
        parsed: Parsed = {}
        self._fields(message.full_name, part, 0, len(part), parsed, 0)
        return parsed

    def _fields(self, name: str, data: bytes, at: int, end: int, into: Parsed, depth: int, group: int = 0) -> int:
        """Read fields to the end, or to the end of the group."""
        if depth > MAX_DEPTH:
            raise Malformed(TOO_DEEP, Code.DEPTH)
        plan = self._plans.get(name) or self._plan(name)
        while at < end:
            field_tag, at = tag(data, at, end)
            if field_tag in plan:
                step, store = plan[field_tag]
                try:
                    at = store(data, at, end, into, depth)
                except Malformed as malformed:
                    malformed.steps.append(step)
                    raise
            elif field_tag == group:
                return at
            else:
                self._check_unknown(self._schema.message(name), field_tag)
                at = skip(field_tag, data, at, end, depth)
        if group:
            raise Malformed(TRUNCATED)
        return at

    def _check_unknown(self, message: Message, field_tag: int) -> None:
        """Refuse a known field of another wire type, and any in the entry of a map."""
        field = message.by_number.get(field_tag >> 3)
        if message.is_entry and not field:
            raise Malformed(f"expected the key and the value of a map, got field {field_tag >> 3}")
        if field and field_tag & 7 != Wire.EGROUP:
            malformed = Malformed(f"expected {field.shown}, got wire type {field_tag & 7}", Code.TYPE)
            malformed.steps.append(f".{field.name}")
            raise malformed

    def _plan(self, name: str) -> _Plan:
        plan = self._plans[name] = {}
        for field in self._schema.message(name).fields:
            plan[field.tag] = f".{field.name}", self._store(field)
            if field.scalar and field.repeated and field.scalar.packable:
                plan[field.number << 3 | Wire.LEN] = f".{field.name}", _packed(field.number, field.scalar.read)
        return plan

    def _store(self, field: Field) -> _Store:
        """Return the function that reads one value of the field into the fields that are set."""
        name, number, peers = str(field.message), field.number, field.peers
        if field.scalar:
            read = field.scalar.read

            def store_single(data: bytes, at: int, end: int, into: Parsed, _: int) -> int:
                into[number], at = read(data, at, end)
                return at

            def store_one_of(data: bytes, at: int, end: int, into: Parsed, _: int) -> int:
                into[number], at = read(data, at, end)
                if not unknown_symbol(field, into[number]):
                    for peer in peers:
                        into.pop(peer, None)
                return at

            def store_repeated(data: bytes, at: int, end: int, into: Parsed, _: int) -> int:
                value, at = read(data, at, end)
                into.setdefault(number, []).append(value)
                return at

            return store_repeated if field.repeated else store_one_of if peers else store_single
        end_group = number << 3 | Wire.EGROUP if field.group else 0

        def store(data: bytes, at: int, end: int, into: Parsed, depth: int) -> int:
            inner: Parsed = {} if field.repeated else into.get(number, {})
            first, last = (at, end) if end_group else span(data, at, end)
            after = self._fields(name, data, first, last, inner, depth + 1, end_group)
            for peer in peers:
                into.pop(peer, None)
            if field.repeated:
                into.setdefault(number, []).append(inner)
            else:
                into[number] = inner
            return after

        return store

    def _has_required(self, name: str) -> bool:
        if name not in self._checked:
            self._checked[name] = self._schema.has_required(name)
        return self._checked[name]

    def _check_required(self, message: Message, parsed: Parsed) -> None:
        for field in message.fields:
            value = parsed.get(field.number)
            try:
                if field.required and (value is None or unknown_symbol(field, value)):
                    raise Malformed("expected a value of a required field, got nothing", Code.MISSING)
                if field.message and value is not None and self._has_required(field.message):
                    for inner in value if field.repeated else (value,):
                        self._check_required(self._schema.message(field.message), inner)
            except Malformed as malformed:
                malformed.steps.append(f".{field.name}")
                raise


def unknown_symbol(field: Field, value: object) -> bool:
    """Return whether it is a number that a closed enum does not have: to the specification, an unknown field."""
    return field.symbols is not None and field.symbols.closed and value not in field.symbols.names


def _packed(number: int, read: Read) -> _Store:
    def store(data: bytes, at: int, end: int, into: Parsed, _: int) -> int:
        at, last = span(data, at, end)
        values = into.setdefault(number, [])
        while at < last:
            value, at = read(data, at, last)
            values.append(value)
        return last

    return store
