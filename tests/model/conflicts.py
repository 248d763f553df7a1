"""Records that would bring a unique value which another row has: the gate finds and quarantines them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from tests.model.rules import Defect, Rules
from tests.model.state import DELETE, Database, Record, Staged, is_live


class Claim(NamedTuple):
    """A key that has a value; of two the first by ``rank`` and order keeps it."""

    rank: int
    order: tuple[int, int, int, int]
    key: int


_STORED, _SETTLED, _STAGED = range(3)


def find_conflicts(
    rules: Rules, db: Database, staged: tuple[Staged, ...], topic: int, at_commit: bool = False
) -> dict[Staged, int]:
    """The staged records that would win their key and bring a value that another key has: which key that is.

    Without a record that loses, an older one of its key may win, and is looked at too; those right before it that have
    the same value lose with it. A record that another one has lost to keeps its value.
    """
    table, losers = rules.world.table, dict[Staged, int]()
    if not table.unique or (rules.defect is Defect.DEFAULTS_UNSEEN and table.default and not at_commit):
        return losers
    contenders: dict[int, list[Staged]] = {}
    first_stays = rules.world.skip_existing
    for each in sorted(staged, key=lambda s: _order(s, topic), reverse=not first_stays):
        if _would_be_written(rules, db, each, topic):
            contenders.setdefault(each.record.key, []).append(each)
    settled: set[Staged] = set()
    while lost := _losers(rules, db, contenders, settled, topic):
        for key, first in lost.items():
            value = holds(rules, contenders[key][0].record)
            run = [s for s, _ in takewhile(lambda pair: pair[1], _same(rules, contenders[key], value))]
            losers |= dict.fromkeys(run, first.key)
            if first.rank != _STORED:
                settled.add(contenders[first.key][0])
            contenders[key] = contenders[key][len(run) :]
        contenders = {key: some for key, some in contenders.items() if some}
    return losers


def _same(rules: Rules, some: list[Staged], value: int | None) -> Iterator[tuple[Staged, bool]]:
    return ((each, holds(rules, each.record) == value) for each in some)


def _order(s: Staged, topic: int) -> tuple[int, int, int, int]:
    return s.at, topic, s.partition, s.offset


def _would_be_written(rules: Rules, db: Database, s: Staged, topic: int) -> bool:
    stored = db.table[s.record.key]
    if rules.world.skip_existing:
        return stored is None and not (rules.world.table.beside and is_live(db.values[s.record.key]))
    return stored is None or _order(s, topic) > stored.place


def holds(rules: Rules, record: Record) -> int | None:
    """The value that a row of the record has in the index, 0 for a NULL that equals others; None where it has none."""
    table = rules.world.table
    gone = record.what == DELETE and table.beside and rules.defect is not Defect.DELETES_HOLD_VALUES
    value = 0 if record.what == DELETE else record.value
    return None if gone or (not value and not table.nulls_are_equal) else value


def stored_values(rules: Rules, db: Database) -> Iterator[tuple[int, int]]:
    """Key and value of each row of the table that has one in the index."""
    if rules.world.table.beside:
        records = [values.whole.record if values and is_live(values) else None for values in db.values]
    else:
        records = [row and row.record for row in db.table]
    for key, record in enumerate(records):
        if record and (value := holds(rules, record)) is not None:
            yield key, value


def _losers(
    rules: Rules, db: Database, contenders: dict[int, list[Staged]], settled: set[Staged], topic: int
) -> dict[int, Claim]:
    """The keys whose winner loses, and the claim that it loses to."""
    claims: dict[int, list[Claim]] = {}
    for key, value in stored_values(rules, db):
        deleted = key in contenders and contenders[key][0].record.what == DELETE
        if not (deleted and rules.world.table.beside) or rules.defect is Defect.FREED_IS_TAKEN:
            claims.setdefault(value, []).append(Claim(_STORED, (0, 0, 0, 0), key))
    for key, (winner, *_) in contenders.items():
        if (value := holds(rules, winner.record)) is not None:
            rank = _SETTLED if winner in settled else _STAGED
            claims.setdefault(value, []).append(Claim(rank, _order(winner, topic), key))
    firsts = {value: min(some) for value, some in claims.items()}
    return {
        claim.key: firsts[value]
        for value, some in claims.items()
        for claim in some
        if claim.rank != _STORED and claim.key != firsts[value].key
    }
