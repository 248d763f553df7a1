"""The fields of an Avro schema, with those of the records in it."""

from __future__ import annotations

from collections.abc import Iterator

from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.avro.nodes import AvroType, Record, Scalar, Union, branches_of, shown
from offset_ledger.decoding.avro.schema import record_or_union
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.typed.schema_field import MAX_NESTED, SchemaField, at_most
from offset_ledger.decoding.typed.types import TypeName
from offset_ledger.model.writer_schema import WriterSchema


def schema_fields(schema: WriterSchema, name: str | None = None) -> tuple[SchemaField, ...]:
    """The fields in the schema's order, of a union those of the record of this full name, or of its first one.

    A record that contains itself, or has no fields, is one field.

    Raises:
        SchemaProblem: the schema is not valid, has no such record, or too many fields.
    """
    records = _records(schema)
    if name is not None and name not in records:
        raise SchemaProblem(f"expected record {name} in the schema, which has {', '.join(records)}")
    record = records[name] if name else next(iter(records.values()))
    return at_most(_members(record, (), False, (record,)))


def record_names(schema: WriterSchema) -> tuple[str, ...]:
    """The full name of the record, or of each record of a union.

    Raises:
        SchemaProblem: the schema is not valid, or has no record.
    """
    return tuple(_records(schema))


def _records(schema: WriterSchema) -> dict[str, Record]:
    return {each.name: each for each in branches_of(record_or_union(schema)) if isinstance(each, Record)}


def _members(record: Record, path: JsonPath, nullable: bool, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    for field in record.fields:
        yield from _field(field.type, (*path, field.name), nullable, within)


def _field(type_: AvroType, path: JsonPath, nullable: bool, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    match type_:
        case Scalar():
            null = type_.value.name is TypeName.NULL
            yield SchemaField(path, None if null else type_.value, type_.value.shown, nullable or null)
        case Union():
            yield from _union(type_, path, nullable, within)
        case Record() if type_.fields and type_ not in within and len(path) < MAX_NESTED:
            yield from _members(type_, path, nullable, (*within, type_))
        case _:
            yield SchemaField(path, None, shown(type_), nullable)


def _union(union: Union, path: JsonPath, nullable: bool, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    values = [branch for branch in union.branches if not _is_null(branch)]
    nullable = nullable or len(values) < len(union.branches)
    if len(values) == 1:
        yield from _field(values[0], path, nullable, within)
    else:
        yield SchemaField(path, None, f"union of {', '.join(map(shown, values))}" if values else "null", nullable)


def _is_null(type_: AvroType) -> bool:
    return isinstance(type_, Scalar) and type_.value.name is TypeName.NULL
