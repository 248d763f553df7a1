"""The merge: one statement that is independent of the order of batches, and the account of what it did.

MERGE says what it did with each row from PostgreSQL 17 on; before that an UPDATE and an INSERT in one statement do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql
from psycopg2.extras import DictRow

from offset_ledger.commit.merge_errors import explained
from offset_ledger.config.model import Merge, Pipeline, RecordShape
from offset_ledger.errors import IncompleteStaging, LedgerViolation
from offset_ledger.ledger.database import Cursor, named_sql, set_local, transaction_id
from offset_ledger.ledger.row_places import order_formats
from offset_ledger.ledger.staging import StagingTables, row_columns
from offset_ledger.model.balance_sheet import MergeCounts
from offset_ledger.target.declared_columns import no_longer_declared, record_columns
from offset_ledger.target.fit import enabled_triggers


@dataclass(frozen=True, slots=True)
class Names:
    """The identifiers of one merge."""

    target: sql.Identifier
    staging: sql.Identifier
    record: RecordShape
    emptied: Sequence[str] = ()  # columns that were declared before and are not now

    def formats(self) -> dict[str, sql.Composable]:
        """What the named statements leave open."""
        names = [sql.Identifier(name) for name, _ in row_columns(self.record)]
        comma = sql.SQL(", ")
        assigned = [sql.SQL("{} = s.{}").format(name, name) for name in names[1:]]
        assigned += [sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in self.emptied]
        return {
            "target": self.target,
            "staging": self.staging,
            "columns": comma.join(names),
            "assignments": comma.join(assigned),
            "values": comma.join(sql.SQL("s.{}").format(name) for name in names),
            "stored": comma.join(sql.SQL("t.{}").format(name) for name in names),
            "emptied_has_values": sql.SQL("num_nonnulls({}) > 0").format(
                comma.join([sql.NULL, *(sql.Identifier("t", name) for name in self.emptied)])
            ),
            **order_formats(self.record),
        }


MERGE_RETURNS_ROWS = 170_000  # as libpq has versions


def merge_statement(cursor: Cursor, rule: Merge) -> str:
    """The statement that merges by this rule on the cursor's server."""
    way = "merge" if cursor.connection.server_version >= MERGE_RETURNS_ROWS else "update_insert"
    return named_sql(f"commit/{way}_{rule}")


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
        OffsetLedgerError: as :func:`offset_ledger.commit.merge_errors.explained`.
    """
    target = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    with explained(pipeline, tables):
        cursor.execute(sql.SQL(named_sql("commit/lock_target")).format(target=target))  # no trigger comes meanwhile
        triggers = enabled_triggers(cursor, pipeline)
    with explained(pipeline, tables, triggers):
        emptied = no_longer_declared(cursor, pipeline)
        names = Names(target, tables.identifier(tables.rows), pipeline.record, emptied)
        return _merge(cursor, pipeline, tables, names, staged_rows, triggers, fill)


def _merge(
    cursor: Cursor,
    pipeline: Pipeline,
    tables: StagingTables,
    names: Names,
    staged_rows: Mapping[int, int],
    triggers: Sequence[str],
    fill: bool,
) -> dict[int, MergeCounts]:
    set_local(cursor, "work_mem", work_memory(sum(staged_rows.values())))
    set_local(cursor, "enable_hashjoin", "off")  # it loses the sort, and the index is written at random places
    fresh = []
    for statement in (merge_statement(cursor, pipeline.target.merge), *([named_sql("commit/fill")] if fill else [])):
        cursor.execute(sql.SQL(statement).format(**names.formats()), {"batch_id": tables.batch_id})
        fresh += cursor.fetchall()
    cursor.execute("SET LOCAL enable_hashjoin TO DEFAULT")
    cursor.execute(named_sql("commit/apply_constraints"))  # what waits for the COMMIT acts now, or is refused now
    record_columns(cursor, pipeline)
    merged = _written(fresh)
    if not triggers and {p: c.written for p, c in merged.items()} == {p: n for p, n in staged_rows.items() if n}:
        if _count(cursor, names) != sum(staged_rows.values()):
            raise _incomplete(tables)
        return {p: replace(counts, standing=counts.written) for p, counts in merged.items()}
    wrong = [row["wrong"] for row in fresh if row["wrong"] is not None]
    return _account(cursor, pipeline, names, tables, merged, staged_rows, triggers, wrong)


def _written(rows: Sequence[DictRow]) -> dict[int, MergeCounts]:
    """The sums of what the statements say that they wrote, by partition."""
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        sums[row["_partition"]].update({name: row[name] for name in ("inserted", "updated", "deleted", "added")})
    return {partition: MergeCounts(**counts) for partition, counts in sums.items()}


def _account(
    cursor: Cursor,
    pipeline: Pipeline,
    names: Names,
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
    cursor.execute(sql.SQL(named_sql("commit/account")).format(**names.formats(), **options), by)
    partitions = {row["_partition"]: row for row in cursor.fetchall()}
    if {p: row["rows"] for p, row in partitions.items()} != {p: n for p, n in staged_rows.items() if n}:
        raise _incomplete(tables)
    wrong = [*wrong, *(row["wrong"] for row in partitions.values() if row["wrong"] is not None)]
    counted = {p: merged.get(p, MergeCounts()) for p in partitions}
    if wrong or any(row["written"] != counted[p].written for p, row in partitions.items()):
        raise _unaccounted(pipeline, tables, min(wrong, default=None), triggers)
    return {
        p: replace(counted[p], standing=row["standing"], same_state=row["same_state"], older=row["older"])
        for p, row in partitions.items()
    }


def _unaccounted(
    pipeline: Pipeline, tables: StagingTables, event_id: str | None, triggers: Sequence[str]
) -> LedgerViolation:
    event = "an event" if event_id is None else f"event {event_id!r}"
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


def _count(cursor: Cursor, names: Names) -> int:
    cursor.execute(sql.SQL(named_sql("commit/count_staged")).format(staging=names.staging))
    return int(cursor.one()[0])


def _incomplete(tables: StagingTables) -> IncompleteStaging:
    return IncompleteStaging(
        f"{tables.attempt}: the staging table {tables.rows} holds other rows than its slices say (a server that "
        "stopped empties UNLOGGED tables); nothing was committed; stage the batch again"
    )
