"""Schema, pipeline file and table side by side, and the meaning of each difference. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from offset_ledger.decoding.kinds import ColumnKind, kind_of, kinds
from offset_ledger.decoding.needed_columns import Difference, Follower, Needed, read_paths, unfit, unread
from offset_ledger.decoding.typed.types import SchemaField
from offset_ledger.model.followed_columns import FollowedColumn
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.pipeline_file.json_path import format_path, parse_path, touch
from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.pipeline import Column, JsonPath, Pipeline
from offset_ledger.postgres.table.change import may_change
from offset_ledger.postgres.table.fit import Misfit, remedy


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema with its fields; ``name`` says where it is from."""

    name: str
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """The meaning of a difference; one that ``matters`` costs records or stops a run."""

    text: str
    matters: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A path or a column as it is in the schemas, in the file and in the table."""

    path: str
    schema: str
    column: str
    file: str
    table: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The table: its columns with their types, and its misfits; ``exists`` is None if nobody could look."""

    exists: bool | None
    types: Mapping[str, str]
    misfits: tuple[Misfit, ...] = ()


@dataclass(frozen=True, slots=True)
class Following:
    """Columns beside those of the file: those of the ledger by name, and those that these schemas would bring.

    The latter are by path, a column or a question, and only with ``columns_from: schema``.
    """

    came: Mapping[str, FollowedColumn] = field(default_factory=dict)
    brings: Mapping[str, Column | Difference] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        follower: Follower | None,
        followed: Iterable[FollowedColumn],
        schemas: Iterable[KnownSchema],
    ) -> Self:
        """Return what the schemas would bring to the pipeline, which has these columns."""
        types = {column.name: column.type for column in pipeline.record.columns}
        came = {each.column.name: each for each in followed if types.get(each.column.name) == each.column.type}
        brings: dict[str, Column | Difference] = {}
        for schema in schemas:
            needed = follower.needed(pipeline.record, schema.fields) if follower else Needed()
            brings |= {format_path(column.path): column for column in needed.columns}
            brings |= {question.path: question for question in needed.questions}
        return cls(came, brings)

    def marks(self, path: str) -> list[Mark]:
        """Return the effects of the next record with one of the schemas."""
        match self.brings.get(path):
            case Column() as column:
                return [Mark(f"the next record with it brings column {column.name} {column.type.sql}", matters=False)]
            case Difference() as asked:
                return [Mark(f"{asked.text}; the next record with it is a question")]
        return []


@dataclass(frozen=True, slots=True)
class _Slot:
    """A value that the file reads: the path with its aliases, none of Kafka's own, and the column that it goes to."""

    paths: tuple[JsonPath, ...]
    column: str
    kind: ColumnKind
    nullable: bool
    file: str

    def path(self, schema: KnownSchema) -> JsonPath:
        """Return where it is in records of the schema."""
        return next((path for path in self.paths if _leads(path, schema)), self.paths[0])


_NOTHING = Following()


def compare(
    pipeline: Pipeline, schemas: Sequence[KnownSchema], table: Table, following: Following = _NOTHING
) -> tuple[Line, ...]:
    """A line for each column of the file, each field that nothing reads, and each other column that does not fit."""
    slots, read, lines = _slots(pipeline), read_paths(pipeline.record), list[Line]()
    for slot in slots:
        marks = [_mark(pipeline, misfit) for misfit in table.misfits if misfit.column == slot.column]
        path, types, file = "", "", slot.file
        if came := following.came.get(slot.column):
            marks.append(Mark(f"{came.column.type.sql} {came.origin}", matters=False))
            file = f"{file}, {'by schema' if came.batch_id else 'sampled'}"
        if slot.paths:
            path, types = format_path(slot.paths[0]), _types([(slot.path(schema), schema) for schema in schemas])
            marks = [*(following.marks(path) or _of_schemas(pipeline, slot, schemas)), *marks]
        lines.append(Line(path, types, slot.column, file, table.types.get(slot.column, ""), tuple(marks)))
    fields = {each.path: each for schema in schemas for each in schema.fields}
    for place, schema_field in fields.items():
        if not any(touch(each, place) for each in read) and not set(schema_field.aliases) & set(read):
            marks = following.marks(format_path(place)) or [Mark("new field, nothing reads it", matters=False)]
            types = _types([(place, schema) for schema in schemas])
            lines.append(Line(format_path(place), types, "", "", "", tuple(marks)))
    ours = {slot.column for slot in slots}
    for misfit in table.misfits:
        if misfit.column not in ours:
            type_ = table.types.get(misfit.column, "")
            lines.append(Line("", "", misfit.column, "", type_, (_mark(pipeline, misfit),)))
    return tuple(lines)


def _slots(pipeline: Pipeline) -> list[_Slot]:
    record = pipeline.record
    slots = list[_Slot]()
    for column in record.all_columns:
        file = f"{column.type.sql}{', null' if column.nullable else ''}"
        paths = (column.path, *column.aliases) if column.path else ()
        slots.append(_Slot(paths, column.name, kind_of(column), column.optional, file))
    in_key = record.key_width
    moment = (record.publish_at, *record.publish_at_aliases) if record.publish_at else ()
    publish_at = _Slot(moment, "publish_at", kinds(record)[in_key], False, "timestamp with time zone")
    return [*slots[:in_key], publish_at, *slots[in_key:]]


def _leads(path: JsonPath, schema: KnownSchema) -> bool:
    """Return whether the schema has the path, or a value that the path leads into."""
    return any(touch(path, field.path) for field in schema.fields)


def _of_schemas(pipeline: Pipeline, slot: _Slot, schemas: Sequence[KnownSchema]) -> Iterator[Mark]:
    for schema in schemas:
        if renamed := _renamed(slot, schema):
            yield Mark(_by_name(schema, schemas, renamed))
            continue
        for text in unfit(schema.fields, slot.path(schema), slot.kind, slot.nullable, pipeline.source.format):
            yield Mark(_by_name(schema, schemas, text))
        if earlier := _earlier(pipeline, slot, schema):
            yield Mark(_by_name(schema, schemas, earlier), matters=False)


def _renamed(slot: _Slot, schema: KnownSchema) -> str | None:
    """Return what to write if the schema has a path of the file under another name, by the schema's own aliases."""
    if any(_leads(path, schema) for path in slot.paths):
        return None
    for each in schema.fields:
        if any(path in each.aliases for path in slot.paths):
            aliases = ", ".join(map(format_path, slot.paths))
            return f"renamed to {format_path(each.path)}: write path: {format_path(each.path)}, aliases: [{aliases}]"
    return None


def _earlier(pipeline: Pipeline, slot: _Slot, schema: KnownSchema) -> str | None:
    """Return what to write for earlier records, if the schema knows names of a field that nothing reads."""
    read = {path for each in _slots(pipeline) for path in each.paths}
    aliases = [each for field in schema.fields if field.path in slot.paths for each in field.aliases]
    unread = [each for each in aliases if each not in read and not _leads(each, schema)]
    if not unread:
        return None
    shown = ", ".join(map(format_path, [*slot.paths[1:], *unread]))
    before = ", ".join(map(format_path, unread))
    return f"{before} before, as the schema says: for such records write aliases: [{shown}]"


def _by_name(schema: KnownSchema, schemas: Sequence[KnownSchema], text: str) -> str:
    return f"{schema.name}: {text}" if len(schemas) > 1 else text


def _types(paths: Sequence[tuple[JsonPath, KnownSchema]]) -> str:
    """Return the type of each path in the schemas, once if they agree."""
    texts = []
    for path, schema in paths:
        if known := next((each for each in schema.fields if each.path == path), None):
            texts.append(f"{known.shown}{', null' if known.nullable else ''}")
        elif any(each.path[: len(path)] == path for each in schema.fields):
            texts.append("record")
    return "; ".join(dict.fromkeys(texts))


def sampled_lines(pipeline: Pipeline, sampled: Iterable[Column]) -> tuple[Line, ...]:
    """Yield a line for each column of a new sample that the pipeline does not have, with the text to add."""
    read = read_paths(pipeline.record)
    new = [each for each in sampled if not any(touch(path, each.path) for path in read)]
    return tuple(Line(format_path(each.path), "", "", "", "", (Mark(_new(each), matters=False),)) for each in new)


def _new(column: Column) -> str:
    path = "" if column.path == (column.name,) else f", path: {format_path(column.path)}"
    entry = f"{column.name}: {{type: {column.type.sql}{path}, nullable: true}}"
    return f'new field; to load it, write columns: {{"*": auto, {entry}}}'


def unread_lines(pipeline: Pipeline, batch_id: int, unread_fields: UnreadCounts) -> tuple[Line, ...]:
    """A line for each field that the records of a batch had and that the file does not read by now."""
    sampled = "rows" if unread_fields.sampled == unread_fields.records else "sampled rows"
    of = f"of {unread_fields.sampled:,} {sampled} of batch {batch_id}"
    marks = {path: Mark(f"nothing reads it: in {count:,} {of}", False) for path, count in unread_fields.fields.items()}
    lines = []
    for path, mark in marks.items():
        with suppress(Refused):  # it was cut
            if not unread([parse_path(path)], pipeline.record):
                continue
        lines.append(Line(path, "", "", "", "", (mark,)))
    return tuple(lines)


def _mark(pipeline: Pipeline, misfit: Misfit) -> Mark:
    name = pipeline.target.name
    run = remedy(name, [misfit])
    if may_change(pipeline, misfit):
        return Mark(f"{misfit.text}: the next commit runs {run}", matters=False)
    return Mark(f"{misfit.text}{f': run {run}' if run else ''}")
