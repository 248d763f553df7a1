"""The fit of a writer's schema and the columns of a pipeline.

What would be refused, and what to write instead; what the schema needs beyond the columns: new ones, wider types, or a
decision; and what of its records nothing reads.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from offset_ledger.decoding.inferred import column_name, column_type, decimal_digits, schema_columns
from offset_ledger.decoding.kinds import INTEGER_BITS, ColumnKind, kind_of
from offset_ledger.decoding.outcome import printable
from offset_ledger.decoding.paths import places
from offset_ledger.decoding.typed.conversions import refusal
from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType
from offset_ledger.model.followed_columns import widens
from offset_ledger.pipeline_file.column_types import ENCODINGS, MAX_PRECISION, parse_type
from offset_ledger.pipeline_file.json_path import format_path, touch
from offset_ledger.pipeline_file.names import MAX_COLUMNS, RESERVED_COLUMNS
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Evolve, JsonPath, RecordShape, spelled
from offset_ledger.pipeline_file.source import Format

Fields = tuple[SchemaField, ...]
_OF_TEXTS = ("text", "varchar", "jsonb")
_MIXED = "values of another type are quarantined"
_EXACT = {"real": 24, "double precision": 53}
"""The bits of an integer that a float holds."""
_NUMBERS = {*INTEGER_BITS, *_EXACT, "numeric", "jsonb"}
GONE = "not in the schema, and not nullable: records are quarantined"


def unfit(fields: tuple[SchemaField, ...], path: JsonPath, kind: ColumnKind, nullable: bool, form: Format) -> list[str]:
    """Return how a schema differs from the column that reads the path, in words; an empty list if all values fit."""
    for field in fields:
        if field.path == path:
            misfit = refused(field, kind, form) or limited(field, kind, form)
            texts = [f"{field.shown} in the schema, {shown(kind)} in the file: {misfit}"] if misfit else []
            if field.nullable and not nullable:
                texts.append(
                    "can be null or missing in the schema, not nullable in the file: such records are quarantined"
                )
            return texts
    if (text := elsewhere(fields, path, kind, form)) is not None:
        return [text] if text else []
    return ["not in the schema: NULL" if nullable else GONE]


_WHOLE = "records are quarantined; write jsonb, or the path of a value in it"


def elsewhere(fields: tuple[SchemaField, ...], path: JsonPath, kind: ColumnKind, form: Format) -> str | None:
    """Return what is wrong with a path to a record or into a field, empty if nothing; None if the schema lacks it."""
    if any(field.path[: len(path)] == path for field in fields):
        takes_records = kind.name == "jsonb" or kind.encoding == "unscaled"
        return "" if takes_records else f"a record in the schema, {kind.name} in the file: {_WHOLE}"
    for field in fields:
        if path[: len(field.path)] == field.path:
            # Only some languages have values that a path can lead into.
            scalar = field.type is not None or form is Format.PROTOBUF or field.shown in ("array", "null")
            return f"a path into {field.shown}, which has no fields: records are quarantined" if scalar else ""
    return None


_NO_NUMBER = "records are quarantined; write numeric"


def refused(field: SchemaField, kind: ColumnKind, form: Format) -> str | None:
    """Return what becomes of the field's records if no value of it can stand in a column of that kind."""
    source = field.type or (field.array if kind.item else None)
    if source is None:
        may_be_single = is_union(field) or field.shown in ("any value", "null", "array" if kind.item else "")
        return None if kind.name == "jsonb" or may_be_single else _WHOLE
    if form is Format.JSON_SCHEMA and not kind.item and source.name is TypeName.DECIMAL:
        takes = kind.name in (*_NUMBERS, "event_id") or kind.unit or (kind.judged and kind.encoding)
        return None if takes else _NO_NUMBER
    why = refusal(source, kind)
    return None if why is None else f"records are quarantined ({why})"


def limited(field: SchemaField, kind: ColumnKind, form: Format) -> str | None:
    """Return which values of a field a column of that kind refuses while it takes others, and what to write."""
    if field.type is None or refused(field, kind, form):
        return None
    source = field.type
    if form is Format.JSON_SCHEMA and source.name is TypeName.DECIMAL:
        if kind.name in INTEGER_BITS or kind.unit:
            return "values with a fraction are quarantined; write numeric"
        return "values with a fraction are quarantined" if kind.name == "event_id" else None
    if kind.unit:
        return None
    if source.name is TypeName.INTEGER:
        return _integer_limit(source, kind)
    if source.name is TypeName.FLOAT and kind.name == "real" and source.bits == 64:
        return "values that a real cannot hold are quarantined; write double precision"
    written = decimal_digits(source.shown) if source.name is TypeName.DECIMAL and kind.name == "numeric" else None
    if written and kind.args:
        precision, scale = written
        if scale > kind.args[1] or precision - scale > kind.args[0] - kind.args[1]:
            return f"values with more digits are quarantined; write numeric({precision},{scale})"
    if source.nanoseconds == 1 and kind.name in ("timestamptz", "time"):
        return "values between two microseconds are quarantined"
    return None


def shown(kind: ColumnKind) -> str:
    """The type as a pipeline file writes it."""
    return spelled(kind.name, kind.args)


def is_union(field: SchemaField) -> bool:
    """Return whether the field has values of several types, by its schema."""
    return field.type is None and (field.shown.startswith("union of") or " or " in field.shown)


def _integer_limit(source: ValueType, kind: ColumnKind) -> str | None:
    reach = source.bits - (1 if source.signed else 0)  # the values are below 2 to the power of this
    if kind.name in INTEGER_BITS and (held := INTEGER_BITS[kind.name] - 1) < reach:
        return f"values from 2^{held} on are quarantined; write {_wider(reach)}"
    if kind.name in _EXACT and (held := _EXACT[kind.name]) < reach:
        return f"values above 2^{held} that it cannot hold are quarantined; write {_wider(reach)}"
    if kind.name == "numeric" and kind.args and (digits := kind.args[0] - kind.args[1]) < len(str(2**reach)):
        return f"values from 10^{digits} on are quarantined; write {_wider(reach)}"
    return None


def _wider(reach: int) -> str:
    return "integer" if reach < 32 else "bigint" if reach < 64 else "numeric"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference that only a person can decide about, at a path of the record."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Needed:
    """The columns that are new or wider, and the open questions; without either the schema fits."""

    columns: tuple[Column, ...] = ()
    questions: tuple[Difference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns or self.questions)


@dataclass(frozen=True, slots=True)
class Follower:
    """The rules by which a pipeline follows schemas.

    ``declared`` are the columns of its file, ``foreign`` those of the table that are not its own, ``accepted`` the
    differences that a person has accepted.
    """

    form: Format
    evolve: Evolve
    declared: Collection[str] = ()
    foreign: Collection[str] = ()
    accepted: Collection[Difference] = ()

    def needed(self, record: RecordShape, fields: Fields) -> Needed:
        """Return what the fields of a schema need beyond the columns of the record."""
        needs = [*self._of_keys(record, fields), *self._of_columns(record, fields), *self._of_new(record, fields)]
        columns = tuple(each for each in needs if isinstance(each, Column))
        asked = [each for each in needs if isinstance(each, Difference) and each not in self.accepted]
        if len(record.columns) + len(columns) > MAX_COLUMNS:
            too_many = Difference("$", f"more fields than the {MAX_COLUMNS} columns that a table takes")
            return Needed((), tuple(asked) if too_many in self.accepted else (*asked, too_many))
        return Needed(columns, tuple(asked))

    def _of_keys(self, record: RecordShape, fields: Fields) -> Iterator[Difference]:
        """Return what the schema needs of the key and its moment, which every row must have."""
        for place in filter(lambda each: each.leaf.slot <= record.key_width, places(record)):
            path, kind = _place(place.paths, fields), place.leaf.kind
            if text := self._misfit(fields, path, kind, place.leaf.nullable):
                yield Difference(_shown_path(path), text)

    def _of_columns(self, record: RecordShape, fields: Fields) -> Iterator[Column | Difference]:
        by_path = {field.path: field for field in fields}
        for declared in filter(lambda each: each.path, record.columns):
            column = replace(declared, path=_place((declared.path, *declared.aliases), fields))
            field = by_path.get(column.path)
            text = self._misfit(fields, column.path, kind_of(column), column.optional)
            if text := text or self._changed(column, fields):
                yield Difference(_shown_path(column.path), text)
            elif field and field.type:
                for need in self._of_limits(column, field, field.type):
                    yield replace(need, path=declared.path) if isinstance(need, Column) else need

    def _changed(self, column: Column, fields: Fields) -> str | None:
        """Return what a schema has now where an earlier one made the column; a file may say that texts are dates."""
        if column.name in self.declared:
            return None
        for field in fields:
            is_text = field.type is not None and field.type.name is TypeName.TEXT
            if field.path == column.path and is_text and column.type.name not in _OF_TEXTS:
                return f"{_compared(field, kind_of(column))}: texts that are no {column.type.name} are quarantined"
            if field.path == column.path[: len(field.path)] != column.path:
                return f"a path into {field.shown}: {_MIXED}"
        return None

    def _misfit(self, fields: Fields, path: JsonPath, kind: ColumnKind, nullable: bool) -> str | None:
        """Return why no record of the schema has a value that the column takes, or a value at all if it needs one."""
        for field in fields:
            if field.path == path:
                mixed = _MIXED if is_union(field) and kind.name != "jsonb" else None
                why = refused(field, kind, self.form) or mixed
                return f"{_compared(field, kind)}: {why}" if why else None
        text = elsewhere(fields, path, kind, self.form)
        return text or (GONE if text is None and not nullable else None)

    def _of_limits(self, column: Column, field: SchemaField, type_: ValueType) -> Iterator[Column | Difference]:
        """A column that takes some values of the field and not others, though a wider type would."""
        kind, natural = kind_of(column), column_type(type_)
        limit = limited(field, kind, self.form)
        # Where the schema knows no length of texts, those of the column are the file's alone.
        is_cut = self.evolve is Evolve.WIDEN and column.type.name == "varchar" and field.shown.split()[0] == "string"
        wider = self._wider(column, field, natural) if limit or is_cut else None
        if wider and self.evolve is Evolve.WIDEN:
            yield replace(column, type=wider)
        elif limit and parse_type(natural) != column.type:
            may = f", or evolve: widen, which makes it {wider.sql}" if wider else ""
            yield Difference(_shown_path(column.path), f"{_compared(field, kind)}: {limit}{may}")

    def _wider(self, column: Column, field: SchemaField, natural: str) -> ColumnType | None:
        """The first type that has all values of the column, and takes all of the field: also the digits of both."""
        args, written, combined = column.type.args, decimal_digits(field.shown), list[str]()
        if column.type.name == "numeric" and args and written:
            scale = max(args[1], written[1])
            precision = scale + max(args[0] - args[1], written[0] - written[1])
            combined = [f"numeric({precision},{scale})"] if precision <= MAX_PRECISION else []
        names = [natural, *combined, "bigint", "numeric", "double precision", "text"]
        for type_ in map(parse_type, names):
            kind = kind_of(replace(column, type=type_))
            takes_all = not refused(field, kind, self.form) and not limited(field, kind, self.form)
            if takes_all and widens(column.type.sql, type_.sql):
                return type_
        return None

    def _of_new(self, record: RecordShape, fields: Fields) -> Iterator[Column | Difference]:
        """The fields that no path leads to, through or into."""
        read = read_paths(record)
        taken = {*RESERVED_COLUMNS, *self.foreign, *(column.name for column in record.all_columns)}
        for each in schema_columns([fields]):
            if not any(touch(path, each.path) for path in read):
                path, name = _shown_path(each.path), column_name(each.path)
                if not each.type:
                    yield Difference(path, f"a new field: {each.doubt}")
                elif name in taken:
                    other = f"{name} is another column; declare it by another name in the file"
                    yield Difference(path, f"a new field, and {other}")
                else:
                    taken.add(name)
                    type_ = parse_type(each.type)
                    encoding = ENCODINGS.get(type_.name, ("",))[0]
                    yield Column(name, type_, each.path, nullable=True, encoding=encoding)


def _place(paths: tuple[JsonPath, ...], fields: Fields) -> JsonPath:
    """Return where records of the schema have a value that can be at several places: the first that they have."""
    return next((path for path in paths if any(touch(path, field.path) for field in fields)), paths[0])


def _shown_path(path: JsonPath) -> str:
    """The path in a line; JSON Schema lets a name be any text."""
    return printable(format_path(path), 200)


def _compared(field: SchemaField, kind: ColumnKind) -> str:
    return f"{field.shown} in the schema, {shown(kind)} in the table"


_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Read = dict[str, "Read"]
"""The members that paths lead to or through, with those inside; none where a path ends."""


def read_paths(record: RecordShape) -> tuple[JsonPath, ...]:
    """Return every path that the file reads: of columns and their aliases, of the key, publish_at and conditions."""
    conditions = [each.path for each in (*record.where_in_values, record.delete_when) if each]
    return (*(path for place in places(record) for path in place.paths), *conditions)


def unread(paths: Iterable[JsonPath], record: RecordShape) -> tuple[JsonPath, ...]:
    """The outermost places on these paths that no path of the file leads to, through or into."""
    read = read_paths(record)
    steps = ((path[:depth] for depth in range(1, len(path) + 1)) for path in paths)
    outermost = (next((at for at in each if not any(touch(other, at) for other in read)), None) for each in steps)
    return tuple(dict.fromkeys(at for at in outermost if at is not None))


class UnreadMembers:
    """The search for unread members of JSON documents: at the top, and in objects that a path leads into."""

    def __init__(self, record: RecordShape) -> None:
        self._read: Read = {}
        for path in sorted(read_paths(record), key=len, reverse=True):
            node = self._read
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = {}  # a shorter path reads all that longer ones lead into

    def of(self, document: bytes) -> list[JsonPath]:
        """Return their paths; the document is a valid JSON object."""
        unread_paths: list[JsonPath] = []
        _find(self._read, document, (), unread_paths)
        return unread_paths


def _find(read: Read, raw: bytes | msgspec.Raw, path: JsonPath, unread_paths: list[JsonPath]) -> None:
    for name, value in _object(raw).items():
        inner = read.get(name)
        if inner is None:
            unread_paths.append((*path, name))
        elif inner and bytes(value)[:1] == b"{":
            _find(inner, value, (*path, name), unread_paths)
