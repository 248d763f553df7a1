"""``publish_at: log``: of two records of one partition the later one stands, whatever any clock says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.ledger.database import Session, rows, transaction
from offset_ledger.model.states import BatchKind
from offset_ledger.repair.verify import verify
from tests.fixtures.raw import Raw, commit_raw

PIPELINE = """
pipeline: accounts
source: {{topic: accounts}}
record:
  event_id: $.id
  publish_at: log
  delete_when: {{path: $.op, equals: d}}
  columns:
    state: {{type: text, nullable: true}}
    note: {{type: text, nullable: true{note}}}
target: {{table: public.accounts{target}}}
"""
GROUPS = ", absent: keep"
BESIDE = ", bookkeeping: beside"
SHAPES = {
    "columns": ("", ""),
    "beside": ("", BESIDE),
    "groups": (GROUPS, BESIDE),
    "skip_existing": ("", ", merge: skip_existing"),
    "beside, skip_existing": ("", BESIDE + ", merge: skip_existing"),
    "on_conflict": ("", ", on_conflict: quarantine"),
}
NONE_SENT = object()


def written(folder: Path, shape: str) -> Pipeline:
    note, target = SHAPES[shape]
    path = folder / "accounts.yaml"
    path.write_text(PIPELINE.format(note=note, target=target))
    return parse_pipeline(path)


@dataclass(frozen=True, slots=True)
class Change:
    """A record of the log. Its clock may be wrong in both directions."""

    partition: int
    offset: int
    id: str
    seconds: int
    deleted: bool = False
    note: Any = NONE_SENT

    @property
    def state(self) -> str:
        return f"{self.partition}:{self.offset}"

    def raw(self) -> Raw:
        value = {"id": self.id, "op": "d" if self.deleted else "u", "state": self.state}
        if self.note is not NONE_SENT:
            value["note"] = self.note
        return Raw(self.partition, self.offset, json.dumps(value).encode(), timestamp=1_767_268_800_000 + self.seconds * 1000)


@dataclass(slots=True)
class Log:
    """A topic: what was appended to each partition."""

    partitions: int
    changes: dict[int, list[Change]] = field(default_factory=dict)

    def append(self, partition: int, chance: random.Random) -> None:
        of = self.changes.setdefault(partition, [])
        # A key stays in its partition.
        key = f"{partition}{chance.choice('abc')}"
        note = chance.choice([NONE_SENT, None, f"note {len(of)}"])
        of.append(Change(partition, len(of), key, chance.randint(0, 9), chance.random() < 0.2, note))


def expected(changes: Sequence[Change], first_wins: bool, groups: bool) -> dict[str, tuple[Any, Any]]:
    """What a source that made these changes one after the other has."""
    table: dict[str, tuple[Any, Any]] = {}
    seen = set[str]()
    for each in sorted(changes, key=lambda change: (change.partition, change.offset)):
        if first_wins and each.id in seen:
            continue
        seen.add(each.id)
        before = table.pop(each.id, (None, None))
        if not each.deleted:
            kept = before[1] if groups else None
            table[each.id] = (each.state, kept if each.note is NONE_SENT else each.note)
    return table


def stands(session: Session, beside: bool) -> dict[str, tuple[Any, Any]]:
    where = "" if beside else "WHERE NOT _deleted"
    return {row[0]: (row[1], row[2]) for row in rows(session, f"SELECT event_id, state, note FROM public.accounts {where}")}


@pytest.fixture
def emptied(session: Session) -> Iterator[Session]:
    yield session


def empty(session: Session) -> None:
    with transaction(session) as cursor:
        cursor.execute("DROP TABLE IF EXISTS public.accounts; DROP TABLE IF EXISTS offset_ledger_rows.accounts")
        cursor.execute("SELECT tests.empty_ledger()")


def play(session: Session, pipeline: Pipeline, log: Log, chance: random.Random) -> None:
    """Commit the log in head batches, with replays of any part of what was read in between."""
    read: Mapping[int, int] = dict.fromkeys(log.changes, 0)
    while any(read[p] < len(of) for p, of in log.changes.items()):
        ends = {p: chance.randint(read[p], len(of)) for p, of in log.changes.items()}
        if new := [c for p, of in log.changes.items() for c in of[read[p] : ends[p]]]:
            commit_raw(session, pipeline, [c.raw() for c in new])
            read = ends
        if chance.random() < 0.3 and any(read.values()):
            partition = chance.choice([p for p, end in read.items() if end])
            start = chance.randrange(read[partition])
            again = log.changes[partition][start : chance.randint(start + 1, read[partition])]
            commit_raw(session, pipeline, [c.raw() for c in again], BatchKind.REPLAY)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_is_that_of_the_source_whatever_the_clocks_say(session: Session, tmp_path: Path, shape: str) -> None:
    pipeline = written(tmp_path, shape)
    first_wins, beside = "skip_existing" in shape, pipeline.target.beside
    for seed in range(15):
        chance, log = random.Random(f"{shape} {seed}"), Log(3)
        for _ in range(30):
            log.append(chance.randrange(3), chance)
        play(session, pipeline, log, chance)
        every = [change for of in log.changes.values() for change in of]
        assert stands(session, beside) == expected(every, first_wins, shape == "groups"), seed
        assert verify(pipeline)[0] == []
        empty(session)
