"""Mutations: a mechanism is broken on purpose, and the oracle, the invariants or the ledger itself must object.

A suite that passes whatever one breaks proves nothing. Each test breaks one mechanism, runs the smallest history in
which it matters, and holds that the suite's own check finds it; beside it stands the same history unbroken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.errors import Fenced, IncompleteStaging, LedgerViolation, OffsetLedgerError, UnexplainedGap
from offset_ledger.model.balance_sheet import StagedCounts, by_partition
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Deletes, Merge, Pipeline
from offset_ledger.postgres.ledger import batches, database, staging
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, named_sql, rows, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.commit import classes, merge
from offset_ledger.steps.commit import step as commit_step
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.stage.claim import Written
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import stage_with
from offset_ledger_kit.sandbox.stack import Stack
from tests.chaos import oracle
from tests.chaos.oracle import Journal, Kind, Produced
from tests.fixtures.engines import SlicesBy
from tests.fixtures.raw import Raw, arrow, write_slices
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, NOON, Event, a_pipeline, planned, staged, validated
from tests.fixtures.tables import do
from tests.witness.__main__ import witness_of
from tests.witness.replay import Counts, NotAllowedError


@pytest.fixture(scope="session")
def stack(shared_stack: Stack) -> Stack:
    """Nothing breaks here but the code."""
    return shared_stack


@pytest.fixture
def pipeline() -> Pipeline:
    return a_pipeline()


def journal_of(events: Sequence[Event]) -> Journal:
    """The journal of a producer that sent these."""
    found = Journal()
    for e in events:
        at = int((NOON + timedelta(seconds=e.publish_at)).timestamp() * 1000)
        kind = Kind.TOMBSTONE if e.deleted else Kind.EVENT
        found.acknowledged[e.partition, e.offset] = Produced(e.event_id, at, e.state, kind, b"")
    return found


def prepared(session: Session, pipeline: Pipeline, ranges: list[OffsetRange], events: Sequence[Event]) -> StagingTables:
    """A validated head batch."""
    tables = staged(session, pipeline, planned(session, pipeline, ranges), events, "transaction")
    validated(session, tables)
    return tables


def ingested(session: Session, pipeline: Pipeline, ranges: list[OffsetRange], events: Sequence[Event]) -> None:
    """A committed head batch."""
    commit(pipeline, prepared(session, pipeline, ranges, events).batch_id, ME)


FIRST = [Event(5, 0, 0, "a"), Event(2, 0, 1, "b"), Event(3, 1, 0, "c")]
SECOND = [Event(4, 0, 2, "a"), Event(2, 0, 3, "b"), Event(2, 1, 1, "b"), Event(9, 1, 2, "c", deleted=True)]
HISTORY = (
    ([OffsetRange(0, 0, 2), OffsetRange(1, 0, 1)], FIRST),
    ([OffsetRange(0, 2, 4), OffsetRange(1, 1, 3)], SECOND),
)


def run_history(session: Session, pipeline: Pipeline) -> list[str]:
    """Two batches with late, equal and deleted events; what the oracle says of them, or what stopped them."""
    try:
        for ranges, events in HISTORY:
            ingested(session, pipeline, ranges, events)
    except (OffsetLedgerError, psycopg2.Error) as error:
        return [f"{type(error).__name__}: {error}"]
    return oracle.check(session, pipeline, journal_of([*FIRST, *SECOND]))


def test_unbroken_the_history_passes(session: Session, pipeline: Pipeline) -> None:
    assert run_history(session, pipeline) == []


# -- the history -----------------------------------------------------------------------------------------------


def test_the_model_allows_the_history(session: Session, pipeline: Pipeline, servers: Servers) -> None:
    assert run_history(session, pipeline) == []
    assert witness_of(servers.postgres) == Counts(batches=2, events=10, transitions=8)


def test_an_epoch_that_no_claim_began_is_found_by_the_model_alone(
    session: Session, pipeline: Pipeline, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_sql(monkeypatch, {"batches/claim": lambda text: text.replace("epoch = epoch + 1", "epoch = epoch + 2")})
    assert run_history(session, pipeline) == []
    with pytest.raises(NotAllowedError, match=r"event 2: planned -> staging, epoch 2.*only_the_newest_claim_moves"):
        witness_of(servers.postgres)


def test_a_way_back_is_found_by_the_model_alone(session: Session, pipeline: Pipeline, servers: Servers) -> None:
    tables = prepared(session, pipeline, *HISTORY[0])
    with transaction(session) as cursor:
        cursor.execute("ALTER TABLE offset_ledger.batch_event DROP CONSTRAINT transition_is_allowed")
        for state in (State.PLANNED, State.VALIDATED):
            cursor.execute("UPDATE offset_ledger.batch SET state = %s WHERE batch_id = %s", [state, tables.batch_id])
    commit(pipeline, tables.batch_id, ME)
    assert oracle.check(session, pipeline, journal_of(FIRST)) == []
    with pytest.raises(NotAllowedError, match=r"event 5: validated -> planned.*validated leads to abandoned or"):
        witness_of(servers.postgres)


# -- the merge -------------------------------------------------------------------------------------------------


def with_sql(monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Callable[[str], str]]) -> None:
    """Let the named statements be other ones."""
    changed = {name: change(named_sql(name)) for name, change in changes.items()}
    for name, text in changed.items():
        assert text != named_sql(name), f"the mutation of {name} changes nothing any more: write it again"

    def mutated(asked: str) -> str:
        return changed.get(asked) or named_sql(asked)

    for module in (merge, classes, commit_step, staging, batches, database):
        monkeypatch.setattr(module, "named_sql", mutated, raising=False)


STRICT = "({order}) > ({stored_order})"
LATER = "s.publish_at > t.publish_at"
BY_OFFSET = "(s.publish_at, s._offset) > (t.publish_at, t._offset)"
UNGUARDED = {"commit/update_rows": lambda text: text.replace("{wanted}", "s._class IN ('u', 'f')")}
BLIND = {"commit/find_wrong": lambda _: "SELECT NULL"}
FEW_COLUMNS = {
    "commit/update_rows": lambda text: text.replace("{assignments}", "state = s.state, _deleted = s._deleted"),
}


def classified(before: str, after: str) -> dict[str, Callable[[str], str]]:
    return {"commit/classify": lambda text: text.replace(before, after)}


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        pytest.param(classified(STRICT, "true") | UNGUARDED, "loss: event a stands at", id="last-batch-wins"),
        pytest.param(classified(STRICT, LATER) | UNGUARDED, "loss: event b stands at", id="no-tie-break"),
        pytest.param(
            classified(STRICT, BY_OFFSET) | UNGUARDED, "loss: event b stands at", id="offset-before-partition"
        ),
        pytest.param(
            classified("{by_rule}", "publish_at, _partition, _offset"),
            "loss: event b stands at",
            id="oldest-of-a-batch",
        ),
        pytest.param(FEW_COLUMNS, "row Row(", id="coordinates-not-updated"),
    ],
)
def test_another_merge_order_is_found_by_identities(
    session: Session,
    pipeline: Pipeline,
    monkeypatch: pytest.MonkeyPatch,
    broken: Mapping[str, Callable[[str], str]],
    found: str,
) -> None:
    with_sql(monkeypatch, {**broken, **BLIND})
    told = run_history(session, pipeline)
    assert [line for line in told if line.startswith(found)], told


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        pytest.param(Merge.NEWEST_WINS, classified(STRICT, LATER), id="no-tie-break"),
        pytest.param(Merge.NEWEST_WINS, classified(STRICT, BY_OFFSET) | UNGUARDED, id="offset-before-partition"),
        pytest.param(
            Merge.NEWEST_WINS, classified("{by_rule}", "publish_at, _partition, _offset"), id="oldest-of-a-batch"
        ),
        pytest.param(Merge.NEWEST_WINS, FEW_COLUMNS, id="coordinates-not-updated"),
        pytest.param(Merge.SKIP_EXISTING, classified("NOT ({there})", "true"), id="known-events-are-new"),
    ],
)
def test_the_check_objects_to_a_row_that_should_have_won(
    session: Session, monkeypatch: pytest.MonkeyPatch, how: Merge, broken: Mapping[str, Callable[[str], str]]
) -> None:
    """It compares every staged row with what stands by the whole order, whatever the classes say."""
    pipeline = a_pipeline(merge=how)
    ingested(session, pipeline, *HISTORY[0])
    before = oracle.fingerprint(session, pipeline)
    events = [*SECOND, Event(7, 1, 3, "d"), Event(6, 1, 4, "d")]
    tables = prepared(session, pipeline, [OffsetRange(0, 2, 4), OffsetRange(1, 1, 5)], events)
    with monkeypatch.context() as context:
        with_sql(context, broken)
        with pytest.raises(OffsetLedgerError, match=r"has not lost to another record either|another writer changed"):
            commit(pipeline, tables.batch_id, ME)
    assert oracle.fingerprint(session, pipeline) == before
    commit(pipeline, tables.batch_id, ME)


def test_greater_or_equal_makes_a_rerun_write_rows(
    session: Session, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_history(session, pipeline)
    before = oracle.fingerprint(session, pipeline)
    with_sql(monkeypatch, classified(STRICT, STRICT.replace(">", ">=")) | UNGUARDED)
    replay = staged(session, pipeline, planned(session, pipeline, HISTORY[0][0], BatchKind.REPLAY), FIRST)
    validated(session, replay)
    commit(pipeline, replay.batch_id, ME)
    assert oracle.fingerprint(session, pipeline) != before


@pytest.fixture
def beside_pipeline(pipeline: Pipeline) -> Pipeline:
    """The pipeline of a table whose bookkeeping is beside it."""
    return replace(pipeline, target=replace(pipeline.target, beside=True, deletes=Deletes.HARD))


def test_unbroken_the_history_passes_also_where_the_bookkeeping_is_beside(
    session: Session, beside_pipeline: Pipeline
) -> None:
    assert run_history(session, beside_pipeline) == []


@pytest.mark.parametrize(
    ("statement", "before", "after", "found"),
    [
        pytest.param("delete_rows", "{wanted}", "false", "another writer changed", id="deleted-rows-stay"),
        pytest.param("update_rows", "{assignments}", "{assignments}, event_id = 'x'", "", id="another-key"),
        pytest.param("insert_rows", "{wanted}", "false", "another writer changed", id="none-is-inserted"),
        pytest.param("update_rows", "{wanted}", "false", "another writer changed", id="known-rows-stay-as-they-are"),
        pytest.param(
            "classify", "{row_known} IS NOT NULL AS", "false AS", "TransientError", id="rows-are-taken-for-new"
        ),
    ],
)
def test_rows_that_are_not_those_of_their_bookkeeping_are_noticed(
    session: Session,
    beside_pipeline: Pipeline,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    before: str,
    after: str,
    found: str,
) -> None:
    with_sql(monkeypatch, {f"commit/{statement}": lambda text: text.replace(before, after)})
    told = run_history(session, beside_pipeline)
    assert [line for line in told if found in line], told


# -- fencing ---------------------------------------------------------------------------------------------------


def two_epochs(session: Session, pipeline: Pipeline, servers: Servers) -> tuple[Batch, list[Event]]:
    """A batch whose first epoch was staged and judged, and whose second one has begun; the first one's view of it."""
    ranges, events = HISTORY[0]
    older = prepared(session, pipeline, ranges, events)
    with transaction(session) as cursor:
        stale = batches.read_batch(cursor, older.batch_id)
    with connect(servers.postgres) as other, transaction(other) as cursor:
        attempt = batches.claim(cursor, older.batch_id, ME)
        staging.create(cursor, StagingTables(attempt), pipeline)
    return stale, list(events)


def test_an_older_epoch_is_fenced_and_without_the_check_the_suite_sees_it(
    session: Session, pipeline: Pipeline, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, events = two_epochs(session, pipeline, servers)
    with connect(servers.postgres) as zombie, pytest.raises(Fenced), transaction(zombie) as cursor:
        commit_step._commit(cursor, pipeline, stale, ME)
    monkeypatch.setattr(batches, "lock", lambda cursor, own, *_: batches.read_batch(cursor, own.batch_id, lock=True))
    # The compare-and-set of the last move is a second fence: it must go too before anything can be committed.
    with connect(servers.postgres) as zombie, pytest.raises(Fenced), transaction(zombie) as cursor:
        commit_step._commit(cursor, pipeline, stale, ME)
    monkeypatch.setattr(batches, "move", lambda *_, **__: None)
    with connect(servers.postgres) as zombie, transaction(zombie) as cursor:
        commit_step._commit(cursor, pipeline, stale, ME)
    told = oracle.check(session, pipeline, journal_of(events))
    assert [line for line in told if "wrongly in the chain" in line], told
    assert [line for line in told if "did not commit that offset" in line], told


# -- completeness ----------------------------------------------------------------------------------------------


def emptied(session: Session, tables: StagingTables) -> None:
    """What a crash of the server does to UNLOGGED tables, to half of them."""
    with transaction(session) as cursor:
        cursor.execute(sql.SQL("DELETE FROM {} WHERE _offset > 0").format(tables.identifier(tables.rows)))


def test_staging_that_lost_rows_is_found_by_the_oracle_if_the_commit_believes_it(
    session: Session, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges, events = HISTORY[0]
    tables = prepared(session, pipeline, ranges, events)
    emptied(session, tables)
    monkeypatch.setattr(commit_step, "sealed_counts", lambda *_: {0: StagedCounts(rows=1), 1: StagedCounts(rows=1)})
    commit(pipeline, tables.batch_id, ME)
    told = oracle.check(session, pipeline, journal_of(events))
    assert [line for line in told if line.startswith("loss: event b has no row")], told
    assert [line for line in told if "gaps" in line], told


def test_a_manifest_that_lacks_a_slice_is_found_by_the_invariants_if_sealed(
    session: Session, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges, events = HISTORY[0]
    tables = prepared(session, pipeline, ranges, events)
    with transaction(session) as cursor:
        cursor.execute("DELETE FROM offset_ledger.slice WHERE batch_id = %s AND slice_no = 1", [tables.batch_id])
        cursor.execute(sql.SQL("DELETE FROM {} WHERE _partition = 1").format(tables.identifier(tables.rows)))
    monkeypatch.setattr(commit_step, "sealed_counts", lambda cursor, _: by_partition(staging.manifest(cursor, tables)))
    commit(pipeline, tables.batch_id, ME)
    told = oracle.check(session, pipeline, journal_of(events))
    assert [line for line in told if "2 slices were expected, the manifest has 1" in line], told
    assert [line for line in told if line.startswith("loss: event c has no row")], told


Place = tuple[int, int]
FOUR = [OffsetRange(0, 0, 4)]


def read_as(session: Session, pipeline: Pipeline, slices: Sequence[Sequence[Sequence[Place]]], gaps: str | None) -> int:
    """Stage a batch of four offsets from a reader that gives these places: slices of Arrow batches."""
    batch_id = planned(session, pipeline, FOUR)
    stage_with(stager_of(pipeline, slices, gaps), pipeline, batch_id, ME)
    return batch_id


def stager_of(pipeline: Pipeline, slices: Sequence[Sequence[Sequence[Place]]], gaps: str | None) -> SlicesBy:
    def write(session: Session, _: Batch, tables: StagingTables) -> Written:
        task = SliceTask.of(session, pipeline, tables)
        write_slices(task, *([arrow([raw(*place) for place in batch]) for batch in found] for found in slices))
        return Written(len(slices), gaps)

    return SlicesBy(write)


def raw(partition: int, offset: int) -> Raw:
    value = b'{"at": "2026-01-01T12:00:00Z", "state": "x", "note": null}'
    return Raw(partition, offset, value, b"%d" % offset)


def merged(session: Session) -> set[tuple[str, int, int]]:
    return {tuple(row) for row in rows(session, "SELECT event_id, _partition, _offset FROM public.orders")}


@pytest.mark.parametrize("gaps", [None, "transaction"])
@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([[[(0, 0), (0, 1), (0, 1), (0, 2)]]], id="an-offset-twice"),
        pytest.param([[[(0, 0), (0, 1)], [(0, 1), (0, 2)]]], id="an-offset-twice-in-two-arrow-batches"),
        pytest.param([[[(0, 0), (0, 2), (0, 1), (0, 3)]]], id="in-another-order"),
        pytest.param([[[(0, 0), (0, 1), (0, 2), (0, 4)]]], id="behind-the-range"),
        pytest.param([[[(0, 0), (0, 1)]], [[(0, 1), (0, 2)]]], id="two-slices-overlap"),
        pytest.param([[[(0, 0), (0, 3)]], [[(0, 1), (0, 2)]]], id="a-slice-within-another"),
        pytest.param([[[(0, 0), (0, 1)]], [[(1, 2), (1, 3)]]], id="a-slice-of-another-partition"),
        pytest.param([[[(0, 0), (0, 1), (1, 2), (0, 3)]]], id="a-record-of-another-partition"),
    ],
)
def test_a_reader_that_gives_other_offsets_than_the_range_has_is_refused(
    session: Session, pipeline: Pipeline, slices: Sequence[Sequence[Sequence[Place]]], gaps: str | None
) -> None:
    with pytest.raises(IncompleteStaging, match="stage the batch again"):
        commit_of(session, pipeline, read_as(session, pipeline, slices, gaps))
    assert merged(session) == set()
    right = [[[(0, 0)], [(0, 1)]], [], [[(0, 2), (0, 3)]]]
    stage_with(stager_of(pipeline, right, gaps), pipeline, 1, ME)
    commit_of(session, pipeline, 1)
    assert merged(session) == {(f"{offset}", 0, offset) for offset in range(4)}


def commit_of(session: Session, pipeline: Pipeline, batch_id: int) -> None:
    with transaction(session) as cursor:
        attempt = batches.read_batch(cursor, batch_id).attempt
    validated(session, StagingTables(attempt))
    commit(pipeline, batch_id, ME)


def test_a_reader_that_leaves_offsets_out_is_refused_where_the_topic_has_no_gaps(
    session: Session, pipeline: Pipeline
) -> None:
    with pytest.raises(UnexplainedGap, match="1 of 4 offsets gave no record"):
        read_as(session, pipeline, [[[(0, 0), (0, 1), (0, 3)]]], None)
    assert merged(session) == set()


@pytest.mark.parametrize(
    "change", ["min_offset = 4, max_offset = 7", "partition = 1", "min_offset = 1, max_offset = 3"]
)
def test_a_manifest_that_changed_since_it_was_sealed_is_refused_by_the_commit(
    session: Session, pipeline: Pipeline, change: str
) -> None:
    batch_id = read_as(session, pipeline, [[[(0, 0), (0, 1)]], [[(0, 2), (0, 3)]]], None)
    do(session, f"UPDATE offset_ledger.slice SET {change} WHERE slice_no = 1")
    with pytest.raises(IncompleteStaging):
        commit_of(session, pipeline, batch_id)
    assert merged(session) == set()


# -- one transaction -------------------------------------------------------------------------------------------


def in_two_transactions(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """The named statement commits what was done so far, before the rest fails."""
    execute = Cursor.execute
    marker = named_sql(statement).split("{", maxsplit=1)[0].rstrip()

    def split(cursor: Cursor, query: object, arguments: object = None) -> Cursor:
        execute(cursor, query, arguments)  # type: ignore[arg-type]
        text = query if isinstance(query, str) else query.as_string(cursor)  # type: ignore[attr-defined]
        if text.startswith(marker):
            execute(cursor, "COMMIT")
            raise pg.QueryCanceled("the process dies here")
        return cursor

    monkeypatch.setattr(Cursor, "execute", split)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("commit/insert_rows", "did not commit that offset"),
        ("commit/close_ranges", "in the chain"),
        ("commit/move_cursor", "in the chain"),
    ],
)
def test_a_commit_in_two_transactions_is_found_when_it_dies_between(
    session: Session, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, statement: str, found: str
) -> None:
    ranges, events = HISTORY[0]
    tables = prepared(session, pipeline, ranges, events)
    with monkeypatch.context() as broken:
        in_two_transactions(broken, statement)
        with pytest.raises(OffsetLedgerError):
            commit(pipeline, tables.batch_id, ME)
    told = oracle.check(session, pipeline, journal_of(events), drained=False)
    assert [line for line in told if found in line], told


def test_quarantine_in_a_transaction_of_its_own_is_found_when_the_commit_fails(
    session: Session, pipeline: Pipeline, servers: Servers
) -> None:
    ranges, events = HISTORY[0]
    tables = prepared(session, pipeline, ranges, events)
    with connect(servers.postgres) as apart, transaction(apart) as cursor:
        cursor.execute(
            sql.SQL("INSERT INTO {} VALUES (2, 0, now(), NULL, NULL, 'x', '[]')").format(
                tables.identifier(tables.refused)
            )
        )
        cursor.execute(
            sql.SQL(named_sql("commit/quarantine")).format(
                refused=tables.identifier(tables.refused), schema_id=sql.SQL("NULL")
            ),
            {"pipeline": pipeline.name, "topic_id": "topic-1", "batch_id": tables.batch_id},
        )
    told = oracle.check(session, pipeline, journal_of(events), drained=False)
    assert [line for line in told if "is in quarantine by batch" in line], told


def test_cursors_that_move_before_the_merge_are_impossible(session: Session, pipeline: Pipeline) -> None:
    tables = prepared(session, pipeline, *HISTORY[0])
    with pytest.raises(pg.ForeignKeyViolation, match="cursor_is_a_committed_end"), transaction(session) as cursor:
        cursor.execute(named_sql("commit/move_cursor"), {"batch_id": tables.batch_id})


# -- planning and reading --------------------------------------------------------------------------------------


def test_a_range_that_skips_offsets_is_refused_at_commit(session: Session, pipeline: Pipeline) -> None:
    ingested(session, pipeline, *HISTORY[0])
    skipping = prepared(session, pipeline, [OffsetRange(0, 3, 4)], [Event(2, 0, 3, "b")])
    with pytest.raises(LedgerViolation, match="does not start at its cursor 2"):
        commit(pipeline, skipping.batch_id, ME)


def test_without_the_cursor_check_the_chain_refuses_a_skipped_offset(
    session: Session, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(session, pipeline, *HISTORY[0])
    skipping = prepared(session, pipeline, [OffsetRange(0, 3, 4)], [Event(2, 0, 3, "b")])
    monkeypatch.setattr(commit_step, "lock_cursors", lambda *_: {0: 3})
    with pytest.raises(LedgerViolation, match=r"invariant of the ledger .*committed_ranges_are_contiguous"):
        commit(pipeline, skipping.batch_id, ME)


def test_a_plan_that_forgets_a_partition_is_found(session: Session, pipeline: Pipeline) -> None:
    ingested(session, pipeline, [OffsetRange(0, 0, 2)], [e for e in FIRST if e.partition == 0])
    told = oracle.check(session, pipeline, journal_of(FIRST))
    assert [line for line in told if line.startswith("loss: offset (1, 0) was acknowledged")], told


def test_reading_uncommitted_records_is_found(session: Session, pipeline: Pipeline) -> None:
    ingested(session, pipeline, *HISTORY[0])
    journal = journal_of(FIRST)
    journal.acknowledged[0, 1] = replace(journal.acknowledged[0, 1], kind=Kind.ABORTED)
    told = oracle.check(session, pipeline, journal)
    assert [line for line in told if "comes from a record that is aborted" in line], told


def told_of_sheet(quarantined: int, gap: int, unknown: int) -> list[str]:
    """What the oracle says of a sheet of four offsets: one event, one malformed record, two not known."""
    journal = Journal(unknown={f"m{n}": Produced("a", 0, f"m{n}", Kind.EVENT, b"") for n in range(unknown)})
    journal.acknowledged[0, 0] = Produced("a", 0, "x", Kind.EVENT, b"")
    journal.acknowledged[0, 2] = Produced("b", 0, "y", Kind.MALFORMED, b"")
    return list(oracle._sheets([oracle.Range(1, True, 0, 0, 4, quarantined, gap)], journal))


@pytest.mark.parametrize(
    ("quarantined", "gap", "unknown"), [(1, 2, 0), (1, 2, 1), (1, 1, 1), (2, 1, 1), (1, 0, 2), (3, 0, 2)]
)
def test_a_sheet_that_the_journal_explains_passes(quarantined: int, gap: int, unknown: int) -> None:
    assert told_of_sheet(quarantined, gap, unknown) == []


@pytest.mark.parametrize(
    ("quarantined", "gap", "unknown"), [(1, 1, 0), (0, 3, 0), (2, 1, 0), (1, 0, 1), (0, 2, 1), (1, 3, 1), (3, 0, 1)]
)
def test_a_sheet_that_no_outcome_explains_is_found(quarantined: int, gap: int, unknown: int) -> None:
    assert len(told_of_sheet(quarantined, gap, unknown)) == 1


SAID = {
    "the newest that says one": ([(1, ("old",)), (2, ("new",)), (3, None)], "new"),
    "a newer NULL": ([(1, ("old",)), (2, (None,)), (3, None)], None),
    "a delete": ([(1, ("old",)), (2, "deleted"), (3, None)], None),
    "an older one that arrives late": ([(2, ("new",)), (1, ("old",))], "new"),
}


@pytest.mark.parametrize(("records", "note"), SAID.values(), ids=SAID)
def test_another_note_than_the_records_say_is_found(records: list[tuple[int, Any]], note: str | None) -> None:
    journal = Journal()
    for offset, (at, said) in enumerate(records):
        kind = Kind.TOMBSTONE if said == "deleted" else Kind.EVENT
        of_note = (None,) if kind is Kind.TOMBSTONE else said
        journal.acknowledged[0, offset] = Produced("a", at, f"m{offset}", kind, b"", note=of_note)
    ranges = [oracle.Range(1, True, 0, 0, len(records), 0, 0)]

    def violations(stored: str | None) -> list[str]:
        return list(oracle._notes([oracle.Row("a", 0, "m", (0, 0), False, (), stored)], ranges, journal))

    assert violations(note) == []
    assert all(len(violations(other)) == 1 for other in {"old", "new", None} - {note})


def test_a_value_that_changed_on_its_way_is_found(session: Session, pipeline: Pipeline) -> None:
    ingested(session, pipeline, *HISTORY[0])
    do(session, "UPDATE orders SET state = 'other' WHERE event_id = 'a'")
    told = oracle.check(session, pipeline, journal_of(FIRST))
    assert [line for line in told if "differs from what was produced" in line], told


def test_a_moment_that_moved_with_the_time_zone_is_found(session: Session, pipeline: Pipeline) -> None:
    until = Column("until", ColumnType("timestamptz"), ("until",), nullable=True)
    pipeline = replace(pipeline, record=replace(pipeline.record, columns=(*pipeline.record.columns, until)))
    ingested(session, pipeline, *HISTORY[0])
    journal = journal_of(FIRST)
    for place, record in journal.acknowledged.items():
        journal.acknowledged[place] = replace(record, others=("9999-12-31T23:59:59Z",))
    do(session, "UPDATE orders SET until = '9999-12-31T23:59:59Z'")
    assert not [line for line in oracle.check(session, pipeline, journal) if "differs" in line]
    do(
        session,
        "SET LOCAL timezone = 'Asia/Kolkata'",
        "UPDATE orders SET until = '9999-12-31 23:59:59' WHERE event_id = 'a'",
    )
    told = oracle.check(session, pipeline, journal)
    assert len([line for line in told if "differs from what was produced" in line]) == 1, told


def test_a_record_under_two_event_ids_is_found(session: Session, pipeline: Pipeline) -> None:
    ingested(session, pipeline, *HISTORY[0])
    do(
        session,
        "CREATE TEMP TABLE copy AS SELECT * FROM orders WHERE event_id = 'a'",
        "UPDATE copy SET event_id = 'z'",
        "INSERT INTO orders SELECT * FROM copy",
    )
    told = oracle.check(session, pipeline, journal_of(FIRST))
    assert [line for line in told if line.startswith("duplicate: offset (0, 0) stands as")], told


def test_a_state_written_past_the_transitions_is_refused(session: Session, pipeline: Pipeline) -> None:
    tables = prepared(session, pipeline, *HISTORY[0])
    with pytest.raises(pg.CheckViolation, match="transition_is_allowed"), transaction(session) as cursor:
        cursor.execute("UPDATE offset_ledger.batch SET state = 'planned' WHERE batch_id = %s", [tables.batch_id])
    with transaction(session) as cursor:
        assert batches.read_batch(cursor, tables.batch_id).state is State.VALIDATED
