"""What a sample says beyond the members of its values: rows inside change events, and keys that are structs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from offset_ledger.config.column_types import MAX_PRECISION
from offset_ledger.config.envelope import MEMBERS, UNAVAILABLE
from offset_ledger.decoding.connect_schema import VARIABLE_SCALE, ConnectSchema, connect_schema
from offset_ledger.decoding.envelope import unwrapped
from offset_ledger.decoding.inferred import Inferred, schema_columns
from offset_ledger.decoding.presence import Placeholders
from offset_ledger.decoding.subjects import fields_of
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.table.infer import Sample, SampledRecord, json_columns

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
    "boolean": ("boolean", ""),
    "int16": ("smallint", ""),
    "int32": ("integer", ""),
    "int64": ("bigint", ""),
    "float": ("real", ""),
    "double": ("double precision", ""),
    "string": ("text", ""),
    "bytes": ("bytea", "base64"),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True, slots=True)
class Changes:
    """The records of a sample that are about one row, and the columns of these rows."""

    sample: Sample
    columns: tuple[Inferred, ...]


def changes_of(sample: Sample) -> Changes | None:
    """The change events of a sample; None where a JSON object in it is not in Debezium's envelope.

    Raises:
        ConfigurationError: none of them has a row after its change.
    """
    records, rows, keeps = list[SampledRecord](), list[dict[str, msgspec.Raw]](), set[str]()
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
        schema = schema or connect_schema(record.value)
        if after != b"null":
            row = _members(after)
            absent = {name for name, value in row.items() if bytes(value) in _NOT_SENT}
            keeps |= absent
            rows.append({name: value for name, value in row.items() if name not in absent})
    if not records or all(record.value is None for record in records):
        return None
    if not rows:
        raise ConfigurationError(
            f"no sampled change event of {sample.topic} has a row after its change; raise --records, or write the "
            "columns by hand"
        )
    columns = json_columns([_encode(row) for row in rows])
    columns += tuple(Inferred((name,), "text", True) for name in sorted(keeps - {each.path[0] for each in columns}))
    of_row = schema.at(("after",)) if schema else None
    of_rows = {each.path: each for each in (_of_row(column, of_row, keeps) for column in columns)}
    return Changes(replace(sample, records=tuple(records)), tuple(of_rows.values()))


def _of_row(column: Inferred, schema: ConnectSchema | None, keeps: set[str]) -> Inferred:
    name = column.path[0]
    along = schema.along(column.path) if schema else []
    whole = next((n for n, each in enumerate(along, 1) if each.name == VARIABLE_SCALE), 0)  # its members are no columns
    along = along[: whole or None]
    field = along[-1] if whole or len(along) == len(column.path) else None
    path = column.path[: len(along)] if field else column.path
    type_, encoding = by_schema(field or ConnectSchema(), column.type)
    return replace(
        column,
        path=("after", *path) if name in MEMBERS else path,
        type=type_,
        encoding=encoding,
        nullable=column.nullable or name in keeps or any(each.optional for each in along),
        keeps=name in keeps,
        doubt="" if field and field.type else column.doubt,
    )


def by_schema(field: ConnectSchema, sampled: str) -> tuple[str, str]:
    """The type and the encoding of a column for a field; the type of the sample, where the schema says none."""
    if field.type == "array" and field.items:
        type_, encoding = by_schema(field.items, sampled.removesuffix("[]"))
        is_whole = type_.endswith("[]") or (type_, encoding) == ("jsonb", "")
        return ("jsonb", "") if is_whole else (f"{type_}[]", encoding)
    said = field.parameters
    if field.type == "int64" and said.get("__debezium.source.column.type", "").upper().startswith("BIGINT UNSIGNED"):
        return "numeric(20,0)", "unsigned"
    if field.name == _DECIMAL:
        scale, precision = said.get("scale", ""), said.get("connect.decimal.precision", "")
        if not scale.isdecimal():
            return sampled, ""
        fits = precision.isdecimal() and int(scale) <= int(precision) <= MAX_PRECISION
        return f"numeric({precision},{scale})" if fits else "numeric", f"unscaled({scale})" if sampled == "text" else ""
    return _TYPES.get(field.name or "", _TYPES.get(field.type, (sampled, "")))


def key_members(sample: Sample) -> tuple[Inferred, ...]:
    """The members of the keys, where each is a JSON object with the same numbers and texts, wrapped or not."""
    keys = [unwrapped(record.key) if record.key is not None else b"" for record in sample.records]
    try:
        names = {tuple(_members(key)) for key in keys}
    except _INVALID:
        return ()
    return _naming(json_columns(keys) if len(names) == 1 else ())


def _naming(columns: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """These columns, if each of them may be one of a key."""
    fit = all(each.type in _KEY_TYPES and not each.nullable and len(each.path) == 1 for each in columns)
    return tuple(columns) if fit else ()


def rows_by_schema(columns: Sequence[Inferred]) -> tuple[Inferred, ...] | None:
    """The columns of the rows in the schemas of Debezium's envelopes; None where they are none."""
    if not {"op", "source", "after"} <= {each.path[0] for each in columns}:
        return None
    inside = (each for each in columns if each.path[0] == "after" and len(each.path) > 1)
    return tuple(each if each.path[1] in MEMBERS else replace(each, path=each.path[1:]) for each in inside)


def members_by_schema(schemas: Sequence[WriterSchema]) -> tuple[Inferred, ...]:
    """The fields of the schemas of keys, as :func:`key_members` gives those of JSON."""
    try:
        return _naming(schema_columns([fields_of(each, None) for each in schemas]))
    except SchemaProblem:
        return ()
