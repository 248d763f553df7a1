"""What must hold of the rows of a table beside its bookkeeping, of unique values, and of markers that were pruned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model.beside import gives
from tests.model.conflicts import holds, stored_values
from tests.model.rules import Rules, World
from tests.model.state import (
    ABSENT,
    DELETE,
    DELETED_BY_HAND,
    LOST,
    THERE,
    USERS,
    WITH_ROW,
    Batch,
    Database,
    Row,
    State,
    Values,
    is_live,
)  # fmt: skip


def _is_users(tag: Row | None) -> bool:
    return tag is not None and tag.record.what == USERS.record.what


# -- of the database alone ---------------------------------------------------------------------------------------------


def a_row_is_beside_what_stands(world: World, db: Database) -> bool:
    """A row is of the record that its bookkeeping has, and there is none of a delete, but by hand."""
    return all(_is_beside(row, values) for row, values in zip(db.table, db.values, strict=False))


def _is_beside(row: Row | None, values: Values | None) -> bool:
    if row is None:
        return values is None or _is_users(values.whole)
    if row.record.what == DELETE:
        return values is None
    return values is not None and (values == DELETED_BY_HAND or values.whole[:5] == row[:5])


def no_two_rows_have_one_value(world: World, db: Database) -> bool:
    """No two rows of the table have one unique value."""
    found = Counter(value for _, value in stored_values(Rules(world), db)) if world.table.unique else Counter[int]()
    return all(count == 1 for count in found.values())


def every_row_refers_to_one(world: World, db: Database) -> bool:
    """What a row refers to is a row of the table."""
    if not world.table.refers:
        return True
    return all(
        not values.whole.record.value or is_live(db.values[values.whole.record.value - 1])
        for values in db.values
        if values and is_live(values)
    )


def a_pruned_delete_is_not_contradicted(world: World, db: Database) -> bool:
    """No row or marker stands that is older than a delete of its key which was pruned."""
    stands = ((row, place) for key, place in db.pruned if (row := db.table[key]))
    return all(row.place >= place for row, place in stands)


def a_delete_beside_is_no_conflict(world: World, db: Database) -> bool:
    """No delete is quarantined for a value: beside its bookkeeping it leaves no row."""
    return not world.table.beside or all(q.against < 0 or q.record.what != DELETE for q in db.quarantine)


# -- of the database and the log ---------------------------------------------------------------------------------------


def every_value_below_a_cursor_has_its_effect(world: World, state: State) -> bool:
    """Each record that a head batch has passed is in the columns that it gives, or has lost them to a newer one."""
    db = state.db
    if not db.values or not db.shape:
        return True
    quarantined = {q.position[2:] for q in db.quarantine}
    for batch, p, offset in _read(db):
        record = state.log(0, p).records[offset]
        values = db.values[record.key]
        place = record.moment(db.sources[0].order), 0, p, offset
        if record.fate != THERE or (p, offset) in quarantined or values is None or not is_live(values):
            continue
        for column, tag in enumerate(values.columns):
            was, group = batch.file.shape[column], db.shape[column]
            speaks = was == WITH_ROW or (was != ABSENT and gives(record, was, batch.file.shape))
            kept = (
                group == WITH_ROW and values.whole.place >= place
            )  # it has the value of the row, once that is written
            kept |= _has_moved(db, group) and _is_kept(db, record.key, group, place)
            if speaks and tag != LOST and not kept and (tag is None or tag.place < place):
                return False
    return True


def _read(db: Database) -> Iterator[tuple[Batch, int, int]]:
    """Batch, partition and offset of all that head batches and replays of the one topic have read."""
    for b in db.of(0):
        if b.state is BatchState.COMMITTED and b.kind in (BatchKind.HEAD, BatchKind.REPLAY):
            for r in b.ranges:
                yield from ((b, r.partition, offset) for offset in range(r.start, r.end))


def _has_moved(db: Database, group: str) -> bool:
    """Whether a column of the group was written by another one, or with its row."""
    shapes = (b.file.shape for b in db.batches if b.state is BatchState.COMMITTED and b.file.shape)
    return any(
        of == group and was not in (ABSENT, of) for shape in shapes for was, of in zip(shape, db.shape, strict=True)
    )


def _is_kept(db: Database, key: int, group: str, place: tuple[int, int, int, int]) -> bool:
    """Whether a record that the group has now is newer, or the row was when a column came to the group."""
    order = dict(db.groups[key]).get(group) if db.groups else None
    return order is not None and order.place >= place


# -- of a transition ---------------------------------------------------------------------------------------------------


def a_value_goes_forward(world: World, before: State, after: State) -> bool:
    """A value is replaced by that of a later record only, or by the same one that a replay fills."""
    pairs = ((was, now) for was, now in _changed(before, after) if is_live(was) and is_live(now))
    return all(
        _goes_forward(tag, new)
        for was, now in pairs
        if was and now
        for tag, new in zip((was.whole, *was.columns), (now.whole, *now.columns), strict=True)
    )


def _changed(before: State, after: State) -> list[tuple[Values | None, Values | None]]:
    if before.db.values is after.db.values:
        return []
    pairs = zip(before.db.values, after.db.values, strict=True)
    return [(was, now) for was, now in pairs if was != now]


def _goes_forward(was: Row | None, now: Row | None) -> bool:
    if was is None or was in (now, LOST):
        return True
    return now is not None and (now.place > was.place or now[:5] == was[:5])


def a_users_row_stays_first(world: World, before: State, after: State) -> bool:
    """``skip_existing`` never changes a row of before the first batch."""
    changed = _changed(before, after)
    return not world.skip_existing or not any(was and _is_users(was.whole) for was, _ in changed)


def a_key_is_written_once(world: World, before: State, after: State) -> bool:
    """The key of a row stays as it was written, whatever equals it."""
    return all(
        was.spelling == now.spelling
        for was, now in _changed(before, after)
        if was and now and is_live(was) and is_live(now)
    )


def a_conflict_names_a_row_that_has_the_value(world: World, before: State, after: State) -> bool:
    """Who is quarantined for a value: another row has it, had it and still stands, or a record of the batch brings it.

    Asked of a batch that is validated and committed at once.
    """
    validated = any(b.state is BatchState.VALIDATED for b in before.db.batches)
    if before.db.quarantine == after.db.quarantine or not world.table.unique or validated:
        return True
    known = {q.position for q in before.db.quarantine}
    new = [q for q in after.db.quarantine if q.position not in known and q.against >= 0]
    stored = [dict(stored_values(Rules(world), state.db)) for state in (before, after)]
    for q in new:
        value, key = holds(Rules(world), q.record), q.against
        stays = stored[0].get(key) == value and (not world.table.beside or is_live(after.db.values[key]))
        brought = any((other.record.key, holds(Rules(world), other.record)) == (key, value) for other in new)
        if key == q.record.key or not (stays or brought or stored[1].get(key) == value):
            return False
    return True


def only_a_commit_or_a_hand_changes_values(world: World, before: State, after: State) -> bool:
    """Rows beside their bookkeeping change with the commit of one batch; somebody's hand only deletes."""
    changed = _changed(before, after)
    done = {b.number for b in before.db.batches if b.state is BatchState.COMMITTED}
    new = [b for b in after.db.batches if b.state is BatchState.COMMITTED and b.number not in done]
    return len(new) == 1 or all(now == DELETED_BY_HAND for _, now in changed)
