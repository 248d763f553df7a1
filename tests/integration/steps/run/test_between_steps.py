"""What others change between two steps of a batch, or between two statements: pipeline files, tables, decisions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError, IncompleteStaging, TargetMismatch, UnknownBatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Pipeline, Target
from offset_ledger.postgres.ledger import batches, decisions
from offset_ledger.postgres.ledger.database import Session, connect, migrate, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide_batch
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.answers import answer_question
from offset_ledger.steps.stage.claim import claim
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.batches_with_suite import a_pipeline_with, stage_rows
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.servers import Servers, new_database
from tests.fixtures.staged import ME, NOON, Event, a_pipeline, planned, staged, validated
from tests.fixtures.tables import do

ANN = Origin("ann")


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def until_waiting(session: Session, sessions: int) -> None:
    """Until so many sessions of this database wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 60
    while rows(session, query)[0][0] < sessions:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ready(session: Session, pipeline: Pipeline, event_id: str = "a", offset: int = 0) -> int:
    """A batch of one event that waits for its commit."""
    batch_id = planned(session, pipeline, [OffsetRange(0, offset, offset + 1)])
    validated(session, staged(session, pipeline, batch_id, [Event(1, 0, offset, event_id)]))
    return batch_id


def events(session: Session, table: str) -> set[str]:
    return {row[0] for row in rows(session, f"SELECT event_id FROM {table}")}


# -- pipeline files --------------------------------------------------------------------------------------------


def test_a_batch_is_not_committed_by_the_file_of_another_pipeline(session: Session) -> None:
    ours, theirs = a_pipeline("ours"), a_pipeline("theirs")
    planned(session, theirs, [OffsetRange(0, 0, 1)])
    batch_id = ready(session, ours)
    with pytest.raises(UnknownBatch, match=f"batch {batch_id} is of pipeline ours, not of theirs"):
        commit(theirs, batch_id, ME)
    with pytest.raises(UnknownBatch):
        validate(theirs, batch_id, ME)
    assert events(session, "theirs") == set()


def test_a_file_that_names_the_table_of_another_pipeline_writes_nothing_there(session: Session) -> None:
    ours, theirs = a_pipeline("ours"), a_pipeline("theirs")
    planned(session, theirs, [OffsetRange(0, 0, 1)])
    edited = replace(ours, target=theirs.target)
    batch_id = ready(session, ours)
    with pytest.raises(ConfigurationError, match="filled by pipeline theirs"):
        commit(edited, batch_id, ME)
    with pytest.raises(ConfigurationError, match="filled by pipeline theirs"):
        claim(session, edited, batch_id, ME)
    assert events(session, "theirs") == set()
    commit(ours, batch_id, ME)
    assert events(session, "ours") == {"a"}


def test_a_table_continues_under_another_name_only_if_it_was_renamed(session: Session) -> None:
    pipeline = a_pipeline()
    commit(pipeline, ready(session, pipeline), ME)
    other = replace(pipeline, target=Target("postgres_default", "public", "order_lines"))
    with pytest.raises(TargetMismatch, match="committed rows are in table public"):
        ready(session, other, "b", 1)
    do(session, "ALTER TABLE public.orders RENAME TO order_lines")
    with pytest.raises(TargetMismatch, match=r"table public\.orders does not exist"):
        ready(session, pipeline, "b", 1)
    commit(other, ready(session, other, "b", 1), ME)
    assert events(session, "order_lines") == {"a", "b"}
    assert rows(session, "SELECT target FROM offset_ledger.pipeline")[0][0] == "public.order_lines"


def with_column(kind: ColumnType) -> Pipeline:
    made = a_pipeline()
    return replace(made, record=replace(made.record, columns=(Column("n", kind, ("n",)),)))


def test_columns_that_changed_after_staging_round_nothing(session: Session) -> None:
    pipeline, edited = with_column(ColumnType("numeric", (12, 2))), with_column(ColumnType("integer"))
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    tables = claim(session, pipeline, batch_id, ME)
    with transaction(session) as cursor:
        cursor.execute(
            "INSERT INTO offset_ledger_staging.b1_e1 (event_id, publish_at, n, _partition, _offset, _timestamp,"
            " _deleted) VALUES ('a', %s, 1.25, 0, 0, %s, false)",
            [NOON, NOON],
        )
        cursor.execute(
            "INSERT INTO offset_ledger.slice (batch_id, epoch, slice_no, partition, rows, min_offset, max_offset)"
            " VALUES (1, 1, 0, 0, 1, 0, 0)"
        )
        cursor.execute("UPDATE offset_ledger.batch SET state = 'staged', slices_expected = 1, rows = 1, refused = 0")
        cursor.execute("ALTER TABLE public.orders ALTER n TYPE integer")
    validated(session, tables)
    with pytest.raises(TargetMismatch, match=r"column n is integer, declared numeric\(12,2\)"):
        commit(pipeline, batch_id, ME)
    with pytest.raises(IncompleteStaging, match="other columns"):
        commit(edited, batch_id, ME)
    assert events(session, "orders") == set()


def test_texts_are_the_same_whatever_encoding_the_environment_names(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    pipeline = a_pipeline()
    text = "größer ≠ 漢字"
    value = f'{{"at": "2026-01-01T12:00:00Z", "state": "{text}", "note": null}}'.encode()
    commit_raw(session, pipeline, [Raw(0, 0, value, "schlüssel".encode())])
    found = rows(session, "SELECT convert_to(event_id, 'UTF8'), convert_to(state, 'UTF8') FROM orders")
    assert [bytes(each).decode() for each in found[0]] == ["schlüssel", text]


def test_a_database_that_cannot_store_every_text_is_refused(stack: Stack) -> None:
    with (
        new_database(stack, "template0", "ENCODING 'LATIN1' LOCALE 'C'") as latin,
        connect(latin) as made,
        pytest.raises(ConfigurationError, match="encoding LATIN1"),
    ):
        migrate(made)


# -- people and twins ------------------------------------------------------------------------------------------


def a_question(session: Session, pipeline: Pipeline, batch_id: int) -> int:
    asked = Question(pipeline.name, QuestionKind.REJECTED_BATCH, "topic-1", "commit it?", {}, batch_id)
    with transaction(session) as cursor:
        return decisions.ask(cursor, asked, Origin("airflow", "ingest_orders", "run 1"))


def test_of_two_simultaneous_decisions_the_first_one_counts(
    session: Session, servers: Servers, beside: ThreadPoolExecutor
) -> None:
    pipeline = a_pipeline()
    batch_id = ready(session, pipeline)
    decision_id = a_question(session, pipeline, batch_id)
    with connect(servers.postgres) as other:
        with transaction(other) as cursor:
            batches.read_batch(cursor, batch_id, lock=True)  # what the decision begins with
            late = beside.submit(answer_question, pipeline, decision_id, QuestionAnswer.APPROVE, Origin("bob"), "fine")
            until_waiting(session, 1)
            decide_batch(cursor, batch_id, State.ABANDONED, ANN, "bad")
        assert late.result(30) is QuestionAnswer.ABANDON
    kept = rows(session, "SELECT answer, who FROM offset_ledger.decision")
    assert [tuple(row) for row in kept] == [("abandon", "ann")]


def test_a_question_that_is_asked_again_while_it_is_being_answered(
    session: Session, servers: Servers, beside: ThreadPoolExecutor
) -> None:
    pipeline = a_pipeline()
    batch_id = ready(session, pipeline)
    a_question(session, pipeline, batch_id)
    with connect(servers.postgres) as other, connect(servers.postgres) as third:
        with transaction(other) as cursor:
            batches.read_batch(cursor, batch_id, lock=True)
            again = beside.submit(a_question, third, pipeline, batch_id)
            until_waiting(session, 1)
            decide_batch(cursor, batch_id, State.ABANDONED, ANN, "bad")
        again.result(30)
    kept = rows(session, "SELECT answer, who FROM offset_ledger.decision ORDER BY decision_id")
    assert [tuple(row) for row in kept] == [("abandon", "ann"), (None, None)]


def test_of_two_that_validate_at_once_the_second_finds_it_validated(
    session: Session, servers: Servers, beside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    pipeline = a_pipeline_with(tmp_path)
    tables = stage_rows(session, pipeline, [(1, 1, 1, 1, "x", False)])
    with connect(servers.postgres) as other:
        with transaction(other) as cursor:
            batches.read_batch(cursor, tables.batch_id, lock=True)
            both = [beside.submit(validate, pipeline, tables.batch_id, ME) for _ in range(2)]
            until_waiting(session, 2)
        found = [each.result(30) for each in both]
    assert [batch.state for batch, _ in found] == [State.VALIDATED] * 2
    assert [verdict is None for _, verdict in found].count(True) == 1
    commit(pipeline, tables.batch_id, ME)
