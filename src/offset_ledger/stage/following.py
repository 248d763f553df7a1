"""Columns that follow the writers' schemas: a head batch ends before the first record that needs another column, and
the batch after it brings the column.

A batch of which some range begins with such a record takes the change as a whole; so each change ends one batch, and no
partition waits for another. Batches that read old records again have the columns of now.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.config.source import Format
from offset_ledger.decoding.needed_columns import Difference, Needed
from offset_ledger.errors import UndecidedSchema
from offset_ledger.ledger import batches, followed_columns, pipelines, schema_boundaries, staging
from offset_ledger.ledger.database import Cursor, Session, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.schema_boundaries import Boundary, Writer
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.states import BatchKind, State
from offset_ledger.stage.schema_needs import Brought, SchemaNeeds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _First:
    """The first record of a schema in a partition, and whether the range begins with it."""

    partition: int
    offset: int
    writer: Writer
    opens: bool


def follows(pipeline: Pipeline, batch: Batch) -> bool:
    """Whether the batch may bring columns to the pipeline."""
    return pipeline.follows_schemas and batch.kind is BatchKind.HEAD


def take_columns(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> Pipeline:
    """The pipeline with its columns of now and those that the batch brings, which are entered; before it is claimed.

    Raises:
        UndecidedSchema: a range begins with a schema that a person has to decide about.
    """
    if not follows(pipeline, batch):
        return with_columns(cursor, pipeline)
    pipelines.lock_pipeline(cursor, pipeline.name)
    opening, brought = read_opening(cursor, pipeline, batch)
    if brought.questions:
        raise UndecidedSchema(undecided(pipeline, opening, brought.questions))
    followed_columns.enter(cursor, pipeline.name, brought.columns)
    for each in brought.columns:
        log.info(
            "%s brings column %s %s by schema id %d", batch, each.column.name, each.column.type.sql, each.schema_id
        )
    return with_columns(cursor, pipeline, batch.batch_id)


def read_opening(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> tuple[dict[Writer, dict[int, int]], Brought]:
    """The schemas with which ranges of the batch are known to begin, by partition and offset, and what they bring."""
    opening = schema_boundaries.opening(cursor, batch.batch_id)
    needs = SchemaNeeds.read(cursor, pipeline, {writer.schema_id for writer in opening})
    record = with_columns(cursor, pipeline).record
    return opening, needs.brought(record, batch.batch_id, opening)


def undecided(
    pipeline: Pipeline,
    opening: Mapping[Writer, Mapping[int, int]],
    questions: Mapping[Writer, tuple[Difference, ...]],
) -> str:
    """What differs, and where, in a line that says what to do."""
    named = [
        f"{writer} (from {', '.join(f'{partition}:{offset}' for partition, offset in opening[writer].items())}) has "
        f"{'; '.join(map(str, differences))}"
        for writer, differences in questions.items()
    ]
    return (
        f"topic {pipeline.source.topic}: {'; '.join(named)}; nothing was staged; correct the pipeline file or the "
        f"producer, or leave the columns as they are with: offset-ledger accept-schema {pipeline.name} --why ..."
    )


def end_at_boundaries(session: Session, pipeline: Pipeline, batch: Batch, tables: StagingTables) -> bool:
    """Whether what was staged met a schema that needs other columns, so that the batch has to be staged again.

    Then its ranges end before that schema, or the next claim brings the columns. All in one transaction.

    Raises:
        Fenced: a newer attempt has claimed the batch.
    """
    if not follows(pipeline, batch):
        return False
    with transaction(session) as cursor:
        batches.lock(cursor, tables.attempt, State.STAGING)
        record = with_columns(cursor, pipeline, batch.batch_id).record
        firsts, needs = _firsts(cursor, pipeline, tables)
        needed = {first.writer: needs.needed(record, first.writer) for first in firsts}
        waiting = [first for first in firsts if needed[first.writer]]
        if not waiting:
            return False
        opening = {first.writer for first in waiting if first.opens}
        brought = needs.brought(record, batch.batch_id, opening)
        later = [first for first in waiting if first.writer not in opening]
        ending = [] if brought.questions else [each for each in later if needs.needed(brought.record, each.writer)]
        _keep(cursor, batch, [first for first in waiting if first.writer in opening], ending, needed)
        _cut(cursor, batch, tables, ending)
    return True


def _firsts(cursor: Cursor, pipeline: Pipeline, tables: StagingTables) -> tuple[list[_First], SchemaNeeds]:
    met = schema_boundaries.met(cursor, tables, pipeline.source.format is Format.PROTOBUF)
    needs = SchemaNeeds.read(cursor, pipeline, {each.schema_id for each in met})
    spans = [each.offsets for each in staging.manifest(cursor, tables) if each.offsets]
    starts = {r.partition: r.from_offset for r in sorted(spans, key=lambda r: -r.from_offset)}
    firsts: dict[tuple[int, Writer], _First] = {}
    for each in met:  # ascending in each partition
        if writer := needs.writer(each):
            opens = each.first_offset == starts[each.partition]
            firsts.setdefault((each.partition, writer), _First(each.partition, each.first_offset, writer, opens))
    return list(firsts.values()), needs


def _keep(
    cursor: Cursor, batch: Batch, opening: Iterable[_First], ending: Iterable[_First], needed: Mapping[Writer, Needed]
) -> None:
    boundaries = [
        Boundary.of(first.partition, first.offset, first.writer, ends, needed[first.writer])
        for firsts, ends in ((opening, False), (ending, True))
        for first in firsts
        if first.opens is not ends
    ]
    schema_boundaries.record(cursor, batch.batch_id, boundaries)


def _cut(cursor: Cursor, batch: Batch, tables: StagingTables, ending: Iterable[_First]) -> None:
    ends: dict[int, int] = {}
    for first in ending:
        ends[first.partition] = min(first.offset, ends.get(first.partition, first.offset))
    batches.cut(cursor, tables.attempt, ends)
    for partition, offset in ends.items():
        log.info("%s ends before %d:%d, where another schema begins that needs other columns", batch, partition, offset)
