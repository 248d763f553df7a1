"""The groups of columns that a record gives; those that it leaves out, or was not sent, stay as they are."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Self
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import wire_format
from offset_ledger.decoding.decoder import Given, GivenBy
from offset_ledger.decoding.envelope import is_null, unwrapped
from offset_ledger.decoding.kinds import EPOCH, valid_flags
from offset_ledger.decoding.outcome import Code, DecodedRow, Flags, Proven, Reason
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, JsonPath, RecordShape
from offset_ledger.pipeline_file.source import Format, Source

GROUPS = "_groups"
_OF_CODES = (pa.int16(), pa.int32(), pa.int64(), pa.date32())
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def in_group(record: RecordShape) -> list[Column]:
    """The columns that have a group."""
    return [column for column in record.columns if column.group]


def given_by(source: Source, record: RecordShape) -> GivenBy:
    """Return the function that tells which columns each value of the pipeline gives.

    Members that JSON lacks are absent, and fields of Protobuf that are not set. A field of Avro always has a value.
    """
    if source.format is Format.PROTOBUF:
        return lambda _: [None] * len(in_group(record))
    if source.format is Format.AVRO:
        return lambda values: [np.ones(len(values), np.bool_)] * len(in_group(record))
    start = wire_format.SIZE if source.format is Format.JSON_SCHEMA and source.schema is None else 0
    return lambda values: given_by_json(record, wire_format.without_head(values, start) if start else values)


def given_by_json(record: RecordShape, documents: pa.BinaryArray) -> Given:
    """Return which JSON objects have a member at a column's path or alias; one inside null counts as null.

    A tombstone, which has no object, gives none.
    """
    paths = [(column.path, *column.aliases) for column in in_group(record)]
    flags = np.zeros((len(paths), len(documents)), np.bool_)
    for place, document in enumerate(documents.to_pylist()):
        if document is None or is_null(document):
            continue
        members = _object(unwrapped(document) if record.envelope else document)
        for number, places in enumerate(paths):
            flags[number, place] = any(_has(members, path) for path in places)
    return list(flags)


def _has(members: dict[str, msgspec.Raw], path: JsonPath) -> bool:
    for name in path[:-1]:
        raw = bytes(members.get(name, b""))
        if raw[:1] != b"{":
            return raw == b"null"
        members = _object(raw)
    return path[-1] in members


def with_groups(record: RecordShape, rows: pa.Table, given: Given) -> pa.Table:
    """Return the rows with the names of the groups that each record gives; a delete is about all of them.

    A placeholder for a value that was not sent is NULL.
    """
    flags = {group: rows.column("_deleted").to_numpy().copy() for group in record.groups}
    for column, of_column in zip(in_group(record), given, strict=True):
        place = rows.schema.get_field_index(column.name)
        values = rows.column(place).combine_chunks()
        is_given = valid_flags(values) if of_column is None else of_column
        if (missing := unsent(record, values)) is not None:
            is_given = is_given & ~missing
            rows = rows.set_column(place, rows.field(place), pc.if_else(pa.array(missing), None, values))
        flags[column.group] |= is_given
    matrix = np.array(list(flags.values()))
    offsets = np.concatenate([[0], np.cumsum(matrix.sum(axis=0))]).astype(np.int32)
    names = pa.array(record.groups, pa.string()).take(pa.array(np.nonzero(matrix.T)[1]))
    groups = pa.ListArray.from_arrays(pa.array(offsets), names)
    return rows.add_column(rows.num_columns - 1, pa.field(GROUPS, groups.type), groups)


def unsent(record: RecordShape, values: pa.Array) -> Flags | None:
    """Return which values of a column are placeholders for a value that was not sent; None if none can be."""
    if record.unavailable is None:
        return None
    forms = Placeholders.of(record.unavailable)
    if pa.types.is_list(values.type):
        flags = forms.lists_of(values)
    elif pa.types.is_string(values.type):
        flags = pc.is_in(values, pa.array(forms.texts)).to_numpy(False)
    elif pa.types.is_binary(values.type):
        flags = pc.equal(pc.fill_null(values, b""), forms.binary).to_numpy(False)
    else:
        return None
    return flags if flags.any() else None


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Debezium's placeholder for a value that the database did not log, by the type of its column.

    It is the connector's word, as text or bytes, or as one element of an array, which is a JSON text where the elements
    are documents; in arrays of numbers and dates each is the code of a byte of it, in those of UUIDs there is one that
    is made of it, and an hstore has it as key and value.
    """

    binary: bytes
    texts: tuple[str, ...]
    word: str
    codes: tuple[int, ...]
    uuid: UUID

    @classmethod
    @cache
    def of(cls, binary: bytes) -> Self:
        """The forms of the connector's ``unavailable.value.placeholder``."""
        text, codes = binary.decode(errors="replace"), tuple(int.from_bytes([each], signed=True) for each in binary)
        uuid = UUID(bytes=hashlib.md5(binary, usedforsecurity=False).digest(), version=3)
        in_base64 = [b64encode(binary).decode()]
        documents = (_encode(each).decode() for each in (text, {text: text}, [text], codes, [uuid], in_base64))
        return cls(binary, (text, *documents), text, codes, uuid)

    @property
    def in_json(self) -> frozenset[bytes]:
        """All of them as JSON, an hstore also as a text."""
        base64 = b64encode(self.binary).decode()
        return frozenset((*(each.encode() for each in self.texts[1:]), _encode(base64), _encode(self.texts[2])))

    def lists_of(self, values: pa.ListArray) -> Flags:
        """Return which lists are placeholders for a value that was not sent."""
        type_ = values.type.value_type
        if pa.types.is_string(type_):
            forms: list[Sequence[object]] = [[self.word], [self.texts[1]]]
        elif pa.types.is_fixed_size_binary(type_):
            forms = [[self.uuid.bytes]]
        elif pa.types.is_binary(type_):
            forms = [[self.binary]]
        else:
            forms = [self.codes] if type_ in _OF_CODES else []
        flags = np.zeros(len(values), np.bool_)
        for form in forms:
            flags |= _equal_to(values, pa.array(form, type_))
        return flags

    def __contains__(self, value: object) -> bool:
        """Return whether a decoded value is a placeholder for one that was not sent."""
        if isinstance(value, list):
            dates = [EPOCH.date() + timedelta(days=code) for code in self.codes]
            forms = [[each] for each in (self.word, self.texts[1], self.binary, self.uuid)]
            return value in (*forms, [*self.codes], dates)
        return value == self.binary or (isinstance(value, str) and value in self.texts)


def _equal_to(lists: pa.ListArray, wanted: pa.Array) -> Flags:
    """Return which lists have exactly these elements; few share the length, and fewer the first element."""
    flags = np.zeros(len(lists), np.bool_)
    places = np.flatnonzero(pc.fill_null(pc.equal(pc.list_value_length(lists), len(wanted)), False))
    first = pc.list_element(lists.take(pa.array(places)), 0)
    places = places[pc.fill_null(pc.equal(first, wanted[0]), False).to_numpy(False)]
    flags[[place for place in places.tolist() if lists[place].values.equals(wanted)]] = True
    return flags


def sent_flags(record: RecordShape, proven: Proven) -> Flags:
    """Return which proven records were sent a value for every column that is in no group."""
    sent = np.ones(len(proven.places), np.bool_)
    for column, values in zip(record.columns, proven.columns[record.key_width + 1 :], strict=False):
        if not column.group and values is not None and (missing := unsent(record, values)) is not None:
            sent &= ~missing
    return sent


def against_unsent(record: RecordShape, row: DecodedRow) -> tuple[Reason, ...]:
    """The reasons against a record that was not sent the values of columns without a group."""
    if record.unavailable is None:
        return ()
    forms = Placeholders.of(record.unavailable)
    detail = "expected a value, got that it was not sent; let the column keep what it has (absent: keep)"
    return tuple(
        Reason(format_path(column.path), Code.MISSING, detail)
        for column, value in zip(record.columns, row.values, strict=True)
        if not column.group and value in forms
    )
