"""A session that a newer attempt ends: its attempt says Fenced, wherever it is, and never that the database is away."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event as Signal
from types import ModuleType
from typing import Any

import pytest

from offset_ledger.errors import AccessDenied, DatabaseUnavailable, Fenced
from offset_ledger.interfaces.airflow.concurrent_runs import one_run_plans
from offset_ledger.model.batch import Attempt
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger import batches, fencing, staging
from offset_ledger.postgres.ledger.database import SESSION_NAME, Session, connect, rows, transaction
from offset_ledger.steps.commit import step as commit_step
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.stage import slices
from offset_ledger.steps.stage import step as stage_step
from offset_ledger.steps.stage.claim import Written, claim
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import stage_with
from offset_ledger.steps.validate import gate
from offset_ledger.steps.validate.step import validate
from tests.fixtures.batches_with_suite import a_pipeline_with, stage_rows
from tests.fixtures.engines import SlicesBy
from tests.fixtures.raw import Raw, arrow, commit_raw, write_slices
from tests.fixtures.servers import Servers, execute
from tests.fixtures.staged import ME, Event, a_pipeline, planned, staged, validated
from tests.fixtures.suites import Entry

ROW = (1, 1, 1, 1, "x", False)
VALUE = b'{"at": "2026-01-01T12:00:00Z", "state": "new", "note": null}'


def epochs(session: Session) -> list[Any]:
    return [row[0] for row in rows(session, "SELECT epoch FROM offset_ledger.batch ORDER BY batch_id")]


# -- every place at which a session may be ended --------------------------------------------------------------


def test_a_slice_whose_session_a_claim_ended_is_fenced(session: Session, servers: Servers) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 2)])
    tables = claim(session, pipeline, batch_id, ME)

    def interrupted() -> Iterator[Any]:
        yield arrow([Raw(0, 0, VALUE)])
        with connect(servers.postgres) as newer:
            claim(newer, pipeline, batch_id, ME)
        yield arrow([Raw(0, 1, VALUE)])

    task = SliceTask.of(session, pipeline, tables)
    with pytest.raises(Fenced, match="this attempt has epoch 1, a newer one claimed epoch 2"):
        write_slices(task, interrupted())


@pytest.mark.parametrize("claimed", [True, False], ids=["by a claim", "from outside"])
def test_a_session_that_ends_in_its_second_slice_leaves_the_first_and_the_next_attempt_stages_both(
    session: Session, servers: Servers, claimed: bool
) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1), OffsetRange(1, 0, 2)])
    tables = claim(session, pipeline, batch_id, ME)
    task = SliceTask.of(session, pipeline, tables)

    def interrupted() -> Iterator[Any]:
        yield arrow([Raw(1, 0, VALUE)])
        with connect(servers.postgres) as other:
            if claimed:
                claim(other, pipeline, batch_id, ME)
            else:
                rows(other, END_SLICES, [f" b{batch_id} e1 slices"])
        yield arrow([Raw(1, 1, VALUE)])

    expected = (Fenced, "claimed epoch 2") if claimed else (DatabaseUnavailable, "is not available")
    with pytest.raises(expected[0], match=expected[1]):
        write_slices(task, [arrow([Raw(0, 0, VALUE)])], interrupted())
    with connect(servers.postgres) as other:
        kept = rows(other, "SELECT slice_no, rows FROM offset_ledger.slice WHERE epoch = 1 ORDER BY 1")
        again = claim(other, pipeline, batch_id, ME)
    assert kept == [[0, 1]]
    both = ([arrow([Raw(n, at, VALUE) for at in range(n + 1)])] for n in (0, 1))
    assert write_slices(SliceTask.of(session, pipeline, again), *both) == [1, 2]


OURS = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
END_SLICES = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name ~ %s"
)


def test_a_slice_that_a_concurrent_task_has_staged_leaves_the_session_to_the_next_one(
    session: Session,
) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1), OffsetRange(1, 0, 1)])
    task = SliceTask.of(session, pipeline, claim(session, pipeline, batch_id, ME))
    write_slices(task, [arrow([Raw(0, 0, VALUE)])])
    assert write_slices(task, *([arrow([Raw(n, 0, VALUE)])] for n in (0, 1))) == [0, 1]
    assert rows(session, "SELECT slice_no, rows FROM offset_ledger.slice ORDER BY 1") == [[0, 1], [1, 1]]


def test_the_commit_of_a_slice_does_not_wait_for_the_disk_and_that_of_the_seal_does(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[tuple[str, str]] = []

    def seen(module: ModuleType, name: str) -> None:
        usual = getattr(module, name)

        def and_ask(cursor: Any, *given: Any, **more: Any) -> Any:
            cursor.execute("SHOW synchronous_commit")
            waits.append((name, cursor.one()[0]))
            return usual(cursor, *given, **more)

        monkeypatch.setattr(module, name, and_ask)

    seen(slices, "_finish")
    seen(batches, "move")
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])

    def write(own: Any, _: Any, tables: Any) -> Written:
        write_slices(SliceTask.of(own, pipeline, tables), [arrow([Raw(0, 0, VALUE)])])
        return Written(1)

    stage_with(SlicesBy(write), pipeline, batch_id, ME)
    assert waits == [("_finish", "off"), ("move", "on")]


def test_a_stage_whose_session_a_claim_ended_is_fenced(session: Session, servers: Servers) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])

    def write(*_: Any) -> Written:
        with connect(servers.postgres) as newer:
            claim(newer, pipeline, batch_id, ME)
        return Written(1)

    with pytest.raises(Fenced, match="claimed epoch 2"):
        stage_with(SlicesBy(write), pipeline, batch_id, ME)


@pytest.mark.parametrize("place", [(staging, "drop_older"), (stage_step, "reach")], ids=["claim", "before the read"])
def test_an_attempt_that_a_claim_overtakes_before_it_reads_is_fenced(
    session: Session, servers: Servers, monkeypatch: pytest.MonkeyPatch, place: tuple[ModuleType, str]
) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    before = getattr(*place)

    def overtaken(*given: Any) -> None:
        monkeypatch.setattr(*place, before)
        with connect(servers.postgres) as newer:
            claim(newer, pipeline, batch_id, ME)
        before(*given)

    monkeypatch.setattr(*place, overtaken)
    with pytest.raises(Fenced, match="this attempt has epoch 1, a newer one claimed epoch 2"):
        stage_with(SlicesBy(lambda *_: Written(1)), pipeline, batch_id, ME)


def test_a_gate_whose_session_a_claim_ended_is_fenced(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positive: Entry = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "a", "min_value": 0},
        "meta": {"action": "reject"},
    }
    pipeline = a_pipeline_with(tmp_path, [positive])
    with connect(servers.postgres) as staging:
        tables = stage_rows(staging, pipeline, [ROW])
    run_suite = gate.run_suite  # type: ignore[attr-defined]

    def overtaken(*given: Any) -> Any:
        with connect(servers.postgres) as newer:
            claim(newer, pipeline, tables.batch_id, ME)
        return run_suite(*given)

    monkeypatch.setattr(gate, "run_suite", overtaken)
    with pytest.raises(Fenced, match="claimed epoch 2"):
        validate(pipeline, tables.batch_id, ME)


def test_a_session_of_great_expectations_that_a_claim_ended_is_fenced(
    session: Session, servers: Servers, tmp_path: Path
) -> None:
    """The suite waits inside one of its queries until the claim has ended the session.

    It may open another one and ask again before the claim has dropped the table; then it does not wait.
    """
    waits = "SELECT pg_sleep(60) FROM {batch} WHERE (SELECT max(epoch) FROM offset_ledger.batch) = 1"
    entry: Entry = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": waits}}
    pipeline = a_pipeline_with(tmp_path, [{**entry, "meta": {"action": "reject"}}])
    with connect(servers.postgres) as staging:
        tables = stage_rows(staging, pipeline, [ROW])
    with ThreadPoolExecutor(1) as beside:
        judged = beside.submit(validate, pipeline, tables.batch_id, ME)
        until(
            session,
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()",
        )
        claim(session, pipeline, tables.batch_id, ME)
        with pytest.raises(Fenced, match="claimed epoch 2"):
            judged.result(60)


@pytest.mark.parametrize("merged", [False, True])
def test_a_commit_whose_session_a_claim_ended_is_fenced(
    session: Session, servers: Servers, monkeypatch: pytest.MonkeyPatch, merged: bool
) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    with connect(servers.postgres) as staging:  # a session of its own, for the claim ends it
        validated(staging, staged(staging, pipeline, batch_id, [Event(1, 0, 0, "a")]))
    before = commit_step.reach  # type: ignore[attr-defined]

    def overtaken(place: Any) -> None:
        if place == ("after_merge" if merged else "before_merge"):
            with connect(servers.postgres) as newer:
                claim(newer, pipeline, batch_id, ME)
        before(place)

    monkeypatch.setattr(commit_step, "reach", overtaken)
    with pytest.raises(Fenced, match="claimed epoch 2"):
        commit(pipeline, batch_id, ME)
    assert rows(session, "SELECT event_id FROM orders") == []


def test_an_attempt_that_looks_before_the_claim_is_committed_waits_for_it(session: Session, servers: Servers) -> None:
    """The claim ends the older sessions first, and raises the epoch afterwards."""
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    claim(session, pipeline, batch_id, ME)
    claiming, ended = Signal(), Signal()

    def slow_claim() -> None:
        with connect(servers.postgres) as newer, transaction(newer) as cursor:
            fencing.begin_claim(cursor, batch_id)
            fencing.end_lower_epochs(cursor, Attempt(batch_id, 2))
            claiming.set()
            ended.wait(60)
            batches.claim(cursor, batch_id, ME)

    with ThreadPoolExecutor(2) as beside:
        slow = beside.submit(slow_claim)
        claiming.wait(60)
        looking = beside.submit(lost_at_attempt, servers.postgres, Attempt(batch_id, 1))
        with connect(servers.postgres) as watching:
            until(watching, f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND {OURS}")
        ended.set()
        slow.result(60)
        assert isinstance(looking.exception(60), Fenced)


def lost_at_attempt(database: Connection, attempt: Attempt) -> None:
    with fencing.fenced(database, attempt):
        raise DatabaseUnavailable("terminating connection due to administrator command")


def until(session: Session, counted: str) -> None:
    for _ in range(600):
        if rows(session, counted)[0][0]:
            return
        rows(session, "SELECT pg_sleep(0.1)")
    raise AssertionError(counted)


def test_a_session_that_was_terminated_from_outside_is_reported_as_that(session: Session, servers: Servers) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    claim(session, pipeline, batch_id, ME)
    with pytest.raises(DatabaseUnavailable, match="administrator command"):
        lost_at_attempt(servers.postgres, Attempt(batch_id, 1))
    away = replace(servers.postgres, port=1)
    with pytest.raises(DatabaseUnavailable, match="administrator command"):
        lost_at_attempt(away, Attempt(batch_id, 1))


def test_a_statement_whose_process_was_killed_ends_soon(session: Session, servers: Servers) -> None:
    """It has locks, and a commit of the next attempt would wait for them."""
    program = (
        "from offset_ledger.outside.connections import get_connection\n"
        "from offset_ledger.postgres.ledger.database import connect, rows\n"
        f"with connect(get_connection('{servers.postgres.conn_id}'), 'killed') as session:\n"
        "    rows(session, 'SELECT pg_sleep(600)')"
    )
    count = "SELECT count(*) = {} FROM pg_stat_activity WHERE application_name = 'killed' AND query ~ 'pg_sleep'"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            until(session, count.format(1))
        finally:
            process.kill()
    until(session, count.format(0))


# -- sessions of another login ---------------------------------------------------------------------------------


@pytest.fixture
def second(servers: Servers, session: Session) -> Iterator[Connection]:
    """Another login with every right on ledger, staging and target, but none over the first one's sessions."""
    planned(session, a_pipeline(), [OffsetRange(0, 0, 1)])
    role = f"r{uuid.uuid4().hex[:8]}"
    admin = servers.superuser
    execute(admin, f"CREATE ROLE {role} LOGIN PASSWORD '{servers.postgres.password}'")
    for schema in ("offset_ledger", "offset_ledger_staging", "public"):
        execute(admin, f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}")
        execute(admin, f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}")
    yield replace(servers.postgres, login=role)
    execute(admin, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_second_login_claims_despite_a_session_that_has_no_lock(
    session: Session, servers: Servers, second: Connection
) -> None:
    pipeline = a_pipeline()
    with connect(servers.postgres) as first, connect(second) as other:
        claim(first, pipeline, 1, ME)
        tables = claim(other, pipeline, 1, ME)
        assert rows(first, "SELECT 1") == [[1]]  # it lives, and can do nothing for the batch
        with pytest.raises(Fenced), transaction(first) as cursor:
            batches.lock(cursor, Attempt(1, 1), State.STAGING)
    assert (tables.attempt.epoch, epochs(session)) == (2, [2])


def test_a_second_login_that_waits_for_the_first_ones_lock_says_what_to_grant(
    session: Session, servers: Servers, second: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "_LOCK_SECONDS", 1)
    pipeline = a_pipeline()
    with connect(second) as other, suppress(DatabaseUnavailable), connect(servers.postgres) as first:
        claim(first, pipeline, 1, ME)
        first.cursor().execute("SELECT FROM offset_ledger.batch FOR UPDATE")
        with pytest.raises(AccessDenied, match=f"GRANT pg_signal_backend TO {second.login}"):
            claim(other, pipeline, 1, ME)
        assert epochs(session) == [1]
        execute(servers.superuser, f"GRANT pg_signal_backend TO {second.login}")
        claim(other, pipeline, 1, ME)
        assert epochs(session) == [2]


def test_a_session_that_has_committed_is_of_no_attempt_that_a_claim_may_end(session: Session) -> None:
    """A run goes on in it, to the report."""
    commit_raw(session, a_pipeline(), [Raw(0, 0, VALUE)])
    assert rows(session, "SHOW application_name") == [[SESSION_NAME]]


# -- the lock between two runs that plan -----------------------------------------------------------------------


def test_the_lock_of_a_run_that_plans_is_of_one_transaction_as_a_pooler_keeps_it(
    session: Session,
) -> None:
    """A pooler gives a session that is between two transactions to somebody else, with every lock of the session."""
    holders = (
        "SELECT a.state FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE l.locktype = 'advisory' AND a.datname = current_database()"
    )
    with one_run_plans(a_pipeline()):
        assert rows(session, holders) == [["idle in transaction"]]
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        rows(session, f"{ended} AND {OURS}")
    with one_run_plans(a_pipeline()):  # a session that was ended while the run planned is no error
        pass
    assert rows(session, holders) == []
