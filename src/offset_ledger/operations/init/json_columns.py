"""JSON documents -> the columns that take every value of theirs, by the readers that decode them later."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from offset_ledger.config.column_types import ENCODINGS
from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.inferred import Inferred, column_name
from offset_ledger.decoding.json.readers import reader
from offset_ledger.decoding.json.texts import json_kind
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Mismatch

MAX_NESTED = 8
FEW_VALUES = 20
MANY_NAMES = 20
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
NARROWED = ("uuid", "date", "time", "timestamptz")
_TYPES = {"number": ("bigint", "numeric"), "text": (*NARROWED, "text"), "boolean": ("boolean",)}
_MOMENT_NAME = re.compile(r"(?:^|_)(?:at|ts|time|timestamp|date|millis|ms)$|time")
_EPOCHS = (("seconds", "epoch_s", 1), ("milliseconds", "epoch_ms", 1_000), ("microseconds", "epoch_us", 1_000_000))
_FIRST, _LAST = 631_152_000, 4_102_444_800  # 1990 and 2100


def json_columns(documents: Sequence[bytes]) -> tuple[Inferred, ...]:
    """The columns of these documents, which are valid JSON objects, in the order in which their members appear."""
    return tuple(_members([document.strip() for document in documents], (), False))


def _members(objects: Sequence[bytes], path: JsonPath, nullable: bool) -> Iterator[Inferred]:
    members: dict[str, list[bytes]] = {}
    for each in objects:
        for name, value in _object(each).items():
            members.setdefault(name, []).append(bytes(value))
    for name, values in members.items():
        if name:
            yield from _member((*path, name), values, nullable or len(values) < len(objects))
        elif not path:
            yield Inferred(("''",), "", True, "no path leads to a member without a name")


def _member(path: JsonPath, sampled: Sequence[bytes], nullable: bool) -> Iterator[Inferred]:
    values = [value for value in sampled if value != b"null"]
    nullable = nullable or len(values) < len(sampled)
    kinds = sorted({json_kind(value) for value in values})
    if kinds == ["object"] and (doubt := _no_record(path, values)) is None:
        yield from _members(values, path, nullable)
    elif kinds == ["object"]:
        yield Inferred(path, "jsonb", nullable, doubt or "")
    elif len(kinds) == 1 and kinds[0] in _TYPES:
        yield _scalar(path, values, kinds[0], nullable)
    else:
        doubt = f"{' and '.join(kinds)} in the sample" if len(kinds) > 1 else ""
        yield Inferred(path, "jsonb", nullable, doubt if kinds else "null in every sampled record")


def _no_record(path: JsonPath, objects: Sequence[bytes]) -> str | None:
    """Why an object is kept whole, though all values are objects; None where each member becomes a column."""
    names = [_object(each).keys() for each in objects]
    known = set[str]().union(*names)
    if not known:
        return "an object without members in every sampled record"
    if "" in known:
        return "it has a member without a name, which no path leads to"
    if len(path) >= MAX_NESTED:
        return "nested too deeply to give each member a column"
    if len(known) > MANY_NAMES and sum(map(len, names)) * 10 < len(known) * len(names):
        return f"{len(known)} names in {len(names)} objects: rather a map than a record"
    return None


def _scalar(path: JsonPath, values: Sequence[bytes], kind: str, nullable: bool) -> Inferred:
    *narrow, last = _TYPES[kind]
    type_ = next((each for each in narrow if takes_all(each, values)), last)
    return Inferred(path, type_, nullable, _doubt(path, type_, values))


def takes_all(type_: str, values: Sequence[bytes]) -> bool:
    """Whether a column of this type takes each of the JSON texts."""
    read = reader(ColumnKind(type_, (), ENCODINGS.get(type_, ("",))[0]))
    try:
        for value in values:
            read(value)
    except Mismatch:
        return False
    return True


def _doubt(path: JsonPath, type_: str, values: Sequence[bytes]) -> str:
    if type_ in NARROWED and len(values) < FEW_VALUES:
        return f"a {type_} in each of only {len(values)} sampled values; else write text"
    if type_ == "bigint" and _MOMENT_NAME.search(column_name(path[-1:])):
        for unit, encoding, factor in _EPOCHS:
            if all(_FIRST * factor <= int(value) <= _LAST * factor for value in values):
                return f"looks like {unit} since 1970; if so, write {{type: timestamptz, encoding: {encoding}}}"
    return ""
