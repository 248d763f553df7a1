"""Prune: whatever the history was, what is kept says the same, and the pipeline goes on as if nothing was removed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from psycopg2 import errors as pg

from offset_ledger.errors import UnknownBatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.repair.prune import Pruned, prune_beyond
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.status import recent_batches
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines, prune
from offset_ledger.postgres.ledger.batches import read_batch_of, why_missing
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import RedriveChoice, Selection
from offset_ledger.steps.commit.step import Committed, commit
from offset_ledger.steps.report.step import report
from offset_ledger.steps.report.timeline import build_day
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger.steps.run.redrive import dismiss, plan_redrive, stage_redrive
from offset_ledger_kit.cli.main import main
from tests.examples import examples
from tests.fixtures.ages import same_age
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, NOON, planned
from tests.fixtures.tables import do

PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: prune.records}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: {{type: {type}, nullable: true}}}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{max_quarantined_share: 1.0}}
"""
NOW = timedelta(0)
NUMBERS = count()
SHEET = "inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, added"


@dataclass
class History:
    """A pipeline that is driven step by step, each record at the offset that comes next in its partition."""

    session: Session
    folder: Path
    name: str
    strict: bool = True
    produced: dict[int, list[Raw]] = field(default_factory=lambda: {0: [], 1: [], 2: []})

    @property
    def pipeline(self) -> Pipeline:
        path = self.folder / f"{self.name}.yaml"
        path.write_text(PIPELINE.format(name=self.name, type="integer" if self.strict else "text"))
        return parse_pipeline(path)

    def head(self, events: Sequence[tuple[int, str, int, bool]]) -> Committed:
        """A batch of (partition, event id, time, whether the strict pipeline takes it)."""
        new = []
        for partition, event_id, at, fits in events:
            moment = (NOON + timedelta(seconds=at)).isoformat()
            value = json.dumps({"id": event_id, "at": moment, "state": None if fits else "word"}).encode()
            new.append(Raw(partition, len(self.produced[partition]), value))
            self.produced[partition].append(new[-1])
        return commit_raw(self.session, self.pipeline, new)

    def replay(self, partition: int, first: int, last: int) -> Committed | None:
        records = self.produced[partition][first : last + 1]
        return commit_raw(self.session, self.pipeline, records, BatchKind.REPLAY) if records else None

    def redrive(self, limit: int | None = None) -> Committed | None:
        """Retry quarantined records, as a pipeline that takes them."""
        self.strict = False
        execute_in(self.session, f"ALTER TABLE public.{self.name} ALTER state TYPE text")
        chosen = plan_redrive(self.pipeline, RedriveChoice(limit=limit), ME)
        if chosen.batch is None:
            return None
        stage_redrive(self.pipeline, chosen.batch.batch_id, ME)
        validate_or_raise(self.pipeline, chosen.batch.batch_id, ME)
        return commit(self.pipeline, chosen.batch.batch_id, ME)

    def again_strict(self) -> None:
        self.strict = True
        execute_in(self.session, f"ALTER TABLE public.{self.name} ALTER state TYPE integer USING NULL")

    def prune(
        self, keep: int = 0, size: int = 1_000, dry_run: bool = False, older_than: timedelta = NOW, **other: timedelta
    ) -> Pruned:
        return prune_beyond(self.pipeline, replace(same_age(older_than), **other), keep, ME, dry_run, size)

    def table(self) -> set[tuple[Any, ...]]:
        return {tuple(row) for row in rows(self.session, f"SELECT t.*::text FROM public.{self.name} AS t")}

    def content(self) -> set[tuple[Any, ...]]:
        """The table without the ids of batches."""
        columns = "event_id, publish_at, state::text, _partition, _offset, _deleted"
        return {tuple(row) for row in rows(self.session, f"SELECT {columns} FROM public.{self.name}")}

    def sums(self) -> dict[int, tuple[int, ...]]:
        """By partition everything that was ever counted, pruned or not."""
        counted = ", ".join(f"sum({name})::bigint" for name in SHEET.split(", "))
        query = f"""
            SELECT partition, {counted} FROM (
                SELECT partition, batch_id, {SHEET} FROM offset_ledger.batch_range WHERE inserted IS NOT NULL
                UNION ALL SELECT partition, batch_id, {SHEET} FROM offset_ledger.pruned_reread) AS every
            WHERE batch_id IN (SELECT batch_id FROM offset_ledger.batch WHERE pipeline = %(name)s) GROUP BY partition"""
        return {row[0]: tuple(row[1:]) for row in rows(self.session, query, {"name": self.name})}

    def chain(self) -> dict[int, tuple[int, int, int]]:
        """By partition where the chain begins and ends, and where the cursor is."""
        query = """
            SELECT r.partition, min(committed_from), max(committed_until), min(c.next_offset)
            FROM offset_ledger.batch_range r JOIN offset_ledger.cursor c USING (pipeline, topic_id, partition)
            WHERE pipeline = %s AND committed_from IS NOT NULL GROUP BY r.partition"""
        return {row[0]: tuple(row[1:]) for row in rows(self.session, query, [self.name])}

    def unresolved(self) -> set[tuple[Any, ...]]:
        query = """
            SELECT partition, "offset", value::text, reasons::text, dismissed_by IS NULL FROM offset_ledger.quarantine
            WHERE pipeline = %s AND resolved_by IS NULL"""
        return {tuple(row) for row in rows(self.session, query, [self.name])}

    def waiting(self) -> set[tuple[Any, ...]]:
        return {record for record in self.unresolved() if record[-1]}

    def redriven(self) -> set[tuple[int, int]]:
        """Where the records are that a redrive has loaded."""
        query = (
            'SELECT partition, "offset" FROM offset_ledger.quarantine WHERE pipeline = %s AND resolved_by IS NOT NULL'
        )
        return {(row[0], row[1]) for row in rows(self.session, query, [self.name])}

    def dismissed(self) -> set[tuple[int, int]]:
        """Where the dismissed records are, pruned ones too."""
        found = rows(
            self.session,
            'SELECT partition, "offset" FROM offset_ledger.quarantine'
            " WHERE pipeline = %(name)s AND dismissed_by IS NOT NULL UNION ALL"
            " SELECT d.* FROM (SELECT DISTINCT topic_id FROM offset_ledger.beginning WHERE pipeline = %(name)s) AS log,"
            " offset_ledger.pruned_dismissals(%(name)s, log.topic_id) AS d",
            {"name": self.name},
        )
        assert len(found) == len({tuple(row) for row in found})
        return {(row[0], row[1]) for row in found}

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of the ledger."""
        tables = (
            "batch batch_range batch_event slice batch_profile quarantine redrive_record cursor pruned_reread pruning"
        )
        return {
            each: sorted(tuple(row) for row in rows(self.session, f"SELECT t::text FROM offset_ledger.{each} AS t"))
            for each in tables.split()
        }


def execute_in(session: Session, statement: str) -> None:
    with transaction(session) as cursor:
        cursor.execute(statement)


@pytest.fixture
def history(session: Session, tmp_path: Path) -> Callable[[], History]:
    return lambda: History(session, tmp_path, f"p{next(NUMBERS)}")


def go_on(
    history: History, random: Random, steps: int, undo: bool = True, redriven: Collection[tuple[int, int]] = ()
) -> list[tuple[Any, ...]]:
    """So many random steps; what each batch counted. ``undo``: dismissals may be undone, unless they were pruned.

    No replay reads what was ``redriven``: once that is pruned, a replay that refuses it puts it into quarantine again.
    """
    counted: list[tuple[Any, ...]] = []
    for _ in range(steps):
        step = random.choice(["head", "head", "head", "replay", "redrive", "dismiss"])
        done = None
        if step == "head" or not any(history.produced.values()):
            partitions = random.sample([0, 1, 2], random.randint(1, 3))
            done = history.head(
                [
                    (p, random.choice("abcdefgh"), random.randint(0, 9), random.random() < 0.8)
                    for p in partitions
                    for _ in range(random.randint(1, 3))
                ]
            )
        elif step == "replay":
            partition = random.choice([p for p, found in history.produced.items() if found])
            first = random.randrange(len(history.produced[partition]))
            asked = range(first, first + random.randint(1, 5))
            last = min({o for p, o in redriven if p == partition and o in asked}, default=asked.stop) - 1
            done = history.replay(partition, first, last)
        elif step == "redrive":
            done = history.redrive(random.choice([1, None]))
            history.again_strict()
        elif found := sorted(history.unresolved() if undo else history.waiting()):
            partition, offset, *_, open_still = random.choice(found)
            dismiss(history.pipeline, Selection(partition, (offset,)), ME, "never", undo=not open_still)
        counted.append((step, done and done.batch.kind, done and tuple(done.batch.ranges), done and dict(done.sheet)))
    return counted


@examples(4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(2, 4))
@example(11514, 0, 2)  # a record is redriven and pruned, and a replay comes past it
def test_a_pruned_pipeline_is_whole_and_goes_on_as_one_that_was_not(
    history: Callable[[], History], seed: int, keep: int, size: int
) -> None:
    one, other = history(), history()
    redriven: set[tuple[int, int]] = set()
    assert go_on(one, Random(seed), 7) == go_on(other, Random(seed), 7)
    for _ in range(2):  # the second time on top of what the first left
        before = (one.table(), one.sums(), one.chain(), one.waiting())
        dismissed = one.dismissed()
        redriven |= one.redriven()
        would = one.prune(keep, size, dry_run=True)
        assert one.prune(keep, size) == would
        assert (one.table(), one.sums(), one.chain(), one.waiting(), one.dismissed()) == (*before, dismissed)
        assert verify(one.pipeline)[0] == []
        left = one.dump()
        again = one.prune(keep, size)
        assert (again.batches, again.records, again.kept, one.dump()) == (0, 0, would.kept, left)
        seed += 1
        assert go_on(one, Random(seed), 3, False, redriven) == go_on(other, Random(seed), 3, False, redriven)
        assert one.content() == other.content()
        assert (one.sums(), one.chain(), one.waiting()) == (other.sums(), other.chain(), other.waiting())
    assert verify(one.pipeline)[0] == []


def kinds(history: History) -> list[tuple[str, str]]:
    """Kind and state of the batches, oldest first."""
    return [(each["kind"], each["state"]) for each in recent_batches(history.pipeline, 20)[::-1]]


def heads(history: History, count: int) -> None:
    for number in range(count):
        history.head([(0, "abcdefgh"[number % 8], number, True), (number % 3, "z", number, True)])


def test_what_a_person_decided_and_what_has_records_in_quarantine_stays(history: Callable[[], History]) -> None:
    one = history()
    heads(one, 2)
    abandoned = planned(one.session, one.pipeline, [OffsetRange(0, 2, 3)])
    decide(one.session, abandoned, State.ABANDONED, ME, "not today")
    refused = one.head([(0, "x", 1, False), (1, "y", 1, True)]).batch
    heads(one, 2)
    assert one.prune(keep=1) == Pruned(batches=1, kept=Counter(quarantine=1))
    left = [("pruned", "committed"), ("head", "abandoned"), ("head", "committed"), ("pruned", "committed")]
    assert kinds(one) == [*left, ("head", "committed")]
    assert verify(one.pipeline)[0] == []
    one.redrive()
    heads(one, 2)
    assert one.prune(keep=1) == Pruned(batches=5, records=1)
    assert kinds(one) == [("head", "abandoned"), ("pruned", "committed"), ("head", "committed")]
    assert refused.batch_id not in {each["batch_id"] for each in recent_batches(one.pipeline, 20)}
    assert verify(one.pipeline)[0] == []


def test_dismissed_records_go_by_an_age_of_their_own_and_stay_dismissed_when_they_are_read_again(
    history: Callable[[], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offset_ledger.operations.repair.prune._ENTRIES", 2)  # several transactions
    one = history()
    one.head([(0, "a", 1, True), *((0, f"r{n}", 1, False) for n in range(5)), (1, "b", 1, False)])
    heads(one, 3)
    dismiss(one.pipeline, Selection(0, (1, 2, 4, 5)), ME, "never")
    dismiss(one.pipeline, Selection(1, (0,)), ME, "never")
    gone, waits = {(0, 1), (0, 2), (0, 4), (0, 5), (1, 0)}, {(0, 3)}
    later = timedelta(hours=1)
    assert one.prune(keep=1, quarantine=later).records == 0
    assert one.prune(keep=1, older_than=later, quarantine=NOW, dry_run=True) == Pruned(records=5)
    assert one.prune(keep=1, older_than=later, quarantine=NOW) == Pruned(records=5)
    assert (one.dismissed(), {record[:2] for record in one.unresolved()}) == (gone, waits)
    again = one.replay(0, 0, 5)
    assert again is not None
    assert again.sheet[0].quarantined == 5
    assert (one.dismissed(), {record[:2] for record in one.unresolved()}) == (gone, waits)
    assert verify(one.pipeline)[0] == []
    assert one.prune(keep=1).kept == Counter(quarantine=1)
    dismiss(one.pipeline, Selection(0, (3,)), ME, "never")
    assert one.prune(keep=1).kept == Counter()
    assert (one.dismissed(), one.unresolved()) == (gone | waits, set())
    assert verify(one.pipeline)[0] == []


def test_a_pruned_batch_is_named_as_such(history: Callable[[], History]) -> None:
    one = history()
    heads(one, 3)
    first = min(each["batch_id"] for each in recent_batches(one.pipeline, 20))
    with transaction(one.session) as cursor:
        assert why_missing(cursor, first) == "is not in the ledger; see: offset-ledger batch list PIPELINE"
        one.prune(keep=1)
        with pytest.raises(UnknownBatch) as raised:
            read_batch_of(cursor, one.name, first)
        cursor.execute("SELECT to_char(max(pruned_at), 'YYYY-MM-DD') FROM offset_ledger.pruning")
        assert str(raised.value) == (
            f"batch {first} is not in the ledger: batches as old as it were pruned (those of {one.name} on "
            f"{cursor.one()[0]}), and only their sums are kept; see: offset-ledger batch list PIPELINE"
        )


NAMED = {  # schema id -> what still names it
    1: "INSERT INTO offset_ledger.batch_schema VALUES ({kept}, 0, 1, 0, 0, 1)",
    2: "UPDATE offset_ledger.quarantine SET schema_id = 2 WHERE pipeline = '{name}'",
    3: "INSERT INTO offset_ledger.followed_column (pipeline, name, path, type, schema_id, batch_id)"
    " VALUES ('{name}', 'c', '[]', 'text', 3, 0)",
    4: "INSERT INTO offset_ledger.schema_boundary VALUES ({kept}, 0, 4, '', 0, true, '{{}}')",
    5: "INSERT INTO offset_ledger.batch_schema VALUES ({gone}, 0, 5, 0, 0, 1)",
}


def test_schemas_go_that_nothing_names_once_the_topic_has_no_record_of_pruned_history(
    history: Callable[[], History],
) -> None:
    one, other = history(), history()
    heads(one, 4)
    one.head([(1, "x", 1, False)])
    heads(other, 1)
    ids = sorted(each["batch_id"] for each in recent_batches(one.pipeline, 20))
    for number in NAMED:
        for each in (one, other):
            execute_in(
                one.session,
                "INSERT INTO offset_ledger.writer_schema"
                " (pipeline, schema_id, language, text, fingerprint, first_seen_at)"
                f" VALUES ('{each.name}', {number}, 'AVRO', '', '', now() - interval '1 day')",
            )
        execute_in(one.session, NAMED[number].format(name=one.name, kept=ids[-1], gone=ids[0]))

    def schemas() -> list[int]:
        query = "SELECT schema_id FROM offset_ledger.writer_schema WHERE pipeline = %s ORDER BY 1"
        assert [row[0] for row in rows(one.session, query, [other.name])] == sorted(NAMED)
        return [row[0] for row in rows(one.session, query, [one.name])]

    assert one.prune(keep=2).schemas == 0  # a record of the pruned batches may name the fifth
    assert schemas() == [1, 2, 3, 4, 5]
    execute_in(
        one.session,
        "ALTER TABLE offset_ledger.batch_range DISABLE TRIGGER USER;"
        f"UPDATE offset_ledger.batch_range SET log_start = until_offset WHERE pipeline = '{one.name}';"
        "ALTER TABLE offset_ledger.batch_range ENABLE TRIGGER USER",
    )
    assert one.prune(keep=2, schemas=timedelta(days=2)).schemas == 0
    open_batch = planned(one.session, one.pipeline, [OffsetRange(0, 8, 9)])
    assert one.prune(keep=2).schemas == 0
    decide(one.session, open_batch, State.ABANDONED, ME, "not today")
    assert one.prune(keep=2, dry_run=True).schemas == 1
    assert one.prune(keep=2).schemas == 1
    assert schemas() == [1, 2, 3, 4]


def test_what_is_younger_stays(history: Callable[[], History]) -> None:
    one = history()
    heads(one, 3)
    before = one.dump()
    assert one.prune(older_than=timedelta(hours=1)) == Pruned()
    assert one.dump() == before


def test_old_audits_go_but_for_the_newest_of_each_topic_and_pages_go_with_their_batches(
    history: Callable[[], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = history()
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(one.folder / "reports"))
    heads(one, 4)
    for batch in recent_batches(one.pipeline, 20):
        report(one.pipeline, batch["batch_id"])
    for pipeline, topic, days in ((one.name, "a", (90, 80, 1)), (one.name, "b", (70, 60)), ("another", "a", (90, 80))):
        for age in days:
            execute_in(
                one.session,
                "INSERT INTO offset_ledger.topic_audit (audited_at, pipeline, topic, rule, severity, found, risk) "
                f"VALUES (now() - interval '{age} days', '{pipeline}', '{topic}', 'acks', 'ok', 'all', 'none')",
            )
    pages = one.folder / "reports" / one.name
    assert len(set(pages.glob("[0-9]*"))) == 8  # a page and its figures for each batch
    expected = Pruned(batches=1, audits=3, pages=2)  # one of two old batches stands for both, without a page
    assert replace(one.prune(keep=2, dry_run=True), pages=2) == expected  # pages go by what is gone already
    assert len(set(pages.glob("[0-9]*"))) == 8
    assert one.prune(keep=2) == expected
    age = "extract(day FROM now() - audited_at)::int"
    left = rows(one.session, f"SELECT pipeline, topic, {age} FROM offset_ledger.topic_audit ORDER BY 1, 2, 3")
    mine = [(topic, days) for pipeline, topic, days in left if pipeline == one.name]
    assert mine == [("a", 1), ("b", 60)]
    assert [(topic, days) for pipeline, topic, days in left if pipeline == "another"] == [("a", 80), ("a", 90)]
    kept = {each["batch_id"] for each in recent_batches(one.pipeline, 20) if each["kind"] == "head"}
    assert {int(path.stem) for path in pages.glob("[0-9]*")} == kept


def test_daily_reports_go_by_their_day_and_what_a_killed_process_left_goes_with_the_pages(
    history: Callable[[], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = history()
    reports = one.folder / "reports"
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(reports))
    assert one.prune() == Pruned()  # before any page is written
    today = datetime.now(UTC).date()
    for age in (0, 29, 30, 31, 400):
        build_day(today - timedelta(days=age), [], reports)
    old, young, kept = (reports / "_daily" / name for name in (".2020-01-01.html.7", ".2020-01-02.html.8", "note.html"))
    for path in (old, young, kept):
        path.write_text("half a pa")
    os.utime(old, (0, 0))
    os.utime(kept, (0, 0))

    def left() -> set[str]:
        return {path.name for path in (reports / "_daily").iterdir()} - {kept.name, young.name}

    ages = {"older_than": timedelta(days=300), "daily_reports": timedelta(days=30)}
    before = left()
    assert one.prune(dry_run=True, **ages) == Pruned(pages=1, daily_reports=2)
    assert left() == before
    assert one.prune(**ages) == Pruned(pages=1, daily_reports=2)
    assert left() == {f"{today - timedelta(days=age)}.html" for age in (0, 29, 30)}
    assert (young.exists(), kept.exists()) == (True, True)


def test_notifications_go_that_ended_or_were_last_seen_long_ago(history: Callable[[], History]) -> None:
    one = history()
    old, young = "now() - interval '40 days'", "now()"
    told = [("a", old, "NULL"), ("b", old, old), ("c", old, young), ("d", young, "NULL")]
    for name in (one.name, "another"):
        for key, seen, ended in told:
            execute_in(
                one.session,
                "INSERT INTO offset_ledger.notification (pipeline, cause, key, notifier, subject, body, link, "
                f"last_seen_at, ended_at) VALUES ('{name}', 'run_failed', '{key}', 'n', 's', 'b', '', {seen}, {ended})",
            )
    expected = Pruned(notifications=2)
    assert one.prune(dry_run=True, older_than=timedelta(days=30)) == expected
    assert one.prune(older_than=timedelta(days=30)) == expected
    query = "SELECT key FROM offset_ledger.notification WHERE pipeline = %s ORDER BY 1"
    left = [[row[0] for row in rows(one.session, query, [name])] for name in (one.name, "another")]
    assert left == [["c", "d"], ["a", "b", "c", "d"]]


@pytest.mark.parametrize("transactions", [0, 1, 2])
def test_a_prune_that_dies_leaves_a_whole_ledger_and_the_next_one_goes_on(
    history: Callable[[], History], monkeypatch: pytest.MonkeyPatch, transactions: int
) -> None:
    one = history()
    heads(one, 6)
    left, delete = iter(range(transactions)), prune.delete_batches

    def dies(cursor: Cursor) -> None:
        delete(cursor)
        if next(left, None) is None:
            raise KeyboardInterrupt

    before = (one.table(), one.sums(), one.chain())
    with monkeypatch.context() as broken:
        broken.setattr(prune, "delete_batches", dies)
        with pytest.raises(KeyboardInterrupt):
            one.prune(size=2)
    assert ((one.table(), one.sums(), one.chain()), verify(one.pipeline)[0]) == (before, [])
    assert len(kinds(one)) == 6 - transactions
    assert one.prune(size=2) == Pruned(batches=5 - transactions)
    assert ((one.table(), one.sums(), one.chain()), verify(one.pipeline)[0]) == (before, [])
    assert kinds(one) == [("pruned", "committed")]


def test_a_transaction_takes_some_of_the_replays_between_two_heads(
    history: Callable[[], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = history()
    heads(one, 3)
    for offset in (0, 1, 2, 0, 1):
        one.replay(0, offset, offset)
    one.head([(0, "x", 1, False)])  # it stays, and so do the heads after it on their own
    heads(one, 1)
    for offset in (0, 1, 2):
        one.replay(0, offset, offset)
    heads(one, 2)
    taken: list[int] = []
    sum_up = prune.sum_up

    def look(cursor: Cursor, part: prune.OldPart, runs: Sequence[prune.Run], origin: Origin) -> None:
        sum_up(cursor, part, runs, origin)
        taken.append(sum(len(run.rereads) for run in runs))
        cursor.connection.commit()
        assert ((one.table(), one.sums(), one.chain()), verify(one.pipeline)[0]) == (before, [])
        pipelines.lock_pipeline(cursor, one.name)

    before = (one.table(), one.sums(), one.chain())
    expected = Pruned(batches=12, kept=Counter(quarantine=1))
    assert one.prune(size=2, dry_run=True) == expected
    monkeypatch.setattr(prune, "sum_up", look)
    assert one.prune(size=2) == expected
    assert (max(taken), sum(taken)) == (2, 8)
    assert kinds(one) == [("pruned", "committed"), ("head", "committed"), ("pruned", "committed")]
    assert one.prune(size=2) == Pruned(kept=Counter(quarantine=1))


def test_a_prune_waits_for_a_commit(history: Callable[[], History], servers: Servers) -> None:
    one = history()
    heads(one, 2)
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(1) as pool, connect(servers.postgres) as commits:
        with transaction(commits) as cursor:
            pipelines.lock_pipeline(cursor, one.name)
            pruned = pool.submit(one.prune)
            while not rows(one.session, waits):
                assert not pruned.done()
        assert pruned.result() == Pruned(batches=1)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("DELETE FROM offset_ledger.batch_range WHERE batch_id = 1", "committed_ranges_are_contiguous"),
        ("UPDATE offset_ledger.batch SET rows = 7", "never changes"),
        ("UPDATE offset_ledger.batch SET kind = 'pruned', epoch = 7", "never changes"),
        ("UPDATE offset_ledger.batch_range SET inserted = 0, updated = 2", "never changes"),
        ("DELETE FROM offset_ledger.batch WHERE batch_id = 2", "foreign key"),
    ],
)
def test_even_a_prune_cannot_break_the_chain(history: Callable[[], History], statement: str, text: str) -> None:
    one = history()
    heads(one, 3)
    with pytest.raises(pg.IntegrityError, match=text):
        execute_in(one.session, f"SET LOCAL offset_ledger.pruning = {one.name}; {statement}")
    with pytest.raises(pg.IntegrityError, match="never changes"):
        execute_in(one.session, "SET LOCAL offset_ledger.pruning = another; DELETE FROM offset_ledger.batch_range")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM public.{name} WHERE event_id = 'a'",
        "UPDATE public.{name} SET _offset = 99 WHERE event_id = 'a'",
        "UPDATE public.{name} SET _batch_id = (SELECT max(batch_id) FROM offset_ledger.batch) WHERE event_id = 'a'",
        "UPDATE public.{name} SET event_id = 'again' WHERE event_id = 'z';"
        "INSERT INTO public.{name} (event_id, publish_at, _partition, _offset, _deleted, _batch_id)"
        " SELECT 'new', publish_at, _partition, _offset, _deleted, _batch_id FROM public.{name} WHERE event_id = 'a'",
    ],
)
def test_verify_still_finds_what_was_done_to_rows_of_pruned_batches(
    history: Callable[[], History], statement: str
) -> None:
    one = history()
    heads(one, 5)
    one.prune(keep=3)
    assert verify(one.pipeline)[0] == []
    execute_in(one.session, statement.format(name=one.name))
    assert verify(one.pipeline)[0] != []


def test_the_verb_counts_first_and_refuses_an_age_that_the_page_still_shows(
    history: Callable[[], History], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offset_ledger.operations.repair.prune.CHARTED", 2)
    one = history()
    heads(one, 4)
    do(
        one.session,
        "ALTER TABLE offset_ledger.batch DISABLE TRIGGER USER",
        "UPDATE offset_ledger.batch SET ended_at = ended_at - interval '40 days'",
        "ALTER TABLE offset_ledger.batch ENABLE TRIGGER USER",
    )
    path = str(one.pipeline.path)
    assert main(["prune", path, "--older-than", "29d"]) != 0
    assert "the age for quarantine is 29d and has to be at least 30d" in capsys.readouterr().err
    assert main(["prune", path, "--older-than", "90d", "--keep", "batches=29d"]) != 0
    assert "the age for batches is 29d and has to be at least 30d" in capsys.readouterr().err
    assert main(["prune", path, "--older-than", "90d", "--keep", "pages=90d"]) != 0
    assert (
        "with one of quarantine, batches, audits, notifications, schemas, daily_reports, deletes, found 'pages=90d'"
        in capsys.readouterr().err
    )
    assert main(["prune", path, "--older-than", "30d", "--keep", "batches=60d"]) == 0
    assert "removed 0 batches" in capsys.readouterr().out
    assert main(["prune", path, "--older-than", "30d", "--dry-run", "--json"]) == 0
    counted = {"batches": 1, "records": 0, "audits": 0, "notifications": 0, "schemas": 0, "pages": 0}
    assert json.loads(capsys.readouterr().out) == {
        **counted,
        "daily_reports": 0,
        "deletes": 0,
        "kept": {},
        "dry_run": True,
    }
    assert main(["prune", path, "--older-than", "30d"]) == 0
    none = "0 quarantined records, 0 results of audits, 0 notifications, 0 schemas, 0 quality pages, 0 daily reports"
    assert capsys.readouterr().out == f"removed 1 batches, {none}\n"
    assert main(["verify", path]) == 0
