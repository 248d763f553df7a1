"""The fit of a table to its pipeline file: all that would make a merge fail, with the statement that fixes it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from offset_ledger.model.followed_columns import widens
from offset_ledger.pipeline_file.pipeline import Evolve, OnConflict, Pipeline, RecordShape, in_sql
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.postgres.ledger.staging import catalog_type, row_columns

RANGE_TYPES = ("date", "timestamp with time zone")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """A misfit; ``clause`` is the part of an ALTER TABLE that fixes it, ``statement`` one of its own.

    ``change`` is the kind of change that a pipeline could make itself (None: one that every pipeline makes),
    ``column`` is the one that it is about.
    """

    text: str
    clause: str = ""
    statement: str = ""
    change: Evolve | None = Evolve.NONE
    column: str = ""


def target_columns(pipeline: Pipeline) -> list[tuple[str, str]]:
    """(name, Postgres type) of every column of the target, in table order."""
    record, target = pipeline.record, pipeline.target
    columns = [*row_columns(record), ("_batch_id", "bigint")]
    if not target.beside:
        return columns
    kinds = dict(columns)
    own = [(column.name, kinds[column.name]) for column in record.all_columns]
    return own + [(name, kinds[copied]) for copied, name in target.copied]


def nullable_columns(pipeline: Pipeline) -> set[str]:
    """The columns that may be NULL in a row that is no delete marker."""
    own = {"_key", "_headers", "_schema_id"}
    copies = {name for copied, name in pipeline.target.copied if copied in own | {"_timestamp"}}
    return {column.name for column in pipeline.record.columns if column.nullable} | own | copies


def has_markers(pipeline: Pipeline) -> bool:
    """Return whether rows of the target can be delete markers."""
    return pipeline.record.deletes and not pipeline.target.beside


def misfits(cursor: Cursor, pipeline: Pipeline) -> list[Misfit]:
    """Return everything about the table, which exists, that does not fit the pipeline file."""
    relation = cursor.run("table/relation", **_place(pipeline), key=_key(pipeline.record)).one()
    if relation["relkind"] not in "rp":
        return [Misfit(f"it is {_KINDS.get(relation['relkind'], 'no table')}, and rows go into a table")]
    kinds = dict(target_columns(pipeline))
    former = set(no_longer_declared(cursor, pipeline))
    divided = dict(_of_partitions(relation, pipeline))
    problems = [*_of_relation(relation, pipeline.record), *divided.values()]
    for row in _columns(cursor, pipeline):
        name = row["name"]
        if name in divided and row["there"]:
            continue
        if name in kinds:
            misfits = _of_column(row, kinds[name], pipeline)
        elif name in former:
            why = "declared before and not now, so it is set to NULL"
            misfits = _allow_null(row, why, [*row["never_null"], *row["unless_deleted"]])
        elif row["not_null"] and not row["filled"]:
            text, clause = "NOT NULL without a default and not declared", f"ALTER COLUMN {row['quoted']} DROP NOT NULL"
            if row["in_primary_key"]:
                text, clause = "of the primary key and not declared: add it to record.key", ""
            misfits = iter([Misfit(f"column {name} is {text}", clause)])
        else:
            continue
        problems += [replace(misfit, column=name) for misfit in misfits]
    if pipeline.target.on_conflict is OnConflict.QUARANTINE:
        problems += _of_uniques(cursor, pipeline, set(kinds))
        problems += _of_references(cursor, pipeline)
    return problems


def _of_uniques(cursor: Cursor, pipeline: Pipeline, written: set[str]) -> Iterator[Misfit]:
    """The constraints that look at values of records and at values that nobody knows before the rows are written."""
    fillers = cursor.run("conflicts/columns", **_place(pipeline)).fetchall()
    unforeseen = [row["name"] for row in fillers if row["unforeseen"] and row["name"] not in written]
    for unique in own_uniques(cursor, pipeline):
        if unique.is_of(written) and unique.is_of(unforeseen) and not unique.excludes:
            names = ", ".join(name for name in unforeseen if name in unique.involved)
            yield Misfit(
                f"{unique.name} keeps rows apart by column {names}, whose value nobody knows before a row is written, "
                "so on_conflict: quarantine cannot find its conflicts: write on_conflict: fail, or declare that column"
            )


def _of_references(cursor: Cursor, pipeline: Pipeline) -> Iterator[Misfit]:
    """Yield the foreign keys that refer to a table in which this login cannot see every row."""
    for reference in own_references(cursor, pipeline):
        if not reference.is_readable:
            yield Misfit(
                f"foreign key {reference.name} refers to {reference.table}, whose rows this login cannot read, so "
                f"on_conflict: quarantine cannot find its conflicts: GRANT SELECT ON {reference.table} (with row level "
                "security, a policy for all rows too), or write on_conflict: fail"
            )


def column_types(cursor: Cursor, pipeline: Pipeline) -> dict[str, str]:
    """The columns of the table, which exists, with their types as Postgres's format_type() prints them."""
    return {row["name"]: row["type"] for row in _columns(cursor, pipeline) if row["there"]}


def _columns(cursor: Cursor, pipeline: Pipeline) -> list[Any]:
    names = [name for name, _ in target_columns(pipeline)]
    return cursor.run("table/columns", **_place(pipeline), columns=names).fetchall()


def enabled_triggers(cursor: Cursor, pipeline: Pipeline) -> dict[str, bool]:
    """The triggers that act on what is written into the target, or into a partition of it, and whether for each row."""
    return {row["tgname"]: row["of_rows"] for row in cursor.run("table/triggers", **_place(pipeline))}


class References(NamedTuple):
    """The foreign keys of a table: whether they refer to the table itself, and whether any acts on rows that refer."""

    there: bool
    act: bool


def self_references(cursor: Cursor, pipeline: Pipeline) -> References:
    """Return the foreign keys of the target that refer to itself."""
    return References(*cursor.run("table/self_references", **_place(pipeline)).one())


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique or exclusion constraint or index: columns and expressions in ``parts``, all ``involved`` columns.

    It ``waits`` where Postgres judges it after the statement, and not row by row.
    """

    name: str
    excludes: bool
    waits: bool
    nulls_are_equal: bool
    predicate: str
    columns: list[str]
    parts: list[str]
    involved: list[str]

    def is_of(self, columns: Iterable[str]) -> bool:
        """Return whether it looks at any of these columns, also by expressions and generated columns."""
        return not set(columns).isdisjoint(self.involved)


def own_uniques(cursor: Cursor, pipeline: Pipeline) -> list[Unique]:
    """The unique and exclusion constraints and indexes of the target that rows of different keys may break."""
    return [Unique(*row) for row in cursor.run("table/uniques", **_place(pipeline), key=_key(pipeline.record))]


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key of the target: its columns, in ``parts`` as its ``operators`` compare them with ``referenced``."""

    name: str
    table: str
    is_partitioned: bool
    is_self: bool
    is_full: bool
    is_readable: bool
    columns: list[str]
    parts: list[str]
    referenced: list[str]
    operators: list[str]


def own_references(cursor: Cursor, pipeline: Pipeline) -> list[Reference]:
    """The foreign keys that Postgres checks of what the pipeline writes into the target."""
    written = {name for name, _ in target_columns(pipeline)}
    return [
        Reference(**{name: row[name] for name in Reference.__slots__})
        for row in cursor.run("table/references", **_place(pipeline))
        if row["is_generated"] or not written.isdisjoint(row["involved"])
    ]


def _key(record: RecordShape) -> list[str]:
    return sorted(record.key_names)


def _place(pipeline: Pipeline) -> dict[str, str]:
    return {"schema": pipeline.target.schema, "table": pipeline.target.table}


def remedy(table: str, problems: list[Misfit]) -> str:
    """The statements that make the table fit, in one line; ``table`` as SQL names it."""
    # A unique index may be of a column that is added.
    ordered = sorted(problems, key=lambda misfit: misfit.clause.startswith("ADD UNIQUE"))
    clauses = ", ".join(misfit.clause for misfit in ordered if misfit.clause)
    statements = [misfit.statement for misfit in problems if misfit.statement]
    return "; ".join([*statements, *([f"ALTER TABLE {table} {clauses}"] if clauses else [])])


def _of_partitions(row: Mapping[str, Any], pipeline: Pipeline) -> Iterator[tuple[str, Misfit]]:
    """Yield what does not fit in the partitioning of the table, by column: each has to be in every row."""
    record, wanted, ranges_of = pipeline.record, pipeline.target.partitions, row["ranges_of"]
    kinds, declared = dict(target_columns(pipeline)), {column.name for column in record.columns}
    for name in row["parted_by"]:
        if name in record.key_names:
            continue
        if not name:
            wrong = "an expression, over which Postgres has no unique index: partition it by columns"
        elif name not in kinds:
            wrong = f"{name}, which the pipeline file does not declare: add it to record.key or record.columns"
        elif name in declared and has_markers(pipeline):
            wrong = f"{name}, and a delete marker has no value for it: put it into record.key"
        elif name in nullable_columns(pipeline):
            wrong = f"{name}, which is declared nullable: declare it without nullable"
        else:
            continue
        yield name, Misfit(f"it is partitioned by {wrong}", column=name)
    if wanted and not (ranges_of and catalog_type(kinds.get(ranges_of, "")) in RANGE_TYPES):
        text = "it is not partitioned by ranges of one declared date or timestamptz column: leave out target.partitions"
        yield "", Misfit(text)
    elif wanted and wanted.by not in (None, ranges_of):
        yield "", Misfit(f"it is partitioned by {ranges_of}: leave out target.partitions.by, which is {wanted.by}")


def _of_relation(row: Mapping[str, Any], record: RecordShape) -> Iterator[Misfit]:
    key = ", ".join(record.key_names)
    for name, kind in row["stores"]:
        it = "it" if name == row["name"] else f"partition {name}"
        if kind == "u":
            text = f"{it} is UNLOGGED, so a crash of the server empties it"
            yield Misfit(text, statement=f"ALTER TABLE {name} SET LOGGED")
        elif kind == "t":
            yield Misfit(f"{it} is temporary, so it ends with a session: name another table")
        else:
            yield Misfit(f"{it} is a foreign table, whose rows are not in this database: DETACH PARTITION")
    if row["has_children"]:
        yield Misfit(f"other tables inherit from it, where {key} is not unique any more: ALTER TABLE ... NO INHERIT")
    if row["row_security"]:
        statement = f"ALTER TABLE {row['name']} DISABLE ROW LEVEL SECURITY"
        yield Misfit("row level security hides rows of it from this login", statement=statement)
    for rule in row["rules"]:
        statement = f"DROP RULE {rule} ON {row['name']}"
        yield Misfit(f"it has the rule {rule}, and rules rewrite what a commit writes", statement=statement)
    if not row["unique_key"] and not record.append:
        unique = ", ".join(dict.fromkeys(map(in_sql, [*record.key_names, *filter(None, row["parted_by"])])))
        yield Misfit(f"{key} has no primary key or unique index of its own", f"ADD UNIQUE ({unique})")


def _of_column(row: Mapping[str, Any], kind: str, pipeline: Pipeline) -> Iterator[Misfit]:
    """A column that the pipeline writes."""
    name, quoted, wanted, record = row["name"], row["quoted"], catalog_type(kind), pipeline.record
    declared = {column.name for column in record.columns}
    if not row["there"]:
        added = Evolve.ADD_COLUMNS if name == "_schema_id" or name in declared else Evolve.NONE
        yield Misfit(f"column {name} {wanted} is missing", f"ADD COLUMN {quoted} {kind}", change=added)
        return
    if row["type"] != wanted:
        if name in record.key_names and record.key:  # keys are equal as the table has them
            kind = f"{wanted} COLLATE {row['collated']}" if row["collated"] else wanted
        change = f"ALTER COLUMN {quoted} TYPE {kind} USING {quoted}::{wanted}"
        widened = Evolve.WIDEN if widens(row["type"], wanted) else Evolve.NONE
        yield Misfit(f"column {name} is {row['type']}, declared {wanted}", change, change=widened)
    elif name == "event_id" and not record.key and row["collation"]:
        change = 'ALTER COLUMN event_id TYPE text COLLATE "C"'
        yield Misfit(f"column event_id has the collation {row['collation']}, and event ids are bytes", change)
    if row["generated"]:
        change = f"ALTER COLUMN {quoted} DROP EXPRESSION" if row["generated"] == "s" else f"DROP COLUMN {quoted}"
        yield Misfit(f"column {name} is generated, and the pipeline writes it", change)
    if row["always_identity"] and name not in record.key_names:
        change = f"ALTER COLUMN {quoted} DROP IDENTITY"
        yield Misfit(f"column {name} is GENERATED ALWAYS, and the pipeline writes it", change)
    if name in nullable_columns(pipeline):
        yield from _allow_null(row, "declared nullable", [*row["never_null"], *row["unless_deleted"]])
    elif has_markers(pipeline) and name in declared:  # a delete marker has none
        checked = f"ADD CHECK (_deleted OR {quoted} IS NOT NULL)"
        for misfit in _allow_null(row, "and delete markers have none", row["never_null"]):
            yield misfit if row["unless_deleted"] else Misfit(misfit.text, f"{misfit.clause}, {checked}")


def _allow_null(row: Mapping[str, Any], why: str, checks: list[str]) -> Iterator[Misfit]:
    if row["domain_not_null"]:
        yield Misfit(f"the domain of column {row['name']} is NOT NULL, {why}: ALTER DOMAIN {row['type']} DROP NOT NULL")
    if row["not_null"]:
        yield Misfit(f"column {row['name']} is NOT NULL, {why}", f"ALTER COLUMN {row['quoted']} DROP NOT NULL")
    for check in checks:
        yield Misfit(f"constraint {check} keeps NULL out of column {row['name']}, {why}", f"DROP CONSTRAINT {check}")


def record_columns(cursor: Cursor, pipeline: Pipeline) -> None:
    """Record that the pipeline writes the columns that its file declares now."""
    cursor.run("table/declare_columns", pipeline=pipeline.name, columns=_written(pipeline))


def no_longer_declared(cursor: Cursor, pipeline: Pipeline) -> list[str]:
    """The columns of the table that the pipeline has written and that its file declares no more."""
    place = {"file": pipeline.file, **_place(pipeline), "declared": _written(pipeline)}
    return [row["attname"] for row in cursor.run("table/no_longer_declared", **place)]


def _written(pipeline: Pipeline) -> list[str]:
    """The columns that each record writes, but for its key and those of the ledger."""
    return [*(column.name for column in pipeline.record.columns), *(name for _, name in pipeline.target.copied)]


def column_groups(cursor: Cursor, pipeline: Pipeline) -> dict[str, str]:
    """The columns that committed batches have written, with the group that each is in, '' for the row as a whole."""
    return {row["name"]: row["group_name"] for row in cursor.run("table/column_groups", file=pipeline.file)}


def foreign_columns(cursor: Cursor, pipeline: Pipeline) -> frozenset[str]:
    """The columns of the table, if it exists, that no field of a record has ever filled."""
    foreign = cursor.run("table/foreign_columns", file=pipeline.file, **_place(pipeline))
    return frozenset(row["attname"] for row in foreign).union(name for _, name in pipeline.target.copied)
