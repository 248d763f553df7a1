"""What the schemas of records need that the columns of a pipeline do not have, by the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offset_ledger.config.model import Pipeline, RecordShape
from offset_ledger.config.source import Format
from offset_ledger.decoding.needed_columns import Difference, Fields, Follower, Needed
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.record_kinds import fields_of, kind_names, kind_reader
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.subjects import check_value_schema
from offset_ledger.ledger import schema_boundaries, writer_schemas
from offset_ledger.ledger.database import Cursor
from offset_ledger.ledger.schema_boundaries import Met, Writer
from offset_ledger.model.followed_columns import FollowedColumn, effective
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.target.declared_columns import foreign_columns


@dataclass(frozen=True, slots=True)
class Brought:
    """A record with all that some schemas bring, and the questions about those."""

    record: RecordShape
    columns: tuple[FollowedColumn, ...] = ()
    questions: Mapping[Writer, tuple[Difference, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchemaNeeds:
    """Compares the schemas that the ledger keeps of a pipeline, as its file has it, with columns."""

    pipeline: Pipeline
    follower: Follower
    kept: Mapping[int, WriterSchema]

    @classmethod
    def read(cls, cursor: Cursor, pipeline: Pipeline, schema_ids: Iterable[int]) -> SchemaNeeds:
        """For these schemas, without those that the ledger does not keep: no record is read by them."""
        follower = Follower(
            pipeline.source.format,
            pipeline.target.evolve,
            declared=frozenset(column.name for column in pipeline.record.columns),
            foreign=foreign_columns(cursor, pipeline),
            accepted=schema_boundaries.accepted(cursor, pipeline.name),
        )
        return cls(pipeline, follower, writer_schemas.read(cursor, pipeline.name, schema_ids))

    def writer(self, met: Met) -> Writer | None:
        """What a record names; None where it cannot be read."""
        schema = self.kept.get(met.schema_id)
        if schema is None or self.pipeline.source.format is not Format.PROTOBUF:
            return Writer(met.schema_id) if schema else None
        try:
            return Writer(met.schema_id, kind_reader(schema)(met.head)[0])
        except (Mismatch, SchemaProblem):
            return None

    def needed(self, record: RecordShape, writer: Writer) -> Needed:
        """What its records need beyond the columns of the record; nothing where they cannot be read."""
        fields = self._fields(writer)
        return self.follower.needed(record, fields) if fields is not None else Needed()

    def brought(self, record: RecordShape, batch_id: int, writers: Iterable[Writer]) -> Brought:
        """What these schemas bring to the record, one after the other, with a batch."""
        columns, questions = list[FollowedColumn](), dict[Writer, tuple[Difference, ...]]()
        for writer in sorted(writers):
            needed = self.needed(record, writer)
            record = effective(record, needed.columns)
            columns += [FollowedColumn(column, writer.schema_id, batch_id) for column in needed.columns]
            if needed.questions:
                questions[writer] = needed.questions
        return Brought(record, tuple(columns), questions)

    def _fields(self, writer: Writer) -> Fields | None:
        source, schema = self.pipeline.source, self.kept.get(writer.schema_id)
        if schema is None:
            return None
        try:
            check_value_schema(source, schema)
            return self._of_kinds(schema, [writer.message] if writer.message else self._kinds(schema))
        except SchemaProblem:
            return None

    def _kinds(self, schema: WriterSchema) -> list[str]:
        """The records of an Avro union that are the pipeline's; none where the schema is of one record."""
        wanted = self.pipeline.record.schemas
        names = kind_names(schema) if schema.language is SchemaLanguage.AVRO else ()
        return [name for name in names if not wanted or name in wanted] if len(names) > 1 else []

    def _of_kinds(self, schema: WriterSchema, kinds: Sequence[str]) -> Fields:
        """The fields of these kinds of records; a field of one of several is missing from the others."""
        if len(kinds) < 2:
            return fields_of(schema, kinds[0] if kinds else None)
        every = [each for kind in kinds for each in fields_of(schema, kind)]
        first = {each.path: each for each in reversed(every)}
        return tuple(replace(first[path], nullable=True) for path in dict.fromkeys(each.path for each in every))
