"""A remerge in the ledger: rows that are ordered by Kafka's timestamps from now on, and what is replayed for that."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.errors import StateConflict, TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange, in_parts, within
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.row_order import (
    ordered_by,
    read_orders,
    row_formats,
    same_key,
    table_of,
    words_for,
    write_order,
)
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.postgres.table.fit import column_groups
from offset_ledger.postgres.table.partitions import partitions_of_moments


@dataclass(frozen=True, slots=True)
class Part:
    """Ranges of a remerge that are still to be replayed, in one batch."""

    decision_id: int
    number: int
    ranges: tuple[OffsetRange, ...]

    @property
    def request(self) -> Mapping[str, Any]:
        """The request by which its batch is known."""
        return {"remerge": self.decision_id, "part": self.number}


def read_reach(cursor: Cursor, pipeline: str) -> tuple[OffsetRange, ...]:
    """Return what the pipeline has committed of the present topic, by partition: from start offset to cursor."""
    return tuple(OffsetRange(*row) for row in cursor.run("table/remerge_reach", pipeline=pipeline))


def read_unfinished(cursor: Cursor, pipeline: str, snapshot: TopicSnapshot) -> tuple[Part, ...]:
    """Return the parts of the pipeline's last remerge that are still to be replayed, and that the topic still has."""
    parts = (
        Part(row[0], row[1], within((OffsetRange(*r) for r in row[2]), snapshot.bounds))
        for row in cursor.run("table/remerge_pending", pipeline=pipeline)
    )
    return tuple(part for part in parts if part.ranges)


def restate(cursor: Cursor, pipeline: Pipeline, origin: Origin, why: str) -> int:
    """Make Kafka's timestamp the ``publish_at`` of every row and marker; return how many rows had another one.

    It is kept with who, when and why, for each topic of the pipeline file with the parts that are to be replayed.

    Raises:
        StateConflict: a batch is open, which may be staged in the order of before, or Kafka gave a row no timestamp.
        TargetMismatch: the table does not fit the pipeline file.
    """
    names = pipelines.lock_file(cursor, pipeline.file)
    for name in names:
        if open_batches := batches.open_batches(cursor, name):
            batch = batches.read_batch(cursor, open_batches[0])
            raise StateConflict(
                f"{batch} is open, and what it staged is ordered as before; nothing was changed; give it up with: "
                f"offset-ledger batch abandon {batch.batch_id} --why ... (the offsets of a head batch are planned "
                "again), and run remerge again"
            )
    before = " and ".join(sorted(read_orders(cursor, pipeline))) or None
    write_order(cursor, pipeline, ordered_by(pipeline.record))
    ensure_target(cursor, pipeline)
    kept = table_of(pipeline.bookkeeping)
    moved = sql.SQL("(SELECT _timestamp AS publish_at FROM {} WHERE publish_at <> _timestamp)").format(kept)
    for partition in partitions_of_moments(cursor, pipeline, moved):
        cursor.execute(partition.statement)
    try:
        if moment := dict(pipeline.target.copied).get("publish_at"):
            statement = "UPDATE {} AS u SET {} = _timestamp FROM {} AS t WHERE {} AND publish_at <> _timestamp"
            same = same_key(pipeline.record, "u", "t")
            cursor.execute(sql.SQL(statement).format(table_of(pipeline), sql.Identifier(moment), kept, same))
        statement = "UPDATE {} SET publish_at = _timestamp WHERE publish_at <> _timestamp"
        restated = cursor.execute(sql.SQL(statement).format(kept)).rowcount
    except pg.CheckViolation as error:
        if error.diag.constraint_name:
            raise
        raise TargetMismatch(
            f"pipeline {pipeline.name}: table {pipeline.target.name} has no partition for a "
            f"row that Kafka's timestamp orders ({error.diag.message_detail}); nothing was changed; create it, or let "
            "target.partitions do so"
        ) from error
    lacking: list[sql.Composable] = [sql.SQL("_timestamp IS NULL")]
    for group in sorted(set(column_groups(cursor, pipeline).values()) - {""}):
        given = sql.Identifier("t", group)
        cursor.execute(
            sql.SQL(named_sql("table/restate_group")).format(kept=kept, group=sql.Identifier(group), given=given)
        )
        lacking.append(sql.SQL("({0})._offset IS NOT NULL AND ({0})._timestamp IS NULL").format(given))
    statement = "SELECT {}, _partition, _offset FROM {} AS t WHERE {} LIMIT 1"
    event, where = row_formats(pipeline.record)["stored_event"], sql.SQL(" OR ").join(lacking)
    query = sql.SQL(statement).format(event, kept, where)
    if row := cursor.execute(query).fetchone():
        raise StateConflict(
            f"pipeline {pipeline.name}: event {row[0]!r} (record {row[1]}:{row[2]}) has no Kafka timestamp to be "
            "ordered by; nothing was changed; correct or delete such rows, or start a pipeline with another name and "
            "table"
        )
    for name in names:
        in_batches = in_parts(read_reach(cursor, name), pipeline.limits.records_per_batch)
        parts = [[[r.partition, r.from_offset, r.until_offset] for r in part] for part in in_batches]
        details = json.dumps({"ordered_by": before, "restated": restated, "parts": parts})
        asked = {"question": f"order all rows by {words_for(pipeline.record)}?", "details": details}
        cursor.run("table/insert_remerge", **asked, who=origin.who, why=why, pipeline=name)
    return restated
