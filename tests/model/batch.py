"""The way of a batch: plan, claim, slices, seal, gate, commit, and the answer to COMMIT that gets lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from itertools import pairwise, product
from typing import Any

from offset_ledger.model.states import CLAIMABLE, BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model import beside
from tests.model.conflicts import find_conflicts
from tests.model.merge import append, close, merge, read_before
from tests.model.rules import Defect, Rules, Step, decodes
from tests.model.state import (
    COMMITTING,
    DELETE,
    LOOKED,
    PATH,
    STAGING,
    TORN,
    UNSURE,
    VALIDATING,
    WAITING,
    Attempt,
    Batch,
    Database,
    File,
    Log,
    Look,
    Place,
    Quarantined,
    Range,
    Row,
    Slice,
    Source,
    Staged,
    Staging,
    State,
    Topic,
)  # fmt: skip

# -- what is asked of the topic and of the ledger ----------------------------------------------------------------------


def log_change(topic: Topic, source: Source) -> str | None:
    """How the log differs from the one that the cursors belong to."""
    if source.log is None:
        return None
    if source.log[0] != topic.id:
        return "recreated"
    places = source.known().values()
    return "truncated" if any(not agrees(topic.logs[p.partition], p.next, p.era) for p in places) else None


def agrees(log: Log, offset: int, era: int) -> bool:
    """Whether the log still has, below the offset, what it had under that leader epoch."""
    return offset <= len(log.records) and (era < 0 or offset <= log.end_of(era))


def lost_range(state: State, batch: Batch, read: bool = False) -> bool:
    """Whether the topic no longer has the planned ranges; where they were read, the log may start later."""
    topic = state.topics[batch.topic]
    return topic.id != batch.log[0] or any(_is_lost(topic.logs[r.partition], r, read) for r in batch.ranges)


def _is_lost(log: Log, r: Range, read: bool) -> bool:
    return log.end_of(r.era) < r.end or log.stable < r.end or (log.start > r.start and not read)


def in_order(rules: Rules, db: Database, file: File, topic: int) -> bool:
    """Whether the rows of the table are ordered by what the file names."""
    known = _orders(rules, db, topic)
    if not known:  # a table from before orders were recorded, if it has any row
        return not _has_strays([row for row in db.table if row], file)
    return known == {file.order} or not any(db.table)


def _orders(rules: Rules, db: Database, topic: int) -> set[str]:
    """The moments by which the rows of the table are ordered, whatever topic they are of."""
    own = db.sources[topic].order
    if rules.defect is Defect.UNPLANNED_IS_OLD or (rules.defect is Defect.ORDER_PER_PIPELINE and own):
        return {own} if own else set()
    return {source.order for source in db.sources if source.order}


def _has_strays(rows: list[Row], file: File) -> bool:
    """Whether rows of unknown order cannot be in the file's; markers once came of tombstones alone, by Kafka's."""
    deleted = [row.record.what == DELETE for row in rows]
    if file.order == PATH:
        return any(deleted)
    return any(row.at != row.record.timestamp for row in rows) or (any(deleted) and all(deleted))


def write_order(rules: Rules, db: Database, topic: int, order: str) -> Database:
    """Record the order in the pipelines of the file that name another one, and in the one that asks."""
    alone = rules.defect is Defect.ORDER_PER_PIPELINE
    for t, source in enumerate(db.sources):
        if t == topic or (source.order not in (None, order) and not alone):
            db = db.with_source(t, source._replace(order=order))
    return db


def record_order(rules: Rules, db: Database, topic: int, order: str) -> Database:
    """Record what the file names, unless that is known of the table."""
    return db if _orders(rules, db, topic) == {order} else write_order(rules, db, topic, order)


# -- plan --------------------------------------------------------------------------------------------------------------


def look(rules: Rules, state: State) -> Iterator[Step]:
    """A plan takes its snapshot of the topic, and checks it against the cursors."""
    if rules.is_free(state):
        for t, topic in enumerate(state.topics):
            seen = snapshot(topic)
            if topic.id and not log_change(topic, state.db.sources[t]) and any(_plans(rules, state, t, seen)):
                process = Attempt(LOOKED, t, memory=(*seen, state.file))
                yield Step("look", (t,), state.with_attempt(None, process))


def plan(rules: Rules, state: State) -> Iterator[Step]:
    """A plan writes the ranges and their batch, in one transaction, by a snapshot that may be outdated."""
    for a in set(state.attempts):
        if a.doing == LOOKED:
            after, (*seen, file) = state.with_attempt(a, None), a.memory
            planned = list(_plans(rules, after._replace(file=file), a.topic, tuple(seen)))
            yield from (Step("plan", parameters, after._replace(db=db)) for parameters, db in planned)
            if not planned:
                yield Step("end", (0, 0, "there is nothing to plan any more"), after)


def plan_at_once(rules: Rules, state: State) -> Iterator[Step]:
    """Both, where no world's story lies between."""
    for t, topic in enumerate(state.topics):
        if topic.id and not log_change(topic, state.db.sources[t]):
            for parameters, db in _plans(rules, state, t, snapshot(topic)):
                yield Step("plan", parameters, state._replace(db=db))


def snapshot(topic: Topic) -> tuple[Any, ...]:
    """The topic's id, and for each partition log start, last stable offset, log end and leader epoch."""
    return topic.id, tuple((log.start, log.stable, len(log.records), log.era) for log in topic.logs)


def plan_ahead(rules: Rules, state: State) -> Iterator[Step]:
    """A plan writes the batch after the open one, which is sealed, from its ends."""
    for t, topic in enumerate(state.topics):
        head = state.db.head(t)
        if head is None or head.state not in AHEAD_OF or state.db.ahead(head) or log_change(topic, state.db.sources[t]):
            continue
        if all(agrees(topic.logs[r.partition], r.end, r.era) for r in head.ranges):
            for parameters, db in _plans(rules, state, t, snapshot(topic), head):
                yield Step("plan ahead", parameters, state._replace(db=db))


AHEAD_OF = (BatchState.STAGED, BatchState.VALIDATED)


def _plans(
    rules: Rules, state: State, t: int, seen: tuple[Any, ...], after: Batch | None = None
) -> Iterator[tuple[tuple[Any, ...], Database]]:
    """What the transaction of a plan may write, ``after`` the open head batch or where there is none."""
    db, (topic_id, partitions) = state.db, seen
    source = db.sources[t]
    if db.head(t) != after or (source.log and source.log[0] != topic_id) or not in_order(rules, db, state.file, t):
        return
    source = source if source.log else source._replace(log=(topic_id, 0), planned_at=state.time)
    known = source.known()
    for p, (start, stable, _, era) in enumerate(partitions):
        if p not in known:
            at = 0 if known else start
            place = Place(source.log or (topic_id, 0), p, at, era if at <= stable else -1)
            source = source._replace(places=(*source.places, place))
    starts = {p: place.next for p, place in source.known().items()}
    if after:
        starts.update((r.partition, r.end) for r in after.ranges)
    if any(starts[p] < start or starts[p] > high for p, (start, _, high, _) in enumerate(partitions)):
        return  # OffsetExpired, LogEndBelowCursor
    if rules.world.compacted:
        source = _looked(source, state.time, tuple(stable for _, stable, _, _ in partitions))
    db = record_order(rules, db.with_source(t, source), t, state.file.order)
    waiting = [(p, starts[p], stable, era) for p, (_, stable, _, era) in enumerate(partitions)]
    yield from _batches(rules, db, t, [each for each in waiting if each[1] < each[2]], after.number if after else 0)
    if db != state.db and not any(start < stable for _, start, stable, _ in waiting):
        yield (t, "nothing new"), db


def _looked(source: Source, now: int, stables: tuple[int, ...]) -> Source:
    """With a look; those before the newest one of which everything was read are not needed any more."""
    looks = (*source.looks, Look(now, source.log or (0, 0), stables))
    next_offsets = {place.partition: place.next for place in source.known().values()}
    passed = [
        each.time
        for each in looks
        if each.log == source.log and all(stable <= next_offsets[p] for p, stable in enumerate(each.stables))
    ]
    return source._replace(looks=tuple(sorted({each for each in looks if each.time >= max(passed, default=0)})))


def _batches(
    rules: Rules, db: Database, t: int, waiting: list[tuple[int, int, int, int]], after: int
) -> Iterator[tuple[tuple[Any, ...], Database]]:
    ends = [range(start, stable + 1) if rules.world.cuts else [stable] for _, start, stable, _ in waiting]
    log = db.sources[t].log
    assert log is not None
    for chosen in product(*ends):
        some = zip(waiting, chosen, strict=True)
        ranges = tuple(Range(p, start, end, era) for (p, start, _, era), end in some if start < end)
        if ranges:
            batch = Batch(db.last + 1, t, BatchKind.HEAD, BatchState.PLANNED, log, ranges, after=after)
            yield (t, *((r.partition, r.start, r.end) for r in ranges)), db.with_batch(batch)


# -- stage -------------------------------------------------------------------------------------------------------------


class Kept(Enum):
    """What earlier attempts have left of a batch."""

    NOTHING = auto()
    OTHER_COLUMNS = auto()
    OTHER_FILE = auto()
    USABLE = auto()


def kept_staging(rules: Rules, state: State, batch: Batch) -> Kept:
    """What is left of its staging, and whether the file is still the one it was staged with."""
    tables = state.tables(batch.number, batch.epoch)
    if batch.state not in (BatchState.STAGED, BatchState.VALIDATED) or not is_whole(rules, state, batch):
        return Kept.NOTHING
    assert tables is not None
    if not fits(tables, state.file):
        return Kept.OTHER_COLUMNS
    return Kept.USABLE if batch.approved or batch.file == state.file else Kept.OTHER_FILE


def fits(tables: Staging, file: File) -> bool:
    """Whether rows were staged with the columns, their groups and the order of the file."""
    return tables.file._replace(fixed=file.fixed) == file


def is_whole(rules: Rules, state: State, batch: Batch) -> bool:
    """Whether the manifest is complete and both tables have what it says."""
    if rules.defect is Defect.STAGING_WITHOUT_MANIFEST:
        return batch.expected is not None and state.tables(batch.number, batch.epoch) is not None
    return batch.expected is not None and _is_as_its_manifest(rules, state, batch, batch.epoch)


def _is_as_its_manifest(rules: Rules, state: State, batch: Batch, epoch: int) -> bool:
    tables = state.tables(batch.number, epoch)
    manifest = tuple(each for each in batch.slices if each.epoch == epoch)
    if tables is None or not manifest_holds(rules, batch, manifest, batch.expected):
        return False
    counted = [Counter(each.partition for each in some) for some in (tables.rows, tables.refused)]
    said = [Counter[int](), Counter[int]()]
    for each in manifest:
        said[0][each.partition] += each.rows
        said[1][each.partition] += each.refused
    for p, moved in batch.moved if epoch == batch.epoch else ():
        said[0][p] -= moved
        said[1][p] += moved
    return counted[0] == said[0] and counted[1] == said[1]


def manifest_holds(rules: Rules, batch: Batch, manifest: tuple[Slice, ...], expected: int | None) -> bool:
    """Whether the slices are the planned offsets, each once, and every gap is explained."""
    ranges = {r.partition: r for r in batch.ranges}
    missing = sorted(each.number for each in manifest) != list(range(expected or 0))
    if missing and rules.defect is not Defect.SLICE_WITHOUT_SEAL:
        return False
    spans = sorted((each.partition, each.first, each.last, each.records) for each in manifest if each.records)
    for p, first, last, records in spans:
        if p not in ranges or first < ranges[p].start or last >= ranges[p].end or records > last + 1 - first:
            return False
    if any(before[0] == after[0] and after[1] <= before[2] for before, after in pairwise(spans)):
        return False
    return not any(missing_offsets(batch, manifest).values()) or rules.world.gaps


def missing_offsets(batch: Batch, manifest: tuple[Slice, ...]) -> dict[int, int]:
    """How many offsets of each range gave no record."""
    gaps = {r.partition: r.end - r.start for r in batch.ranges}
    for each in manifest:
        gaps[each.partition] -= each.records
    return gaps


def slices_of(rules: Rules, batch: Batch) -> list[tuple[int, int, int]]:
    """The slices of a batch: partition and offsets; a redrive has one for each range."""
    width = 99 if batch.kind is BatchKind.REDRIVE else rules.world.width
    return [(r.partition, at, min(at + width, r.end)) for r in batch.ranges for at in range(r.start, r.end, width)]


def claim(rules: Rules, state: State) -> Iterator[Step]:
    """An attempt takes a batch under a new epoch and makes its staging tables, unless what is staged can be used."""
    if not rules.is_free(state):
        return
    for batch in state.db.batches:
        if batch.state in CLAIMABLE and kept_staging(rules, state, batch) is not Kept.USABLE:
            lost = batch.kind is not BatchKind.REDRIVE and lost_range(state, batch)
            if not lost and in_order(rules, state.db, state.file, batch.topic):
                undecided = batch.late != batch.late_approved and batch.late
                rival = undecided or any((a.batch, a.epoch) == (batch.number, batch.epoch) for a in state.attempts)
                db = record_order(rules, state.db, batch.topic, state.file.order)
                ready = state if db is state.db else state._replace(db=db)
                if not rival:
                    yield Step("claim", (batch.number, batch.epoch + 1), claimed(rules, ready, batch)[0])
                elif rules.may(state, "rival"):
                    after = rules.spend(ready, "rival")
                    yield Step("claim", (batch.number, batch.epoch + 1), claimed(rules, after, batch)[0])


def claimed(rules: Rules, state: State, batch: Batch) -> tuple[State, Attempt]:
    """The state after a claim. The tables of an older epoch stay while one of its attempts may hold a lock on them.

    The batch may end earlier by this attempt, and so nothing is ahead of it any more.
    """
    held = {(a.batch, a.epoch) for a in state.attempts}
    epoch, time = batch.epoch + 1, state.claims + 1
    after = batch._replace(
        state=BatchState.STAGING, epoch=epoch, claim=time, moved_by=epoch, file=state.file, expected=None, late=(),
        rejected=False, moved=(), slices=tuple(each for each in batch.slices if (batch.number, each.epoch) in held),
    )  # fmt: skip
    staging = tuple(s for s in state.staging if s.batch != batch.number or (s.batch, s.epoch) in held)
    db = state.db.with_batch(after)
    db = db if rules.defect is Defect.AHEAD_STAYS else db.without_ahead(after)
    state = state._replace(db=db, staging=staging, claims=time)
    attempt = Attempt(STAGING, batch.topic, batch.number, epoch, time, memory=slice_memory(batch))
    return state.with_tables(Staging(batch.number, epoch, state.file)).with_attempt(None, attempt), attempt


def slice_memory(batch: Batch) -> tuple[tuple[int, int, int], ...]:
    """The ranges that the attempt has to read, as it read them from the ledger."""
    return tuple((r.partition, r.start, r.end) for r in batch.ranges)


def stage_slice(rules: Rules, state: State) -> Iterator[Step]:
    """A task reads a slice and writes its records, with its row of the manifest, in one transaction."""
    for a in set(state.attempts):
        if a.doing == STAGING:
            batch = state.db.batch(a.batch)
            for number in range(len(slices_of(rules, _as_known(batch, a)))) if batch else ():
                if number not in a.done:
                    yield from _write_slice(rules, state, a, number)
                    break  # tasks of different slices do not meet
            if batch is None:
                yield Step("end", (a.batch, a.epoch, "its batch is unknown"), state.with_attempt(a, None))


def _as_known(batch: Batch, a: Attempt) -> Batch:
    ranges = a.memory[:-1] if a.memory and a.memory[-1] == "orphan" else a.memory
    return batch._replace(ranges=tuple(Range(*r) for r in ranges))


def _write_slice(rules: Rules, state: State, a: Attempt, number: int) -> Iterator[Step]:
    batch = state.db.batch(a.batch)
    assert batch is not None
    p, start, end = slices_of(rules, _as_known(batch, a))[number]
    tables = state.tables(a.batch, a.epoch)
    owner = (batch.epoch, batch.state, batch.claim) == (a.epoch, BatchState.STAGING, a.claim)
    if not owner or tables is None:
        yield Step("end", (a.batch, a.epoch, "fenced"), state.with_attempt(a, None))
        return
    topic = state.topics[a.topic]
    if batch.kind is not BatchKind.REDRIVE and (topic.logs[p].stable < end or topic.logs[p].start > start):
        yield Step("end", (a.batch, a.epoch, "the topic has lost the offsets"), state.with_attempt(a, None))
        return
    written = any((each.epoch, each.number) == (a.epoch, number) for each in batch.slices)  # by a concurrent task
    after = state if written else staged_slice(state, batch, tables, number, (p, start, end))
    yield Step("stage slice", (a.batch, a.epoch, number), after.with_attempt(a, a._replace(done=(*a.done, number))))


def staged_slice(state: State, batch: Batch, tables: Staging, number: int, span: tuple[int, int, int]) -> State:
    """The state with the records of a slice in staging, and the slice in the manifest."""
    p, start, end = span
    if batch.kind is BatchKind.REDRIVE:
        kept = {
            (q.partition, q.offset): q.record
            for q in state.db.quarantine
            if (q.topic, q.log) == (batch.topic, batch.log)
        }
        records = [(offset, kept[p, offset]) for q, offset in batch.chosen if q == p]
    else:
        records = list(state.log(batch.topic, p).read(start, end))
    staged = [Staged(p, offset, record, record.moment(tables.file.order)) for offset, record in records]
    rows = tuple(each for each in staged if decodes(each.record, tables.file))
    refused = tuple(each for each in staged if not decodes(each.record, tables.file))
    skipped = end - start - len(records) if batch.kind is BatchKind.REDRIVE else 0
    first, last = (start, end - 1) if skipped else (records[0][0], records[-1][0]) if records else (-1, -1)
    entry = Slice(batch.epoch, number, p, len(rows), len(refused), skipped, first, last)
    tables = tables._replace(rows=(*tables.rows, *rows), refused=(*tables.refused, *refused))
    return state._replace(db=state.db.with_batch(batch._replace(slices=(*batch.slices, entry)))).with_tables(tables)


def seal(rules: Rules, state: State) -> Iterator[Step]:
    """The attempt has every slice acknowledged: it checks topic and manifest, and moves the batch to staged."""
    for a in set(state.attempts):
        batch = state.db.batch(a.batch)
        if a.doing == STAGING and batch and len(a.done) == len(slices_of(rules, _as_known(batch, a))):
            yield sealed(rules, state, a)


def sealed(rules: Rules, state: State, a: Attempt) -> Step:
    """The step of the seal."""
    batch = state.db.batch(a.batch)
    assert batch is not None
    if a.memory[-1] == "orphan":
        return Step("end", (a.batch, a.epoch, "its session is lost"), state.with_attempt(a, None))
    if batch.kind is not BatchKind.REDRIVE and lost_range(state, batch, read=not rules.world.gaps):
        return Step("end", (a.batch, a.epoch, "the topic has lost the offsets"), state.with_attempt(a, None))
    manifest = tuple(each for each in batch.slices if each.epoch == a.epoch)
    owner = batch.epoch == a.epoch or rules.defect is Defect.SEAL_NOT_FENCED
    if not owner or batch.state is not BatchState.STAGING:
        return Step("end", (a.batch, a.epoch, "fenced"), state.with_attempt(a, None))
    if not manifest_holds(rules, batch, manifest, len(a.done)):
        return Step("end", (a.batch, a.epoch, "staging is incomplete"), state.with_attempt(a, None))
    late = _late(rules, state, batch, manifest)
    expected = len(manifest) if rules.defect is Defect.SLICE_WITHOUT_SEAL else len(a.done)
    after = batch._replace(expected=expected, moved_by=a.epoch, late=late)
    if late:
        state = state._replace(db=state.db.with_batch(after))
        return Step("seal, but tombstones may be gone", (a.batch, a.epoch), state.with_attempt(a, None))
    state = state._replace(db=state.db.with_batch(after._replace(state=BatchState.STAGED)))
    after_seal = None if batch.after else a._replace(doing=VALIDATING, done=(), memory=())  # one ahead waits
    return Step("seal", (a.batch, a.epoch), state.with_attempt(a, after_seal))


def _late(rules: Rules, state: State, batch: Batch, manifest: tuple[Slice, ...]) -> tuple[tuple[int, int], ...]:
    """The ranges that lack offsets, and were read so late that some of these may have been tombstones."""
    if not rules.world.compacted or batch.kind is not BatchKind.HEAD:
        return ()
    source, approved = state.db.sources[batch.topic], dict(batch.late_approved)
    missing = missing_offsets(batch, manifest)
    return tuple(
        (r.partition, missing[r.partition])
        for r in batch.ranges
        if missing[r.partition] > approved.get(r.partition, 0) and state.time > _not_compacted_before(source, r)
    )


def _not_compacted_before(source: Source, r: Range) -> int:
    looks = (
        each.time
        for each in source.looks
        if each.log[0] != (source.log or (0,))[0] or (*each.stables, *(0,) * 9)[r.partition] <= r.start
    )
    return max(looks, default=source.planned_at)


# -- gate and commit ---------------------------------------------------------------------------------------------------


def take_up(rules: Rules, state: State) -> Iterator[Step]:
    """An attempt goes on with a batch whose staging can be used, without a claim."""
    if rules.is_free(state):
        for batch in state.db.batches:
            if batch.state in (BatchState.STAGED, BatchState.VALIDATED) and not batch.after:
                kept = kept_staging(rules, state, batch)
                last_copy = kept is Kept.OTHER_FILE and lost_range(state, batch)
                if kept is Kept.USABLE or last_copy:
                    doing = VALIDATING if batch.state is BatchState.STAGED else COMMITTING
                    attempt = Attempt(doing, batch.topic, batch.number, batch.epoch)
                    if attempt not in state.attempts:
                        yield Step("take up", (batch.number, batch.epoch, doing), state.with_attempt(None, attempt))


def validate(rules: Rules, state: State) -> Iterator[Step]:
    """The gate passes or rejects a staged batch, in one transaction that compares epoch and state."""
    for a in set(state.attempts):
        if a.doing == VALIDATING:
            yield validated(rules, state, a)


def validated(rules: Rules, state: State, a: Attempt) -> Step:
    """The step of the gate."""
    batch, tables = state.db.batch(a.batch), state.tables(a.batch, a.epoch)
    ended = state.with_attempt(a, None)
    if batch is None or batch.epoch != a.epoch or batch.state is not BatchState.STAGED:
        if batch and batch.epoch == a.epoch and batch.state is BatchState.VALIDATED:
            return Step("take up", (a.batch, a.epoch, COMMITTING), state.with_attempt(a, a._replace(doing=COMMITTING)))
        return Step("end", (a.batch, a.epoch, "fenced"), ended)
    if tables is None or not fits(tables, state.file) or not is_whole(rules, state, batch):
        return Step("end", (a.batch, a.epoch, "staging is incomplete"), ended)
    if rules.defect is Defect.COLLATION_INHERITED and rules.world.table.collated:
        return Step("end", (a.batch, a.epoch, "the search for conflicts fails"), ended)
    if losers := find_conflicts(rules, state.db, tables.rows, batch.topic):
        moved = tuple(each._replace(against=losers[each]) for each in tables.rows if each in losers)
        kept = tuple(each for each in tables.rows if each not in losers)
        tables = tables._replace(rows=kept, refused=(*tables.refused, *moved))
        state, ended = state.with_tables(tables), ended.with_tables(tables)
        batch = batch._replace(moved=tuple(sorted(Counter(each.partition for each in moved).items())))
    judged = (state.file, len(tables.rows), len(tables.refused))
    rejected = bool(rules.world.rejects and tables.refused and batch.kind is not BatchKind.REDRIVE)
    passed = not rejected or batch.approval == judged
    after = batch._replace(
        state=BatchState.VALIDATED if passed else BatchState.REJECTED,
        rejected=rejected,
        judged=() if passed else judged,
        moved_by=a.epoch,
    )
    state = state._replace(db=state.db.with_batch(after))
    if passed:
        return Step("validate", (a.batch, a.epoch), state.with_attempt(a, a._replace(doing=COMMITTING)))
    return Step("reject", (a.batch, a.epoch), state.with_attempt(a, None))


def commit(rules: Rules, state: State) -> Iterator[Step]:
    """The transaction of the commit; its answer may get lost, whether it took place or not."""
    for a in set(state.attempts):
        if a.doing == COMMITTING:
            db, why = committed(rules, state, a)
            if db is None:
                yield Step("end", (a.batch, a.epoch, why), state.with_attempt(a, None))
                continue
            after = state._replace(db=db)
            torn = a._replace(doing=TORN) if rules.defect is Defect.CURSOR_APART else None
            yield Step("commit", (a.batch, a.epoch), after.with_attempt(a, torn))
            if rules.may(state, "lost answer"):
                unsure = a._replace(doing=UNSURE)
                for outcome, lost in (("committed", after), ("not committed", state)):
                    spent = rules.spend(lost, "lost answer")
                    yield Step("lose answer", (a.batch, a.epoch, outcome), spent.with_attempt(a, unsure))
        if a.doing == TORN:
            batch = state.db.batch(a.batch)
            assert batch is not None
            db = _with_cursors(state.db, batch)
            yield Step("move cursor", (a.batch, a.epoch), state._replace(db=db).with_attempt(a, None))


def resolve(rules: Rules, state: State) -> Iterator[Step]:
    """The attempt asks the ledger what became of its COMMIT; it does nothing more in any case."""
    for a in set(state.attempts):
        if a.doing == UNSURE:
            batch = state.db.batch(a.batch)
            if rules.defect is Defect.LOST_ANSWER_IS_FAILURE:
                db, _ = committed(rules, state, a, blindly=True)
                if db is not None:
                    yield Step("commit again", (a.batch, a.epoch), state._replace(db=db).with_attempt(a, None))
                    continue
            if batch and batch.state is BatchState.COMMITTED and batch.epoch == a.epoch:
                outcome = "committed"
            else:
                outcome = "not committed"
            yield Step("resolve", (a.batch, a.epoch, outcome), state.with_attempt(a, None))


def committed(rules: Rules, state: State, a: Attempt, blindly: bool = False) -> tuple[Database | None, str]:
    """The database after the transaction of a commit; or why there is none."""
    db, batch, tables = state.db, state.db.batch(a.batch), state.tables(a.batch, a.epoch)
    if batch is None:
        return None, "its batch is unknown"
    owner = batch.epoch == a.epoch or rules.defect is Defect.EPOCH_NOT_COMPARED
    if (not owner or batch.state is not BatchState.VALIDATED) and not blindly:
        return None, "fenced"
    if batch.kind is BatchKind.HEAD and not blindly:
        known = {place.partition: place for place in db.sources[batch.topic].places if place.log == batch.log}
        if any(known[r.partition].next != r.start for r in batch.ranges):
            return None, "a range does not start at its cursor"
    if tables is None or not fits(tables, state.file):
        return None, "staging has other columns than the file"
    if not in_order(rules, db, state.file, batch.topic):
        return None, "the table has another order than the file"
    if rules.defect is not Defect.STAGING_WITHOUT_MANIFEST and not _is_as_its_manifest(rules, state, batch, a.epoch):
        return None, "staging is incomplete"
    if has_conflicts(rules, state, batch, at_commit=True):
        return None, "another row has a unique value"
    if rules.defect is Defect.GROUPS_BY_COMMENT and rules.is_spent(state, "lose comments"):
        return None, "the groups are not known"
    db = beside.regrouped(rules, db, state.file)
    table, counts = (append if rules.world.append else merge)(rules, db, batch, tables.rows)
    lost = any(n["fresh"] < n["standing"] + n["same state"] + n["older"] for n in counts.values())
    if lost and rules.defect is Defect.CLASSES_LOST and rules.is_spent(state, "fail to classify"):
        return None, "a row is not accounted for"
    if rules.world.table.beside:
        written, why = beside.written(rules, db, table, batch, tables.rows, state.file)
        if written is None:
            return None, why
        table, counts = beside.filled(table, counts, written.filled)
        db = db._replace(values=written.values, groups=written.groups)
    slices = tuple(each for each in batch.slices if each.epoch == a.epoch)
    if rules.defect is Defect.STAGING_WITHOUT_MANIFEST:
        slices = tuple(_counted(tables, r.partition) for r in batch.ranges)
    ranges, moved_rows = [], dict(batch.moved)
    for r in batch.ranges:
        closed = close(
            r, [each for each in slices if each.partition == r.partition], counts.get(r.partition, Counter()),
            rules.world.gaps or batch.kind is BatchKind.REDRIVE, moved_rows.get(r.partition, 0),
        )  # fmt: skip
        if closed is None:
            return None, "the balance sheet does not close"
        ranges.append(closed)
    db = db._replace(table=table, columns=max(db.columns, state.file.columns))
    db = _with_quarantine(rules, db, batch, tables)
    after = batch._replace(state=BatchState.COMMITTED, ranges=tuple(ranges), moved_by=a.epoch)
    db = db.with_batch(after)
    if ahead := db.ahead(batch):
        db = db.with_batch(ahead._replace(after=0))
    db = record_order(rules, db, batch.topic, state.file.order)
    if batch.kind is BatchKind.HEAD and (rules.defect is not Defect.CURSOR_APART or blindly):
        db = _with_cursors(db, after)
    return db, ""


def has_conflicts(rules: Rules, state: State, batch: Batch, at_commit: bool = False) -> bool:
    """Whether rows that are staged would break a unique constraint, as the gate sees it, or as the commit does."""
    tables = state.tables(batch.number, batch.epoch)
    return tables is not None and bool(find_conflicts(rules, state.db, tables.rows, batch.topic, at_commit))


def _counted(tables: Staging, partition: int) -> Slice:
    """What the tables have of a partition, as if a slice had said so."""
    rows, refused = (sum(s.partition == partition for s in some) for some in (tables.rows, tables.refused))
    return Slice(tables.epoch, partition, partition, rows, refused, 0, 0, 0)


def _with_cursors(db: Database, batch: Batch) -> Database:
    ends = {r.partition: r for r in batch.ranges}
    source = db.sources[batch.topic]
    places = tuple(
        place._replace(cursor=ends[place.partition].end, cursor_era=ends[place.partition].era)
        if place.log == batch.log and place.partition in ends
        else place
        for place in source.places
    )
    return db.with_source(batch.topic, source._replace(places=places))


def _with_quarantine(rules: Rules, db: Database, batch: Batch, tables: Staging) -> Database:
    """With the refusals in quarantine, once; and those of a redrive settled."""
    refused = {(each.partition, each.offset): each for each in tables.refused}
    there = {each.position for each in db.quarantine} | set(db.forgotten)
    if rules.world.append:
        there |= {(batch.topic, batch.log, *place) for place in read_before(db, batch)}
    letter = WAITING if rules.world.letters else ""
    new = tuple(
        Quarantined(batch.topic, batch.log, p, offset, each.record, batch.number, letter=letter, against=each.against)
        for (p, offset), each in sorted(refused.items())
        if (batch.topic, batch.log, p, offset) not in there
    )
    kept = list(db.quarantine)
    for at, each in enumerate(kept):
        if (each.topic, each.log) == (batch.topic, batch.log) and (each.partition, each.offset) in batch.chosen:
            again = (each.partition, each.offset) in refused
            kept[at] = each._replace(tried_by=batch.number) if again else each._replace(resolved_by=batch.number)
    return db._replace(quarantine=(*kept, *new))


# -- all of it at once, where no world's story lies between ------------------------------------------------------------


def load(rules: Rules, state: State) -> Iterator[Step]:
    """One attempt takes a batch from its claim, or from what is staged, through the gate."""
    others = state.attempts
    for step in (*claim(rules, state), *take_up(rules, state)):
        after = step.state
        while (a := _at_work(after)) and a.doing != COMMITTING:
            some = (*stage_slice(rules, after), *seal(rules, after)) if a.doing == STAGING else validate(rules, after)
            after = next(iter(some)).state
        if step.parameters[-1] != COMMITTING:
            yield Step("load", step.parameters[:2], after._replace(attempts=others))


def _at_work(state: State) -> Attempt | None:
    return next((a for a in state.attempts if a.doing in (STAGING, VALIDATING, COMMITTING)), None)


def commit_at_once(rules: Rules, state: State) -> Iterator[Step]:
    """An attempt commits a validated batch; one of another file is staged again first, unless it was approved."""
    usable = {each.number: each.approved or each.file == state.file for each in state.db.batches}
    for step in take_up(rules, state):
        if usable[step.parameters[0]] and step.parameters[-1] == COMMITTING and (a := _at_work(step.state)):
            db, _ = committed(rules, state, a)
            if db is not None:
                yield Step("commit", step.parameters[:2], state._replace(db=db))


def ingest(rules: Rules, state: State) -> Iterator[Step]:
    """A run takes an open batch through all its steps."""
    for loaded in load(rules, state):
        for done in commit_at_once(rules, loaded.state):
            if done.parameters[0] == loaded.parameters[0]:
                yield Step("ingest", done.parameters, done.state)


def run(rules: Rules, state: State) -> Iterator[Step]:
    """A run plans the next head batch and takes it through all its steps."""
    for planned in plan_at_once(rules, state):
        head = planned.state.db.head(planned.parameters[0])
        done = (each.state for each in ingest(rules, planned.state) if head and each.parameters[0] == head.number)
        yield Step("run", planned.parameters, next(done, planned.state))
