"""The two ends of an attempt at staging: the claim that makes its tables, and the seal that checks them.

The seal asks whether compaction may have removed tombstones that nobody read. A tombstone is kept for
``delete.retention.ms`` from the first cleaning that reaches it (KIP-534), so at least that long after it was written. A
read within that time, or one without a missing offset, misses no tombstone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from offset_ledger.base.units import kafka_span, show_span
from offset_ledger.errors import TombstonesMayBeGone
from offset_ledger.model.balance_sheet import StagedCounts, by_partition
from offset_ledger.model.batch import Attempt, Batch, Origin
from offset_ledger.model.questions import QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.pipeline import Pipeline, Tombstone
from offset_ledger.postgres.ledger import batches, decisions, fencing, staging
from offset_ledger.postgres.ledger.completeness import check_manifest
from offset_ledger.postgres.ledger.database import Cursor, Session, application_name, rename_session, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.stage.schemas import take_columns

_NAMED = 3  # ranges of an error


@dataclass(frozen=True, slots=True)
class TombstoneRetention:
    """The time for which the topic keeps tombstones now; None if it is not compacted."""

    span: timedelta | None


@dataclass(frozen=True, slots=True)
class Written:
    """The number of slices written, and why offsets of the ranges may lack a record; None if they may not.

    ``retention`` is for how long the topic keeps tombstones; None where a missing offset cannot be one that matters.
    """

    slices: int
    gap_reason: str | None = None
    retention: TombstoneRetention | None = None


def claim(session: Session, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagingTables:
    """Take the batch under a new epoch, end the sessions of older ones, and make its staging tables.

    Their sessions are ended first, because a paused process may hold the very lock that the claim needs, and once more
    afterwards, because they may have begun another one meanwhile.

    Raises:
        UndecidedSchema: it begins with a schema that a person has to decide about; it was not taken.
        Fenced: a newer attempt took it at once.
    """
    with transaction(session) as cursor:
        fencing.begin_claim(cursor, batch_id)
        before = batches.read_batch(cursor, batch_id)
        others = fencing.end_lower_epochs(cursor, Attempt(batch_id, before.epoch + 1))
        with fencing.alongside_lower_epochs(cursor, batch_id, others):
            pipeline = take_columns(cursor, pipeline, before)
            ensure_target(cursor, pipeline)  # the pipeline file may have changed since the batch was planned
            attempt = batches.claim(cursor, batch_id, origin, pipeline.config_hash)
            tables = StagingTables(attempt, batches.claimed_at(cursor, batch_id))
            staging.create(cursor, tables, pipeline)
    with fencing.fenced(get_connection(pipeline.target.connection), attempt):  # from its name on, a newer one ends it
        with transaction(session) as cursor:
            rename_session(cursor, application_name(attempt, "stage"))
            fencing.end_lower_epochs(cursor, attempt)
        staging.drop_older(session, attempt)
    return tables


def seal(session: Session, batch: Batch, tables: StagingTables, written: Written, origin: Origin) -> StagedCounts:
    """Check that the slices are the planned offsets, each once, and every gap is legal; then move the batch to staged.

    Raises:
        IncompleteStaging, UnexplainedGap, Fenced: it is not so.
        TombstonesMayBeGone: a gap may hide tombstones; the batch needs approval before it goes on.
    """
    with transaction(session) as cursor:
        slices = staging.manifest(cursor, tables)
        check_manifest(replace(batch, epoch=tables.attempt.epoch), slices, written.slices, written.gap_reason)
        late: tuple[LateRange, ...] = ()
        why = None
        if written.retention:
            counted = by_partition(slices)
            missing = {r.partition: r.width - counted.get(r.partition, StagedCounts()).total for r in batch.ranges}
            late, why = find_late(cursor, batch, missing, written.retention)
        counts = sum((each.counts for each in slices), StagedCounts())
        staging.analyze(cursor, tables)
        batches.move(
            cursor,
            tables.attempt,
            State.STAGING,
            State.STAGING if late else State.STAGED,
            origin,
            why=why,
            slices_expected=written.slices,
            gap_reason=written.gap_reason,
            rows=counts.rows,
            refused=counts.refused,
            skipped=counts.skipped,
            staged_at=None if late else datetime.now(UTC),
            late=as_json(late) if late else None,
        )
    if late:
        raise refusal(batch, late)
    return counts


def tombstone_retention(pipeline: Pipeline, batch: Batch, *snapshots: TopicSnapshot) -> TombstoneRetention | None:
    """Return the retention by the snapshots before and after the read; None if no tombstone can be missed.

    Only a head batch can miss one: what other batches read again, a head batch has read before or will read yet.
    """
    if batch.kind is not BatchKind.HEAD or pipeline.record.tombstone is not Tombstone.DELETE:
        return None
    spans = [kafka_span(str(s.delete_retention_ms)) for s in snapshots if s.compacted or pipeline.source.compacted]
    return TombstoneRetention(min(spans, default=None))


@dataclass(frozen=True, slots=True)
class LateRange:
    """A range with missing offsets that was read so late that some of them may have been tombstones.

    Its records may have ``waited`` that long until they were read; tombstones were ``kept`` for at least that long.
    """

    offsets: OffsetRange
    missing: int
    waited: timedelta
    kept: timedelta

    def __str__(self) -> str:
        count = f"{self.missing:,} of {self.offsets.width:,} offsets gave no record"
        return f"range {self.offsets}: {count}, and its records may have waited {show_span(self.waited)}"


def late_ranges(
    ranges: Iterable[OffsetRange],
    missing: Mapping[int, int],
    waits: Mapping[int, tuple[timedelta, timedelta | None]],
    approved: Sequence[Mapping[str, int]] = (),
) -> tuple[LateRange, ...]:
    """The ranges that lack offsets and were read too late, but those that a person approved with as many missing.

    ``waits`` has how long records of a partition may have waited, and the shortest time that tombstones were kept for
    since the first of them; None where the topic was not compacted meanwhile. A range that lacks no offset lacks no
    tombstone.
    """
    late = []
    for r in ranges:
        lacking, (waited, kept) = missing[r.partition], waits[r.partition]
        is_approved = any(lacking <= each.get(str(r.partition), 0) for each in approved)
        if lacking and kept is not None and waited >= kept and not is_approved:
            late.append(LateRange(r, lacking, waited, kept))
    return tuple(late)


def find_late(
    cursor: Cursor, batch: Batch, missing: Mapping[int, int], today: TombstoneRetention
) -> tuple[tuple[LateRange, ...], str | None]:
    """Return the ranges, read just now, that may lack tombstones and that nobody has approved; or why none is left."""
    if not any(missing.values()):
        return (), None
    cursor.run("stage/unread_tombstones", batch_id=batch.batch_id)
    waits = {}
    for row in cursor.fetchall():  # what plans saw of delete.retention.ms, and what it is
        seen = None if row["kept_ms"] is None else kafka_span(str(row["kept_ms"]))
        kept = [each for each in (seen, today.span) if each is not None]
        waits[row["partition"]] = row["waited"], min(kept, default=None)
    given = decisions.approved(cursor, batch.batch_id, QuestionKind.UNREAD_TOMBSTONES)
    late = late_ranges(batch.ranges, missing, waits, [each["details"]["missing"] for each in given])
    if late or not given:
        return late, None
    who, why = given[-1]["who"], given[-1]["why"]
    return (), f"staged again with no more offsets missing: the approval of {who} still counts ({why})"


def as_json(late: Sequence[LateRange]) -> dict[str, Any]:
    """The numbers that a person is shown and the ledger keeps."""
    return {
        "ranges": [[e.offsets.partition, e.offsets.from_offset, e.offsets.until_offset] for e in late],
        "missing": {str(e.offsets.partition): e.missing for e in late},
        "waited": show_span(max(e.waited for e in late)),
        "kept": show_span(min(e.kept for e in late)),
    }


def refusal(batch: Batch, late: Sequence[LateRange]) -> TombstonesMayBeGone:
    """The error that names the first of them, and says how many more there are."""
    named = "; ".join(map(str, late[:_NAMED])) + (f"; and {len(late) - _NAMED} more ranges" if late[_NAMED:] else "")
    return TombstonesMayBeGone(
        f"batch {batch.batch_id} of {batch.pipeline}, {named}, but tombstones are kept for "
        f"only {as_json(late)['kept']} (delete.retention.ms): compaction may have removed some before they were "
        "read, and their rows would stay; nothing was committed; look for rows whose key has no record in the topic "
        "(offset-ledger verify PIPELINE --deep --against-topic), then go on with: "
        "offset-ledger accept loss PIPELINE --why ..."
    )
