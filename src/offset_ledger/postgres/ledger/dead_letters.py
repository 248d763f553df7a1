"""The outbox of dead letters: those that wait, those that were delivered, and the offsets up to which that is known."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2.extras import execute_values

from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Cursor, Session, fetched_by_parts, named_sql, rows, transaction

_FETCHED_AT_ONCE = 100  # a record may have a megabyte


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The place of a record in the pipeline's topic."""

    topic_id: str
    partition: int
    offset: int


Delivered = Sequence[tuple[RecordPosition, int, int]]
"""Each record that was delivered, with partition and offset of its letter."""


def enqueue(cursor: Cursor, batch_id: int, topic: str) -> None:
    """Put every record that this batch quarantined into the outbox; the commit's transaction."""
    cursor.run("dead_letters/enqueue", batch_id=batch_id, topic=topic)


def waiting(cursor: Cursor, pipeline: str) -> dict[str, int]:
    """Return how many letters wait for each dead letter topic."""
    return {row["topic"]: row["letters"] for row in cursor.run("dead_letters/waiting", pipeline=pipeline)}


def take(session: Session, pipeline: str, topic: str, limit: int) -> Generator[Any]:
    """The letters that wait for a topic, oldest first, a few of them in memory."""
    with fetched_by_parts(session, "letters") as cursor:
        cursor.itersize = _FETCHED_AT_ONCE
        cursor.run("dead_letters/take", pipeline=pipeline, topic=topic, limit=limit)
        yield from cursor


def read_marks(session: Session, pipeline: str, topic_id: str) -> dict[int, int]:
    """Return by partition of the dead letter topic the offset below which every letter is marked as delivered."""
    query = "SELECT partition, next_offset FROM offset_ledger.dead_letter_mark WHERE pipeline = %s AND topic_id = %s"
    return {row["partition"]: row["next_offset"] for row in rows(session, query, [pipeline, topic_id])}


def compare(
    session: Session, pipeline: str, letters: Sequence[RecordPosition]
) -> tuple[set[RecordPosition], set[RecordPosition]]:
    """Return the letters that still wait in the outbox, and those whose record the cursors have yet to reach.

    The latter are left from commits that the database has lost: their records will be quarantined again.
    """
    if not letters:
        return set(), set()
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline)  # before quarantine: a commit moves both at once
        values = [(pipeline, each.topic_id, each.partition, each.offset) for each in letters]
        known = execute_values(cursor, named_sql("dead_letters/known"), values, page_size=1000, fetch=True)
    waiting = {RecordPosition(*row[:3]): bool(row[3]) for row in known}
    read = {}  # how far, of the log that the pipeline reads
    if cursors is not None:
        read = {(cursors.log_id, partition): end for partition, end in cursors.next_offsets.items()}
    unknown = {each for each in letters if each not in waiting}
    ahead = {each for each in unknown if each.offset >= read.get((each.topic_id, each.partition), 0)}
    return {each for each, waits in waiting.items() if waits}, ahead


def mark(session: Session, pipeline: str, topic_id: str, delivered: Delivered, ends: Mapping[int, int]) -> None:
    """Mark letters as delivered and move the marks to ``ends``, in one transaction; doing it again changes nothing."""
    with transaction(session) as cursor:
        if delivered:
            values = [(pipeline, p.topic_id, p.partition, p.offset, at, offset) for p, at, offset in delivered]
            execute_values(cursor, named_sql("dead_letters/delivered"), values, page_size=1000)
        if ends:
            marks = [(pipeline, topic_id, partition, end) for partition, end in sorted(ends.items())]
            execute_values(cursor, named_sql("dead_letters/mark"), marks)
