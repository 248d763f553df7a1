"""What must hold in every state, over every transition, and on the way to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

from offset_ledger.model.states import TRANSITIONS, BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model import values
from tests.model.batch import is_whole, log_change
from tests.model.repair import is_link, pending_parts
from tests.model.rules import Rules, World
from tests.model.state import DELETE, GONE, MARKER, THERE, Batch, Database, Range, Row, State

SEALED = (BatchState.STAGED, BatchState.VALIDATED, BatchState.REJECTED)
NOT_JUDGED = (BatchState.PLANNED, BatchState.STAGING, BatchState.STAGED)

# -- of the database alone ---------------------------------------------------------------------------------------------


def the_chain_has_no_gap_and_no_overlap(world: World, db: Database) -> bool:
    """The committed head ranges of a partition begin at its start offset, and each begins where the one before ends."""
    starts = {(t, place.log, place.partition): place.start for t, s in enumerate(db.sources) for place in s.places}
    links = sorted((b.topic, b.log, r.partition, r.start, r.end) for b in db.batches if is_link(b) for r in b.ranges)
    for partition, some in groupby(links, key=lambda each: each[:3]):
        at = starts.get(partition)
        for *_, start, end in some:
            if start != at:
                return False
            at = end
    return True


def a_cursor_is_the_end_of_its_chain(world: World, db: Database) -> bool:
    """A partition has a cursor once a head batch of it has committed, and it is the end of the last one."""
    ends: dict[tuple[object, ...], int] = {}
    for b in db.batches:
        if is_link(b):
            for r in b.ranges:
                place = b.topic, b.log, r.partition
                ends[place] = max(ends.get(place, 0), r.end)
    return all(p.cursor == ends.get((t, p.log, p.partition)) for t, s in enumerate(db.sources) for p in s.places)


def one_head_batch_is_open(world: World, db: Database) -> bool:
    """A topic has at most one open head batch, and at most one ahead of that."""
    heads = Counter((b.topic, b.after > 0) for b in db.batches if b.kind is BatchKind.HEAD and b.state.is_open)
    return all(count == 1 for count in heads.values())


def a_batch_ahead_begins_where_the_open_one_ends(world: World, db: Database) -> bool:
    """A batch ahead is at most staged, and begins at the ends of the open one, which is sealed, and at cursors."""
    return all(_begins_at_its_end(db, b) for b in db.batches if b.after)


def _begins_at_its_end(db: Database, ahead: Batch) -> bool:
    head = db.head(ahead.topic)
    if head is None or (ahead.after, ahead.log) != (head.number, head.log) or head.state not in SEALED:
        return False
    ends = {p.partition: p.next for p in db.sources[ahead.topic].places if p.log == ahead.log}
    ends.update((r.partition, r.end) for r in head.ranges)
    return ahead.state in NOT_JUDGED and all(r.start == ends[r.partition] for r in ahead.ranges)


def a_sheet_counts_every_offset_once(world: World, db: Database) -> bool:
    """The balance sheet of a committed range sums to its width; no other range has one."""
    return all(
        r.sheet is not None and sum(r.sheet) == r.end - r.start if b.state is BatchState.COMMITTED else r.sheet is None
        for b in db.batches
        for r in b.ranges
    )


def the_table_has_what_was_added(world: World, db: Database) -> bool:
    """The rows and markers of the table, with those that were pruned, are as many as the sheets say were added."""
    committed = [b for b in db.batches if b.state is BatchState.COMMITTED]
    there = sum(row is not None for row in db.table) + len(db.pruned)
    return there == sum(r.added for b in committed for r in (*b.ranges, *b.rereads))


def rows_have_one_clock(world: World, db: Database) -> bool:
    """All rows are ordered by one moment, which the ledger knows."""
    orders, rows = {s.order for s in db.sources if s.order}, [row for row in db.table if row]
    return not rows or any(all(row.at == row.record.moment(order) for row in rows) for order in orders)


def what_is_sealed_is_whole(world: World, db: Database) -> bool:
    """The manifest of a sealed batch has every slice, and without gaps every offset, of its epoch."""
    return all(_is_sealed_whole(world, b) for b in db.batches if b.state in SEALED)


def _is_sealed_whole(world: World, batch: Batch) -> bool:
    width = sum(r.end - r.start for r in batch.ranges)
    numbers = [each.number for each in batch.manifest]
    return numbers == list(range(batch.expected or 0)) and (
        world.gaps or width == sum(each.records for each in batch.manifest)
    )


def only_the_newest_claim_moves_a_batch(world: World, db: Database) -> bool:
    """What moved a batch last was the attempt of its present epoch."""
    return all(b.moved_by == b.epoch for b in db.batches)


def a_record_is_redriven_by_one_batch(world: World, db: Database) -> bool:
    """A quarantined record is in one open redrive at most, and in none once it is resolved or dismissed."""
    held = Counter((b.topic, b.log, *place) for b in db.batches if b.state.is_open for place in b.chosen)
    settled = {q.position for q in db.quarantine if q.resolved_by or q.dismissed}
    return all(count == 1 and position not in settled for position, count in held.items())


def quarantine_lies_in_committed_ranges(world: World, db: Database) -> bool:
    """A quarantined record lies in a range that the batch which refused it has committed, and is there once."""
    positions = [q.position for q in db.quarantine]
    return len(set(positions)) == len(positions) and all(
        _covers(db, q.batch, q.topic, q.partition, q.offset) for q in db.quarantine
    )


def _covers(db: Database, number: int, topic: int, partition: int, offset: int) -> bool:
    batch = db.batch(number) or next(
        (b for b in db.batches if b.kind is BatchKind.PRUNED and b.number > number and b.topic == topic), None
    )
    if batch is None or batch.state is not BatchState.COMMITTED:
        return False
    return any(r.partition == partition and r.start <= offset < r.end for r in (*batch.ranges, *batch.rereads))


def rows_lie_in_committed_ranges(world: World, db: Database) -> bool:
    """A row lies in a range that the batch which wrote it has committed: no batch that is open has written."""
    return all(_covers(db, row.batch, row.topic, row.partition, row.offset) for row in db.table if row)


# -- of the database and the log ---------------------------------------------------------------------------------------


def read_offsets(state: State) -> Iterator[tuple[int, int, int, Range]]:
    """Topic, partition and offset of all that head batches have read of the present logs, and the range of it."""
    for t, topic in enumerate(state.topics):
        source = state.db.sources[t]
        for b in state.db.of(t):
            if is_link(b) and b.log == source.log and b.log[0] == topic.id:
                for r in b.ranges:
                    yield from ((t, r.partition, offset, r) for offset in range(r.start, r.end))


def every_record_below_a_cursor_has_its_effect(world: World, state: State) -> bool:
    """Each record that a head batch has passed is in the table, or has lost to its row, or is in quarantine."""
    db = state.db
    pending = {
        (part.topic, r.partition, offset)
        for _, part in pending_parts(db)
        for r in part.ranges
        for offset in range(r.start, r.end)
    }
    refused = {q.position for q in db.quarantine} | set(db.forgotten)
    order = next((s.order for s in db.sources if s.order), None)
    for t, p, offset, r in read_offsets(state):
        log = state.log(t, p)
        record = log.records[offset] if offset < len(log.records) else None
        if record is None or record.fate != THERE or record.what == MARKER or record.era > r.era >= 0:
            continue  # not for readers, or another one than was read
        row = db.table[record.key]
        won = row is not None and (world.skip_existing or row.place >= (record.moment(order), t, p, offset))
        won |= world.skip_existing and bool(db.values) and db.values[record.key] is not None  # a row of before
        won |= any(key == record.key and place >= (record.moment(order), t, p, offset) for key, place in db.pruned)
        if not won and (t, p, offset) not in pending and (t, db.sources[t].log, p, offset) not in refused:
            return False
    return True


def rows_are_records(world: World, state: State) -> bool:
    """A row is a record of its batch's log, equal in every field, and none of an aborted transaction."""
    return all(_is_record(state, row) for row in state.db.table if row)


def _is_record(state: State, row: Row) -> bool:
    batch, topic = state.db.batch(row.batch), state.topics[row.topic]
    if batch is not None and batch.log[0] != row.record.topic_id:
        return False
    if batch is None or batch.log[0] != topic.id or row.offset >= len(topic.logs[row.partition].records):
        return True  # of another log: it was compared while that was there
    record = topic.logs[row.partition].records[row.offset]
    return record.era != row.record.era or (record.fate in (THERE, GONE) and record.bare == row.record)


def gaps_have_no_record(world: World, state: State) -> bool:
    """A range has no more gaps than offsets that are no records for readers, or were removed."""
    for b in state.db.batches:
        if is_link(b) and b.log[0] == state.topics[b.topic].id and b.kind is BatchKind.HEAD:
            for r in b.ranges:
                records = state.log(b.topic, r.partition).records[r.start : r.end]
                if len(records) == r.end - r.start and all(each.era <= r.era for each in records):
                    empty = sum(each.fate != THERE or each.what == MARKER for each in records)
                    if r.sheet and r.sheet.gap + r.sheet.skipped > empty:
                        return False
    return True


def a_lost_tombstone_was_approved(world: World, state: State) -> bool:
    """No row stands whose tombstone went unread, unless a person approved the range without it."""
    approved = {
        (b.topic, p, offset)
        for b in state.db.batches
        for p, _ in b.late_approved
        for r in b.ranges
        if r.partition == p
        for offset in range(r.start, r.end)
    }
    for t, p, offset, r in read_offsets(state):
        log = state.log(t, p)
        record = log.records[offset] if offset < len(log.records) else None
        if record and record.what == DELETE and record.fate == GONE and offset >= log.start and r.sheet:
            row = state.db.table[record.key]
            skipped = r.sheet.skipped == r.end - r.start
            if row and row.at < record.timestamp and (t, p, offset) not in approved and not skipped:
                return False
    return True


def a_letter_is_sent_once(world: World, state: State) -> bool:
    """The dead letter topic has no letter twice."""
    return len(set(state.letters)) == len(state.letters)


# -- of a transition ---------------------------------------------------------------------------------------------------


def batches_move_as_the_diagram_says(world: World, before: State, after: State) -> bool:
    """A batch moves by an allowed transition, its epoch only upwards; one that has ended stays, until it is pruned."""
    there = {b.number: b for b in after.db.batches}
    for b in before.db.batches:
        now = there.get(b.number)
        if now is b:
            continue
        if now is None or now.kind is BatchKind.PRUNED:
            if b.state is not BatchState.COMMITTED:
                return False
        elif not b.state.is_open:
            if now._replace(late_approved=b.late_approved) != b:
                return False
        elif now.epoch < b.epoch or (now.state is not b.state and now.state not in TRANSITIONS[b.state]):
            return False
    return True


def cursors_go_forward(world: World, before: State, after: State) -> bool:
    """No cursor of a log goes back, and no start offset changes."""
    for was, now in zip(before.db.sources, after.db.sources, strict=True):
        there = {place[:2]: place for place in now.places}
        for place in was.places:
            new = there.get(place[:2])
            if new is None or (new.start, new.start_era) != (place.start, place.start_era) or new.next < place.next:
                return False
    return True


def a_row_goes_forward(world: World, before: State, after: State) -> bool:
    """A row is replaced by a later one only, with ``skip_existing`` by none; a remerge gives rows another moment.

    A replay may write the very record again, and a prune takes markers away.
    """
    orders = [[source.order for source in state.db.sources] for state in (before, after)]
    if before.db.table is after.db.table or orders[0] != orders[1]:
        return True
    filled = {b.number for b in after.db.batches if b.fill}
    gone = {*after.db.pruned} - {*before.db.pruned}
    return all(
        was is None
        or (now is None and (key, was.place) in gone)
        or (now is not None and now[:5] == was[:5] and (now == was or now.batch in filled))
        or (now is not None and now.place > was.place and not world.skip_existing)
        for key, (was, now) in enumerate(zip(before.db.table, after.db.table, strict=True))
    )


def only_a_commit_writes(world: World, before: State, after: State) -> bool:
    """Table and quarantine change with the commit of one batch, or by what a person decides; never without."""
    if before.db.table == after.db.table and _coordinates(before) == _coordinates(after):
        return True
    done = {b.number for b in before.db.batches if b.state is BatchState.COMMITTED}
    new = [b for b in after.db.batches if b.state is BatchState.COMMITTED and b.number not in done]
    orders = [[source.order for source in state.db.sources] for state in (before, after)]
    records = [[row and row.record for row in state.db.table] for state in (before, after)]
    restated = orders[0] != orders[1] and records[0] == records[1]
    gone = {q.position for q in before.db.quarantine if q.resolved_by or q.dismissed}
    pruned = not new and _coordinates(before) - _coordinates(after) <= gone and before.db.table == after.db.table
    return len(new) == 1 or restated or pruned or before.db.pruned != after.db.pruned


def _coordinates(state: State) -> set[object]:
    return {q.position for q in state.db.quarantine}


def a_record_is_resolved_once(world: World, before: State, after: State) -> bool:
    """A record that a redrive has resolved stays resolved by it, and is never dismissed afterwards."""
    there = {q.position: q for q in after.db.quarantine}
    settled = (q for q in before.db.quarantine if q.resolved_by and q.position in there)
    return all(there[q.position][5:9] == q[5:9] for q in settled)


def only_a_person_gives_up_what_is_staged(world: World, before: State, after: State) -> bool:
    """A head batch whose staging is complete is given up by ``abandon`` alone: by no skip, and for no other log.

    One that is ahead goes with the batch before it.
    """
    if before.db.sources == after.db.sources:
        return True
    open_heads = (b for b in before.db.batches if b.kind is BatchKind.HEAD and b.state in SEALED and not b.after)
    ended = (b for b in open_heads if (now := after.db.batch(b.number)) and now.state is BatchState.ABANDONED)
    return not any(is_whole(Rules(world), before, b) for b in ended)


OfDatabase = Callable[[World, Database], bool]
OfState = Callable[[World, State], bool]
OfTransition = Callable[[World, State, State], bool]

DATABASE: tuple[OfDatabase, ...] = (
    the_chain_has_no_gap_and_no_overlap,
    a_cursor_is_the_end_of_its_chain,
    one_head_batch_is_open,
    a_batch_ahead_begins_where_the_open_one_ends,
    a_sheet_counts_every_offset_once,
    the_table_has_what_was_added,
    rows_have_one_clock,
    what_is_sealed_is_whole,
    only_the_newest_claim_moves_a_batch,
    a_record_is_redriven_by_one_batch,
    quarantine_lies_in_committed_ranges,
    rows_lie_in_committed_ranges,
    values.a_row_is_beside_what_stands,
    values.no_two_rows_have_one_value,
    values.every_row_refers_to_one,
    values.a_pruned_delete_is_not_contradicted,
    values.a_delete_beside_is_no_conflict,
)
STATE: tuple[OfState, ...] = (
    every_record_below_a_cursor_has_its_effect,
    rows_are_records,
    gaps_have_no_record,
    a_lost_tombstone_was_approved,
    a_letter_is_sent_once,
    values.every_value_below_a_cursor_has_its_effect,
)
TRANSITION: tuple[OfTransition, ...] = (
    batches_move_as_the_diagram_says,
    cursors_go_forward,
    a_row_goes_forward,
    only_a_commit_writes,
    a_record_is_resolved_once,
    only_a_person_gives_up_what_is_staged,
    values.a_value_goes_forward,
    values.a_users_row_stays_first,
    values.a_key_is_written_once,
    values.a_conflict_names_a_row_that_has_the_value,
    values.only_a_commit_or_a_hand_changes_values,
)
GOES_BACK = ("failover", "restore")
SEVERAL = ("load", "ingest", "run")  # several transitions of a batch in one step


def allowed(world: World, before: State, after: State, name: str = "") -> list[str]:
    """Which statements the transition breaks: none is asked where the database went back to an earlier one."""
    asked = () if name in GOES_BACK else TRANSITION[1:] if name in SEVERAL else TRANSITION
    return [each.__name__ for each in asked if not each(world, before, after)]


def broken(world: World, state: State) -> list[str]:
    """Which statements about a state it breaks."""
    of_database = [each.__name__ for each in DATABASE if not each(world, state.db)]
    return of_database or [each.__name__ for each in STATE if not each(world, state)]


# -- progress ----------------------------------------------------------------------------------------------------------


def every_record_has_an_end(state: State) -> bool:
    """Every record of the log is below a cursor: in the table, in quarantine, or approved as lost; nothing is open."""
    for t, topic in enumerate(state.topics):
        if topic.id:
            source = state.db.sources[t]
            if source.log is None or log_change(topic, source) or state.db.head(t):
                return False
            known = source.known()
            if any(p not in known or known[p].next < len(log.records) for p, log in enumerate(topic.logs)):
                return False
    return not any(pending_parts(state.db)) or _nothing_left_to_replay(state)


def _nothing_left_to_replay(state: State) -> bool:
    """Whether what is pending of a remerge is no longer in the topic."""
    return not any(
        state.topics[part.topic].id == part.log[0] and r.end > state.log(part.topic, r.partition).start
        for _, part in pending_parts(state.db)
        for r in part.ranges
    )
