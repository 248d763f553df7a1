"""The schemas that records name, from the ledger or the registry, and the columns that follow them.

A head batch ends before the first record that needs another column, and the batch after it brings the column. A batch
with a range that begins with such a record takes the change as a whole; so each change ends one batch, and no partition
waits for another. Batches that read old records again have the columns of now.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from offset_ledger.decoding.needed_columns import Difference, Follower, Needed
from offset_ledger.decoding.outcome import Mismatch, SchemaProblem
from offset_ledger.decoding.schemas import Schema
from offset_ledger.decoding.subjects import can_be_of, check_value_schema, fields_of, kind_names, kind_reader
from offset_ledger.errors import SchemaChanged, UndecidedSchema
from offset_ledger.model.batch import Batch
from offset_ledger.model.followed_columns import FollowedColumn, effective
from offset_ledger.model.states import BatchKind, State
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaRef, WriterSchema
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.pipeline_file.pipeline import Pipeline, RecordShape
from offset_ledger.pipeline_file.source import Format, Source
from offset_ledger.postgres.ledger import batches, followed_columns, pipelines, schema_boundaries, staging
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.schema_boundaries import FirstUse, SchemaBoundary, Writer
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.fit import foreign_columns


@dataclass(frozen=True, slots=True)
class SchemaLookup:
    """The lookup of the schemas of a pipeline's records; it is pickled into Spark's tasks.

    ``new_records``: only what the registry says counts, also of a schema that the ledger has, because an id that means
    something else by now would be read wrongly. Records that were read before are read as before.

    With ``keeps`` a new schema is kept in the ledger; without a ``database`` no schema is known before.
    """

    pipeline: str
    source: Source
    database: Connection | None
    registry: Connection
    new_records: bool
    keeps: bool = True

    @classmethod
    def of(cls, pipeline: Pipeline, kind: BatchKind) -> SchemaLookup | None:
        """Return the lookup for a batch of that kind; None where records name no schema."""
        source = pipeline.source
        if source.registry is None:
            return None
        database, registry = get_connection(pipeline.target.connection), get_connection(source.registry)
        return cls(pipeline.name, source, database, registry, kind is BatchKind.HEAD)

    @classmethod
    def that_keeps_nothing(cls, pipeline: Pipeline, database: Connection | None) -> SchemaLookup | None:
        """Return one that finds what the next batch would find, and writes nothing; None where records name none."""
        source = pipeline.source
        if source.registry is None:
            return None
        return cls(pipeline.name, source, database, get_connection(source.registry), new_records=True, keeps=False)

    def __call__(self, refs: frozenset[SchemaRef]) -> Mapping[SchemaRef, Schema]:
        """Return the schemas of these ids and GUIDs, or what is wrong with one, without those unknown to the registry.

        Raises:
            SchemaChanged: the registry has another schema under an id than when it was first met.
            RegistryUnavailable: it has to be asked and does not answer.
            DatabaseUnavailable: nor does the ledger.
        """
        kept: dict[SchemaRef, WriterSchema] = {}
        if self.database:
            with connect(self.database) as session, transaction(session) as cursor:
                kept = schema_boundaries.read_writer_schemas(cursor, self.pipeline, refs)
        answers: dict[SchemaRef, Schema] = {}
        if wanted := refs if self.new_records else refs - kept.keys():
            from offset_ledger.outside.schema_registry.client import connect_registry, schema_or_problem

            registry = connect_registry(self.registry)
            with registry.kept_open():
                schemas = {ref: schema_or_problem(registry, ref) for ref in sorted(wanted, key=str)}
            answers = {ref: schema for ref, schema in schemas.items() if schema is not None}
        asked = {ref: answer for ref, answer in answers.items() if isinstance(answer, WriterSchema)}
        _check_unchanged(self.pipeline, kept, asked)
        new = {ref: schema for ref, schema in asked.items() if ref not in kept and can_be_of(self.source, schema)}
        if new and self.keeps and self.database:
            with connect(self.database) as session, transaction(session) as cursor:
                for ref, schema in new.items():
                    schema_boundaries.freeze_writer_schema(cursor, self.pipeline, schema, ref)
                # A concurrent task may have kept one of them first, or an earlier batch by its id.
                kept_now = schema_boundaries.read_writer_schemas(cursor, self.pipeline, new)
            _check_unchanged(self.pipeline, kept_now, asked)
        return answers if self.new_records else {**answers, **kept}


def _check_unchanged(
    pipeline: str, kept: Mapping[SchemaRef, WriterSchema], asked: Mapping[SchemaRef, WriterSchema]
) -> None:
    for ref in kept.keys() & asked.keys():
        before, now = kept[ref].fingerprint, asked[ref].fingerprint
        if before != now:
            name = "GUID" if isinstance(ref, UUID) else "id"
            raise SchemaChanged(
                f"pipeline {pipeline}: schema {name} {ref} has SHA-256 {now[:12]} in the registry and had "
                f"{before[:12]} when it was first met; nothing was committed; a registry never changes an id, so name "
                "the one that the records were written with in source.registry"
            )


@dataclass(frozen=True, slots=True)
class Brought:
    """A record with all that some schemas bring, and the questions about those."""

    record: RecordShape
    columns: tuple[FollowedColumn, ...] = ()
    questions: Mapping[Writer, tuple[Difference, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchemaNeeds:
    """The needs of the schemas that the ledger keeps of a pipeline, as its file has it, beyond the columns."""

    pipeline: Pipeline
    follower: Follower
    kept: Mapping[SchemaRef, WriterSchema]

    @classmethod
    def read(cls, cursor: Cursor, pipeline: Pipeline, schema_ids: Iterable[int]) -> SchemaNeeds:
        """Read these schemas, without those that the ledger does not keep: no record is read by them."""
        follower = Follower(
            pipeline.source.format,
            pipeline.target.evolve,
            declared=frozenset(column.name for column in pipeline.record.columns),
            foreign=foreign_columns(cursor, pipeline),
            accepted=schema_boundaries.accepted(cursor, pipeline.name),
        )
        return cls(pipeline, follower, schema_boundaries.read_writer_schemas(cursor, pipeline.name, schema_ids))

    def writer(self, met: FirstUse) -> Writer | None:
        """Return the writer that a record names; None if it cannot be read."""
        schema = self.kept.get(met.schema_id)
        if schema is None or self.pipeline.source.format is not Format.PROTOBUF:
            return Writer(met.schema_id) if schema else None
        try:
            return Writer(met.schema_id, kind_reader(schema)(met.head)[0])
        except (Mismatch, SchemaProblem):
            return None

    def needed(self, record: RecordShape, writer: Writer) -> Needed:
        """Return what a writer's records need beyond the columns of the record; nothing if they cannot be read.

        A field of one of several kinds of records is missing from the others.
        """
        source, schema = self.pipeline.source, self.kept.get(writer.schema_id)
        if schema is None:
            return Needed()
        try:
            check_value_schema(source, schema)
            kinds: list[str | None] = [writer.message]
            if not writer.message:  # the records of an Avro union that are the pipeline's
                wanted = self.pipeline.record.schemas
                names = kind_names(schema) if schema.language is SchemaLanguage.AVRO else ()
                ours = [name for name in names if not wanted or name in wanted] if len(names) > 1 else []
                kinds = [*ours] or [None]
            fields = [each for kind in kinds for each in fields_of(schema, kind)]
        except SchemaProblem:
            return Needed()
        if len(kinds) > 1:
            first = {each.path: each for each in reversed(fields)}
            fields = [replace(first[path], nullable=True) for path in dict.fromkeys(each.path for each in fields)]
        return self.follower.needed(record, tuple(fields))

    def brought(self, record: RecordShape, batch_id: int, writers: Iterable[Writer]) -> Brought:
        """Return what these schemas bring to the record, one after the other, with a batch."""
        columns, questions = list[FollowedColumn](), dict[Writer, tuple[Difference, ...]]()
        for writer in sorted(writers):
            needed = self.needed(record, writer)
            record = effective(record, needed.columns)
            columns += [FollowedColumn(column, writer.schema_id, batch_id) for column in needed.columns]
            if needed.questions:
                questions[writer] = needed.questions
        return Brought(record, tuple(columns), questions)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _First:
    """The first record of a schema in a partition, and whether the range begins with it."""

    partition: int
    offset: int
    writer: Writer
    opens: bool


def follows(pipeline: Pipeline, batch: Batch) -> bool:
    """Return whether the batch may bring columns to the pipeline."""
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
    """Return what differs, and where, in a line that says what to do."""
    named = [
        f"{writer} (from {', '.join(f'{partition}:{offset}' for partition, offset in opening[writer].items())}) has "
        f"{'; '.join(map(str, differences))}"
        for writer, differences in questions.items()
    ]
    return (
        f"topic {pipeline.source.topic}: {'; '.join(named)}; nothing was staged; correct the pipeline file or the "
        f"producer, or leave the columns as they are with: offset-ledger accept schema {pipeline.name} --why ..."
    )


def end_at_boundaries(session: Session, pipeline: Pipeline, batch: Batch, tables: StagingTables) -> bool:
    """Return whether the batch has to be staged again, because its records have a schema that needs other columns.

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
        kept = [(first, False) for first in waiting if first.opens] + [(first, True) for first in ending]
        boundaries = [SchemaBoundary.of(f.partition, f.offset, f.writer, ends, needed[f.writer]) for f, ends in kept]
        schema_boundaries.record(cursor, batch.batch_id, boundaries)
        ends_at: dict[int, int] = {}
        for first in ending:
            ends_at[first.partition] = min(first.offset, ends_at.get(first.partition, first.offset))
        batches.cut(cursor, tables.attempt, ends_at)
        for end in ends_at.items():
            log.info("%s ends before %d:%d, where another schema begins that needs other columns", batch, *end)
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
