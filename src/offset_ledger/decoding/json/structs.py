"""The members that paths lead to, read from many JSON texts: msgspec into Structs, then column by column into Arrow.

Each kind has a ``wire`` type, which msgspec checks while it decodes, and a ``build`` that checks the whole column and
flags each value that certainly decodes to it. False only means that the decoder reads the record by itself: a false
alarm costs time, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import text_columns, texts
from offset_ledger.decoding.kinds import EPOCH_UNITS, FIRST_MOMENT, INTEGER_BITS, LAST_MOMENT, ColumnKind
from offset_ledger.decoding.proven import Places
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import INTEGERS, MOMENT, Flags, as_flags, event_ids
from offset_ledger.decoding.text_columns import Built

_CHUNK = 200  # records that are decoded at a time: what fits the processor's caches
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a Struct: a value of the tree, or another Struct with its members."""

    field: str
    nullable: bool
    slot: int | None
    members: tuple[_Member, ...] = ()
    absent: Any = None


class Unsupported(Exception):
    """The paths do not make Structs: two values at one path, or names that msgspec does not take."""


class Structs:
    """The Struct of a tree of paths, whose slots have these kinds; raises :class:`Unsupported`."""

    def __init__(self, root: Node, kinds: Sequence[ColumnKind]) -> None:
        self._provers = [prover(kind) for kind in kinds]
        struct, self._members = _struct(root, self._provers)
        self._decode = msgspec.json.Decoder(struct).decode
        self._nullable = dict(_nullables(self._members))

    def read(self, texts: list[Any], places: Places) -> tuple[Places, list[list[Any]]]:
        """The places of those texts that are JSON with such members, and their values by slot."""
        values: list[list[Any]] = [[] for _ in self._provers]
        kept: list[int] = []
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK].tolist()
            try:
                records = [self._decode(texts[place]) for place in chunk]
            except _FAILURES:
                chunk, records = self._decode_each(texts, chunk)
            kept += chunk
            _collect(self._members, records, values)
        return np.array(kept, np.int64), values

    def column(self, slot: int, values: list[Any], sure: Flags) -> pa.Array | None:
        """The column of a slot, None for one that is not in the record; clears the flags of what is in doubt."""
        if slot not in self._nullable:
            return None
        built, good = self._provers[slot].build(values)
        if good is not None:
            sure &= good
        if built.null_count and not self._nullable[slot]:
            sure &= built.is_valid().to_numpy(zero_copy_only=False)
        return built

    def _decode_each(self, texts: list[Any], places: list[int]) -> tuple[list[int], list[Any]]:
        kept, records = [], []
        for place in places:
            try:
                records.append(self._decode(texts[place]))
                kept.append(place)
            except _FAILURES:
                continue
        return kept, records


def _struct(node: Node, provers: Sequence[Prover]) -> tuple[type[msgspec.Struct], tuple[_Member, ...]]:
    fields: list[Any] = []
    members = []
    names = {}
    for index, (name, member) in enumerate(node.members.items()):
        field = f"f{index}"
        names[field] = name
        made, wire = _member(field, member, provers)
        members.append(made)
        fields.append((field, wire, None) if member.nullable and not member.aliased else (field, wire))
    try:
        struct = msgspec.defstruct("Record", fields, rename=names, kw_only=True, gc=False)
    except ValueError as error:
        raise Unsupported(str(error)) from None
    return struct, tuple(members)


def _member(field: str, node: Node, provers: Sequence[Prover]) -> tuple[_Member, Any]:
    nullable = node.nullable
    if node.members and not node.leaves:
        nullable = nullable and not node.aliased
        struct, members = _struct(node, provers)
        return _Member(field, nullable, None, members, struct() if nullable else None), _optional(struct, nullable)
    if node.members or len(node.leaves) != 1:
        raise Unsupported(f"{node.path} has several meanings")
    slot = node.leaves[0].slot
    wire = provers[slot].wire
    return _Member(field, nullable, slot), wire if wire is msgspec.Raw else _optional(wire, nullable)


def _optional(wire: Any, nullable: bool) -> Any:
    return wire | None if nullable else wire


def _collect(members: Sequence[_Member], records: list[Any], values: list[list[Any]]) -> None:
    for member in members:
        if member.slot is not None:
            values[member.slot].extend(map(attrgetter(member.field), records))
            continue
        column = list(map(attrgetter(member.field), records))
        if member.nullable:
            column = [member.absent if value is None else value for value in column]
        _collect(member.members, column, values)


def _nullables(members: Sequence[_Member]) -> Iterator[tuple[int, bool]]:
    for member in members:
        if member.slot is not None:
            yield member.slot, member.nullable
        yield from _nullables(member.members)


Values = Sequence[Any]

_NO_DOCUMENT = r"\\u0000|(?:^|[:,\[ \t\r\n])-?[0-9.]+[eE][-+]?[0-9]{5}|[0-9]{1000}"
_PLAIN_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_SEPARATOR = b"\x01"  # JSON has no control characters but blanks
_MAX_SAFE_DIGITS = 60


@dataclass(frozen=True, slots=True)
class Prover:
    """How msgspec decodes a value of this kind, and how a column of them becomes Arrow."""

    wire: Any
    build: Callable[[Values], Built]


def prover(kind: ColumnKind) -> Prover:
    """The prover of a kind."""
    name = kind.name
    if name in INTEGER_BITS:
        bound = 1 << (INTEGER_BITS[name] - 1)
        wire = Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
        return Prover(wire, lambda values: (pa.array(values, INTEGERS[name]), None))
    if kind.encoding in EPOCH_UNITS:
        return _epochs(EPOCH_UNITS[kind.encoding])
    if name == "varchar":
        return Prover(Annotated[str, msgspec.Meta(max_length=kind.args[0])], _written(text_columns.texts))
    if name == "numeric":
        return Prover(msgspec.Raw, _literals(_numeric_pattern(kind.args)))
    if name == "bytea":
        return Prover(str, _bytes_of(texts.base64_bytes if kind.encoding == "base64" else _hexadecimal))
    return _PLAIN[name]


def _written(build: Callable[[pa.StringArray], Built]) -> Callable[[Values], Built]:
    return lambda values: build(pa.array(values, pa.string()))


def _event_ids(values: Values) -> Built:
    try:
        column = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        column = pa.array([value if isinstance(value, str) else str(value) for value in values], pa.string())
    return column, event_ids(column)


def _epochs(unit: int) -> Prover:
    wire = Annotated[int, msgspec.Meta(ge=FIRST_MOMENT // unit, le=LAST_MOMENT // unit)]
    return Prover(wire, lambda values: (pc.multiply(pa.array(values, pa.int64()), unit).cast(MOMENT), None))


def _raw_texts(values: Values) -> pa.StringArray:
    """The JSON texts as one column, without an object for each; null where the JSON is null."""
    if not values:
        return pa.array([], pa.string())
    joined = _SEPARATOR.join([b"null" if value is None else value for value in values])
    column = pc.split_pattern(pa.array([joined], pa.binary()), _SEPARATOR).flatten().cast(pa.string())
    return pc.if_else(pc.equal(column, "null"), None, column)


def _literals(pattern: str) -> Callable[[Values], Built]:
    def build(values: Values) -> Built:
        column = _raw_texts(values)
        return column, as_flags(pc.match_substring_regex(column, pattern))

    return build


def _numeric_pattern(args: tuple[int, ...]) -> str:
    if not args:
        return r"^-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?$"
    before, after = min(args[0] - args[1], _MAX_SAFE_DIGITS), min(args[1], _MAX_SAFE_DIGITS)
    whole = f"0|[1-9][0-9]{{0,{before - 1}}}" if before else "0"
    fraction = rf"(?:\.[0-9]{{1,{after}}})?" if after else ""
    return f"^-?(?:{whole}){fraction}$"


def _floats(safe_digits: int) -> Callable[[Values], Built]:
    """So many decimal digits survive in any float; longer texts are compared with Python's own."""

    def build(values: Values) -> Built:
        column = _raw_texts(values)
        short = pc.less_equal(pc.binary_length(column), safe_digits)
        safe = pc.fill_null(pc.and_(short, pc.match_substring_regex(column, _PLAIN_NUMBER)), True)
        flags = as_flags(safe)
        if flags is None or safe_digits < 15:
            return column, flags
        doubtful = np.flatnonzero(~flags)
        written = column.take(pa.array(doubtful)).to_pylist()
        flags[doubtful] = [text == _double_text(text) for text in written]
        return column, flags

    return build


def _double_text(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _documents(values: Values) -> Built:
    column = _raw_texts(values)
    return column, as_flags(pc.invert(pc.match_substring_regex(column, _NO_DOCUMENT)))


def _hexadecimal(value: str) -> bytes:
    decoded = bytes.fromhex(value)
    if len(decoded) * 2 != len(value):  # fromhex passes over blanks
        raise ValueError(value)
    return decoded


def _bytes_of(read: Callable[[str], bytes]) -> Callable[[Values], Built]:
    def build(values: Values) -> Built:
        decoded = [_bytes_or_none(read, value) for value in values]
        flags = np.array([a is not None or b is None for a, b in zip(decoded, values, strict=True)], np.bool_)
        return pa.array(decoded, pa.binary()), flags

    return build


def _bytes_or_none(read: Callable[[str], bytes], value: str | None) -> bytes | None:
    try:
        return None if value is None else read(value)
    except ValueError:
        return None


_PLAIN = {
    "event_id": Prover(str | int, _event_ids),
    "text": Prover(str, _written(text_columns.texts)),
    "real": Prover(msgspec.Raw, _floats(6)),
    "double precision": Prover(msgspec.Raw, _floats(15)),
    "boolean": Prover(bool, lambda values: (pa.array(values, pa.bool_()), None)),
    "date": Prover(date, lambda values: (pa.array(values, pa.date32()), None)),
    "time": Prover(str, _written(text_columns.times)),
    "timestamptz": Prover(str, _written(text_columns.moments)),
    "uuid": Prover(str, _written(text_columns.uuids)),
    "jsonb": Prover(msgspec.Raw, _documents),
}
