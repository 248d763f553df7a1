"""What a commit writes into a table whose bookkeeping is beside it: each value as that of the record which won it.

A record wins its row by the merge, and each group of columns by the order of that group alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.merge import Counts
from tests.model.rules import Defect, Rules
from tests.model.state import (
    ABSENT,
    DELETE,
    LOST,
    USERS,
    WITH_ROW,
    Batch,
    Database,
    File,
    Record,
    Row,
    Staged,
    Values,
    is_live,
    put,
)  # fmt: skip

COLUMNS = "ab"  # the optional ones
Orders = dict[str, Row]
"""Of each group of a key the greatest record that has it."""


class Written(NamedTuple):
    """What the staged rows of a batch make of the table, and of which of them the sheet says ``filled``."""

    values: tuple[Values | None, ...]
    groups: tuple[tuple[tuple[str, Row], ...], ...]
    filled: tuple[Row, ...] = ()


def groups_of(shape: str) -> list[str]:
    """The groups of a file's columns."""
    return sorted({*shape} - {WITH_ROW, ABSENT})


def gives(record: Record, group: str, shape: str) -> bool:
    """Whether the record says anything of that group: a delete does of all."""
    return record.what == DELETE or any(
        column in record.gives for column, of in zip(COLUMNS, shape, strict=False) if of == group
    )


def seen(tag: Row | None, column: str) -> Record | None:
    """The record whose value is in an optional column; None where that is NULL."""
    if tag is None or tag == LOST or tag.record.what == DELETE:
        return None
    return tag.record if tag == USERS or column in tag.record.gives else None


def regrouped(rules: Rules, db: Database, file: File) -> Database:
    """The orders of the groups by this file: a column that gets another one has the order of its row until then.

    One that no commit has written yet has none.
    """
    moved = [(was, of) for was, of in zip(db.shape, file.shape, strict=False) if was != of]
    for was, group in moved:
        fresh = was == ABSENT and rules.defect is not Defect.UNWRITTEN_IS_KEPT
        known = any(group in dict(orders) for orders in db.groups) and rules.defect is Defect.GROUPS_BY_NAME
        if group not in (WITH_ROW, ABSENT) and not fresh and not known:
            for key, row in enumerate(db.table):
                if row is not None:
                    orders = dict(db.groups[key]) if db.groups else {}
                    orders[group] = max(orders.get(group, row), row, key=lambda each: each.place)
                    db = db._replace(groups=put(db.groups, key, tuple(sorted(orders.items()))))
    return db._replace(shape=file.shape)


def written(
    rules: Rules, db: Database, table: tuple[Row | None, ...], batch: Batch, staged: tuple[Staged, ...], file: File
) -> tuple[Written | None, str]:
    """What a commit makes of the rows, where the merge has left the bookkeeping like this; or why it does not."""
    values, groups, filled = db.values, db.groups or ((),) * len(table), list[Row]()
    rows = [Row(s.at, batch.topic, s.partition, s.offset, s.record, batch.number) for s in staged]
    for key in sorted({row.record.key for row in rows if table[row.record.key]}):
        change = _Change(rules, db, table, [row for row in rows if row.record.key == key], batch, file.shape)
        if change.why_not:
            return None, change.why_not
        values = put(values, key, change.after)
        groups = put(groups, key, tuple(sorted(change.orders.items())))
        filled += change.filled
    if not any(groups):
        groups = ()
    if rules.world.table.refers and (orphan := _orphan(rules, db.values, values)):
        return None, orphan
    return Written(values, groups, tuple(filled)), ""


def filled(
    table: tuple[Row | None, ...], counts: Counts, rows: tuple[Row, ...]
) -> tuple[tuple[Row | None, ...], Counts]:
    """The bookkeeping and the counts with rows that were filled: they count as updated, by the batch that did it."""
    for row in rows:
        table = put(table, row.record.key, row)
        counts[row.partition].update(("updated", "fresh"))
    return table, counts


class _Change:
    """The row of one key: which of the staged records wins it, and which each group."""

    def __init__(
        self, rules: Rules, db: Database, table: tuple[Row | None, ...], rows: list[Row], batch: Batch, shape: str
    ) -> None:
        key = rows[0].record.key
        self.shape, self.before, self.stored, self.stands = shape, db.values[key], db.table[key], table[key]
        self.orders: Orders = dict(db.groups[key]) if db.groups else {}
        self.filled: list[Row] = []
        self.takes: Orders = {}
        kept = dict(self.orders)
        if self.stands is not self.stored and self.stands is not None:
            self.takes[WITH_ROW] = self.stands
        for group in groups_of(shape):
            some = [row for row in rows if gives(row.record, group, shape)]
            best = max(some, key=lambda row: row.place, default=None)
            if best and (group not in kept or best.place > kept[group].place):
                self.takes[group] = self.orders[group] = best
        if batch.fill:
            self._fill(rows, kept)
        self.after = self._after()
        self.why_not = self._why_not(rules)

    def _fill(self, rows: list[Row], kept: Orders) -> None:
        """The very records that the row, or a group of it, came from are written as the file reads them now."""
        for row in rows:
            stored = self.stored
            same = stored and WITH_ROW not in self.takes and row.place == stored.place
            if same and row.record.what != DELETE and self._differs(row, WITH_ROW):
                self.takes[WITH_ROW] = row
                self.filled.append(row)
        for group in groups_of(self.shape):
            for row in rows:
                same = group in kept and group not in self.takes and row.place == kept[group].place
                given = row.record.what != DELETE and gives(row.record, group, self.shape)
                if same and given and self._differs(row, group):
                    self.takes[group] = row

    def _differs(self, row: Row, group: str) -> bool:
        if not is_live(self.before):
            return True
        assert self.before is not None
        return any(seen(self.before.columns[place], c) != seen(row, c) for place, c in self._columns_of(group))

    def _columns_of(self, group: str) -> Iterator[tuple[int, str]]:
        yield from ((place, COLUMNS[place]) for place, of in enumerate(self.shape) if of == group)

    def _after(self) -> Values | None:
        whole = self.takes.get(WITH_ROW)
        if whole and whole.record.what == DELETE:
            return None
        before = self.before
        if not is_live(before):
            if not whole:
                return before
            unsaid = {g: row if row.record.what == DELETE else LOST for g, row in self.orders.items()}
            before = Values(whole.record.spelling, whole, tuple(unsaid.get(of) for of in self.shape))
        assert before is not None
        columns = [*before.columns]
        for group, row in self.takes.items():
            for place, _ in self._columns_of(group):
                columns[place] = row
        return before._replace(whole=whole or before.whole, columns=tuple(columns))

    def _why_not(self, rules: Rules) -> str:
        """What a commit with a defect refuses."""
        table, whole = rules.world.table, self.takes.get(WITH_ROW)
        before = self.before if is_live(self.before) else None
        compared = table.trigger or groups_of(self.shape)
        other = any(before and row.record.spelling != before.spelling for row in self.takes.values())
        if rules.defect is Defect.KEYS_BY_IMAGE and compared and other and self.after:
            return "an event does not stand as it was staged"
        lone = self.takes and not whole and not before and self.stored and self.stored.record.what != DELETE
        if rules.defect is Defect.LONE_GROUP_STOPS and lone:
            return "an event does not stand as it was staged"
        if rules.defect is Defect.COPY_OF_ANOTHER_TYPE and table.copies and compared and whole:
            return "types cannot be compared"
        return ""


def _orphan(rules: Rules, before: tuple[Values | None, ...], after: tuple[Values | None, ...]) -> str:
    """A row that refers to none: in the end; with the defect also right after the deletes."""
    there = [key for key, each in enumerate(after) if is_live(each)]
    looked_at = [after]
    if rules.defect is Defect.DELETES_FIRST:
        looked_at.append(tuple(each if is_live(after[key]) else None for key, each in enumerate(before)))
    for rows in looked_at:
        for each in rows:
            if each and is_live(each) and each.whole.record.value and each.whole.record.value - 1 not in there:
                return "a row refers to none"
    return ""
