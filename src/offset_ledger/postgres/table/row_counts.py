"""Counts of a target table, from which ``verify`` compares its event ids with what the batches added."""

from psycopg2 import sql

from offset_ledger.model.batch import Origin
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.row_order import table_of


def count_removed(cursor: Cursor, pipeline: Pipeline, origin: Origin, removed: int) -> None:
    """Record that the table has so many event ids less than its batches have added; the pipeline must be locked."""
    ours = {"pipeline": pipeline.name, "file": pipeline.file, "who": origin.who}
    cursor.run("prune/count_removed", **ours, removed=removed)


def count(cursor: Cursor, pipeline: Pipeline, origin: Origin, why: str) -> int:
    """Count the table as it is, and return its event ids; the pipeline must be locked."""
    statement = sql.SQL(named_sql("table/count")).format(target=table_of(pipeline.bookkeeping))
    cursor.execute(statement, {"pipeline": pipeline.name, "file": pipeline.file, "who": origin.who, "why": why})
    return int(cursor.one()["event_ids"])
