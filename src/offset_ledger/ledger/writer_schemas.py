"""The schemas that a pipeline's records were written with, kept as they were when they were first met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from psycopg2.extras import Json

from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema


def read(cursor: Cursor, pipeline: str, schema_ids: Iterable[int]) -> dict[int, WriterSchema]:
    """Those of these schemas that are kept, by id."""
    cursor.execute(named_sql("schemas/read"), {"pipeline": pipeline, "schema_ids": list(schema_ids)})
    return {row["schema_id"]: _schema(*row) for row in cursor.fetchall()}


def read_all(cursor: Cursor, pipeline: str) -> tuple[WriterSchema, ...]:
    """All schemas that are kept of the pipeline's records."""
    cursor.execute(named_sql("schemas/read_all"), {"pipeline": pipeline})
    return tuple(_schema(*row) for row in cursor.fetchall())


def freeze(cursor: Cursor, pipeline: str, schema: WriterSchema) -> None:
    """Keep a schema for ever, unless there is one with its id."""
    values = {
        "pipeline": pipeline,
        "schema_id": schema.schema_id,
        "language": str(schema.language),
        "text": schema.text,
        "references": Json([asdict(each) for each in schema.references]),
        "subjects": Json(schema.subjects),
        "fingerprint": schema.fingerprint,
    }
    cursor.execute(named_sql("schemas/freeze"), values)


def _schema(
    schema_id: int, language: str, text: str, references: list[dict[str, object]], subjects: list[list[object]]
) -> WriterSchema:
    refers = tuple(SchemaReference(**each) for each in references)  # type: ignore[arg-type]  # as freeze() wrote them
    under = tuple((str(subject), int(str(version))) for subject, version in subjects)
    return WriterSchema(schema_id, SchemaLanguage(language), text, refers, under)
