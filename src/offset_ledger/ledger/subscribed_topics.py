"""The topics that a pipeline file with several of them has been found to read."""

from __future__ import annotations

from collections.abc import Iterable

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import Cursor, named_sql


def record_topics(cursor: Cursor, pipeline: Pipeline, topics: Iterable[str]) -> None:
    """Keep which topics the file reads; those that come after its first ones are later ones."""
    cursor.execute(named_sql("topics/record"), {"file": pipeline.file, "topics": list(topics)})


def read_topics(cursor: Cursor, pipeline: Pipeline) -> tuple[str, ...]:
    """The topics that were recorded of the file, by name."""
    cursor.execute("SELECT topic FROM offset_ledger.subscribed_topic WHERE file = %s ORDER BY topic", [pipeline.file])
    return tuple(row["topic"] for row in cursor.fetchall())


def came_later(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Whether the topic of this pipeline began to match the pattern of its file after others had been read."""
    cursor.execute(named_sql("topics/came_later"), {"file": pipeline.file, "topic": pipeline.source.topic})
    return bool(cursor.one()[0])
