"""The merge: one statement that is independent of the order of batches, the account of what it did, and its errors.

MERGE says what it did with each row from PostgreSQL 17 on; before that an UPDATE and an INSERT in one statement do.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import sql
from psycopg2.extras import DictRow

from offset_ledger.commit.beside import assignments, beside_formats, find_unwritten, in_groups, write_rows
from offset_ledger.config.model import Merge, OnConflict, Pipeline, RecordShape
from offset_ledger.connections import get_connection
from offset_ledger.errors import IncompleteStaging, LedgerViolation, OffsetLedgerError, TargetMismatch, TransientError
from offset_ledger.ledger.database import (
    Cursor,
    Session,
    application_name,
    connect,
    named_sql,
    read_only,
    set_local,
    transaction,
    transaction_id,
)
from offset_ledger.ledger.row_order import have_values, row_formats, staged_values, table_of
from offset_ledger.ledger.sqlstates import RAISED, REFUSED, Meaning, in_a_function, meaning, refusal
from offset_ledger.ledger.staging import StagingTables, row_columns
from offset_ledger.model.balance_sheet import MergeCounts
from offset_ledger.table.conflicts import find_conflicts
from offset_ledger.table.fit import enabled_triggers, no_longer_declared, record_columns
from offset_ledger.units import counted

_COMMA = sql.SQL(", ")


def merge_formats(
    target: sql.Identifier, staging: sql.Composable, record: RecordShape, emptied: Sequence[str] = ()
) -> dict[str, sql.Composable]:
    """What the named statements leave open; ``emptied`` are columns that were declared before and are not now."""
    names = [name for name, _ in row_columns(record)]
    values = staged_values(record, names)
    assigned = {name: values[name] for name in names[record.key_width :]} | dict.fromkeys(emptied, sql.NULL)
    return {
        "target": target,
        "staging": staging,
        "columns": _COMMA.join(map(sql.Identifier, names)),
        "assignments": assignments(assigned),
        "values": _COMMA.join(values.values()),
        "stored": _COMMA.join(sql.Identifier("t", name) for name in names),
        "emptied_has_values": have_values("t", emptied),
        **row_formats(record),
    }


MERGE_RETURNS_ROWS = 170_000  # as libpq has versions
_COUNTS = ("inserted", "updated", "deleted", "added")


def merge_statement(cursor: Cursor, rule: Merge, names: Mapping[str, sql.Composable]) -> sql.Composable:
    """The statement that merges by this rule on the cursor's server, and counts what it did by partition."""
    counts = sql.SQL(named_sql("commit/count_written"))
    if cursor.connection.server_version < MERGE_RETURNS_ROWS:
        return sql.SQL(named_sql(f"commit/update_insert_{rule}")).format(counts=counts, **names)
    merge = sql.SQL(named_sql(f"commit/merge_{rule}")).format(**names)
    return sql.SQL(named_sql("commit/merge_counted")).format(merge=merge, counts=counts, **names)


def work_memory(rows: int) -> str:
    """``work_mem`` for one sort and the hash joins of so many staged rows: in memory where 1 GiB is enough.

    A sorted row took 165 bytes with seven declared columns.
    """
    return f"{min(max(rows * 256 >> 20, 64), 1024)}MB"


def merge(
    cursor: Cursor, pipeline: Pipeline, tables: StagingTables, staged_rows: Mapping[int, int], fill: bool = False
) -> dict[int, MergeCounts]:
    """Merge the staged rows into the target and account for each of them, by partition.

    ``staged_rows`` is what the slices say of each partition. With ``fill``, rows whose state is one of the staged
    records, and whose values are others now, are written again; they count as updated.

    Raises:
        IncompleteStaging: the staging table holds other rows than that.
        LedgerViolation: a row that should stand does not, or not as it was staged.
        OffsetLedgerError: as :func:`explained`.
    """
    kept, beside, by = pipeline.bookkeeping, pipeline.target.beside, {"batch_id": tables.batch_id}
    with explained(pipeline, tables):
        lock = sql.SQL(named_sql("commit/lock_target"))
        cursor.execute(lock.format(target=table_of(pipeline)))  # no trigger comes meanwhile
        triggers = enabled_triggers(cursor, pipeline)
    with explained(pipeline, tables, triggers):
        emptied = no_longer_declared(cursor, pipeline)
        merging = [] if beside else triggers
        staging = tables.identifier(tables.rows)
        names = merge_formats(table_of(kept), in_groups(pipeline, staging), kept.record, [] if beside else emptied)
        set_local(cursor, "work_mem", work_memory(sum(staged_rows.values())))
        set_local(cursor, "enable_hashjoin", "off")  # it loses the sort, and the index is written at random places
        groups = pipeline.record.groups
        newest_wins = pipeline.target.merge is Merge.NEWEST_WINS and not fill and not merging and not groups
        closed = None
        if newest_wins and sum(staged_rows.values()) >= CLASSIFIED_FROM:
            closed = _merge_classified(cursor, kept, tables, names, staged_rows)
        if beside:
            names = beside_formats(pipeline, names, emptied)
        written = list[DictRow]()
        if closed is None:
            filling = sql.SQL(named_sql("commit/fill_beside") if beside else named_sql("commit/fill")).format(**names)
            merging_statement = merge_statement(cursor, kept.target.merge, names)
            for statement in (merging_statement, filling) if fill else (merging_statement,):
                cursor.execute(statement, by)
                written += cursor.fetchall()
        sums: dict[int, Counter[str]] = defaultdict(Counter)
        for row in written:
            sums[row["_partition"]].update({name: row[name] for name in _COUNTS})
        merged = closed or {partition: MergeCounts(**counts) for partition, counts in sums.items()}
        rows = sum(counts.inserted + counts.updated for counts in merged.values())
        stands = not beside or (write_rows(cursor, pipeline, names, by) == rows and not groups)
        cursor.execute("SET LOCAL enable_hashjoin TO DEFAULT")
        cursor.run("commit/apply_constraints")  # what waits for the COMMIT acts now, or is refused now
        record_columns(cursor, pipeline)
        if beside and (triggers or not stands) and (event := find_unwritten(cursor, names, by)) is not None:
            raise _violated(pipeline, tables, f"event {event!r}", triggers)
        if closed is not None:
            return closed
        plain = not merging and not groups
        if plain and {p: c.written for p, c in merged.items()} == {p: n for p, n in staged_rows.items() if n}:
            cursor.execute(sql.SQL(named_sql("commit/count_staged")).format(staging=staging))
            if cursor.one()[0] != sum(staged_rows.values()):
                raise _incomplete(tables)
            return {p: replace(counts, standing=counts.written) for p, counts in merged.items()}
        wrong = [row["wrong"] for row in written if row["wrong"] is not None]
        return _account(cursor, kept, names, tables, merged, staged_rows, merging, wrong)


CLASSIFIED_FROM = 100_000  # rows: the account of fewer takes no longer than a session


def _merge_classified(
    cursor: Cursor,
    pipeline: Pipeline,
    tables: StagingTables,
    names: Mapping[str, sql.Composable],
    staged_rows: Mapping[int, int],
) -> dict[int, MergeCounts] | None:
    """Merge without a word of each row, while another session counts by partition what becomes of them.

    The merge keeps one core busy; on another the counts take no time, and RETURNING takes a fifth of the merge. None,
    and nothing is merged, where that session fails or the numbers differ: the account says the same.
    """
    with _classes(pipeline, tables, names) as classes:
        if classes is None:
            return None
        cursor.execute("SAVEPOINT merge")
        merge = sql.SQL(named_sql("commit/merge_newest_wins")).format(**names)
        written = cursor.execute(merge, {"batch_id": tables.batch_id}).rowcount
        partitions = classes.result()
        merged = {p: MergeCounts(**{name: row[name] for name in _COUNTS}) for p, row in partitions.items()}
        if not partitions or sum(counts.written for counts in merged.values()) != written:
            cursor.execute("ROLLBACK TO SAVEPOINT merge")
            return None
    _check_rows(tables, partitions, staged_rows)
    return _closed(merged, partitions)


@contextmanager
def _classes(
    pipeline: Pipeline, tables: StagingTables, names: Mapping[str, sql.Composable]
) -> Iterator[Future[dict[int, DictRow]] | None]:
    """Classify the staged rows while the block runs; None where another session cannot read the table."""
    with ThreadPoolExecutor(1, "classify-staged") as pool:
        begun = Future[Session | None]()
        classes = pool.submit(_classify, pipeline, tables, names, begun)
        session = begun.result()
        try:
            yield classes if session else None
        except BaseException:
            if session:
                with suppress(psycopg2.Error):
                    session.cancel()
            raise


def _classify(
    pipeline: Pipeline, tables: StagingTables, names: Mapping[str, sql.Composable], begun: Future[Session | None]
) -> dict[int, DictRow]:
    name = application_name(tables.attempt, "commit")  # a later claim ends it as it ends the merge
    try:
        with (
            suppress(OffsetLedgerError, psycopg2.Error),
            connect(get_connection(pipeline.target.connection), name, timeout=_SECONDS) as session,
            transaction(session) as cursor,
        ):
            read_only(cursor)
            set_local(cursor, "work_mem", "64MB")  # beside the sort of the merge; what does not fit goes to disk
            # The commit itself may have changed the table, and waits for this session.
            cursor.execute(sql.SQL(named_sql("commit/lock_for_reading")).format(**names))
            begun.set_result(session)
            cursor.execute(sql.SQL(named_sql("commit/classify_staged")).format(**names))
            return {row["_partition"]: row for row in cursor.fetchall()}
    finally:
        if not begun.done():
            begun.set_result(None)
    return {}


def _account(
    cursor: Cursor,
    pipeline: Pipeline,
    names: Mapping[str, sql.Composable],
    tables: StagingTables,
    merged: Mapping[int, MergeCounts],
    staged_rows: Mapping[int, int],
    triggers: Sequence[str] = (),
    wrong: Sequence[str] = (),
) -> dict[int, MergeCounts]:
    options = {
        "skip_existing": sql.Literal(pipeline.target.merge is Merge.SKIP_EXISTING),
        "triggers": sql.Literal(bool(triggers)),
    }
    # The id is no part of the query: it would keep that from running in parallel.
    by = {"batch_id": tables.batch_id, "xid": transaction_id(cursor)}
    cursor.execute(sql.SQL(named_sql("commit/account")).format(**names, **options), by)
    partitions = {row["_partition"]: row for row in cursor.fetchall()}
    _check_rows(tables, partitions, staged_rows)
    wrong = [*wrong, *(row["wrong"] for row in partitions.values() if row["wrong"] is not None)]
    if wrong or any(row["written"] != merged.get(p, MergeCounts()).written for p, row in partitions.items()):
        raise _violated(pipeline, tables, f"event {min(wrong)!r}" if wrong else "an event", triggers)
    return _closed(merged, partitions)


def _violated(pipeline: Pipeline, tables: StagingTables, event: str, triggers: Sequence[str]) -> LedgerViolation:
    advice = (
        f"triggers of the table ({', '.join(triggers)}) suppress or change what is written: drop them, or let them "
        "fill only columns that the pipeline file does not declare"
        if triggers
        else f"run offset-ledger verify {pipeline.name}, keep its output, and pause the pipeline"
    )
    return LedgerViolation(
        f"{tables.attempt}: {event} does not stand in {pipeline.target.schema}.{pipeline.target.table} as it "
        f"was staged, and has not lost to another record either; nothing was committed; {advice}"
    )


def _closed(merged: Mapping[int, MergeCounts], partitions: Mapping[int, DictRow]) -> dict[int, MergeCounts]:
    """The counts of the merge with what became of every staged row, by partition."""
    return {
        p: replace(
            merged.get(p, MergeCounts()), standing=row["standing"], same_state=row["same_state"], older=row["older"]
        )
        for p, row in partitions.items()
    }


def _check_rows(tables: StagingTables, partitions: Mapping[int, DictRow], staged_rows: Mapping[int, int]) -> None:
    if {p: row["rows"] for p, row in partitions.items()} != {p: n for p, n in staged_rows.items() if n}:
        raise _incomplete(tables)


def _incomplete(tables: StagingTables) -> IncompleteStaging:
    return IncompleteStaging(
        f"{tables.attempt}: the staging table {tables.rows} holds other rows than its slices say (a server that "
        "stopped empties UNLOGGED tables); nothing was committed; stage the batch again"
    )


@contextmanager
def explained(pipeline: Pipeline, tables: StagingTables, triggers: Sequence[str] = ()) -> Iterator[None]:
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
        target = f"{pipeline.target.schema}.{pipeline.target.table}"
        lost = isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))
        may_be_raised = not lost and not isinstance(error, pg.InsufficientPrivilege)
        # A function raises any code; what a table with triggers gives a context comes of them.
        if may_be_raised and (in_a_function(error) or (triggers and error.diag.context)):
            names = f" (triggers: {', '.join(triggers)})" if triggers else ""
            raise refusal(RAISED, error, f"table {target}{names}") from error
        # Other unique constraints are the table's own; that of the key may have partition columns too.
        columns = re.search(r"\((.*?)\)=\(", error.diag.message_detail or "")
        named = {name.strip('"') for name in columns[1].split(", ")} if columns else set()
        of_key = isinstance(error, pg.UniqueViolation) and named.issuperset(pipeline.record.key_names)
        if of_key or isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected)):
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
            known, hint = _conflict(pipeline, tables)
        elif isinstance(error, pg.ExclusionViolation):
            known = replace(known, advice=f"{known.advice}; target.on_conflict is about unique constraints alone")
        raise refusal(known, error, f"table {target}", hint) from error


_TOO_LARGE = "54"
_SECONDS = 5


def largest(pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error) -> str:
    """The event with the most bytes in the columns of the index that refused one; empty where none can be named."""
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
        set_local(cursor, "lock_timeout", f"{_SECONDS}s")  # that transaction has its locks still
        return ask(cursor)
    return ""


def _conflict(pipeline: Pipeline, tables: StagingTables) -> tuple[Meaning, str]:
    """What to do about values that another row has, and the records that bring them."""

    def ask(cursor: Cursor) -> str:
        if not find_conflicts(cursor, pipeline, tables.identifier(tables.rows)):
            return ""
        records = cursor.run("conflicts/first_records").fetchall()
        listed = ", ".join(f"{pipeline.source.topic} {row[0]}:{row[1]}" for row in records)
        return f"{counted(records[0][2], 'record')}: {listed}{', ...' if records[0][2] > len(records) else ''}"

    advice = "correct the row that has the values, drop the constraint, or write target.on_conflict: quarantine"
    if pipeline.target.on_conflict is OnConflict.QUARANTINE:
        abandon = f"offset-ledger batch abandon {tables.batch_id} --why ..."
        advice = f"the table has changed since the batch was validated: {abandon}, and its offsets are planned again"
    return replace(REFUSED, advice=advice), _ask_beside(pipeline, ask)


_PARTITION_KEY = re.compile(r"\((.*?)\) = \((.*)\)")


def _no_partition(pipeline: Pipeline, error: psycopg2.Error) -> str:
    """The partition that a row lacks, and what creates it."""
    table = f"{error.diag.schema_name}.{error.diag.table_name}"
    values = _PARTITION_KEY.search(error.diag.message_detail or "")

    def ask(cursor: Cursor) -> str:
        value = sql.Literal(values[2] if values and ", " not in values[1] else "...").as_string(cursor)
        bounds = cursor.run("commit/partition_bounds", table=table, value=value).one()[0]
        return f": CREATE TABLE ... PARTITION OF {table} FOR VALUES {bounds}"

    return (
        f"table {table} has no partition for {values[0] if values else 'a row'}; nothing was committed; create it"
        f"{_ask_beside(pipeline, ask)}; or let target.partitions create those of a date or timestamptz column"
    )
