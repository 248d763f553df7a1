"""Records that are appended: each is a row once, whatever is read again, by what the ledger says was read before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError, IncompleteStaging, LedgerViolation, TargetMismatch
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.snapshot import Boundary
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.prune import prune_beyond
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from offset_ledger.steps.decide.accept_topic import accept_table
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from offset_ledger.steps.run.remerge import restate_rows
from offset_ledger.steps.run.requests import plan_request
from tests.fixtures.ages import same_age
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: clicks
source: {{topic: clicks}}
record:
  {record}
  columns: {{n: {n}, note: {{type: text, nullable: true}}{columns}}}
target: {{table: public.clicks, evolve: widen{target}}}
quality: {{max_quarantined_share: 1.0}}
limits: {{value_bytes: {bytes}}}
"""
APPEND, BESIDE = ", merge: append", ", merge: append, bookkeeping: beside"
BOTH = pytest.mark.parametrize("target", [APPEND, BESIDE], ids=["columns", "beside"])


def written(folder: Path, target: str = APPEND, n: str = "integer", **more: Any) -> Pipeline:
    settings = {"columns": "", "record": "tombstone: skip", "bytes": 1000} | more
    return pipeline_of(folder, PIPELINE, target=target, n=n, **settings)


def record(offset: int, n: Any = None, partition: int = 0, **more: Any) -> Raw:
    """A record with a value of its own."""
    return Raw(partition, offset, json.dumps({"n": value(partition, offset) if n is None else n, **more}).encode())


def value(partition: int, offset: int) -> int:
    return 1000 * partition + offset


def some(first: int, end: int, **more: Any) -> list[Raw]:
    return [record(offset, **more) for offset in range(first, end)]


def table(session: Session, columns: str = "_partition, _offset, n") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows(session, f"SELECT {columns} FROM public.clicks"))


def values(session: Session) -> list[int]:
    return [row[0] for row in table(session, "n")]


def redrive(pipeline: Pipeline) -> Dispositions | None:
    planned = plan_redrive(pipeline, parse_choice(), ME, "the test")
    return run_batch(pipeline, planned, ME, lambda _: None).committed.total if planned.batch else None


FILLING = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 1),), fill=True).key


def fill(session: Session, pipeline: Pipeline, records: Sequence[Raw]) -> Dispositions:
    return commit_raw(session, pipeline, records, BatchKind.REPLAY, FILLING).total


def begin_log(session: Session, log: str, *starts: tuple[int, int]) -> None:
    """Let the pipeline read another log from these offsets on, as ``accept topic`` does."""
    with transaction(session) as cursor:
        pipelines.change_topic(cursor, "clicks", log, "cluster")
        pipelines.record_start_offsets(cursor, "clicks", log, [Boundary(*start, 1) for start in starts])


# -- the rows ----------------------------------------------------------------------------------------------------------


def test_a_new_table_has_the_place_of_each_record_and_no_key(session: Session, tmp_path: Path) -> None:
    commit_raw(session, written(tmp_path, ", merge: append, view: clicks_now"), [record(0)])
    query = "SELECT attname FROM pg_attribute WHERE attrelid = 'public.clicks'::regclass AND attnum > 0 ORDER BY attnum"
    names = ["publish_at", "n", "note", "_partition", "_offset", "_timestamp", "_key", "_headers", "_batch_id"]
    assert [row[0] for row in rows(session, query)] == names
    assert rows(session, "SELECT FROM pg_index WHERE indrelid = 'public.clicks'::regclass") == []
    assert table(session, "_partition, _offset, n, publish_at") == [(0, 0, 0, NOON)]
    assert rows(session, "SELECT * FROM public.clicks_now") == [[NOON, 0, None]]


def test_a_table_beside_its_bookkeeping_has_what_the_file_says_and_the_ledger_has_no_table_for_it(
    session: Session, tmp_path: Path
) -> None:
    do(session, "CREATE TABLE public.clicks (id bigint GENERATED ALWAYS AS IDENTITY, n integer, at date, note text)")
    copies = "{publish_at: moment, _offset: kafka_offset, _batch_id: batch}"
    do(session, "ALTER TABLE public.clicks ADD moment timestamptz, ADD kafka_offset bigint, ADD batch bigint")
    done = commit_raw(session, written(tmp_path, f", merge: append, bookkeeping: {copies}"), some(0, 2))
    batch = done.batch.batch_id
    assert table(session, "id, n, moment, kafka_offset, batch") == [(1, 0, NOON, 0, batch), (2, 1, NOON, 1, batch)]
    assert rows(session, "SELECT FROM pg_class WHERE relnamespace = 'offset_ledger_rows'::regnamespace") == []


def test_publish_at_is_a_plain_column(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, record="publish_at: $.at")
    at = (NOON + timedelta(days=1)).isoformat()
    commit_raw(session, pipeline, [record(0, at=at)])
    commit_raw(session, written(tmp_path), [record(1)])  # another moment from here on, which orders nothing
    assert table(session, "_offset, publish_at") == [(0, NOON + timedelta(days=1)), (1, NOON)]
    assert verify(written(tmp_path))[0] == []


def test_equal_records_are_rows_each(session: Session, tmp_path: Path) -> None:
    done = commit_raw(session, written(tmp_path), [record(0, 7), record(1, 7), Raw(0, 2, None), record(3, 7)])
    assert done.total == Dispositions(inserted=3, skipped=1)
    assert table(session) == [(0, 0, 7), (0, 1, 7), (0, 3, 7)]


@BOTH
@pytest.mark.parametrize("by", ["publish_at", "day"])
def test_partitions_by_day_are_created(session: Session, tmp_path: Path, target: str, by: str) -> None:
    target += f", partitions: {{by: {by}, every: day}}"
    target = target.replace("beside", "{publish_at: publish_at}") if by == "publish_at" else target
    pipeline = written(tmp_path, target, columns=", day: date", record="publish_at: $.at")
    days = [datetime(2026, 1, day, 23, 59, tzinfo=UTC) for day in (1, 3, 1)]
    records = [record(n, at=day.isoformat(), day=f"{day:%Y-%m-%d}") for n, day in enumerate(days)]
    commit_raw(session, pipeline, records)
    found = rows(session, "SELECT tableoid::regclass::text, n FROM public.clicks ORDER BY 2")
    suffixes = [(row[0].removeprefix("public.clicks_p"), row[1]) for row in found]
    assert [(name.removeprefix("clicks_p"), n) for name, n in suffixes] == [
        *[("20260101", 0), ("20260103", 1), ("20260101", 2)]
    ]
    again = commit_raw(session, pipeline, records, BatchKind.REPLAY)
    assert (again.total, values(session)) == (Dispositions(duplicate=3), [0, 1, 2])
    assert verify(pipeline)[0] == []


def test_a_column_that_is_declared_later_is_added(session: Session, tmp_path: Path) -> None:
    commit_raw(session, written(tmp_path), [record(0)])
    pipeline = written(tmp_path, columns=", more: {type: bigint, nullable: true}")
    commit_raw(session, pipeline, [record(1, more=5)])
    assert table(session, "_offset, more") == [(0, None), (1, 5)]
    assert fill(session, pipeline, [record(0, more=4), record(1, more=5)]) == Dispositions(updated=1, duplicate=1)
    assert table(session, "_offset, more") == [(0, 4), (1, 5)]


# -- read again --------------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_replayed_writes_nothing_and_what_was_never_read_comes_in(
    session: Session, tmp_path: Path, target: str
) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, some(0, 4))
    assert commit_raw(session, pipeline, some(0, 4), BatchKind.REPLAY).total == Dispositions(duplicate=4)
    ahead = commit_raw(session, pipeline, some(3, 8), BatchKind.REPLAY)
    assert ahead.total == Dispositions(inserted=4, duplicate=1)
    head = commit_raw(session, pipeline, some(4, 10))
    assert head.total == Dispositions(inserted=2, duplicate=4)
    assert values(session) == list(range(10))
    assert verify(pipeline)[0] == []


@dataclass
class World:
    """A pipeline whose first version refuses texts of ten characters, and what becomes of each record of two logs."""

    session: Session
    folder: Path
    target: str
    rng: random.Random
    wide: bool = False
    covered: set[tuple[int, int]] = field(default_factory=set)
    waiting: set[tuple[int, int]] = field(default_factory=set)
    appended: list[tuple[int, int]] = field(default_factory=list)
    cursors: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def pipeline(self) -> Pipeline:
        return written(self.folder, self.target, n="text" if self.wide else "varchar(9)")

    def text(self, place: tuple[int, int]) -> str:
        return f"{place[0]}-{place[1]}".ljust(10 if random.Random(f"long {place}").random() < 0.3 else 5, ".")

    def read(self, ranges: dict[int, tuple[int, int]], kind: BatchKind, fill: bool = False) -> None:
        places = [(p, offset) for p, (first, end) in ranges.items() for offset in range(first, end)]
        records = [record(o, self.text((p, o)), p) for p, o in places]
        done = commit_raw(self.session, self.pipeline, records, kind, FILLING if fill else None)
        counts = dict.fromkeys(("inserted", "duplicate", "quarantined"), 0)
        for place in places:
            refused = len(self.text(place)) == 10 and not self.wide
            counts["quarantined" if refused else "duplicate" if place in self.covered else "inserted"] += 1
            if place not in self.covered:
                self.waiting |= {place} if refused else set()
                self.appended += [] if refused else [place]
        self.covered |= set(places)
        assert done.total == Dispositions(**counts)

    def step(self) -> None:
        what = self.rng.choice(("head", "head", "replay", "redrive", "prune"))
        if what == "head":
            ends = [cursor + self.rng.randint(0, 4) for cursor in self.cursors]
            if ranges := {p: (self.cursors[p], end) for p, end in enumerate(ends) if end > self.cursors[p]}:
                self.read(ranges, BatchKind.HEAD)
            self.cursors = ends
        elif what == "replay":
            p, first = self.rng.randrange(2), self.rng.randrange(12)
            fill = self.target == APPEND and self.rng.random() < 0.3
            self.read({p: (first, first + self.rng.randint(1, 5))}, BatchKind.REPLAY, fill)
        elif what == "redrive" and self.covered:
            redrive(self.pipeline)
            if self.wide:
                self.appended += self.waiting
                self.waiting = set()
        elif what == "prune" and self.covered:
            prune_beyond(self.pipeline, same_age(timedelta(0)), self.rng.randrange(2), ME)
        self.wide = self.wide or self.rng.random() < 0.1
        found = [row[0] for row in rows(self.session, "SELECT n FROM public.clicks")] if self.covered else []
        assert sorted(found) == sorted(map(self.text, self.appended))


@BOTH
@pytest.mark.minutes(1)
def test_batches_replays_redrives_and_prunes_in_any_order_append_each_record_once(
    session: Session, tmp_path: Path, few: bool, target: str
) -> None:
    for seed in range(6 if few else 20):
        do(session, "DROP TABLE IF EXISTS public.clicks", "SELECT tests.empty_ledger()")
        world = World(session, tmp_path, target, random.Random(f"append {seed}"))
        try:
            for _ in range(14):
                world.step()
            assert not world.covered or verify(world.pipeline)[0] == []
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@BOTH
def test_a_pruned_redrive_covers_no_offset_that_nobody_read(session: Session, tmp_path: Path, target: str) -> None:
    narrow, wide = (written(tmp_path, target, n=n) for n in ("varchar(3)", "text"))
    commit_raw(session, narrow, [record(0, "0"), record(1, "long")])
    commit_raw(session, narrow, [record(9, "long too")], BatchKind.REPLAY)  # ahead of the cursor
    assert redrive(wide) == Dispositions(inserted=2, skipped=7)
    commit_raw(session, wide, [record(2, "2")])
    assert prune_beyond(wide, same_age(timedelta(0)), 0, ME).batches == 3
    head = commit_raw(session, wide, [record(offset, str(offset)) for offset in range(3, 12)])
    assert head.total == Dispositions(inserted=8, duplicate=1)
    texts = ["0", "long", "2", *map(str, range(3, 9)), "long too", "10", "11"]
    assert sorted(row[0] for row in rows(session, "SELECT n FROM public.clicks")) == sorted(texts)
    assert verify(wide)[0] == []


@BOTH
def test_a_record_that_was_appended_and_is_refused_later_is_in_no_quarantine(
    session: Session, tmp_path: Path, target: str
) -> None:
    wide, narrow = (written(tmp_path, target, n="text", bytes=limit) for limit in (1000, 12))
    commit_raw(session, wide, [record(0, "0"), record(1, "long")])
    again = commit_raw(session, narrow, [record(0, "0"), record(1, "long")], BatchKind.REPLAY)
    assert again.total == Dispositions(duplicate=1, quarantined=1)
    assert rows(session, "SELECT FROM offset_ledger.quarantine") == []
    assert redrive(wide) is None


# -- another log -------------------------------------------------------------------------------------------------------


@BOTH
def test_a_topic_that_was_created_again_has_the_same_places_once_more(
    session: Session, tmp_path: Path, target: str
) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, some(0, 3))
    begin_log(session, "topic-2", (0, 0), (1, 0), (2, 0))
    assert commit_raw(session, pipeline, some(0, 2, note="new")).total == Dispositions(inserted=2)
    again = commit_raw(session, pipeline, some(0, 3, note="new"), BatchKind.REPLAY)
    assert again.total == Dispositions(inserted=1, duplicate=2)
    assert table(session, "n, note IS NULL") == [(n, old) for n in range(3) for old in (False, True)]
    assert verify(pipeline)[0] == []


@BOTH
def test_below_a_truncation_the_log_is_the_same_and_above_it_is_another(
    session: Session, tmp_path: Path, target: str
) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, some(0, 5))
    commit_raw(session, pipeline, some(7, 8), BatchKind.REPLAY)
    begin_log(session, "topic-1/1", (0, 3), (1, 0), (2, 0))
    assert commit_raw(session, pipeline, some(3, 9, note="new")).total == Dispositions(inserted=6)
    begin_log(session, "topic-1/2", (0, 4), (1, 0), (2, 0))
    assert commit_raw(session, pipeline, some(4, 6, note="newer")).total == Dispositions(inserted=2)
    again = commit_raw(session, pipeline, some(0, 6), BatchKind.REPLAY)
    assert again.total == Dispositions(duplicate=6)
    assert verify(pipeline)[0] == []


def test_a_fill_of_another_log_leaves_the_rows_of_the_one_before(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, some(0, 5, note="old"))
    begin_log(session, "topic-1/1", (0, 3), (1, 0), (2, 0))
    commit_raw(session, pipeline, some(3, 5, note="new"))
    assert fill(session, pipeline, some(0, 5, note="filled")) == Dispositions(updated=5)
    expected = [(0, "filled"), (1, "filled"), (2, "filled"), (3, "filled"), (3, "old"), (4, "filled"), (4, "old")]
    assert table(session, "n, note") == expected
    assert verify(pipeline)[0] == []


# -- fill --------------------------------------------------------------------------------------------------------------


def test_a_fill_writes_what_is_missing_or_differs_and_leaves_what_is_in_quarantine(
    session: Session, tmp_path: Path
) -> None:
    narrow, wide = (written(tmp_path, n=n) for n in ("varchar(3)", "text"))
    records = [record(0, "0"), record(1, "1"), record(2, "long"), record(3, "3")]
    commit_raw(session, narrow, records)
    do(session, "DELETE FROM public.clicks WHERE _offset = 0")
    do(session, "UPDATE public.clicks SET note = 'by hand' WHERE _offset = 1")
    assert commit_raw(session, wide, records, BatchKind.REPLAY).total == Dispositions(duplicate=4)
    assert fill(session, wide, records) == Dispositions(inserted=1, updated=1, duplicate=2)
    assert table(session, "_offset, n, note") == [(0, "0", None), (1, "1", None), (3, "3", None)]
    assert fill(session, wide, records) == Dispositions(duplicate=4)
    assert redrive(wide) == Dispositions(inserted=1)
    assert fill(session, wide, records) == Dispositions(duplicate=4)
    assert [row[0] for row in table(session, "_offset")] == [0, 1, 2, 3]


def test_a_fill_without_places_is_refused(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, BESIDE)
    commit_raw(session, pipeline, [record(0)])
    request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 1),), fill=True)
    with pytest.raises(ConfigurationError, match=r"without their offsets .*nothing says which row to fill"):
        plan_request(pipeline, request, ME)
    with pytest.raises(ConfigurationError, match="which have no order"):
        restate_rows(pipeline, ME, "why not")


# -- what disturbs a commit --------------------------------------------------------------------------------------------


@BOTH
def test_a_staging_table_that_was_emptied_is_noticed(session: Session, tmp_path: Path, target: str) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, [record(0)])
    do(
        session,
        "CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "EXECUTE format('DELETE FROM offset_ledger_staging.b%s_e%s WHERE _offset = 1', NEW.batch_id, NEW.epoch); "
        "RETURN NULL; END $$",
        "CREATE TRIGGER lose AFTER UPDATE ON offset_ledger.batch FOR EACH ROW WHEN (NEW.state = 'validated') "
        "EXECUTE FUNCTION public.lose()",
    )
    try:
        with pytest.raises(IncompleteStaging, match="holds other rows than its slices say"):
            commit_raw(session, pipeline, some(1, 4))
    finally:
        do(session, "DROP FUNCTION public.lose CASCADE")
    assert values(session) == [0]


def trigger(session: Session, body: str, when: str = "BEFORE INSERT") -> None:
    do(
        session,
        f"CREATE OR REPLACE FUNCTION public.meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$",
        f"CREATE OR REPLACE TRIGGER meddle {when} ON public.clicks FOR EACH ROW EXECUTE FUNCTION public.meddle()",
    )


@BOTH
def test_a_trigger_that_suppresses_a_row_fails_the_commit(session: Session, tmp_path: Path, target: str) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, [record(0)])
    trigger(session, "RETURN CASE WHEN NEW.n = 2 THEN NULL ELSE NEW END")
    with pytest.raises(LedgerViolation, match=r"triggers of the table \(meddle\) suppress or change"):
        commit_raw(session, pipeline, some(1, 4))
    assert values(session) == [0]


@pytest.mark.parametrize(
    ("body", "when"),
    [
        ("NEW.note := 'mine'; RETURN NEW", "BEFORE INSERT"),
        ("NEW._offset := NEW._offset + 1; RETURN NEW", "BEFORE INSERT"),
        ("UPDATE public.clicks SET note = 'mine' WHERE n = 2; RETURN NULL", "AFTER INSERT"),
        ("DELETE FROM public.clicks WHERE n = 2; RETURN NULL", "AFTER INSERT"),
    ],
)
def test_a_trigger_that_changes_what_is_written_fails_the_commit(
    session: Session, tmp_path: Path, body: str, when: str
) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [record(0)])
    trigger(session, body, when)
    with pytest.raises(LedgerViolation, match=r"triggers of the table \(meddle\) suppress or change"):
        commit_raw(session, pipeline, some(1, 4))
    assert table(session, "n, note") == [(0, None)]


@BOTH
def test_a_trigger_that_changes_nothing_is_fired_for_each_new_row(
    session: Session, tmp_path: Path, target: str
) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, [record(0)])
    do(session, "CREATE TABLE public.seen (n integer)")
    trigger(session, "INSERT INTO public.seen VALUES (NEW.n); RETURN NULL", "AFTER INSERT")
    commit_raw(session, pipeline, some(1, 4))
    commit_raw(session, pipeline, some(0, 4), BatchKind.REPLAY)
    assert values(session) == [0, 1, 2, 3]
    assert sorted(row[0] for row in rows(session, "SELECT n FROM public.seen")) == [1, 2, 3]


def test_unique_indexes_of_the_table_are_respected(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, some(0, 2))
    do(session, "CREATE UNIQUE INDEX by_n ON public.clicks (n)")
    with pytest.raises(LedgerViolation, match=r"Key \(n\)=\(1\) already exists.*drop the constraint: merge: append"):
        commit_raw(session, pipeline, [record(2, 1)])
    do(session, "DROP INDEX public.by_n", "CREATE UNIQUE INDEX by_place ON public.clicks (_partition, _offset)")
    do(session, "UPDATE offset_ledger.batch SET state = 'abandoned', ended_at = now() WHERE state = 'validated'")
    commit_raw(session, pipeline, some(2, 4))
    assert commit_raw(session, pipeline, some(0, 4), BatchKind.REPLAY).total == Dispositions(duplicate=4)
    begin_log(session, "topic-2", (0, 0), (1, 0), (2, 0))
    with pytest.raises(LedgerViolation, match="another log of the topic has the same offsets"):
        commit_raw(session, pipeline, some(0, 2))
    assert values(session) == [0, 1, 2, 3]


def test_foreign_keys_of_the_table_to_itself(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE TABLE public.clicks (n integer UNIQUE, note text, parent integer REFERENCES public.clicks (n))")
    pipeline = written(tmp_path, BESIDE, columns=", parent: {type: integer, nullable: true}")
    commit_raw(session, pipeline, [record(0, parent=1), record(1, parent=0)])
    assert table(session, "n, parent") == [(0, 1), (1, 0)]
    with pytest.raises(LedgerViolation, match="violates foreign key constraint"):
        commit_raw(session, pipeline, [record(2, parent=9)])


# -- the ledger --------------------------------------------------------------------------------------------------------


def lines(pipeline: Pipeline) -> Iterator[tuple[int, str]]:
    return ((each.number, str(each)) for each in verify(pipeline)[0])


@BOTH
def test_verify_counts_the_rows(session: Session, tmp_path: Path, target: str) -> None:
    pipeline = written(tmp_path, target)
    commit_raw(session, pipeline, some(0, 3))
    do(session, "DELETE FROM public.clicks WHERE n = 1")
    ((number, line),) = lines(pipeline)
    assert number == 11
    assert line.endswith("the table has 2 rows, but its batches make it 3: rows were removed")
    assert accept_table(pipeline, ME, "by hand") == 2
    assert list(lines(pipeline)) == []


def test_verify_names_a_record_that_stands_twice_and_a_row_of_no_record(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, some(0, 3))
    columns = "publish_at, n, note, _partition, _timestamp, _key, _headers, _batch_id, _offset"
    copy = f"INSERT INTO public.clicks ({columns}) SELECT {columns} FROM public.clicks WHERE _offset = 1"
    do(session, "DELETE FROM public.clicks WHERE _offset = 0", copy)
    ((number, line),) = lines(pipeline)
    assert (number, "the record at partition 0 offset 1 stands 2 times" in line) == (13, True)
    do(session, "UPDATE public.clicks SET _offset = 7 WHERE ctid = (SELECT max(ctid) FROM public.clicks)")
    ((number, line),) = lines(pipeline)
    assert (number, "partition 0 offset 7 was written by batch" in line) == (9, True)


def test_a_key_can_neither_be_given_up_nor_be_added(session: Session, tmp_path: Path) -> None:
    keyed = {"record": "event_id: $.n\n  publish_at: kafka_timestamp"}
    for appended, merged in ((APPEND, ""), (BESIDE, ", bookkeeping: beside")):
        first, second = written(tmp_path, appended), written(tmp_path, merged, **keyed)
        for before, after in ((first, second), (second, first)):
            do(session, "DROP TABLE IF EXISTS public.clicks", "SELECT tests.empty_ledger()")
            do(session, "DROP TABLE IF EXISTS offset_ledger_rows.clicks")
            commit_raw(session, before, [record(0)])
            with transaction(session) as cursor, pytest.raises(TargetMismatch, match="write merge as it was, or start"):
                check_target(cursor, after)


@pytest.mark.parametrize("prune", [False, True])
@BOTH
def test_pruned_batches_are_compared_by_their_sums(session: Session, tmp_path: Path, target: str, prune: bool) -> None:
    narrow, wide = (written(tmp_path, target, n=n) for n in ("varchar(3)", "text"))
    commit_raw(session, narrow, [record(0, "0"), record(1, "long")])
    commit_raw(session, narrow, [record(2, "2")])
    redrive(wide)
    commit_raw(session, wide, [record(3, "3")])
    if prune:
        assert prune_beyond(wide, same_age(timedelta(0)), 0, ME).batches == 3
    replayed = [record(0, "0"), record(1, "long"), record(2, "2"), record(3, "3")]
    assert commit_raw(session, wide, replayed, BatchKind.REPLAY).total == Dispositions(duplicate=4)
    assert verify(wide)[0] == []
    do(session, "DELETE FROM public.clicks WHERE n = '2'")
    assert [number for number, _ in lines(wide)] == [11]
