"""The merge: what a commit does to the table, what becomes of each staged row, and the balance sheet that closes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model.rules import Defect, Rules
from tests.model.state import DELETE, Batch, Database, Range, Row, Sheet, Slice, Staged, is_live

Counts = Mapping[int, Counter[str]]


def merge(
    rules: Rules, db: Database, batch: Batch, staged: tuple[Staged, ...]
) -> tuple[tuple[Row | None, ...], Counts]:
    """The table afterwards, and what was counted by partition."""
    rows = [Row(s.at, batch.topic, s.partition, s.offset, s.record, batch.number) for s in staged]
    first_stays = rules.world.skip_existing
    table = list(db.table)
    counts: dict[int, Counter[str]] = {row.partition: Counter() for row in rows}
    for row in [row for row in rows if _is_users(rules, db, row.record.key)]:
        rows.remove(row)
        counts[row.partition]["same state"] += 1
    for key in {row.record.key for row in rows}:
        of_key = [row for row in rows if row.record.key == key]
        row = (min if first_stays else max)(of_key, key=lambda each: each.place)
        before = table[key]
        blind = rules.defect is Defect.LAST_WRITE_WINS
        if before is None or (not first_stays and (row.place > before.place or blind)):
            table[key] = row
            verb = "deleted" if row.record.what == DELETE else "inserted" if before is None else "updated"
            counts[row.partition][verb] += 1
            counts[row.partition]["fresh"] += 1
            counts[row.partition]["added"] += before is None
    for row in rows:
        there = table[row.record.key]
        assert there is not None
        lost_to = "same state" if first_stays or there.at == row.at else "older"
        counts[row.partition]["standing" if there.place == row.place else lost_to] += 1
    return tuple(table), counts


def append(
    rules: Rules, db: Database, batch: Batch, staged: tuple[Staged, ...]
) -> tuple[tuple[Row | None, ...], Counts]:
    """The same where each record is a row: it is added, unless a batch has read its offset before."""
    known = read_before(db, batch) if rules.defect is not Defect.APPENDED_AGAIN else set()
    table, counts = list(db.table), {s.partition: Counter[str]() for s in staged}
    for s in staged:
        counts[s.partition]["standing"] += 1
        if (s.partition, s.offset) not in known:
            table[s.record.key] = Row(s.at, batch.topic, s.partition, s.offset, s.record, batch.number)
            counts[s.partition].update(("inserted", "fresh", "added"))
    return tuple(table), counts


def read_before(db: Database, batch: Batch) -> set[tuple[int, int]]:
    """The offsets that batches of the same log have committed; a redrive brings in what was refused among them."""
    if batch.kind is BatchKind.REDRIVE:
        return set()
    ranges = (
        r
        for b in db.of(batch.topic)
        if b.log == batch.log and b.state is BatchState.COMMITTED and b.kind is not BatchKind.REDRIVE
        for r in (*b.ranges, *b.rereads)
    )
    return {(r.partition, offset) for r in ranges for offset in range(r.start, r.end)}


def _is_users(rules: Rules, db: Database, key: int) -> bool:
    """Whether a row of before the first batch is the first of its key, which no other one replaces."""
    world = rules.world
    if not (world.skip_existing and world.table.beside) or rules.defect is Defect.USERS_ROW_IS_NONE:
        return False
    return db.table[key] is None and is_live(db.values[key])


def close(r: Range, staged: Iterable[Slice], counts: Mapping[str, int], gaps: bool, moved: int = 0) -> Range | None:
    """The range with its balance sheet, so many rows being ``moved`` into quarantine; None where it does not close."""
    rows, refused, skipped = (sum(each[place] for each in staged) for place in (3, 4, 5))
    rows, refused = rows - moved, refused + moved
    if counts["standing"] + counts["same state"] + counts["older"] != rows:
        return None
    gap = r.end - r.start - rows - refused - skipped
    if gap < 0 or (gap and not gaps):
        return None
    duplicate = counts["same state"] + counts["standing"] - counts["fresh"]
    sheet = Sheet(
        counts["inserted"], counts["updated"], counts["older"], duplicate, counts["deleted"], refused, skipped, gap
    )
    return r._replace(sheet=sheet, added=counts["added"])
