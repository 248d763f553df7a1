"""What disturbs a commit between its statements: nothing is committed, one line says why, and a rerun commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg2 import errors as pg

from offset_ledger.errors import ConfigurationError, DatabaseUnavailable, OffsetLedgerError, TransientError
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches
from offset_ledger.postgres.ledger.database import Session, connect, rows, savepoint, transaction
from offset_ledger.postgres.ledger.staging import SCHEMA, StagingTables
from offset_ledger.steps.commit.step import Committed, commit
from offset_ledger.steps.stage.claim import Written, claim, seal
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import execute, settings_of
from tests.fixtures.staged import ME, NOON, Event, planned, staged, validated
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: orders
source: {{topic: orders}}
record:
  event_id: $.id
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{state: text}}
target: {{table: public.orders, bookkeeping: {bookkeeping}}}
"""
BOOKKEEPING = pytest.mark.parametrize("bookkeeping", ["columns", pytest.param("beside", marks=pytest.mark.full)])
MANY = 120_000


def written(folder: Path, bookkeeping: str) -> Pipeline:
    return pipeline_of(folder, PIPELINE, bookkeeping=bookkeeping)


def many(session: Session, pipeline: Pipeline) -> StagingTables:
    """A validated batch of MANY records: each 120th is the only one of its event, the others are all of one event.

    Its event ids are so long that what sorts all of them does so on disk.
    """
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, MANY)])
    tables = claim(session, pipeline, batch_id, ME)
    with transaction(session) as cursor:
        cursor.execute(
            f"INSERT INTO {SCHEMA}.{tables.rows}"
            " (event_id, publish_at, state, _partition, _offset, _timestamp, _deleted, _value)"
            " SELECT CASE WHEN n %% 120 = 0 THEN n::text ELSE 'often' END || repeat('x', 590),"
            " %(noon)s + n * interval '1 second', n::text, 0, n, %(noon)s, false, ''"
            " FROM generate_series(0, %(many)s - 1) AS n",
            {"noon": NOON, "many": MANY},
        )
        cursor.execute(
            "INSERT INTO offset_ledger.slice (batch_id, epoch, slice_no, partition, rows, min_offset, max_offset)"
            " VALUES (%s, %s, 0, 0, %s, 0, %s)",
            [*astuple(tables.attempt), MANY, MANY - 1],
        )
        batch = batches.read_batch(cursor, batch_id)
    seal(session, batch, tables, Written(1), ME)
    validated(session, tables)
    return tables


def states(session: Session) -> dict[str, str]:
    return {row[0]: row[1] for row in rows(session, "SELECT rtrim(event_id, 'x'), state FROM public.orders")}


NEWEST = {**{f"{n}": f"{n}" for n in range(0, MANY, 120)}, "often": f"{MANY - 1}"}


def check_untouched(session: Session, batch_id: int, before: dict[str, str]) -> None:
    """Check that the batch waits for another commit, and that the table is as before."""
    assert states(session) == before
    with transaction(session) as cursor:
        assert batches.read_batch(cursor, batch_id).state is State.VALIDATED


def failure(run: Callable[[], Committed], kind: type[OffsetLedgerError]) -> OffsetLedgerError | None:
    """The error of that kind that a commit ends with, if it does."""
    try:
        run()
    except kind as error:
        return error
    return None


@BOOKKEEPING
def test_a_limit_of_temporary_files_is_named_or_does_no_harm(
    session: Session, tmp_path: Path, database: Connection, stack: Stack, bookkeeping: str
) -> None:
    pipeline = written(tmp_path, bookkeeping)
    batch_id = many(session, pipeline).batch_id
    name = str(database.schema)
    # Enough for one sort of all rows, and not for one that keeps them once more.
    limits = {"temp_file_limit": "110MB", "max_parallel_workers_per_gather": "0"}
    execute(stack.postgres.superuser(name), settings_of(name, limits))
    try:
        error = failure(lambda: commit(pipeline, batch_id, ME), ConfigurationError)
    finally:
        execute(stack.postgres.superuser(name), ";".join(f"ALTER DATABASE {name} RESET {each}" for each in limits))
    if error:
        assert "temp_file_limit" in str(error)
        check_untouched(session, batch_id, {})
    done = commit(pipeline, batch_id, ME)
    assert (done.total.inserted, done.total.superseded) == (1_001, MANY - 1_001)
    assert states(session) == NEWEST
    assert verify(pipeline)[0] == []


AT_TABLES = "SELECT FROM pg_locks WHERE NOT granted AND relation = ANY (%s::regclass[]::oid[])"
LAST_AT = """
SELECT a.pid FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
WHERE NOT l.granted AND l.relation = %s::regclass AND a.datname = current_database()
ORDER BY a.backend_start DESC LIMIT 1
"""


@BOOKKEEPING
def test_a_session_that_is_ended_while_it_reads_the_staged_rows_costs_a_rerun_at_most(
    session: Session, tmp_path: Path, database: Connection, bookkeeping: str
) -> None:
    pipeline = written(tmp_path, bookkeeping)
    tables = many(session, pipeline)
    target, staging = "public.orders", f"{SCHEMA}.{tables.rows}"
    if bookkeeping == "beside":
        target = "offset_ledger_rows.orders"
    with connect(database) as first, connect(database) as second, ThreadPoolExecutor(1) as beside:
        with transaction(second) as reading:
            with transaction(first) as writing:
                writing.execute(f"LOCK TABLE public.orders, {target} IN EXCLUSIVE MODE")
                running = beside.submit(commit, pipeline, tables.batch_id, ME)
                wait_for(session, running, AT_TABLES, [["public.orders", target]])
                with suppress(pg.LockNotAvailable), savepoint(reading):  # unless the commit has read it before
                    reading.execute(f"LOCK TABLE {staging} IN ACCESS EXCLUSIVE MODE NOWAIT")
            if wait_for(session, running, LAST_AT, [staging]):
                time.sleep(0.3)  # another one may come yet
                ((last,),) = rows(session, LAST_AT, [staging])
                rows(session, "SELECT pg_terminate_backend(%s)", [last])
        if failure(lambda: running.result(300), DatabaseUnavailable):
            check_untouched(session, tables.batch_id, {})
    done = commit(pipeline, tables.batch_id, ME)
    assert (done.total.inserted, done.total.superseded) == (1_001, MANY - 1_001)
    assert states(session) == NEWEST
    assert verify(pipeline)[0] == []


def wait_for(session: Session, running: Future[Any], query: str, given: list[Any]) -> bool:
    """Wait until the query finds something, or until there is nothing to wait for; whether it found something."""
    while not (found := bool(rows(session, query, given))) and not running.done():
        time.sleep(0.005)
    return found


# -- another writer between the statements of a commit ---------------------------------------------------------

GATE = """
CREATE FUNCTION public.gate() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock_shared(48); RETURN NULL; END $$;
CREATE TRIGGER gate BEFORE {what} ON public.orders FOR EACH STATEMENT
  WHEN (current_setting('tests.passes', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION public.gate()
"""
PASSES = "SET LOCAL tests.passes = 'on'; SET LOCAL lock_timeout = '20s'"
AT_GATE = """
SELECT FROM pg_locks JOIN pg_database AS d ON d.oid = database
WHERE NOT granted AND locktype = 'advisory' AND datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What another writer does while the commit is before a statement, and the rows that a rerun leaves."""

    bookkeeping: str
    before: str
    does: str
    after: dict[str, str]
    rerun: dict[str, str]


OLD = {"known": "1/0/0", "gone": "1/0/1"}
NEW = {"known": "9/0/2", "new": "9/0/4"}
COLUMNS = "publish_at, state, _partition, _offset, _deleted, _batch_id"
MEANWHILE = {
    "columns, a row gets newer": Meanwhile(
        "columns",
        "UPDATE",
        "UPDATE public.orders SET publish_at = publish_at + interval '1 day' WHERE event_id = 'known'",
        OLD,
        {"known": "1/0/0", "new": "9/0/4"},
    ),
    "columns, a row goes": Meanwhile(
        "columns", "UPDATE", "DELETE FROM public.orders WHERE event_id = 'known'", {"gone": "1/0/1"}, NEW
    ),
    "columns, a row comes": Meanwhile(
        "columns",
        "INSERT",
        f"INSERT INTO public.orders (event_id, {COLUMNS}) SELECT 'new', {COLUMNS} FROM public.orders"
        " WHERE event_id = 'known'",
        {**OLD, "new": "1/0/0"},
        NEW,
    ),
    "beside, a row goes that is changed": Meanwhile(
        "beside", "UPDATE", "DELETE FROM public.orders WHERE event_id = 'known'", {"gone": "1/0/1"}, NEW
    ),
    "beside, a row goes that is deleted": Meanwhile(
        "beside", "DELETE", "DELETE FROM public.orders WHERE event_id = 'gone'", {"known": "1/0/0"}, NEW
    ),
    "beside, a row comes": Meanwhile(
        "beside", "INSERT", "INSERT INTO public.orders VALUES ('new', 'mine')", {**OLD, "new": "mine"}, NEW
    ),
}


@pytest.mark.parametrize("what", MEANWHILE.values(), ids=MEANWHILE)
def test_another_writer_between_the_statements_is_worth_another_try(
    session: Session, tmp_path: Path, database: Connection, what: Meanwhile
) -> None:
    pipeline = written(tmp_path, what.bookkeeping)
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 2)])
    validated(session, staged(session, pipeline, batch_id, [Event(1, 0, 0, "known"), Event(1, 0, 1, "gone")]))
    commit(pipeline, batch_id, ME)
    batch_id = planned(session, pipeline, [OffsetRange(0, 2, 5)])
    events = [Event(9, 0, 2, "known"), Event(9, 0, 3, "gone", deleted=True), Event(9, 0, 4, "new")]
    validated(session, staged(session, pipeline, batch_id, events))
    do(session, GATE.format(what=what.before))
    with closed_gate(session, database, lambda: commit(pipeline, batch_id, ME)) as running:
        do(session, f"{PASSES}; {what.does}")
    with pytest.raises(TransientError, match=r"another writer changed public\.orders"):
        running.result(300)
    check_untouched(session, batch_id, what.after)
    again = commit(pipeline, batch_id, ME)
    assert not again.already
    assert {key: state for key, state in states(session).items() if state} == what.rerun


@contextmanager
def closed_gate(session: Session, database: Connection, run: Callable[[], Committed]) -> Iterator[Future[Committed]]:
    """Run that in another thread; the block begins when it waits at the gate, which opens after the block."""
    with connect(database) as keeper, ThreadPoolExecutor(1) as beside, transaction(keeper) as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(48)")
        running = beside.submit(run)
        assert wait_for(session, running, AT_GATE, [])
        yield running
