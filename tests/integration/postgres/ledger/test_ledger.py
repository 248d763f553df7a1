"""What the ledger itself makes impossible, and what the commit does, without Kafka and Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import psycopg2
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from psycopg2 import errors as pg

from offset_ledger.errors import (
    ConfigurationError,
    Fenced,
    IncompleteStaging,
    StateConflict,
    TargetMismatch,
    UnexplainedGap,
)
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import Session, connect, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from tests.examples import examples
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, Event, a_pipeline, a_snapshot, planned, staged, validated
from tests.fixtures.tables import do
from tests.integration.postgres.committed import run

NUMBERS = count()


def table(session: Session, pipeline: Pipeline) -> set[tuple[str, str | None, int, int]]:
    with transaction(session) as cursor:
        cursor.execute(f"SELECT event_id, state, _partition, _offset FROM {pipeline.target.table}")
        return {tuple(row) for row in cursor.fetchall()}


def snapshot_of_rows(session: Session, pipeline: Pipeline) -> set[tuple[object, ...]]:
    with transaction(session) as cursor:
        cursor.execute(f"SELECT t.*::text, xmin::text FROM {pipeline.target.table} t")
        return {tuple(row) for row in cursor.fetchall()}


# -- merging ---------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=14
)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_merging_is_independent_of_the_order_of_batches(
    session: Session, drawn: list[tuple[int, int, str, bool]], random: object, pieces: int
) -> None:
    pipeline = a_pipeline(f"p{next(NUMBERS)}")
    events = [Event(at, p, offset, key, deleted) for offset, (p, at, key, deleted) in enumerate(drawn)]
    newest = {e.event_id: e for e in sorted(events)}
    order = [events[i::pieces] for i in range(pieces)]
    random.shuffle(order)  # type: ignore[attr-defined]
    for piece in [*order, order[0]]:  # the last one is a replay of the same records
        if piece:
            ranges = [OffsetRange(p, 0, 20) for p in sorted({e.partition for e in piece})]
            run(session, pipeline, ranges, piece, BatchKind.REPLAY)
    assert table(session, pipeline) == {(e.event_id, e.state, e.partition, e.offset) for e in newest.values()}


def test_a_second_run_of_the_same_records_changes_no_row(session: Session) -> None:
    pipeline = a_pipeline()
    events = [Event(1, 0, 0, "a"), Event(2, 0, 1, "a"), Event(1, 0, 2, "b"), Event(3, 0, 3, "c", deleted=True)]
    run(session, pipeline, [OffsetRange(0, 0, 4)], events)
    before = snapshot_of_rows(session, pipeline)
    replay = run(session, pipeline, [OffsetRange(0, 0, 4)], events, BatchKind.REPLAY)
    assert snapshot_of_rows(session, pipeline) == before
    with transaction(session) as cursor:
        cursor.execute("SELECT duplicate, superseded FROM offset_ledger.batch_range WHERE batch_id = %s", [replay])
        assert [tuple(row) for row in cursor.fetchall()] == [(3, 1)]


def test_a_delete_leaves_a_marker_that_an_older_replay_does_not_resurrect(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 2)], [Event(1, 0, 0, "a"), Event(2, 0, 1, "a", deleted=True)])
    run(session, pipeline, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "a")], BatchKind.REPLAY)
    assert table(session, pipeline) == {("a", None, 0, 1)}


@pytest.mark.parametrize("how", [Merge.NEWEST_WINS, Merge.SKIP_EXISTING])
def test_another_record_at_the_same_place_is_accounted_for(session: Session, how: Merge) -> None:
    """After another log was accepted, its records have the offsets of lost ones."""
    pipeline = a_pipeline(merge=how)
    run(session, pipeline, [OffsetRange(0, 0, 2)], [Event(5, 0, 0, "a"), Event(1, 0, 1, "b")])
    run(session, pipeline, [OffsetRange(0, 0, 2)], [Event(4, 0, 0, "a"), Event(2, 0, 1, "b")], BatchKind.REPLAY)
    stands = "2/0/1" if how is Merge.NEWEST_WINS else "1/0/1"
    assert table(session, pipeline) == {("a", "5/0/0", 0, 0), ("b", stands, 0, 1)}


def test_skip_existing_keeps_the_first(session: Session) -> None:
    pipeline = a_pipeline(merge=Merge.SKIP_EXISTING)
    run(session, pipeline, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "a")])
    batch_id = run(
        session, pipeline, [OffsetRange(0, 1, 4)], [Event(5, 0, 1, "a"), Event(9, 0, 2, "b"), Event(8, 0, 3, "b")]
    )
    assert table(session, pipeline) == {("a", "1/0/0", 0, 0), ("b", "8/0/3", 0, 3)}
    with transaction(session) as cursor:
        cursor.execute("SELECT inserted, duplicate FROM offset_ledger.batch_range WHERE batch_id = %s", [batch_id])
        assert tuple(cursor.one()) == (1, 2)


def test_the_balance_sheet_shows_where_every_offset_went(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 3)], [Event(1, 0, 0, "a"), Event(1, 0, 1, "b"), Event(5, 0, 2, "c")])
    events = [
        Event(2, 0, 3, "a"),
        Event(2, 0, 4, "a"),
        Event(1, 0, 5, "a"),
        Event(4, 0, 6, "c"),
        Event(9, 0, 8, "b", True),
    ]
    batch_id = run(session, pipeline, [OffsetRange(0, 3, 9)], events)
    with transaction(session) as cursor:
        cursor.execute(
            "SELECT inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, gap_reason"
            " FROM offset_ledger.batch_range WHERE batch_id = %s",
            [batch_id],
        )
        assert tuple(cursor.one()) == (0, 1, 2, 1, 1, 0, 0, 1, "transaction")
    assert verify(pipeline)[0] == []


# -- fencing and completeness ----------------------------------------------------------------------------------


def test_only_the_highest_epoch_may_commit(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    older = staged(session, pipeline, batch_id, [Event(1, 0, 0, "a")])
    newer = staged(session, pipeline, batch_id, [Event(1, 0, 0, "a")])
    with pytest.raises(Fenced, match=r"epoch 1, a newer one claimed epoch 2"):
        validated(session, older)
    validated(session, newer)
    commit(pipeline, batch_id, ME)
    assert table(session, pipeline) == {("a", "1/0/0", 0, 0)}


def test_a_claim_ends_the_sessions_of_older_epochs(session: Session, servers: Servers) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    with connect(servers.postgres) as zombie:
        staged(zombie, pipeline, batch_id, [Event(1, 0, 0, "a")])
        staged(session, pipeline, batch_id, [Event(1, 0, 0, "a")])
        with pytest.raises((pg.AdminShutdown, psycopg2.OperationalError)), zombie.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_committing_twice_finds_it_committed(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = run(session, pipeline, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "a")])
    again = commit(pipeline, batch_id, ME)
    assert again.already
    assert again.total.inserted == 1


def test_a_batch_that_ended_cannot_be_claimed(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = run(session, pipeline, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "a")])
    with pytest.raises(StateConflict, match="committed"), transaction(session) as cursor:
        batches.claim(cursor, batch_id, ME)


def test_staging_that_a_stopped_server_emptied_is_not_committed(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 2)])
    tables = staged(session, pipeline, batch_id, [Event(1, 0, 0, "a"), Event(1, 0, 1, "b")])
    validated(session, tables)
    do(session, f"TRUNCATE offset_ledger_staging.{tables.rows}")
    with pytest.raises(IncompleteStaging):
        commit(pipeline, batch_id, ME)
    assert table(session, pipeline) == set()
    validated(session, staged(session, pipeline, batch_id, [Event(1, 0, 0, "a"), Event(1, 0, 1, "b")]))
    commit(pipeline, batch_id, ME)
    assert table(session, pipeline) == {("a", "1/0/0", 0, 0), ("b", "1/0/1", 0, 1)}


def test_a_gap_on_a_plain_topic_is_refused_before_it_is_staged(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 3)])
    with pytest.raises(UnexplainedGap, match=r"1 of 3 offsets"):
        staged(session, pipeline, batch_id, [Event(1, 0, 0, "a"), Event(1, 0, 2, "b")])


# -- what cannot be written ------------------------------------------------------------------------------------


def test_one_open_head_batch_a_pipeline(session: Session) -> None:
    pipeline = a_pipeline()
    planned(session, pipeline, [OffsetRange(0, 0, 1)])
    with pytest.raises(pg.UniqueViolation, match="batch_one_open_head"):
        planned(session, pipeline, [OffsetRange(0, 0, 1)])


HEAD = "UPDATE offset_ledger.batch_range SET inserted = 0, updated = 0, superseded = 0, duplicate = 0, deleted = 0,"


@pytest.mark.parametrize(
    ("ranges", "statement", "constraint"),
    [
        (
            (0, 5, 9),
            "quarantined = 4, skipped = 0, gap = 0, committed_from = 5, committed_until = 9, follows = 5",
            "contiguous",
        ),
        (
            (0, 2, 9),
            "quarantined = 7, skipped = 0, gap = 0, committed_from = 2, committed_until = 9, follows = 2",
            "contiguous",
        ),
        (
            (0, 0, 9),
            "quarantined = 9, skipped = 0, gap = 0, committed_from = 0, committed_until = 9, begins = 0",
            "starts_are_unique",
        ),
        (
            (0, 4, 9),
            "quarantined = 5, skipped = 0, gap = 0, committed_from = 4, committed_until = 9, begins = 4",
            "at_the_beginning",
        ),
        ((0, 4, 9), "quarantined = 4, skipped = 0, gap = 0", "balance_sheet_closes"),
        ((0, 4, 9), "quarantined = 4, skipped = 0, gap = 1", "gap_is_labelled"),
    ],
)
def test_a_wrong_chain_or_sheet_cannot_be_written(
    session: Session, ranges: tuple[int, int, int], statement: str, constraint: str
) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 4)], [Event(1, 0, offset, "a") for offset in range(4)])
    batch_id = planned(session, pipeline, [OffsetRange(*ranges)])
    with pytest.raises(psycopg2.IntegrityError, match=constraint), transaction(session) as cursor:
        cursor.execute(f"{HEAD} {statement} WHERE batch_id = {batch_id}")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE offset_ledger.batch SET rows = 7", "never changes"),
        ("DELETE FROM offset_ledger.batch", "never changes"),
        ("UPDATE offset_ledger.batch_range SET inserted = 3, updated = 1", "never changes"),
        ("UPDATE offset_ledger.cursor SET next_offset = 0", "cannot go back"),
        ("UPDATE offset_ledger.cursor SET next_offset = 9", "cursor_is_a_committed_end"),
    ],
)
def test_what_is_committed_cannot_be_changed(session: Session, statement: str, text: str) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 4)], [Event(1, 0, offset, "abcd"[offset]) for offset in range(4)])
    with pytest.raises(psycopg2.IntegrityError, match=text), transaction(session) as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("after", [State.STAGED, State.VALIDATED, State.REJECTED, State.COMMITTED])
def test_a_transition_that_is_not_in_the_table_cannot_be_written(session: Session, after: State) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    with pytest.raises(psycopg2.IntegrityError), transaction(session) as cursor:
        cursor.execute(
            "UPDATE offset_ledger.batch SET state = %s, epoch = 1, verdict = '{}', committed_xid = CASE WHEN %s ="
            " 'committed' THEN '1'::xid8 END, ended_at = CASE WHEN %s = 'committed' THEN now() END WHERE batch_id = %s",
            [after, after, after, batch_id],
        )


def test_every_transition_leaves_its_event(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = run(session, pipeline, [OffsetRange(0, 0, 1)], [Event(1, 0, 0, "a")])
    with transaction(session) as cursor:
        cursor.execute(
            "SELECT from_state, to_state, epoch, who FROM offset_ledger.batch_event WHERE batch_id = %s "
            "ORDER BY event_id",
            [batch_id],
        )
        assert [tuple(row) for row in cursor.fetchall()] == [
            (None, "planned", 0, "test"),
            ("planned", "staging", 1, "test"),
            ("staging", "staged", 1, "test"),
            ("staged", "validated", 1, "test"),
            ("validated", "committed", 1, "test"),
        ]


# -- people ----------------------------------------------------------------------------------------------------


def test_a_rejected_batch_is_approved_or_abandoned_by_a_person(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    tables = staged(session, pipeline, batch_id, [Event(1, 0, 0, "a")])
    with pytest.raises(StateConflict, match="only a rejected one"):
        decide(session, batch_id, State.VALIDATED, ME, "no")
    with transaction(session) as cursor:
        batches.move(cursor, tables.attempt, State.STAGED, State.REJECTED, ME, verdict={"reasons": ["bad"]})
    decide(session, batch_id, State.VALIDATED, ME, "looked at it")
    commit(pipeline, batch_id, ME)
    assert table(session, pipeline) == {("a", "1/0/0", 0, 0)}


def test_an_abandoned_batch_gives_its_range_back(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    decide(session, batch_id, State.ABANDONED, ME, "wrong limits")
    run(session, pipeline, [OffsetRange(0, 0, 2)], [Event(1, 0, 0, "a"), Event(1, 0, 1, "b")])
    assert verify(pipeline)[0] == []


# -- target ----------------------------------------------------------------------------------------------------


def test_a_target_that_differs_is_refused_with_every_column_named(session: Session) -> None:
    pipeline = a_pipeline()
    do(
        session,
        "CREATE TABLE public.orders (event_id text, publish_at timestamptz, state integer, extra text NOT NULL)",
    )
    with pytest.raises(TargetMismatch) as caught, transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    for part in ("column state is integer, declared text", "column note text is missing", "column extra is NOT NULL",
                 "event_id has no primary key"):  # fmt: skip
        assert part in str(caught.value)


def test_the_table_that_is_created_is_the_one_that_fits(session: Session) -> None:
    pipeline = a_pipeline()
    with transaction(session) as cursor:
        assert ensure_target(cursor, pipeline)
        assert not ensure_target(cursor, pipeline)


def test_one_table_takes_one_pipeline(session: Session) -> None:
    planned(session, a_pipeline("orders"), [OffsetRange(0, 0, 1)])
    other = a_pipeline("others", table="orders")
    with pytest.raises(ConfigurationError, match="filled by pipeline orders"), transaction(session) as cursor:
        pipelines.register(cursor, other, a_snapshot(other))


def test_a_database_that_does_not_exist_is_no_server_that_is_away(servers: Servers) -> None:
    nowhere = replace(servers.postgres, schema="nowhere")
    with (
        pytest.raises(ConfigurationError, match=r'database "nowhere" does not exist.*create it, or correct'),
        connect(nowhere),
    ):
        pass


def test_verify_lists_the_first_of_very_many_violations(session: Session) -> None:
    pipeline = a_pipeline()
    run(session, pipeline, [OffsetRange(0, 0, 103)], [Event(1, 0, offset, f"e{offset}") for offset in range(103)])
    do(session, f"UPDATE {pipeline.target.table} SET _offset = _offset + 1000")
    found = verify(pipeline)[0]
    assert sum("which did not commit that offset" in line for line in found) == 100
    assert [line for line in found if "only the first 100" in line] == [
        "invariant 9 rows come from committed ranges: and more: only the first 100 are listed"
    ]


def test_the_planner_knows_rows_and_columns_of_what_was_staged(session: Session) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 2)])
    tables = staged(session, pipeline, batch_id, [Event(n, 0, n, f"e{n}") for n in range(2)])
    with transaction(session) as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE relname = %s", [tables.rows])
        assert cursor.one()[0] == 2
        cursor.execute("SELECT attname FROM pg_stats WHERE tablename = %s", [tables.rows])
        columns = {row[0] for row in cursor.fetchall()}
    assert columns >= {"event_id", "publish_at", "_offset"}
