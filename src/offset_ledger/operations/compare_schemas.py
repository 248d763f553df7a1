"""Schema, pipeline file and table side by side, and what each difference means. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.config.json_path import format_path, touch
from offset_ledger.config.model import JsonPath, Pipeline
from offset_ledger.decoding.kinds import ColumnKind, kinds
from offset_ledger.decoding.schema_fit import unfit
from offset_ledger.operations.known_schemas import KnownSchema
from offset_ledger.target.evolve import may_change
from offset_ledger.target.fit import Misfit, remedy


@dataclass(frozen=True, slots=True)
class Mark:
    """What a difference means; one that ``matters`` costs records or stops a run."""

    text: str
    matters: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A path or a column: what it is in the schemas, in the file and in the table."""

    path: str
    schema: str
    column: str
    file: str
    table: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The table: its columns with their types, and what does not fit; ``exists`` is None where nobody could look."""

    exists: bool | None
    types: Mapping[str, str]
    misfits: tuple[Misfit, ...] = ()


@dataclass(frozen=True, slots=True)
class _Slot:
    """What the file reads: the path, and the column that it goes to."""

    path: JsonPath | None
    column: str
    kind: ColumnKind
    nullable: bool
    file: str


def compare(pipeline: Pipeline, schemas: Sequence[KnownSchema], table: Table) -> tuple[Line, ...]:
    """A line for each column of the file, each field that nothing reads, and each other column that does not fit."""
    slots = _slots(pipeline)
    lines = [_line(pipeline, slot, schemas, table) for slot in slots]
    lines += _unread(pipeline, slots, schemas)
    ours = {slot.column for slot in slots}
    for misfit in table.misfits:
        if misfit.column not in ours:
            type_ = table.types.get(misfit.column, "")
            lines.append(Line("", "", misfit.column, "", type_, (_mark(pipeline, misfit),)))
    return tuple(lines)


def _slots(pipeline: Pipeline) -> list[_Slot]:
    record = pipeline.record
    event_id, publish_at, *others = kinds(record)
    found = [
        _Slot(record.event_id, "event_id", event_id, False, "text"),
        _Slot(record.publish_at, "publish_at", publish_at, False, "timestamp with time zone"),
    ]
    for column, kind in zip(record.columns, others, strict=True):
        file = f"{column.type.sql}{', null' if column.nullable else ''}"
        found.append(_Slot(column.path, column.name, kind, column.nullable, file))
    return found


def _line(pipeline: Pipeline, slot: _Slot, schemas: Sequence[KnownSchema], table: Table) -> Line:
    marks = [_mark(pipeline, misfit) for misfit in table.misfits if misfit.column == slot.column]
    path, types = "", ""
    if slot.path is not None:
        path, types = format_path(slot.path), _types(slot.path, schemas)
        marks = [*_of_schemas(pipeline, slot, slot.path, schemas), *marks]
    return Line(path, types, slot.column, slot.file, table.types.get(slot.column, ""), tuple(marks))


def _of_schemas(pipeline: Pipeline, slot: _Slot, path: JsonPath, schemas: Sequence[KnownSchema]) -> Iterator[Mark]:
    for schema in schemas:
        for text in unfit(schema.fields, path, slot.kind, slot.nullable, pipeline.source.format):
            yield Mark(_by_name(schema, schemas, text))


def _by_name(schema: KnownSchema, schemas: Sequence[KnownSchema], text: str) -> str:
    return f"{schema.name}: {text}" if len(schemas) > 1 else text


def _types(path: JsonPath, schemas: Sequence[KnownSchema]) -> str:
    """What the schemas say of the path, once if they agree."""
    found = dict.fromkeys(text for schema in schemas for text in _type(path, schema))
    return "; ".join(found)


def _type(path: JsonPath, schema: KnownSchema) -> Iterator[str]:
    for field in schema.fields:
        if field.path == path:
            yield f"{field.shown}{', null' if field.nullable else ''}"
            return
    if any(field.path[: len(path)] == path for field in schema.fields):
        yield "record"


def _unread(pipeline: Pipeline, slots: Sequence[_Slot], schemas: Sequence[KnownSchema]) -> Iterator[Line]:
    """The fields that no path leads to, through or into."""
    read = [slot.path for slot in slots if slot.path is not None]
    read += [each.path for each in (pipeline.record.where, pipeline.record.delete_when) if each]
    paths = dict.fromkeys(field.path for schema in schemas for field in schema.fields)
    for path in paths:
        if not any(touch(each, path) for each in read):
            mark = Mark("new field, nothing reads it", matters=False)
            yield Line(format_path(path), _types(path, schemas), "", "", "", (mark,))


def _mark(pipeline: Pipeline, misfit: Misfit) -> Mark:
    name = f"{pipeline.target.schema}.{pipeline.target.table}"
    run = remedy(name, [misfit])
    if may_change(pipeline, misfit):
        return Mark(f"{misfit.text}: the next commit runs {run}", matters=False)
    return Mark(f"{misfit.text}{f': run {run}' if run else ''}")
