"""The merge: the staged rows are classified against the table, then written by their classes, and these are counted.

It is independent of the order of batches.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.base.units import counted
from offset_ledger.errors import IncompleteStaging, LedgerViolation, OffsetLedgerError, TargetMismatch, TransientError
from offset_ledger.model.balance_sheet import MergeCounts
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.pipeline import OnConflict, Pipeline, in_sql
from offset_ledger.postgres.ledger.database import Cursor, connect, named_sql, sample_little, set_local, transaction
from offset_ledger.postgres.ledger.row_order import row_formats, table_of
from offset_ledger.postgres.ledger.sqlstates import RAISED, REFUSED, Meaning, in_a_function, meaning, refusal
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.conflicts import find_conflicts
from offset_ledger.postgres.table.fit import enabled_triggers, no_longer_declared, record_columns, self_references
from offset_ledger.steps.commit.classes import Write, at_once, read_before, statements

_COUNTS = tuple(MergeCounts.__slots__)


def work_memory(rows: int) -> str:
    """Return the ``work_mem`` for a sort and the joins of ``rows`` staged rows: in memory if 1 GiB is enough.

    A sorted row took 165 bytes with seven declared columns.
    """
    return f"{min(max(rows * 256 >> 20, 64), 1024)}MB"


def merge(
    cursor: Cursor, pipeline: Pipeline, tables: StagingTables, staged_rows: Mapping[int, int], fill: bool = False
) -> dict[int, MergeCounts]:
    """Merge the staged rows into the target and account for each of them, by partition.

    ``staged_rows`` are the counts of the slices by partition. With ``fill``, rows whose state is one of the staged
    records, and whose values are others now, are written again; they count as updated.

    Raises:
        IncompleteStaging: the staging table holds other rows than that.
        LedgerViolation: a row that should stand does not, or not as it was staged.
        OffsetLedgerError: as :func:`explained`.
    """
    with explained(pipeline, tables):
        lock = sql.SQL(named_sql("commit/lock_target"))
        cursor.execute(lock.format(target=table_of(pipeline)))  # no trigger comes meanwhile
        triggers = enabled_triggers(cursor, pipeline)
    with explained(pipeline, tables, triggers):
        set_local(cursor, "work_mem", work_memory(sum(staged_rows.values())))
        sample_little(cursor)
        if not (append := pipeline.record.append):
            _plan_in_key_order(cursor)
        again = append and cursor.execute(read_before(tables)).rowcount > 0
        todo = statements(pipeline, tables, no_longer_declared(cursor, pipeline), fill, again)
        if todo.classify:
            cursor.execute(todo.classify)
        all_new = append and not (again or fill or triggers)
        partitions: Mapping[int, Mapping[str, int]] = (
            {p: _new_rows(n) for p, n in staged_rows.items() if n}
            if all_new
            else {row["_partition"]: dict(row) for row in cursor.execute(todo.count)}
        )
        _check_rows(pipeline, tables, {p: row["rows"] for p, row in partitions.items()}, staged_rows)
        references = self_references(cursor, pipeline)
        expected = [sum(row[f"write_{place}"] for row in partitions.values()) for place in range(len(todo.writes))]
        if (written := _write(cursor, todo.writes, expected, references.there)) != expected and not any(
            triggers.values()
        ):
            if all_new:  # nothing else was asked about them
                raise _other_rows(tables)
            raise TransientError(
                f"another writer changed {pipeline.target.name} during the merge "
                f"({sum(expected):,} rows were to be written, {sum(written):,} were); nothing was committed; let only "
                "its pipeline write this table, and try again"
            )
        cursor.run("commit/apply_constraints")  # deferred constraints act now, or refuse now
        record_columns(cursor, pipeline)
        find = todo.find_wrong if triggers or references.act else todo.find_wrong_known
        wrong = cursor.execute(find).one()[0] if find else None
        if wrong is not None or written != expected:
            raise _violated(pipeline, tables, wrong, triggers)
        if todo.classify:
            cursor.execute(sql.SQL(named_sql("commit/drop_classes")).format(classes=tables.identifier(tables.classes)))
        return {p: MergeCounts(*(row[name] for name in _COUNTS)) for p, row in partitions.items()}


def _plan_in_key_order(cursor: Cursor) -> None:
    """Plan the statements of the transaction to go through tables and indexes in the order of the key."""
    set_local(cursor, "enable_hashjoin", "off")
    set_local(cursor, "synchronize_seqscans", "off")
    set_local(cursor, "parallel_tuple_cost", "0.001")  # several workers sort for one that writes


def _check_rows(
    pipeline: Pipeline, tables: StagingTables, classified: Mapping[int, int], staged: Mapping[int, int]
) -> None:
    if classified == {p: n for p, n in staged.items() if n}:
        return
    if any(n > staged.get(p, 0) for p, n in classified.items()):  # only a partitioned table lets it
        raise LedgerViolation(
            f"{tables.attempt}: an event stands more than once in {pipeline.target.name}; "
            f"nothing was committed; offset-ledger verify {pipeline.name} names it: delete all but its newest row"
        )
    raise _other_rows(tables)


def _other_rows(tables: StagingTables) -> IncompleteStaging:
    return IncompleteStaging(
        f"{tables.attempt}: the staging table {tables.rows} holds other rows than its slices say (a server that "
        "stopped empties UNLOGGED tables); nothing was committed; stage the batch again"
    )


def _new_rows(rows: int) -> dict[str, int]:
    """Return the counts of a partition all of whose staged rows are new."""
    new = dict.fromkeys(("rows", "inserted", "standing", "added", "write_0"), rows)
    return dict.fromkeys(_COUNTS, 0) | new


def _write(cursor: Cursor, writes: Sequence[Write], expected: Sequence[int], together: bool) -> list[int]:
    """Write, and return how many rows each wrote; the expected number where that is not exact.

    The rows of the user are written by one statement ``together`` where their foreign keys refer to one another: those
    are checked at its end, while a unique constraint is checked row by row, in the order of the writes.
    """
    written = [0] * len(writes)
    due = [place for place, rows in enumerate(expected) if rows]
    for one, places in groupby(due, lambda place: together and writes[place].of_rows and writes[place].exact):
        if one:
            chosen = list(places)
            parts = {f"write_{place}": writes[place].statement for place in chosen}
            for place, rows in zip(chosen, cursor.execute(at_once(parts)).one(), strict=True):
                written[place] = rows
        else:
            for place in places:
                rows = cursor.execute(writes[place].statement).rowcount
                written[place] = rows if writes[place].exact else expected[place]
    return written


def _violated(
    pipeline: Pipeline, tables: StagingTables, event: str | None, triggers: Collection[str]
) -> LedgerViolation:
    advice = (
        f"triggers of the table ({', '.join(triggers)}) suppress or change what is written: drop them, or let them "
        "fill only columns that the pipeline file does not declare"
        if triggers
        else f"run offset-ledger verify {pipeline.name}, keep its output, and pause the pipeline"
    )
    return LedgerViolation(
        f"{tables.attempt}: {'an event' if event is None else f'event {event!r}'} does not stand in "
        f"{pipeline.target.name} as it was staged, and has not lost to another record "
        f"either; nothing was committed; {advice}"
    )


@contextmanager
def explained(pipeline: Pipeline, tables: StagingTables, triggers: Collection[str] = ()) -> Iterator[None]:
    """Raise what an error of Postgres in the block means for the table, whose enabled triggers these are.

    Raises:
        TransientError: another writer changed the table at the same time.
        IncompleteStaging: a table is missing.
        LedgerViolation, TargetMismatch: the table, or a trigger of it, refuses a row.
        psycopg2.Error: any other, as it is.
    """
    try:
        yield
    except psycopg2.Error as error:
        target = pipeline.target.name
        lost = isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))
        may_be_raised = not lost and not isinstance(error, pg.InsufficientPrivilege)
        # A function raises any code; with triggers, an error with a context comes from them.
        if may_be_raised and (in_a_function(error) or (triggers and error.diag.context)):
            names = f" (triggers: {', '.join(triggers)})" if triggers else ""
            raise refusal(RAISED, error, f"table {target}{names}") from error
        # Other unique constraints are the table's own; that of the key may have partition columns too.
        columns = re.search(r"\((.*?)\)=\(", error.diag.message_detail or "")
        quoted = re.findall(r'"((?:[^"]|"")+)"|([^", ]+)', columns[1]) if columns else []
        named = {name.replace('""', '"') or plain for name, plain in quoted}
        of_key = isinstance(error, pg.UniqueViolation) and named.issuperset(pipeline.record.key_names)
        if (of_key and not pipeline.record.append) or isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected)):
            raise TransientError(
                f"another writer changed {target} during the merge ({type(error).__name__}); nothing was committed; "
                "let only its pipeline write this table, and try again"
            ) from error
        if isinstance(error, pg.UndefinedTable):
            raise IncompleteStaging(
                f"{tables.attempt}: a table is missing ({str(error).splitlines()[0]}); nothing was committed; "
                "stage the batch again"
            ) from error
        if error.diag.column_name == "_timestamp":
            raise TargetMismatch(
                f"table {target} expects a timestamp of every record, and one has none; nothing was committed; "
                f"run ALTER TABLE {target} ALTER COLUMN _timestamp DROP NOT NULL, and try again"
            ) from error
        if isinstance(error, pg.CheckViolation) and not error.diag.constraint_name:
            raise TargetMismatch(_no_partition(pipeline, error)) from error
        known = meaning(error.pgcode, str(error)) or (None if lost else REFUSED)
        if known is None or not issubclass(known.kind, (LedgerViolation, TargetMismatch)):
            raise
        hint = largest(pipeline, tables, error)
        if isinstance(error, pg.UniqueViolation):
            if pipeline.record.append:
                why = "another log of the topic has the same offsets" if of_key else "merge: append writes each record"
                known = replace(REFUSED, advice=f"drop the constraint: {why}")
            else:
                known, hint = _conflict(pipeline, tables, error)
        elif isinstance(error, (pg.ForeignKeyViolation, pg.RestrictViolation)):
            known, hint = _conflict(pipeline, tables, error)
        elif isinstance(error, pg.ExclusionViolation):
            known = replace(known, advice=f"{known.advice}; target.on_conflict is about unique constraints alone")
        raise refusal(known, error, f"table {target}", hint) from error


_TOO_LARGE = "54"
_SECONDS = 5


def largest(pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error) -> str:
    """Return the event with the most bytes in the columns of the index that refused one; empty if none can be named."""
    if (error.pgcode or "")[:2] != _TOO_LARGE:
        return ""
    index = {"schema": error.diag.schema_name, "name": error.diag.constraint_name}

    def ask(cursor: Cursor) -> str:
        cursor.run("commit/columns_of_index", **index)
        names = [sql.Identifier("s", row[0]) for row in cursor.fetchall()] or [sql.Identifier("s")]
        sizes = sql.SQL(" + ").join(sql.SQL("coalesce(pg_column_size({}), 0)").format(name) for name in names)
        query = sql.SQL(named_sql("commit/largest_event"))
        event = row_formats(pipeline.record)["event"]
        cursor.execute(query.format(staging=tables.identifier(tables.rows), size=sizes, event=event))
        key, partition, offset = cursor.one()
        return f"the largest is event {key!r}, record {partition}:{offset}"

    return _ask_beside(pipeline, ask)


def _ask_beside(pipeline: Pipeline, ask: Callable[[Cursor], str]) -> str:
    """The answer of a session of its own, for the transaction of the merge has failed; empty where it fails too."""
    with (
        suppress(OffsetLedgerError, psycopg2.Error),
        connect(get_connection(pipeline.target.connection), timeout=_SECONDS) as session,
        transaction(session) as cursor,
    ):
        set_local(cursor, "lock_timeout", f"{_SECONDS}s")  # that transaction still has its locks
        return ask(cursor)
    return ""


def _conflict(pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error) -> tuple[Meaning, str]:
    """Return what to do about another row's values, or a missing row, and the records that bring them."""

    def ask(cursor: Cursor) -> str:
        conflicts = find_conflicts(cursor, pipeline, tables.identifier(tables.rows), tables.batch_id)
        named = [each.place for each in conflicts if each.name.strip('"') == error.diag.constraint_name]
        records = cursor.run("conflicts/first_records", places=named or [each.place for each in conflicts]).fetchall()
        if not records or (of_keys and not named):
            return ""
        listed = ", ".join(f"{pipeline.source.topic} {row[0]}:{row[1]}" for row in records)
        return f"{counted(records[0][2], 'record')}: {listed}{', ...' if records[0][2] > len(records) else ''}"

    def ask_whose(cursor: Cursor) -> str:
        place = {"schema": pipeline.target.schema, "table": pipeline.target.table}
        of = {"of_schema": error.diag.schema_name, "of_table": error.diag.table_name}
        cursor.run("conflicts/refers_out", **place, **of, constraint=error.diag.constraint_name)
        return "of the table" if cursor.one()[0] else ""

    of_keys = not isinstance(error, pg.UniqueViolation)
    hint = _ask_beside(pipeline, ask)
    if of_keys and not hint and not _ask_beside(pipeline, ask_whose):
        # A row of another table refers to one that goes, or to a value that it had.
        table, constraint = f"{error.diag.schema_name}.{error.diag.table_name}", error.diag.constraint_name
        advice = f"rows of {table} refer to it: delete those first, or drop the constraint {constraint}"
        return replace(REFUSED, advice=advice), ""
    what = "insert the row that they refer to" if of_keys else "correct the row that has the values"
    advice = f"{what}, drop the constraint, or write target.on_conflict: quarantine"
    if not hint:  # the constraint is of a single partition, or of columns that a trigger fills
        advice = f"{what}, or drop the constraint: target.on_conflict cannot find the records that break it"
    elif pipeline.target.on_conflict is OnConflict.QUARANTINE:
        abandon = f"offset-ledger batch abandon {tables.batch_id} --why ..."
        advice = f"the table has changed since the batch was validated: {abandon}, and its offsets are planned again"
    return replace(REFUSED, advice=advice), hint


_PARTITION_KEY = re.compile(r"\((.*?)\) = \((.*)\)")


def _no_partition(pipeline: Pipeline, error: psycopg2.Error) -> str:
    """The partition that a row lacks, and what creates it."""
    table = in_sql(error.diag.schema_name or "", error.diag.table_name or "")
    values = _PARTITION_KEY.search(error.diag.message_detail or "")

    def ask(cursor: Cursor) -> str:
        value = sql.Literal(values[2] if values and ", " not in values[1] else "...").as_string(cursor)
        bounds = cursor.run("commit/partition_bounds", table=table, value=value).one()[0]
        return f": CREATE TABLE ... PARTITION OF {table} FOR VALUES {bounds}"

    return (
        f"table {table} has no partition for {values[0] if values else 'a row'}; nothing was committed; create it"
        f"{_ask_beside(pipeline, ask)}; or let target.partitions create those of a date or timestamptz column"
    )
