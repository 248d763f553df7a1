"""Tombstones that nobody read: whether compaction may have removed some from a batch, and what a person says to it.

A tombstone is kept for ``delete.retention.ms`` from the first cleaning on that meets it (KIP-534), so at least that
long after it was written. What is read within that time, and what lacks no offset, lacks no tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from offset_ledger.config.model import Pipeline, Tombstone
from offset_ledger.errors import TombstonesMayBeGone
from offset_ledger.ledger import decisions
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.batch import Batch
from offset_ledger.model.questions import QuestionKind
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import BatchKind
from offset_ledger.model.tombstones import LateRange, ReadDelay, in_words, kept_of, late_ranges, shortest
from offset_ledger.units import kafka_span, show_span


@dataclass(frozen=True, slots=True)
class TombstoneRetention:
    """For how long the topic keeps tombstones as it is now; None where it is not compacted."""

    span: timedelta | None


def tombstone_retention(pipeline: Pipeline, batch: Batch, *looks: TopicSnapshot) -> TombstoneRetention | None:
    """What the topic said before and after the read; None where no tombstone can be missed.

    Only a head batch can miss one: what other batches read again, a head batch has read before or will read yet.
    """
    if batch.kind is not BatchKind.HEAD or pipeline.record.tombstone is not Tombstone.DELETE:
        return None
    spans = [kafka_span(str(s.delete_retention_ms)) for s in looks if s.compacted or pipeline.source.compacted]
    return TombstoneRetention(min(spans, default=None))


def find_late(
    cursor: Cursor, batch: Batch, missing: Mapping[int, int], today: TombstoneRetention
) -> tuple[LateRange, ...]:
    """The ranges, read just now, from which compaction may have removed tombstones, and that nobody has approved."""
    if not any(missing.values()):
        return ()
    cursor.execute(named_sql("stage/unread_tombstones"), {"batch_id": batch.batch_id})
    waits = {
        row["partition"]: ReadDelay(row["waited"], shortest(row["kept_ms"], today.span)) for row in cursor.fetchall()
    }
    given = decisions.approved(cursor, batch.batch_id, QuestionKind.UNREAD_TOMBSTONES)
    return late_ranges(batch.ranges, missing, waits, [details["missing"] for details in given])


def refusal(batch: Batch, late: tuple[LateRange, ...]) -> TombstonesMayBeGone:
    """The error that names them."""
    return TombstonesMayBeGone(
        f"batch {batch.batch_id} of {batch.pipeline}, {in_words(late)}, but tombstones are kept for "
        f"only {show_span(kept_of(late))} (delete.retention.ms): compaction may have removed some before they were "
        "read, and their rows would stay; nothing was committed; look for rows whose key has no record in the topic "
        "(offset-ledger verify PIPELINE --deep --against-topic), then go on with: "
        "offset-ledger skip PIPELINE --why ..."
    )
