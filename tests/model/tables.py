"""What people do to the table, to its columns and to its markers; and a server that cannot classify a batch."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tests.model.repair import replay
from tests.model.rules import Defect, Rules, Step
from tests.model.state import (
    COMMITTING,
    DELETE,
    DELETED_BY_HAND,
    MARKER,
    THERE,
    Database,
    Log,
    Row,
    State,
    is_live,
    put,
)  # fmt: skip


def regroup(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody edits the file: a column gets another group, none, or comes; once the edit before is committed."""
    if rules.may(state, "regroup") and state.db.shape == state.file.shape:
        for shape in rules.world.table.shapes:
            if shape != state.file.shape:
                after = rules.spend(state, "regroup")._replace(file=state.file._replace(shape=shape))
                yield Step("regroup", (shape,), after)


def fill(rules: Rules, state: State) -> Iterator[Step]:
    """A person asks for a replay that fills columns."""
    for step in replay(rules, state):
        batch = step.state.db.batches[-1]
        db = step.state.db.with_batch(batch._replace(fill=True))
        yield Step("fill", step.parameters, step.state._replace(db=db))


def delete_by_hand(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody deletes a row of the table, whose bookkeeping stays."""
    if rules.may(state, "delete by hand"):
        for key, values in enumerate(state.db.values):
            if is_live(values) and state.db.table[key]:
                db = state.db._replace(values=put(state.db.values, key, DELETED_BY_HAND))
                yield Step("delete by hand", (key,), rules.spend(state, "delete by hand")._replace(db=db))


def lose_comments(rules: Rules, state: State) -> Iterator[Step]:
    """The database is dumped and restored without comments."""
    if rules.may(state, "lose comments") and any(state.db.table):
        yield Step("lose comments", (), rules.spend(state, "lose comments"))


def fail_to_classify(rules: Rules, state: State) -> Iterator[Step]:
    """The server has no room to classify the rows of a batch: the commit fails, and may be tried again."""
    if rules.may(state, "fail to classify"):
        for a in set(state.attempts):
            if a.doing == COMMITTING and (tables := state.tables(a.batch, a.epoch)) and tables.rows:
                spent = rules.spend(state, "fail to classify")
                yield Step("fail to classify", (a.batch, a.epoch), spent.with_attempt(a, None))


def prune_deletes(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody prunes the delete markers that nothing can contradict any more: no record in the topic, in quarantine or
    in staging is as old. The others stay.
    """
    if rules.may(state, "prune deletes"):
        for t in range(len(state.topics)):
            rows = enumerate(state.db.table)
            markers = {key: row for key, row in rows if row and row.topic == t and row.record.what == DELETE}
            gone = {key: row.place for key, row in markers.items() if _may_go(rules, state, row)}
            if markers:
                table = tuple(None if key in gone else row for key, row in enumerate(state.db.table))
                pruned = tuple(sorted((*state.db.pruned, *gone.items())))
                db = state.db._replace(table=table, pruned=pruned, groups=_without(state.db, gone))
                yield Step("prune deletes", (t, *sorted(gone)), rules.spend(state, "prune deletes")._replace(db=db))


def _without(db: Database, keys: Container[int]) -> tuple[tuple[tuple[str, Row], ...], ...]:
    return tuple(() if key in keys else orders for key, orders in enumerate(db.groups))


def _may_go(rules: Rules, state: State, marker: Row) -> bool:
    logs, db = state.topics[marker.topic].logs, state.db
    if rules.defect is Defect.MARKERS_BY_AGE:
        return marker.offset < logs[marker.partition].start
    order = db.sources[marker.topic].order
    waits = any(not q.resolved_by and q.record.moment(order) <= marker.at for q in db.quarantine)
    staged = any(b.state.is_open for b in db.batches)
    return not waits and not staged and all(_is_newer(log, order, marker) for log in logs)


def _is_newer(log: Log, order: str | None, marker: Row) -> bool:
    records = (each for each in log.records[log.start :] if each.fate == THERE and each.what != MARKER)
    return all(each.moment(order) > marker.at for each in records)
