"""What people do: decide, read again, redrive, dismiss, order by another moment, change the file, prune."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model.batch import (
    Kept,
    agrees,
    has_conflicts,
    in_order,
    is_whole,
    kept_staging,
    log_change,
    lost_range,
    record_order,
    write_order,
)
from tests.model.rules import Defect, Rules, Step
from tests.model.state import (
    PATH,
    TIMESTAMP,
    WAITING,
    Batch,
    Database,
    LogId,
    Part,
    Place,
    Quarantined,
    Range,
    Sheet,
    Source,
    State,
    Topic,
    changed,
)  # fmt: skip

# -- decisions ---------------------------------------------------------------------------------------------------------


def approve(rules: Rules, state: State) -> Iterator[Step]:
    """A person approves a rejected batch, exactly as it was validated."""
    for batch in state.db.batches:
        if batch.state is BatchState.REJECTED and is_whole(rules, state, batch):
            after = batch._replace(state=BatchState.VALIDATED, approval=batch.judged, judged=())
            yield Step("approve", (batch.number,), state._replace(db=state.db.with_batch(after)))


def approve_tombstones(rules: Rules, state: State) -> Iterator[Step]:
    """A person lets a head batch go on although tombstones of it may be gone; if staging is gone, it is read again."""
    for batch in state.db.batches:
        if batch.state is BatchState.STAGING and batch.late and not batch.after:
            whole = is_whole(rules, state, batch)
            after = batch._replace(state=BatchState.STAGED if whole else batch.state, late_approved=batch.late)
            if after != batch:
                yield Step("approve tombstones", (batch.number,), state._replace(db=state.db.with_batch(after)))


def abandon(rules: Rules, state: State) -> Iterator[Step]:
    """A person gives a batch up: because it cannot go on, or, as often as the world allows, without need."""
    for batch in state.db.batches:
        if batch.state.is_open:
            if _cannot_go_on(rules, state, batch):
                yield Step("abandon", (batch.number,), state._replace(db=state.db.abandoned(batch)))
            elif rules.may(state, "abandon"):
                spent = rules.spend(state, "abandon")
                yield Step("abandon", (batch.number,), spent._replace(db=state.db.abandoned(batch)))


def _cannot_go_on(rules: Rules, state: State, batch: Batch) -> bool:
    if batch.state is BatchState.REJECTED:
        return not is_whole(rules, state, batch)
    if batch.state is BatchState.VALIDATED and has_conflicts(rules, state, batch):
        return True  # the table has changed since; the gate sees it when the offsets are planned again
    kept = kept_staging(rules, state, batch)
    lost = batch.kind is not BatchKind.REDRIVE and lost_range(state, batch)
    return lost and kept in (Kept.NOTHING, Kept.OTHER_COLUMNS)


def skip(rules: Rules, state: State) -> Iterator[Step]:
    """A person approves a loss: offsets below the log start are committed as skipped, in one transaction."""
    for t, topic in enumerate(state.topics):
        source, head = state.db.sources[t], state.db.head(t)
        if source.log and not log_change(topic, source) and (lost := _lost(topic, source)):
            if head and (_is_judged(head) or is_whole(rules, state, head)):
                continue
            db = state.db.abandoned(head) if head else state.db
            known = source.known()
            new = tuple(Place(source.log, r.partition, r.start) for r in lost if r.partition not in known)
            ends = {r.partition: r for r in lost}
            places = tuple(
                place._replace(cursor=ends[place.partition].end, cursor_era=ends[place.partition].era)
                if place.log == source.log and place.partition in ends
                else place
                for place in (*source.places, *new)
            )
            number = db.last + 1
            batch = Batch(number, t, BatchKind.HEAD, BatchState.COMMITTED, source.log, lost, 1, moved_by=1, expected=0)
            db = db.with_batch(batch).with_source(t, source._replace(places=places))
            yield Step("skip", (t, *((r.partition, r.start, r.end) for r in lost)), state._replace(db=db))


def _is_judged(head: Batch) -> bool:
    late = bool(head.late) and head.state in (BatchState.STAGED, BatchState.VALIDATED)
    return head.state is BatchState.REJECTED or head.approved or late


def _lost(topic: Topic, source: Source) -> tuple[Range, ...]:
    known = source.known()
    positions = ((p, log, known[p].next if p in known else 0) for p, log in enumerate(topic.logs) if known)
    return tuple(
        Range(p, at, log.start, log.era, Sheet(skipped=log.start - at)) for p, log, at in positions if at < log.start
    )


def accept_topic(rules: Rules, state: State) -> Iterator[Step]:
    """A person lets a pipeline go on with another log: a new topic, or one that was truncated."""
    for t, topic in enumerate(state.topics):
        source, head = state.db.sources[t], state.db.head(t)
        change = log_change(topic, source)
        cut = bool(head) and any(_is_cut(topic, r) for r in head.ranges) if head else False
        if source.log is None or (head and is_whole(rules, state, head)) or not (change or cut):
            continue
        if change == "recreated":
            log, back = (topic.id, 0), tuple(Place((topic.id, 0), p, each.start) for p, each in enumerate(topic.logs))
        elif change:
            log = (topic.id, source.log[1] + 1)
            back = tuple(_boundary(state.db, t, topic, place)._replace(log=log) for place in source.known().values())
        else:
            log, back = source.log, ()
        db = state.db
        for batch in db.of(t):
            if batch.state.is_open and (back or batch.kind is BatchKind.HEAD):
                db = db.abandoned(batch)
        known = {place[:2] for place in source.places}
        places = (*source.places, *(place for place in back if place[:2] not in known))
        db = db.with_source(t, source._replace(log=log, places=places))
        yield Step("accept topic", (t, change or "truncated"), state._replace(db=db))


def _is_cut(topic: Topic, r: Range) -> bool:
    return r.partition < len(topic.logs) and not agrees(topic.logs[r.partition], r.end, r.era)


def _boundary(db: Database, t: int, topic: Topic, place: Place) -> Place:
    """Where a partition goes on: at its cursor, or at the last boundary where log and ledger agree."""
    log = topic.logs[place.partition]
    if agrees(log, place.next, place.era):
        return Place(place.log, place.partition, place.next, place.era)
    ends = (
        (r.end, r.era)
        for b in db.of(t)
        if b.log == place.log and is_link(b)
        for r in b.ranges
        if r.partition == place.partition
    )
    agreed = [each for each in ((place.start, place.start_era), *ends) if agrees(log, *each)]
    start, era = max(agreed, default=(log.start, -1))
    return Place(place.log, place.partition, start, era)


def is_link(batch: Batch) -> bool:
    """Whether the batch is a link of the chain."""
    return batch.kind in (BatchKind.HEAD, BatchKind.PRUNED) and batch.state is BatchState.COMMITTED


# -- reading again -----------------------------------------------------------------------------------------------------


def replay(rules: Rules, state: State) -> Iterator[Step]:
    """A person asks for a range again; one that no head batch has read yet is allowed too."""
    if rules.may(state, "replay"):
        for t, topic in enumerate(state.topics):
            source = state.db.sources[t]
            if source.log and source.log[0] == topic.id and in_order(rules, state.db, state.file, t):
                for p, log in enumerate(topic.logs):
                    for start in range(log.start, log.stable):
                        for end in range(start + 1, log.stable + 1):
                            ranges = (Range(p, start, end, log.era),)
                            after = rules.spend(state, "replay")
                            batch = Batch(
                                state.db.last + 1, t, BatchKind.REPLAY, BatchState.PLANNED, source.log, ranges
                            )
                            db = record_order(rules, state.db.with_batch(batch), t, state.file.order)
                            yield Step("replay", (t, p, start, end), after._replace(db=db))


def redrive(rules: Rules, state: State) -> Iterator[Step]:
    """A person has the free records of the quarantine tried again, from the bytes that were kept."""
    if rules.may(state, "redrive"):
        for t, source in enumerate(state.db.sources):
            held = {place for b in state.db.of(t) if b.state.is_open for place in b.chosen}
            free = sorted(
                (
                    q
                    for q in state.db.quarantine
                    if (q.topic, q.log) == (t, source.log) and not q.resolved_by and not q.dismissed
                    and (q.partition, q.offset) not in held
                ),
                key=lambda q: q.position,
            )  # fmt: skip
            if free and source.log and in_order(rules, state.db, state.file, t):
                spans = groupby(free, key=lambda q: q.partition)
                ranges = tuple(_span(state.db, p, list(some)) for p, some in spans)
                number, chosen = state.db.last + 1, tuple((q.partition, q.offset) for q in free)
                batch = Batch(number, t, BatchKind.REDRIVE, BatchState.PLANNED, source.log, ranges, chosen=chosen)
                db = record_order(rules, state.db.with_batch(batch), t, state.file.order)
                yield Step("redrive", (t, *chosen), rules.spend(state, "redrive")._replace(db=db))


def _span(db: Database, partition: int, chosen: list[Quarantined]) -> Range:
    """With the leader epoch that the last batch has seen which quarantined one of them."""
    batch = db.batch(max(q.batch for q in chosen))
    era = next((r.era for r in batch.ranges if r.partition == partition), 0) if batch else 0
    return Range(partition, chosen[0].offset, chosen[-1].offset + 1, era)


def dismiss(rules: Rules, state: State) -> Iterator[Step]:
    """A person dismisses an unresolved record, or undoes that; not while a redrive has it."""
    if rules.may(state, "dismiss"):
        held = {(b.topic, b.log, *place) for b in state.db.batches if b.state.is_open for place in b.chosen}
        for q in state.db.quarantine:
            if not q.resolved_by and q.position not in held:
                settled = q._replace(dismissed=not q.dismissed)
                kept = tuple(settled if each is q else each for each in state.db.quarantine)
                name = "undo dismissal" if q.dismissed else "dismiss"
                after = rules.spend(state, "dismiss")
                yield Step(
                    name, (q.topic, q.partition, q.offset), after._replace(db=state.db._replace(quarantine=kept))
                )


# -- the file and the order of rows ------------------------------------------------------------------------------------


def edit(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody edits the pipeline file: another order, a wider column, or so that it decodes what was refused."""
    file = state.file
    order = TIMESTAMP if file.order == PATH else PATH
    back = any(each.order == order for each in state.db.sources)  # to what the table has, as often as it is needed
    if back or rules.may(state, "edits"):
        after = state if back else rules.spend(state, "edits")
        yield Step("edit", ("order", order), after._replace(file=file._replace(order=order)))
    if rules.may(state, "widen") and not file.columns:
        yield Step("edit", ("columns", 1), rules.spend(state, "widen")._replace(file=file._replace(columns=1)))
    if rules.may(state, "fix") and not file.fixed:
        yield Step("edit", ("decodes", "all"), rules.spend(state, "fix")._replace(file=file._replace(fixed=True)))


def remerge(rules: Rules, state: State) -> Iterator[Step]:
    """A person orders all rows of the table by Kafka's timestamps, and has what the topics have replayed."""
    db, file = state.db, state.file
    if file.order != TIMESTAMP or not any(db.table) or any(batch.state.is_open for batch in db.batches):
        return
    for t, source in enumerate(db.sources):
        if source.log and source.log[0] == state.topics[t].id and not in_order(rules, db, file, t):
            table = changed(db.table, lambda row: row and row._replace(at=row.record.timestamp))
            topics = [t] if rules.defect is Defect.ORDER_PER_PIPELINE else range(len(db.sources))
            parts = (
                Part(u, each.log, ranges) for u in topics if (each := db.sources[u]).log and (ranges := _reach(each))
            )
            after = write_order(rules, db, t, TIMESTAMP)._replace(table=table, parts=(*db.parts, *parts))
            yield Step("remerge", (t,), state._replace(db=after))


def _reach(source: Source) -> tuple[Range, ...]:
    """From the first start offset in the topic to the cursor in its log as it is now."""
    log = source.log or (0, 0)
    cursors = {place.partition: place.cursor for place in source.places if place.log == log}
    spans: dict[int, tuple[int, int]] = {}
    for place in source.places:
        if place.log[0] == log[0]:
            cursor = cursors.get(place.partition)
            end = place.start if cursor is None else cursor
            start, until = spans.get(place.partition, (place.start, end))
            spans[place.partition] = min(start, place.start), max(until, end)
    return tuple(Range(p, start, end) for p, (start, end) in sorted(spans.items()) if start < end)


def pending_parts(db: Database) -> Iterator[tuple[int, Part]]:
    """The parts of the last remerge that no committed batch has replayed."""
    done = {batch.part for batch in db.batches if batch.state is BatchState.COMMITTED}
    yield from ((number, part) for number, part in enumerate(db.parts) if number not in done)


def replay_part(rules: Rules, state: State) -> Iterator[Step]:
    """A remerge plans the replay of a part, as far as the topic still has it."""
    for number, part in pending_parts(state.db):
        topic, source = state.topics[part.topic], state.db.sources[part.topic]
        is_open = any(b.part == number and b.state.is_open for b in state.db.batches)
        if is_open or source.log is None or not (topic.id == source.log[0] == part.log[0]):
            continue
        cut = (
            (r.partition, max(r.start, topic.logs[r.partition].start), min(r.end, topic.logs[r.partition].stable))
            for r in part.ranges
        )
        ranges = tuple(Range(p, start, end, topic.logs[p].era) for p, start, end in cut if start < end)
        if ranges and in_order(rules, state.db, state.file, part.topic):
            batch = Batch(
                state.db.last + 1, part.topic, BatchKind.REPLAY, BatchState.PLANNED, source.log, ranges, part=number
            )
            db = record_order(rules, state.db.with_batch(batch), part.topic, state.file.order)
            yield Step("replay part", (part.topic, number), state._replace(db=db))


# -- prune -------------------------------------------------------------------------------------------------------------


def prune(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody prunes: settled records go first, then committed head batches before the newest become one."""
    if rules.may(state, "prune"):
        for t, source in enumerate(state.db.sources):
            db = state.db
            for log in sorted({place.log for place in source.places}):
                db = _pruned(_without_settled(db, t, log), t, log)
            if db != state.db:
                yield Step("prune", (t,), rules.spend(state, "prune")._replace(db=db))


def _heads_before_the_newest(db: Database, t: int, log: LogId) -> list[Batch]:
    return [b for b in db.of(t) if is_link(b) and b.log == log][:-1]


def _without_settled(db: Database, t: int, log: LogId) -> Database:
    """Without records that are dismissed, or were resolved before the newest head batch."""
    up_to = max((b.number for b in _heads_before_the_newest(db, t, log)), default=0)
    gone = [
        q for q in db.quarantine
        if (q.topic, q.log) == (t, log)
        and (q.dismissed or (0 < q.resolved_by <= up_to and q.letter != WAITING))
    ]  # fmt: skip
    forgotten = tuple(sorted({*db.forgotten, *(q.position for q in gone if q.dismissed)}))
    return db._replace(quarantine=tuple(q for q in db.quarantine if q not in gone), forgotten=forgotten)


def _pruned(db: Database, t: int, log: LogId) -> Database:
    kept_by = {number for q in db.quarantine for number in (q.batch, q.resolved_by, q.tried_by)}
    left = {q.position for q in db.quarantine}
    kept_by |= {b.number for b in db.of(t) if not left.isdisjoint((t, b.log, *place) for place in b.chosen)}
    heads = _heads_before_the_newest(db, t, log)
    runs = [list(some) for keeps, some in groupby(heads, key=lambda b: _is_kept(b, kept_by)) if not keeps]
    after = 0
    for run in runs:
        summary = run[-1]
        others = [
            b for b in db.of(t)
            if after < b.number < summary.number and b.state is BatchState.COMMITTED and b.log == summary.log
            and not is_link(b) and not _is_kept(b, kept_by) and b.part < 0
        ]  # fmt: skip
        after = summary.number
        if len(run) > 1 or others or summary.kind is not BatchKind.PRUNED:
            db = _summed(db, run, others)
    return db


def _is_kept(batch: Batch, kept_by: set[int]) -> bool:
    return bool(batch.approval or batch.late_approved) or batch.number in kept_by


def _summed(db: Database, run: list[Batch], others: list[Batch]) -> Database:
    summary = run[-1]
    ranges = []
    links = sorted((r for b in run for r in b.ranges), key=lambda r: (r.partition, r.start))
    for p, some in groupby(links, key=lambda r: r.partition):
        parts = list(some)
        sheet = Sheet(*(sum(each) for each in zip(*(r.sheet for r in parts if r.sheet), strict=True)))
        added = sum(r.added for r in parts)
        ranges.append(Range(p, parts[0].start, parts[-1].end, parts[-1].era, sheet, added))
    rereads = (*(r for b in run for r in b.rereads), *(r for b in others for r in b.ranges))
    pruned = Batch(
        summary.number, summary.topic, BatchKind.PRUNED, BatchState.COMMITTED, summary.log, tuple(ranges),
        summary.epoch, summary.claim, summary.epoch, expected=0, rereads=tuple(sorted(rereads)),
    )  # fmt: skip
    gone = {b.number for b in (*run, *others)} - {summary.number}
    return db._replace(batches=tuple(b for b in db.batches if b.number not in gone)).with_batch(pruned)
