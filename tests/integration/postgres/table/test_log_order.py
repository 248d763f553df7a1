"""``publish_at: log``: of two records of one partition the later one stands, whatever any clock says."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.snapshot import Boundary
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines, row_order
from offset_ledger.postgres.ledger.database import Session, named_sql, rows, transaction
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.tables import do, pipeline_of

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
quality: {{max_quarantined_share: 1.0}}
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
HISTORIES = int(os.environ.get("HISTORIES", "3"))


def written(folder: Path, shape: str) -> Pipeline:
    note, target = SHAPES[shape]
    return pipeline_of(folder, PIPELINE, note=note, target=target)


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
        return Raw(
            self.partition, self.offset, json.dumps(value).encode(), timestamp=1_767_268_800_000 + self.seconds * 1000
        )


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
    return {
        row[0]: (row[1], row[2]) for row in rows(session, f"SELECT event_id, state, note FROM public.accounts {where}")
    }


def empty(session: Session) -> None:
    do(
        session,
        "DROP TABLE IF EXISTS public.accounts; DROP TABLE IF EXISTS offset_ledger_rows.accounts",
        "SELECT tests.empty_ledger()",
    )


def begin_log(session: Session, log: str, *starts: tuple[int, int]) -> None:
    """Let the pipeline read another log from these offsets on, as ``accept topic`` does."""
    with transaction(session) as cursor:
        pipelines.change_topic(cursor, "accounts", log, "cluster")
        pipelines.record_start_offsets(cursor, "accounts", log, [Boundary(*start, 1) for start in starts])


def play(session: Session, pipeline: Pipeline, log: Log, chance: random.Random, replays: float = 0.3) -> None:
    """Commit the log in head batches, with replays of any part of what was read in between."""
    read: Mapping[int, int] = dict.fromkeys(log.changes, 0)
    while any(read[p] < len(of) for p, of in log.changes.items()):
        ends = {p: chance.randint(read[p], len(of)) for p, of in log.changes.items()}
        if new := [c for p, of in log.changes.items() for c in of[read[p] : ends[p]]]:
            commit_raw(session, pipeline, [c.raw() for c in new])
            read = ends
        if chance.random() < replays and any(read.values()):
            partition = chance.choice([p for p, end in read.items() if end])
            start = chance.randrange(read[partition])
            again = log.changes[partition][start : chance.randint(start + 1, read[partition])]
            commit_raw(session, pipeline, [c.raw() for c in again], BatchKind.REPLAY)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_is_that_of_the_source_whatever_the_clocks_say(session: Session, tmp_path: Path, shape: str) -> None:
    pipeline = written(tmp_path, shape)
    first_wins, beside = "skip_existing" in shape, pipeline.target.beside
    for seed in range(HISTORIES):
        chance, log = random.Random(f"{shape} {seed}"), Log(3)
        for _ in range(30):
            log.append(chance.randrange(3), chance)
        play(session, pipeline, log, chance)
        every = [change for of in log.changes.values() for change in of]
        assert stands(session, beside) == expected(every, first_wins, shape == "groups"), seed
        assert verify(pipeline)[0] == []
        empty(session)


@pytest.mark.parametrize("shape", ["columns", "beside", "groups"])
def test_below_a_truncation_offsets_order_and_above_it_the_new_log_is_newer(
    session: Session, tmp_path: Path, shape: str
) -> None:
    pipeline = written(tmp_path, shape)

    def commit(*changes: Change, kind: BatchKind = BatchKind.HEAD) -> dict[str, tuple[Any, Any]]:
        commit_raw(session, pipeline, [change.raw() for change in changes], kind)
        return stands(session, pipeline.target.beside)

    old = [Change(0, n, "abcab"[n], 9, note=f"old {n}") for n in range(5)]
    commit(*old)
    begin_log(session, "topic-1/1", (0, 3), (1, 0), (2, 0))
    # The offsets 3 and 4 are lost: b is written again there, a is not.
    new = [Change(0, 3, "b", 1, note="new 3"), Change(0, 4, "d", 1, note="new 4")]
    expected = {"a": ("0:3", "old 3"), "b": ("0:3", "new 3"), "c": ("0:2", "old 2"), "d": ("0:4", "new 4")}
    assert commit(*new) == expected
    assert commit(*old[:3], *new, kind=BatchKind.REPLAY) == expected
    again = [Change(0, 5, "a", 0, note="new 5"), Change(0, 6, "c", 0, deleted=True)]
    after = {"a": ("0:5", "new 5"), "b": ("0:3", "new 3"), "d": ("0:4", "new 4")}
    assert commit(*again) == after
    assert commit(*old[:3], *new, *again, kind=BatchKind.REPLAY) == after
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("shape", ["columns", "beside", "groups", "on_conflict"])
def test_a_key_of_two_partitions_is_that_of_the_later_moment_and_never_stale_in_its_own(
    session: Session, tmp_path: Path, shape: str
) -> None:
    """Where the clocks of the partitions agree; where they do not, a row is at least not older than its partition says.

    Then a replay may bring back what its partition has overtaken by a record that has lost to one of the other.
    """
    pipeline = written(tmp_path, shape)
    for seed in range(2 * HISTORIES):
        chance, log, agree = random.Random(f"{shape} {seed}"), Log(2), seed % 2 == 0
        for number in range(24):
            partition = chance.randrange(2)
            of = log.changes.setdefault(partition, [])
            note = chance.choice([NONE_SENT, None, f"note {len(of)}"])
            seconds = number if agree else chance.randint(0, 9)
            of.append(Change(partition, len(of), chance.choice("abc"), seconds, chance.random() < 0.2, note))
        play(session, pipeline, log, chance, replays=0.3 if agree else 0)
        every = [change for of in log.changes.values() for change in of]
        if agree:
            in_time = [replace(c, partition=0, offset=c.seconds) for c in every]
            states = {f"{0}:{c.seconds}": c.state for c in every}
            expected_then = expected(in_time, first_wins=False, groups=shape == "groups")
            found = {key: (states[state], note) for key, (state, note) in expected_then.items()}
            assert stands(session, pipeline.target.beside) == found, seed
        kept = "offset_ledger_rows.accounts" if pipeline.target.beside else "public.accounts"
        for key, partition, offset in rows(session, f"SELECT event_id, _partition, _offset FROM {kept}"):
            assert offset == max(c.offset for c in every if (c.id, c.partition) == (key, partition)), (seed, key)
        assert verify(pipeline)[0] == []
        empty(session)


def test_conflicts_are_those_of_the_records_that_the_log_lets_win(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "on_conflict")
    commit_raw(session, pipeline, [Change(1, 0, "z", 0).raw()])
    do(session, "ALTER TABLE public.accounts ADD UNIQUE (note)")
    commit_raw(session, pipeline, [Change(0, 0, "a", 9, note="taken").raw(), Change(0, 1, "b", 9, note="free").raw()])
    # Each has an older clock than the row that it replaces: the first takes a value that is another's.
    late = [Change(0, 2, "b", 1, note="taken"), Change(0, 3, "a", 1, note="given up")]
    commit_raw(session, pipeline, [change.raw() for change in late])
    refused = rows(session, 'SELECT "offset" FROM offset_ledger.quarantine')
    assert [row[0] for row in refused] == [2]
    assert stands(session, beside=False) == {"a": ("0:3", "given up"), "b": ("0:1", "free"), "z": ("1:0", None)}


BROKEN = {
    "moments before offsets": (
        "WHEN {same} AND {stored_offset} {beyond} {last} THEN {stored_moment} ELSE {last_at}",
        "ELSE publish_at",
    ),
    "the stored row never gives way": (
        "max({last_at}) FILTER (WHERE {has} AND {same} AND {last} > {stored_offset}) OVER (PARTITION BY {key})",
        "NULL",
    ),
    "the stored row always gives way": (
        "WHEN {same} AND {stored_offset} {beyond} {last} THEN {stored_moment}",
        "WHEN false THEN NULL",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_another_order_is_found(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """The histories of the first test tell the order of the log from others."""
    before, after = BROKEN[broken]
    text = named_sql("log_order/moments")
    assert before in text
    changed = {"log_order/moments": text.replace(before, after)}
    monkeypatch.setattr(row_order, "named_sql", lambda name: changed.get(name) or named_sql(name))
    with pytest.raises(AssertionError):
        test_the_table_is_that_of_the_source_whatever_the_clocks_say(session, tmp_path, "columns")
