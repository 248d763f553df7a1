"""Schemas as they were written, the offsets where columns did not suffice for them, and what people have accepted."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self
from uuid import UUID

from psycopg2 import sql
from psycopg2.extras import Json

from offset_ledger.decoding.needed_columns import Difference, Needed
from offset_ledger.model.batch import Origin
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaRef, SchemaReference, WriterSchema
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.staging import StagingTables


@dataclass(frozen=True, slots=True, order=True)
class Writer:
    """A schema that records name; ``message`` is the full name of a Protobuf message in it, else empty."""

    schema_id: int
    message: str = ""

    def __str__(self) -> str:
        return f"schema id {self.schema_id}{f' ({self.message})' if self.message else ''}"


@dataclass(frozen=True, slots=True)
class FirstUse:
    """The first record of a partition that names a schema; ``head`` are the first bytes after the id."""

    partition: int
    first_offset: int
    schema_id: int
    head: bytes


@dataclass(frozen=True, slots=True)
class SchemaBoundary:
    """The first record of a partition that needs other columns; the batch ``ends`` there, or begins."""

    partition: int
    first_offset: int
    writer: Writer
    ends: bool
    columns: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    def __str__(self) -> str:
        needs = "; ".join([*(f"column {column}" for column in self.columns), *self.questions])
        where = "ends before" if self.ends else "begins with"
        return f"partition {self.partition} {where} offset {self.first_offset}, where {self.writer} needs {needs}"

    @classmethod
    def of(cls, partition: int, first_offset: int, writer: Writer, ends: bool, needed: Needed) -> Self:
        """The boundary, with what is needed in words."""
        columns = tuple(f"{column.name} {column.type.sql}" for column in needed.columns)
        return cls(partition, first_offset, writer, ends, columns, tuple(map(str, needed.questions)))


def met(cursor: Cursor, tables: StagingTables, messages: bool) -> tuple[FirstUse, ...]:
    """Return the schemas that the staged records name, with the bytes that name one of its ``messages``."""
    head = sql.SQL(named_sql("following/message_head") if messages else "''::bytea")
    names = {"rows": tables.identifier(tables.rows), "refused": tables.identifier(tables.refused)}
    cursor.execute(sql.SQL(named_sql("following/met")).format(head=head, **names))
    return tuple(FirstUse(row[0], row[3], row[1], bytes(row[2])) for row in cursor.fetchall())


def record(cursor: Cursor, batch_id: int, boundaries: Iterable[SchemaBoundary]) -> None:
    """Keep where the batch ends or begins; the last attempt at it counts."""
    for each in boundaries:
        writer = {"schema_id": each.writer.schema_id, "message": each.writer.message}
        place = {"partition": each.partition, "first_offset": each.first_offset, "ends": each.ends}
        difference = Json({"columns": each.columns, "questions": each.questions})
        cursor.run("following/record_boundary", batch_id=batch_id, difference=difference, **writer, **place)


def read(cursor: Cursor, batch_id: int) -> tuple[SchemaBoundary, ...]:
    """Return the boundaries of the batch."""
    return tuple(
        SchemaBoundary(
            *(row["partition"], row["first_offset"], Writer(row["schema_id"], row["message"]), row["ends"]),
            *(tuple(row["difference"][key]) for key in ("columns", "questions")),
        )
        for row in cursor.run("following/boundaries", batch_id=batch_id)
    )


def opening(cursor: Cursor, batch_id: int) -> dict[Writer, dict[int, int]]:
    """Return the schemas at which ranges of the batch begin, if known: partitions with their offsets."""
    cursor.run("following/opening", batch_id=batch_id)
    first_offsets: dict[Writer, dict[int, int]] = {}
    for partition, schema_id, message, first_offset in cursor.fetchall():
        first_offsets.setdefault(Writer(schema_id, message), {})[partition] = first_offset
    return first_offsets


def accepted(cursor: Cursor, pipeline: str) -> frozenset[Difference]:
    """The differences that a person has accepted."""
    differences = cursor.run("following/accepted", pipeline=pipeline)
    return frozenset(Difference(row["path"], row["difference"]) for row in differences)


def accept(cursor: Cursor, pipeline: str, differences: Iterable[Difference], origin: Origin, why: str) -> None:
    """Keep who accepted them, and why."""
    for each in differences:
        cursor.run("following/accept", pipeline=pipeline, path=each.path, difference=each.text, who=origin.who, why=why)


def read_writer_schemas(cursor: Cursor, pipeline: str, refs: Iterable[SchemaRef]) -> dict[SchemaRef, WriterSchema]:
    """Return the schemas of these ids and GUIDs that are kept."""
    wanted, kept = frozenset(refs), dict[SchemaRef, WriterSchema]()
    ids = [each for each in wanted if isinstance(each, int)]
    guids = [str(each) for each in wanted if isinstance(each, UUID)]
    for row in cursor.run("schemas/read", pipeline=pipeline, schema_ids=ids, guids=guids):
        schema = _schema(*row)
        kept |= {ref: schema for ref in (schema.schema_id, schema.guid) if ref in wanted}
    return kept


def all_writer_schemas(cursor: Cursor, pipeline: str) -> tuple[WriterSchema, ...]:
    """Return all schemas that are kept of the pipeline's records."""
    return tuple(_schema(*row) for row in cursor.run("schemas/read_all", pipeline=pipeline))


def freeze_writer_schema(cursor: Cursor, pipeline: str, schema: WriterSchema, ref: SchemaRef) -> None:
    """Keep a schema for ever, unless there is one with its id; with its GUID, if records name it by that."""
    cursor.run(
        "schemas/freeze",
        pipeline=pipeline,
        schema_id=schema.schema_id,
        language=str(schema.language),
        text=schema.text,
        references=Json([asdict(each) for each in schema.references]),
        subjects=Json(schema.subjects),
        fingerprint=schema.fingerprint,
    )
    if isinstance(ref, UUID):
        cursor.run("schemas/keep_guid", pipeline=pipeline, guid=str(ref), schema_id=schema.schema_id)


def _schema(
    schema_id: int,
    language: str,
    text: str,
    references: list[dict[str, object]],
    subjects: list[list[object]],
    guid: str | None,
) -> WriterSchema:
    refers = tuple(SchemaReference(**each) for each in references)  # type: ignore[arg-type]  # as freeze() wrote them
    under = tuple((str(subject), int(str(version))) for subject, version in subjects)
    return WriterSchema(schema_id, SchemaLanguage(language), text, refers, under, UUID(guid) if guid else None)
