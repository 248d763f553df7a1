"""The target table: made where it is missing, checked column by column where it exists, changed where its file may.

The commit changes the table, not the plan: a rejected batch would have changed it, and a failure takes the ALTER back.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.errors import ConfigurationError, TargetLocked, TargetMismatch
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import EVENT_ID, ROWS_SCHEMA, Column, Evolve, Pipeline, in_sql
from offset_ledger.postgres.ledger import followed_columns, pipelines, row_order
from offset_ledger.postgres.ledger.database import Cursor, named_sql, savepoint
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.row_order import (
    TOPIC,
    check_appended,
    check_order,
    ordered_by,
    same_key,
    table_of,
    write_order,
)
from offset_ledger.postgres.ledger.staging import key_collations
from offset_ledger.postgres.table.existing import read_existing
from offset_ledger.postgres.table.fit import (
    Misfit,
    column_groups,
    column_types,
    has_markers,
    misfits,
    nullable_columns,
    remedy,
    target_columns,
)
from offset_ledger.postgres.table.key_places import check_key_places, keep_key_places
from offset_ledger.postgres.table.view import drop_view, to_be_made

LOCK_TIMEOUT = "10s"  # while a change waits for readers, everybody else waits for the change
_OF_BOOKKEEPING = frozenset({"_partition", "_offset", "_batch_id"})
_ALLOWED = {
    Evolve.NONE: frozenset[Evolve](),
    Evolve.ADD_COLUMNS: frozenset({Evolve.ADD_COLUMNS}),
    Evolve.WIDEN: frozenset({Evolve.ADD_COLUMNS, Evolve.WIDEN}),
}


def ensure_target(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Create the target table, or check that the one that exists fits; returns whether it was created.

    A change that ``target.evolve`` lets a commit make is left to the commit. The columns of ``columns: auto`` are
    taken from a sample, unless the ledger has them.

    Raises:
        ConfigurationError: another pipeline fills it, or the topic has nothing to infer columns from.
        TargetMismatch: it does not fit (the message names every column that differs), its rows are ordered by another
            moment, or what was committed is in another table, or nowhere any more.
    """
    if pipeline.record.sampled and not followed_columns.read(cursor, pipeline.name):
        from offset_ledger.postgres.table.infer import sampled_columns

        followed_columns.keep(cursor, pipeline.name, sampled_columns(pipeline))
    return _prepare(cursor, pipeline) is None


def _prepare(cursor: Cursor, pipeline: Pipeline, staging: sql.Identifier | None = None) -> list[Misfit] | None:
    """The changes that are left to the commit; None where the table was created."""
    pipeline = with_columns(cursor, pipeline)
    target = pipelines.take_table(cursor, pipeline)
    exists = is_there(cursor, target)
    if not exists:
        pipelines.lock_table(cursor, pipeline)
        exists = is_there(cursor, target)  # another pipeline of the file may have created it meanwhile
    _check_committed(cursor, pipeline, target, exists)
    if not check_key_places(cursor, pipeline):
        keep_key_places(cursor, pipeline)
    query = "UPDATE offset_ledger.pipeline SET target = %s WHERE pipeline = %s AND target IS DISTINCT FROM %s"
    cursor.execute(query, [target, pipeline.name, target])
    if not exists:
        _create(cursor, pipeline)
    if not _check_beside(cursor, pipeline):
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table_of(pipeline.bookkeeping)))
        _create(cursor, pipeline.bookkeeping, key_collations(cursor, pipeline))
    if not exists:
        write_order(cursor, pipeline, ordered_by(pipeline.record))
        to_be_made(cursor, pipeline)  # by the first commit, if nothing else has the name of the view
        return None
    changes = [*_check_fit(cursor, pipeline), *_of_bookkeeping(cursor, pipeline)]
    changes += to_be_made(cursor, pipeline, staging)
    check_order(cursor, pipeline, table_of(pipeline.bookkeeping))
    if row_order.read_orders(cursor, pipeline) != {wanted := ordered_by(pipeline.record)}:
        write_order(cursor, pipeline, wanted)
    return changes


def change_target(cursor: Cursor, pipeline: Pipeline, batch_id: int, staging: sql.Identifier | None = None) -> None:
    """Create, check or change the target table, its view, comments and partitions, in the batch's transaction.

    Each change is entered in the ledger.

    Raises:
        ConfigurationError, TargetMismatch: as :func:`ensure_target`, or Postgres does not let a column be changed,
            because a view uses it for example.
        TargetLocked: others read or write the table, and did not end in time; worth another try.
    """
    changes = _prepare(cursor, pipeline, staging)
    if pipeline.target.beside:
        _keep_groups(cursor, pipeline, batch_id)
    if changes is None:
        changes = to_be_made(cursor, pipeline, staging)
    if not changes:
        return
    columns = [change for change in changes if change.clause]
    clauses = ", ".join(change.clause for change in columns)
    table, name = table_of(pipeline), pipeline.target.name
    needed = f"ALTER TABLE {name} {clauses}" if columns else "the view, comments or partitions of the pipeline file"
    try:
        cursor.execute("SET LOCAL lock_timeout = %s", [LOCK_TIMEOUT])
        with savepoint(cursor):  # the batch commits without comments for which there is no lock
            widened = any(change.change is Evolve.WIDEN for change in columns)
            rights = drop_view(cursor, pipeline) if widened else []
            if columns:
                cursor.execute(sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(clauses)))
            others = [*_of_bookkeeping(cursor, pipeline), *to_be_made(cursor, pipeline, staging)]
            for statement in [*(change.statement for change in others), *rights]:
                cursor.execute(statement)
    except pg.LockNotAvailable as error:
        if not all(change.statement.startswith("COMMENT ") for change in changes):
            raise TargetLocked(
                f"table {name} is in use by others for longer than {LOCK_TIMEOUT}, and needs {needed}; nothing was "
                "committed; end long transactions on it, or wait for them"
            ) from error
        columns, others = [], []  # a VACUUM may take hours: a later commit sets the comments
    except (
        *(pg.FeatureNotSupported, pg.DependentObjectsStillExist, pg.InsufficientPrivilege),
        *(pg.UndefinedObject, pg.InvalidSchemaName, pg.InvalidObjectDefinition, pg.DuplicateTable, pg.DuplicateObject),
    ) as error:
        said = ", ".join(part for part in (error.diag.message_primary, error.diag.message_detail) if part)
        raise TargetMismatch(
            f"pipeline {pipeline.name}: Postgres refuses {needed}: {said}; nothing was "
            "committed; make the change yourself, with what depends on it, or change the pipeline file"
        ) from error
    cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    for change in [*columns, *others]:
        clause = change.clause or change.statement
        cursor.run("table/insert_change", pipeline=pipeline.name, batch_id=batch_id, found=change.text, clause=clause)


def check_target(cursor: Cursor, pipeline: Pipeline) -> list[Misfit] | None:
    """Compare the table with the pipeline file and write nothing.

    Returns the changes that the next commit makes; None if there is no table yet.

    Raises:
        ConfigurationError, TargetMismatch: as :func:`ensure_target`.
    """
    pipeline = with_columns(cursor, pipeline)
    target = pipelines.check_owner(cursor, pipeline)
    exists = is_there(cursor, target)
    _check_committed(cursor, pipeline, target, exists)
    check_key_places(cursor, pipeline)
    _check_beside(cursor, pipeline)
    if not exists:
        _partitioned_by(pipeline)
        return None
    changes = _check_fit(cursor, pipeline)
    check_order(cursor, pipeline, table_of(pipeline.bookkeeping))
    return [*changes, *_of_bookkeeping(cursor, pipeline), *to_be_made(cursor, pipeline)]


def is_there(cursor: Cursor, table: str) -> bool:
    """Return whether there is a table of that name, ``schema.table`` as in SQL."""
    return bool(cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).one()[0])


def _check_committed(cursor: Cursor, pipeline: Pipeline, target: str, exists: bool) -> None:
    """Check that the rows of committed batches are in this table: it is the one of before, perhaps renamed."""
    if exists:
        check_appended(cursor, pipeline)
    row = cursor.run("table/committed_into", pipeline=pipeline.name).fetchone()
    if row is None:
        return
    if row["target"] != target and is_there(cursor, row["target"]):
        raise TargetMismatch(
            f"pipeline {pipeline.name}: its committed rows are in table {row['target']}, the pipeline file names "
            f"{target}; correct target.table, or ALTER TABLE ... RENAME so that all rows are in one table, or start a "
            "pipeline with another name"
        )
    if not exists:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: table {target} does not exist, and the ledger has committed rows into "
            f"{row['target']}; correct target.table, rename or restore that table, or create an empty one yourself and "
            f"replay what the topic still has{' with --fill' if pipeline.record.append else ''}"
        )


def check_tables(cursor: Cursor, pipeline: Pipeline) -> None:
    """Check that the table with the committed rows is there, and that with their bookkeeping.

    Raises:
        TargetMismatch: one of them is gone, or elsewhere than the pipeline file says.
    """
    target = pipeline.target.name
    _check_committed(cursor, pipeline, target, is_there(cursor, target))
    _check_bookkeeping(cursor, pipeline)


def _check_bookkeeping(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Check that the bookkeeping of committed rows is there; return False where it is yet to be made.

    Raises:
        TargetMismatch: the bookkeeping is gone, or elsewhere than the pipeline file says.
    """
    kept, beside = f"{ROWS_SCHEMA}.{pipeline.file}", pipeline.bookkeeping is not pipeline
    exists = pipelines.has_bookkeeping(cursor, pipeline.file)
    committed = (beside or exists) and cursor.run("table/file_committed", file=pipeline.file).one()[0]
    if beside and exists and not committed and row_order.has_rows(cursor, table_of(pipeline.bookkeeping)):
        exists = False  # an earlier ledger or another table had it
    if beside and not exists and committed and not column_types(cursor, pipeline).keys() >= _OF_BOOKKEEPING:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: table {kept}, with the order of its committed rows, is gone; restore it from a "
            f"backup; or make it again with: offset-ledger accept table {pipeline.file} --why ..., which counts the "
            "rows of now as older than any record, and replay what the topic still has"
        )
    if beside != exists and committed:
        where, write = ("the table's own columns", "columns") if beside else (f"table {kept}", "beside")
        raise TargetMismatch(
            f"pipeline {pipeline.name}: the bookkeeping of its committed rows is in {where}; write target.bookkeeping: "
            f"{write}, or start a pipeline with another name and table"
        )
    return exists or not beside


def accept_rows(cursor: Cursor, pipeline: Pipeline) -> None:
    """Make the bookkeeping beside the table, which exists, describe the rows that the table has now."""
    if pipeline.bookkeeping is pipeline:
        return
    if not pipelines.has_bookkeeping(cursor, pipeline.file):
        _create(cursor, pipeline.bookkeeping, key_collations(cursor, pipeline))
    parts = {"kept": table_of(pipeline.bookkeeping), "table": table_of(pipeline)}
    cursor.execute(
        sql.SQL(named_sql("table/accept_rows")).format(**parts, same_row=same_key(pipeline.record, "u", "t"))
    )


def _check_beside(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Do as :func:`_check_bookkeeping`; also check that the bookkeeping fits the pipeline file."""
    there = _check_bookkeeping(cursor, pipeline)
    if pipeline.bookkeeping is not pipeline and there:
        _check_fit(cursor, pipeline.bookkeeping)
    return there


def _of_bookkeeping(cursor: Cursor, pipeline: Pipeline) -> list[Misfit]:
    """Return what the next commit changes in the bookkeeping beside the table: its key is as wide as the table's."""
    there = pipeline.bookkeeping is not pipeline and pipelines.has_bookkeeping(cursor, pipeline.file)
    if not there:
        return []
    kept = pipeline.bookkeeping
    name = table_of(kept).as_string(cursor)
    return [
        replace(each, text=f"{name}: {each.text}", clause="", statement=remedy(name, [each]), change=None)
        for each in _check_fit(cursor, kept)
    ]


def _keep_groups(cursor: Cursor, pipeline: Pipeline, batch_id: int) -> None:
    """Give the bookkeeping the order of each group of columns, also of those that come into it from elsewhere.

    A column that was written with the row, or with another group, has the order of that until now; one that was never
    written has none.
    """
    record = pipeline.record
    known = column_groups(cursor, pipeline)
    declared = {column.name: column.group for column in record.columns}
    now = dict.fromkeys(known, "") | declared
    if not (moved := {name: group for name, group in now.items() if group != known.get(name, "")}):
        return
    kept = table_of(pipeline.bookkeeping)
    topic = sql.Identifier("t", TOPIC[0]) if record.topic_names else sql.NULL
    of_row = sql.SQL(named_sql("table/order_of_row")).format(topic=topic)
    assignments, changed = list[sql.Composable](), list[sql.Composable]()
    for group in dict.fromkeys(filter(None, moved.values())):
        cursor.execute(sql.SQL(named_sql("table/add_group")).format(table=kept, group=sql.Identifier(group)))
        before = {known[name] for name, each in now.items() if each == group and name in known}
        orders = sql.SQL(", ").join(sql.Identifier("t", each) if each else of_row for each in sorted(before))
        latest = sql.SQL("greatest({})").format(orders) if before else sql.NULL
        assignments.append(sql.SQL("{} = {}").format(sql.Identifier(group), latest))
        changed.append(sql.SQL("true" if before else "({})._offset IS NOT NULL").format(sql.Identifier("t", group)))
    if assignments:
        parts = {"assignments": sql.SQL(", ").join(assignments), "changed": sql.SQL(" OR ").join(changed)}
        cursor.execute(sql.SQL(named_sql("table/seed_groups")).format(table=kept, **parts))
    groups = {"names": [*moved], "groups": [*moved.values()]}
    cursor.run("table/keep_column_groups", file=pipeline.file, batch_id=batch_id, **groups)


def _create(cursor: Cursor, pipeline: Pipeline, collations: Mapping[str, str] = MappingProxyType({})) -> None:
    record = pipeline.record
    nullable = nullable_columns(pipeline) | {"_timestamp"}  # Kafka may give none
    declared = {column.name for column in record.columns}
    definitions: list[sql.Composable] = []
    for name, kind in target_columns(pipeline):
        parts = [sql.Identifier(name), sql.SQL(collations.get(name, kind))]
        if has_markers(pipeline) and name in declared - nullable:  # a delete marker keeps only its coordinates
            parts.append(sql.SQL("CHECK (_deleted OR {} IS NOT NULL)").format(sql.Identifier(name)))
        elif name not in nullable:
            parts.append(sql.SQL("NOT NULL"))
        definitions.append(sql.SQL(" ").join(parts))
    by = _partitioned_by(pipeline)
    if not record.append:
        key = dict.fromkeys([*record.key_names, *by])
        definitions.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [pipeline.target.schema])
    if not cursor.rowcount:  # IF NOT EXISTS would want the right to create schemas also where there is nothing to do
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(pipeline.target.schema)))
    try:
        cursor.execute(
            sql.SQL("CREATE TABLE {} ({}){}").format(
                table_of(pipeline),
                sql.SQL(", ").join(definitions),
                sql.SQL("").join(sql.SQL(" PARTITION BY RANGE ({})").format(sql.Identifier(name)) for name in by),
            )
        )
    except (pg.UndefinedObject, pg.InvalidSchemaName) as error:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: the table cannot be created: {error.diag.message_primary}; create the type or "
            "the extension that has it, or change the pipeline file"
        ) from error
    except pg.DuplicateObject as error:  # a table is a type too
        raise TargetMismatch(
            f"pipeline {pipeline.name}: the table cannot be created: {error.diag.message_primary} in schema "
            f"{pipeline.target.schema}; name another table, or another schema, or rename the type (ALTER TYPE)"
        ) from error


def _partitioned_by(pipeline: Pipeline) -> list[str]:
    """The column that a new table is partitioned by, if any."""
    if (wanted := pipeline.target.partitions) is None:
        return []
    if wanted.by is None:
        raise ConfigurationError(
            f"pipeline {pipeline.name}: table {pipeline.target.name} does not exist, and the "
            "pipeline file does not say what it is partitioned by; add target.partitions.by, or create the table"
        )
    return [wanted.by]


def _check_fit(cursor: Cursor, pipeline: Pipeline) -> list[Misfit]:
    """The changes that the next commit makes to the table, which exists; those that it may not make are an error."""
    changes = misfits(cursor, pipeline)
    if problems := [misfit for misfit in changes if not may_change(pipeline, misfit)]:
        cursor.execute("SELECT format('%%I.%%I', %s, %s)", [pipeline.target.schema, pipeline.target.table])
        run = remedy(cursor.one()[0], problems)
        if lines := _as_it_is(cursor, pipeline, problems):
            raise TargetMismatch("\n".join([*lines, f"or change the table: {run}"]))
        raise TargetMismatch(
            f"pipeline {pipeline.name}: table {pipeline.target.name} does not fit: "
            f"{'; '.join(problem.text for problem in problems)}; {f'run: {run}; or change' if run else 'change'} the"
            " pipeline file"
        )
    return changes


def _as_it_is(cursor: Cursor, pipeline: Pipeline, problems: list[Misfit]) -> list[str]:
    """Return how a file can leave a keyed table made by others as it is, and what does not fit; else nothing."""
    record, target = pipeline.record, pipeline.target
    declared = {each.name: each for each in record.columns}
    added = [each.column for each in problems if each.clause.startswith("ADD COLUMN ")]
    missing = [name for name in added if name not in declared]
    table = read_existing(cursor, target.schema, target.table)
    if record.append or table is None or not table.keys or not set(missing) >= _OF_BOOKKEEPING:
        return []
    types, key = {each.name: each.type for each in table.columns}, table.keys[0]
    lines = [f"pipeline {pipeline.name}: table {target.name} does not fit:"]
    lines += [f"  {each.text}" for each in problems if each.column not in missing]
    lines += [f"  columns {', '.join(missing)} are missing", f"to leave the table as it is, write in {pipeline.path}:"]
    of_key, of_columns = [], []
    for name in () if record.key else key:
        own = record.key_columns[0] if len(key) == 1 else Column(name, EVENT_ID, (name,))
        column = declared.get(name, own)
        place = f"path: {format_path(column.path)}" if column.path else "key: $"
        type_ = types[name]
        if column.path != (name,):
            type_ = f"{{type: {json.dumps(type_) if ',' in type_ else type_}, {place}}}"
        of_key.append(f"      {json.dumps(name) if in_sql(name) != name else name}: {type_}")
    for name, column in declared.items():
        if name not in key and name in types and types[name] != column.type.sql:
            of_columns.append(f"      {name}: {types[name]}")
    lines += ["  record:"] if of_key or of_columns else []
    moved = "" if declared.keys().isdisjoint(key) else ", and of the same columns below"
    lines += [f"    key:  # instead of event_id{moved}", *of_key] if of_key else []
    lines += ["    columns:  # the types of the table", *of_columns] if of_columns else []
    begin = f"offset-ledger init --topic {pipeline.source.topic or 'TOPIC'} --table {target.name} --output -"
    return [*lines, "  target:", "    bookkeeping: beside", f"or begin with what this proposes: {begin}"]


def may_change(pipeline: Pipeline, misfit: Misfit) -> bool:
    """Return whether the next commit fixes the misfit, by ``target.evolve``."""
    return misfit.change is None or misfit.change in _ALLOWED[pipeline.target.evolve]
