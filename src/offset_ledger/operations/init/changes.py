"""Findings of a sample beyond its members: rows that Kafka Connect wrote, and keys that are structs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec.structs import replace as replace_struct

from offset_ledger.decoding.column_groups import Placeholders
from offset_ledger.decoding.connect_schema import PAYLOAD, VARIABLE_SCALE, ConnectSchema, connect_schema
from offset_ledger.decoding.envelope import is_null, unwrapped
from offset_ledger.decoding.inferred import Inferred, schema_columns
from offset_ledger.decoding.json.conversions import list_elements
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.subjects import fields_of
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.column_types import MAX_PRECISION
from offset_ledger.pipeline_file.envelope import MEMBERS, UNAVAILABLE
from offset_ledger.pipeline_file.pipeline import JsonPath
from offset_ledger.pipeline_file.source import Envelope, Source
from offset_ledger.postgres.table.infer import MAX_NESTED, Sample, SampledRecord, json_columns, json_documents

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOT_SENT = Placeholders.of(UNAVAILABLE).in_json
_OPERATIONS = {_encode(each) for each in "curd"}
_KEY_TYPES = ("bigint", "text", "uuid")

# By the name of a field's schema, else by its type, as Kafka Connect's JsonConverter writes both.
_TYPES = {
    "io.debezium.time.Date": ("date", "epoch_days"),
    "io.debezium.time.Timestamp": ("timestamptz", "epoch_ms"),
    "io.debezium.time.MicroTimestamp": ("timestamptz", "epoch_us"),
    "io.debezium.time.ZonedTimestamp": ("timestamptz", "rfc3339"),
    "io.debezium.data.Uuid": ("uuid", ""),
    "io.debezium.data.Json": ("jsonb", "json"),
    VARIABLE_SCALE: ("numeric", "unscaled"),
    "io.debezium.time.Time": ("time", "ms"),
    "io.debezium.time.MicroTime": ("time", "us"),
    "io.debezium.time.NanoTime": ("time", "ns"),
    "io.debezium.time.NanoTimestamp": ("timestamptz", "epoch_ns"),
    "io.debezium.time.MicroDuration": ("interval", "us"),
    "io.debezium.time.NanoDuration": ("interval", "ns"),
    "io.debezium.time.Interval": ("interval", ""),
    "io.debezium.time.IsoDate": ("date", ""),
    "io.debezium.time.IsoTime": ("time", ""),
    "io.debezium.time.ZonedTime": ("time", ""),
    "io.debezium.time.IsoTimestamp": ("timestamptz", "rfc3339"),
    "org.apache.kafka.connect.data.Date": ("date", "epoch_days"),
    "org.apache.kafka.connect.data.Time": ("time", "ms"),
    "org.apache.kafka.connect.data.Timestamp": ("timestamptz", "epoch_ms"),
    "boolean": ("boolean", ""),
    "int8": ("smallint", ""),
    "int16": ("smallint", ""),
    "int32": ("integer", ""),
    "int64": ("bigint", ""),
    "float": ("real", ""),
    "double": ("double precision", ""),
    "string": ("text", ""),
    "bytes": ("bytea", "base64"),
    "map": ("jsonb", ""),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
DELETED, OP = "__deleted", "__op"
ADDED = (DELETED, OP, "__source_ts_ms", "__source_lsn", "__lsn")
"""The fields that Debezium's ExtractNewRecordState adds to a row; each row has one of them."""
_OF_CANAL = {"data", "database", "table", "type", "isDdl"}
_Members = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Changes:
    """The records of a sample that are about one row, the columns of these rows, and whether they are changes."""

    sample: Sample
    columns: tuple[Inferred, ...]
    envelope: Envelope | None = None
    is_unwrapped: bool = False

    def source(self, source: Source) -> Source:
        """Return the source, completed by what such records need."""
        unavailable = UNAVAILABLE.decode() if self.is_unwrapped else source.unavailable
        return replace(source, envelope=self.envelope, unavailable=unavailable)


def changes_of(sample: Sample) -> Changes | None:
    """The change events of a sample; None where a JSON object in it is not in Debezium's envelope.

    Raises:
        ConfigurationError: none of them has a row after its change.
    """
    records, rows = list[SampledRecord](), list[_Members]()
    schema: ConnectSchema | None = None
    for record in sample.records:
        if record.value is None:
            records.append(record)
            continue
        try:
            envelope = _members(unwrapped(record.value))
        except _INVALID:
            continue
        after = bytes(envelope.get("after", b"null"))
        if not {"op", "source"} <= envelope.keys() or after[:1] not in b"{n":
            return None
        if bytes(envelope["op"]) not in _OPERATIONS:
            continue
        records.append(record)
        schema = connect_schema(record.value) or schema
        rows += [_members(after)] if after != b"null" else []
    if not records or all(record.value is None for record in records):
        return None
    if not rows:
        raise ConfigurationError(
            f"no sampled change event of {sample.topic} has a row after its change; raise --records, or write the "
            "columns by hand"
        )
    columns = _columns(rows, schema.at(("after",)) if schema else None)
    columns = tuple(_under("after", each) if each.path[0] in MEMBERS else each for each in columns)
    return Changes(replace(sample, records=tuple(records)), columns, Envelope.DEBEZIUM)


def rows_of(sample: Sample) -> Changes | None:
    """The rows of a sample without an envelope, from Kafka Connect's wrapper or unwrapped; None if neither fits.

    Raises:
        ConfigurationError: a record has many rows, or all of them are deleted.
    """
    rows: list[_Members] = [_members(each) for each in json_documents(sample.values)]
    if rows and all(row.keys() >= _OF_CANAL for row in rows):
        most = max((len(list_elements(row["data"])) for row in rows if bytes(row["data"])[:1] == b"["), default=0)
        raise ConfigurationError(
            f"the sampled records of {sample.topic} are Canal's flat messages, each with a list of rows (data, up to "
            f"{most} here), and a record is one row: let a stream processor write a record for each row, or Debezium "
            "or Maxwell read the source; TiCDC, whose canal-json has one row in the list, can write protocol=debezium"
        )
    wrapped = [row for row in rows if row.keys() == {"schema", PAYLOAD} and bytes(row[PAYLOAD])[:1] == b"{"]
    is_wrapped = bool(wrapped) and all(row.keys() == {"schema", PAYLOAD} for row in rows)
    rows = [_members(row[PAYLOAD]) for row in wrapped] if is_wrapped else rows
    is_unwrapped = any(name in ADDED or bytes(row[name]) in _NOT_SENT for row in rows for name in row)
    if not is_wrapped and not is_unwrapped:
        return None
    tombstones = (each.value is None or is_null(each.value, is_wrapped) for each in sample.records)
    records = (
        replace(each, value=None) if gone else each for each, gone in zip(sample.records, tombstones, strict=True)
    )
    sample = replace(sample, records=tuple(records))
    deletes = ((DELETED, b"true"), (DELETED, b'"true"'), (OP, b'"d"'))
    live = [row for row in rows if not any(bytes(row.get(name, b"")) == mark for name, mark in deletes)]
    if not live:
        raise ConfigurationError(f"all sampled rows of {sample.topic} are deleted; raise --records")
    schemas = filter(None, map(connect_schema, reversed(sample.values))) if is_wrapped else iter(())
    columns = _columns(live, schema := next(schemas, None))
    columns = tuple(_under(PAYLOAD, each, each.path) if is_wrapped else each for each in columns)
    types = [each.name or "" for field in schema.fields for each in (field, field.items or field)] if schema else []
    is_unwrapped = is_unwrapped or any(each.startswith("io.debezium.") for each in types)
    return Changes(sample, columns, is_unwrapped=is_unwrapped)


def _under(member: str, column: Inferred, named: JsonPath = ()) -> Inferred:
    return replace(column, path=(member, *column.path), named=named)


def _columns(rows: Sequence[_Members], schema: ConnectSchema | None) -> tuple[Inferred, ...]:
    """The columns of rows by their schema, where there is one, and without the values that were not sent."""
    keeps = {name for row in rows for name, value in row.items() if bytes(value) in _NOT_SENT}
    sent = [{name: value for name, value in row.items() if bytes(value) not in _NOT_SENT} for row in rows]
    columns = json_columns(list(map(_encode, sent)))
    columns += tuple(Inferred((name,), "text", True) for name in sorted(keeps - {each.path[0] for each in columns}))
    of_rows = {each.path: each for column in columns for each in _of_row(column, schema, keeps)}
    return tuple(of_rows.values())


def _of_row(column: Inferred, schema: ConnectSchema | None, keeps: set[str]) -> Iterator[Inferred]:
    name = column.path[0]
    along = schema.along(column.path) if schema else []
    # The members of these are no columns.
    whole = next((n for n, each in enumerate(along, 1) if each.name == VARIABLE_SCALE or each.type == "map"), 0)
    along = along[: whole or None]
    field = along[-1] if whole or len(along) == len(column.path) else None
    path = column.path[: len(along)] if field else column.path
    if field and field.type == "struct" and not whole and column.type == "jsonb":  # null in every row of the sample
        for member in field.fields:
            yield from _of_row(replace(column, path=(*path, member.field)), schema, keeps) if member.field else ()
        return
    type_, encoding = by_schema(field or ConnectSchema(), column.type)
    yield replace(
        column,
        path=path,
        type=type_,
        encoding=encoding,
        coerce=_is_number_in_text(field),
        nullable=column.nullable or name in keeps or any(each.optional for each in along),
        keeps=name in keeps,
        doubt="" if field and field.type else column.doubt,
    )


def _source_type(field: ConnectSchema) -> str:
    """The type that the column has in the source, where column.propagate.source.type lets the schema say it."""
    return field.parameters.get("__debezium.source.column.type", "").upper().removeprefix("_")


_DECIMALS = ("NUMERIC", "DECIMAL")


def _is_number_in_text(field: ConnectSchema | None) -> bool:
    """Return whether it is a decimal, or a list of these, with decimal.handling.mode: string."""
    return field is not None and (field.items or field).type == "string" and _source_type(field) in _DECIMALS


def by_schema(field: ConnectSchema, sampled: str) -> tuple[str, str]:
    """Return the type and encoding of a column for a field; the type of the sample if the schema has none."""
    if _is_number_in_text(field):
        return "numeric[]" if field.items else "numeric", ""
    if field.type == "array" and field.items:
        type_, encoding = by_schema(field.items, sampled.removesuffix("[]"))
        is_whole = type_.endswith("[]") or (type_, encoding) == ("jsonb", "")
        return ("jsonb", "") if is_whole else (f"{type_}[]", encoding)
    said = field.parameters
    if field.type == "int64" and _source_type(field).startswith("BIGINT UNSIGNED"):
        return "numeric(20,0)", "unsigned"
    if field.name == _DECIMAL:
        scale, precision = said.get("scale", ""), said.get("connect.decimal.precision", "")
        if not scale.isdecimal():
            return sampled, ""
        fits = precision.isdecimal() and int(scale) <= int(precision) <= MAX_PRECISION
        encoding = "" if sampled in ("bigint", "numeric") else f"unscaled({scale})"
        return f"numeric({precision},{scale})" if fits else "numeric", encoding
    return _TYPES.get(field.name or "", _TYPES.get(field.type, (sampled, "")))


def key_members(sample: Sample, unwraps: bool = True) -> tuple[Inferred, ...]:
    """The members of the keys, where each is a JSON object with the same numbers and texts, wrapped or not.

    Without ``unwraps`` the paths lead through the wrapper.
    """
    written = [record.key or b"" for record in sample.records]
    keys = [unwrapped(key) for key in written]
    is_wrapped = not unwraps and all(key != each for key, each in zip(keys, written, strict=True))
    try:
        if is_wrapped and all(key[:1] not in b"{[n" for key in keys):
            columns = json_columns([b'{"key":%b}' % key for key in keys])
            return _naming([replace(each, path=(PAYLOAD,), named=each.path) for each in columns])
        names = {tuple(_members(key)) for key in keys}
    except _INVALID:
        return ()
    fit = _naming(json_columns(keys) if len(names) == 1 else ())
    return tuple(_under(PAYLOAD, each, each.path) for each in fit) if is_wrapped else fit


def _naming(columns: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """Return these columns if each of them may be one of a key, else none."""
    fit = all(each.type in _KEY_TYPES and not each.nullable and len(each.path) == 1 for each in columns)
    return tuple(columns) if fit else ()


def rows_by_schema(columns: Sequence[Inferred]) -> tuple[Inferred, ...] | None:
    """Return the columns of the rows in the schemas of Debezium's envelopes; None if they are none."""
    if not {"op", "source", "after"} <= {each.path[0] for each in columns}:
        return None
    inside = (each for each in columns if each.path[0] == "after" and len(each.path) > 1)
    return tuple(each if each.path[1] in MEMBERS else replace(each, path=each.path[1:]) for each in inside)


def by_connect_names(columns: Sequence[Inferred], schemas: Sequence[WriterSchema]) -> tuple[Inferred, ...]:
    """Return the columns with the types that Debezium names in Avro schemas, where Avro's own say less."""
    fields = dict[JsonPath, ConnectSchema]()
    for schema in schemas:
        if schema.language is SchemaLanguage.AVRO:
            # One that cannot be read is named elsewhere.
            with suppress(*_INVALID, LookupError, TypeError, AttributeError):
                fields |= dict(_connect_fields(msgspec.json.decode(schema.text), (), {}))
    typed = dict[JsonPath, Inferred]()
    for each in columns:
        outer = (each.path[:depth] for depth in range(len(each.path), 0, -1))
        if path := next((path for path in outer if path in fields), None):
            type_, encoding = by_schema(fields[path], each.type)
            coerce = _is_number_in_text(fields[path])
            each = replace(each, path=path, type=type_, encoding=encoding, coerce=coerce, doubt="")
        typed.setdefault(each.path, each)
    return tuple(typed.values())


_OF_AVRO = {"long": "int64", "string": "string"}


def _connect_fields(type_: Any, path: JsonPath, known: dict[str, Any]) -> Iterator[tuple[JsonPath, ConnectSchema]]:
    if isinstance(type_, list):
        for branch in type_:
            yield from _connect_fields(branch, path, known)
        return
    type_ = known.get(type_.rpartition(".")[2], {"type": type_}) if isinstance(type_, str) else type_
    kind, name = str(type_["type"]), type_.get("connect.name", "")
    said = ConnectSchema(type=_OF_AVRO.get(kind, ""), name=name, parameters=type_.get("connect.parameters", {}))
    own = type_["name"].rpartition(".")[2] if kind == "record" else ""
    if name.startswith("io.debezium.") and name in _TYPES:
        yield path, said
    elif own:
        known[own] = {"type": ""}  # while it is open: one that contains itself has no end
        for field in type_["fields"] if len(path) < MAX_NESTED else ():
            yield from _connect_fields(field["type"], (*path, field["name"]), known)
    elif kind == "array":
        items = dict(_connect_fields(type_["items"], path, known)).get(path)
        of_texts = "string" in type_["items"]  # the word, or one of a union
        said = replace_struct(said, type="array", items=items or ConnectSchema(type="string" if of_texts else ""))
        if items or _is_number_in_text(said):
            yield path, said
    elif said.type and _source_type(said).startswith(("BIGINT UNSIGNED", *_DECIMALS)):
        yield path, said
    if own:
        known[own] = type_


def members_by_schema(schemas: Sequence[WriterSchema]) -> tuple[Inferred, ...]:
    """The fields of the schemas of keys, as :func:`key_members` gives those of JSON."""
    try:
        return _naming(schema_columns([fields_of(each, None) for each in schemas]))
    except SchemaProblem:
        return ()
