"""What the database refuses: what stays wrong is terminal and names what refuses it; nothing is written."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.errors import (
    AccessDenied,
    ConfigurationError,
    DatabaseUnavailable,
    LedgerViolation,
    OffsetLedgerError,
    TargetMismatch,
    TransientError,
)
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.validate.step import validate
from tests.fixtures.batches_with_suite import a_pipeline_with, stage_rows
from tests.fixtures.servers import Servers, configure, execute
from tests.fixtures.staged import ME, Event, a_pipeline, planned, staged, validated
from tests.fixtures.suites import Entry

ORDERS = a_pipeline()
REFUSES = """
CREATE FUNCTION public.no_b() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN {body}; RETURN NEW; END $$;
CREATE {kind} TRIGGER no_b AFTER INSERT ON orders {deferred} FOR EACH ROW EXECUTE FUNCTION public.no_b()
"""
WAITS = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def ready(session: Session, *events: Event) -> int:
    batch_id = planned(session, ORDERS, [OffsetRange(0, 0, len(events))])
    validated(session, staged(session, ORDERS, batch_id, events))
    return batch_id


def refused(session: Session, servers: Servers, change: str, *events: Event) -> OffsetLedgerError:
    """What the commit says after this change of the table; it has written nothing, and goes through without it."""
    batch_id = ready(session, *(events or (Event(1, 0, 0, "a"), Event(2, 0, 1, "b"))))
    execute(servers.postgres, change)
    with pytest.raises(OffsetLedgerError) as failed:
        commit(ORDERS, batch_id, ME)
    assert rows(session, "SELECT state FROM offset_ledger.batch") == [["validated"]]
    assert rows(session, "SELECT event_id FROM orders") == []
    return failed.value


def test_a_value_too_large_for_an_index_names_index_and_event(session: Session, servers: Servers) -> None:
    letters = random.Random(1)
    long = "".join(chr(letters.randrange(0x4E00, 0x9FFF)) for _ in range(2000))
    error = refused(session, servers, "SELECT 1", Event(1, 0, 0, "a"), Event(2, 0, 1, long))
    assert type(error) is LedgerViolation
    assert 'for index "orders_pkey"' in str(error)
    assert f"the largest is event '{long[:100]}', record 0:1" in str(error)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ("ALTER TABLE orders ADD CONSTRAINT one_second UNIQUE (_partition)", LedgerViolation,
         r"one_second.*Key \(_part"),
        ("ALTER TABLE orders ADD CONSTRAINT later UNIQUE (_partition) DEFERRABLE INITIALLY DEFERRED", LedgerViolation,
         r"unique constraint .?.?later"),
        ("ALTER TABLE orders ADD CONSTRAINT no_b CHECK (event_id <> 'b')", LedgerViolation,
         r"no_b.*drop the constraint"),
        (REFUSES.format(body="RAISE 'not % today', NEW.event_id", kind="", deferred=""), LedgerViolation,
         r"trigger.*no_b.*not a today.* PL/pgSQL function .*no_b.*line 2"),
        (REFUSES.format(body="RAISE 'not today'", kind="CONSTRAINT", deferred="DEFERRABLE INITIALLY DEFERRED"),
         LedgerViolation, "no_b.*not today.* PL/pgSQL function"),
        (REFUSES.format(body="PERFORM 1/0", kind="", deferred=""), LedgerViolation, "division by zero.*no_b"),
        (REFUSES.format(body="INSERT INTO nowhere VALUES (1)", kind="", deferred=""), LedgerViolation, "nowhere.*no_b"),
        ("CREATE RULE quiet AS ON INSERT TO orders DO ALSO NOTIFY x", TargetMismatch, "rules"),
    ],
)  # fmt: skip
def test_what_the_table_refuses_for_good_is_named(
    session: Session, servers: Servers, change: str, kind: type[Exception], said: str
) -> None:
    error = refused(session, servers, change)
    assert type(error) is kind
    with pytest.raises(kind, match=said):
        raise error


def test_a_published_table_whose_rows_have_no_identity_is_named(session: Session, servers: Servers) -> None:
    commit(ORDERS, ready(session, Event(1, 0, 0, "a")), ME)
    execute(
        servers.postgres, "ALTER TABLE orders REPLICA IDENTITY NOTHING; CREATE PUBLICATION all_rows FOR TABLE orders"
    )
    batch_id = planned(session, ORDERS, [OffsetRange(0, 1, 2)])
    validated(session, staged(session, ORDERS, batch_id, [Event(2, 0, 1, "a")]))
    with pytest.raises(TargetMismatch, match='update table "orders" because it does not have a replica identity'):
        commit(ORDERS, batch_id, ME)


def test_another_writer_of_the_same_event_is_worth_another_try(session: Session, servers: Servers) -> None:
    batch_id = ready(session, Event(1, 0, 0, "a"))
    columns = "event_id, publish_at, state, note, _partition, _offset, _timestamp, _key, _headers, _deleted"
    insert = f"INSERT INTO orders ({columns}, _batch_id) SELECT {columns}, 1 FROM offset_ledger_staging.b1_e1"
    with ThreadPoolExecutor(1) as beside, connect(servers.postgres) as other:
        other.cursor().execute(insert)
        committing = beside.submit(commit, ORDERS, batch_id, ME)
        while not rows(session, WAITS):
            rows(session, "SELECT pg_sleep(0.05)")
        other.commit()
        with pytest.raises(TransientError, match=r"another writer changed public.orders") as failed:
            committing.result(60)
    assert type(failed.value) is TransientError


def test_a_row_that_is_deleted_during_the_merge_stands_afterwards_or_nothing_does(
    session: Session, servers: Servers
) -> None:
    commit(ORDERS, ready(session, Event(1, 0, 0, "a")), ME)
    batch_id = planned(session, ORDERS, [OffsetRange(0, 1, 2)])
    validated(session, staged(session, ORDERS, batch_id, [Event(2, 0, 1, "a")]))
    with ThreadPoolExecutor(1) as beside, connect(servers.postgres) as other:
        other.cursor().execute("DELETE FROM orders")
        committing = beside.submit(commit, ORDERS, batch_id, ME)
        while not rows(session, WAITS):
            rows(session, "SELECT pg_sleep(0.05)")
        other.commit()
        with pytest.raises(TransientError, match=r"another writer changed public\.orders"):
            committing.result(60)
        assert rows(session, "SELECT event_id FROM orders") == []
        commit(ORDERS, batch_id, ME)
    assert rows(session, "SELECT event_id, _offset, _batch_id FROM orders") == [["a", 1, batch_id]]


def test_a_statement_timeout_of_the_database_is_reported_as_one(
    session: Session, servers: Servers, tmp_path: Path
) -> None:
    slow = "pg_sleep(20)"
    sleeping: Entry = {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": f"SELECT {slow} FROM {{batch}}"},
    }
    judged = a_pipeline_with(tmp_path, [{**sleeping, "meta": {"action": "reject"}}])
    tables = stage_rows(session, judged, [(1, 1, 1, 1, "x", False)])
    configure(servers.postgres, statement_timeout="1s")
    with pytest.raises(ConfigurationError, match=r"statement_timeout allows.*no verdict.*raise it for this login"):
        validate(judged, tables.batch_id, ME)
    execute(servers.postgres, REFUSES.format(body=f"PERFORM {slow}", kind="", deferred=""))
    validated(session, tables)
    with pytest.raises(ConfigurationError, match=r"statement_timeout allows.*raise it for this login"):
        commit(judged, tables.batch_id, ME)


def test_a_transaction_timeout_of_the_database_does_not_end_a_commit(session: Session, servers: Servers) -> None:
    """Its end would look as if the server had gone away, at each try again."""
    if session.server_version < 170_000:
        pytest.skip("this server has no transaction_timeout")
    batch_id = ready(session, Event(1, 0, 0, "a"))
    execute(servers.postgres, REFUSES.format(body="PERFORM pg_sleep(1.5)", kind="", deferred=""))
    configure(servers.postgres, transaction_timeout="1s")
    commit(ORDERS, batch_id, ME)
    given = replace(servers.postgres, extra={"options": "-c transaction_timeout=7s"})
    with connect(given) as made:
        assert rows(made, "SHOW transaction_timeout") == [["7s"]]


def test_a_lock_timeout_is_worth_another_try(session: Session, servers: Servers) -> None:
    batch_id = ready(session, Event(1, 0, 0, "a"))
    configure(servers.postgres, lock_timeout="100ms")
    with connect(servers.postgres) as other:
        other.cursor().execute("SELECT FROM offset_ledger.batch FOR UPDATE")
        with pytest.raises(TransientError, match="does not give a lock within lock_timeout"):
            commit(ORDERS, batch_id, ME)


def test_a_database_that_only_reads_is_reported_at_once(session: Session, servers: Servers) -> None:
    batch_id = ready(session, Event(1, 0, 0, "a"))
    configure(servers.postgres, default_transaction_read_only="on")
    with pytest.raises(DatabaseUnavailable, match=r"only reads.*leads to a standby"):
        commit(ORDERS, batch_id, ME)


def test_a_statement_that_a_person_cancels_is_worth_another_try(session: Session, servers: Servers) -> None:
    batch_id = ready(session, Event(1, 0, 0, "a"))
    execute(servers.postgres, REFUSES.format(body="PERFORM pg_sleep(20)", kind="", deferred=""))
    query = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
        " WHERE wait_event = 'PgSleep' AND datname = current_database()"
    )
    with ThreadPoolExecutor(1) as beside:
        committing = beside.submit(commit, ORDERS, batch_id, ME)
        while not rows(session, query):
            rows(session, "SELECT pg_sleep(0.05)")
        with pytest.raises(TransientError, match="cancelled by somebody"):
            committing.result(60)


def test_a_login_that_the_server_does_not_know_is_refused_and_a_missing_database_is_a_mistake(servers: Servers) -> None:
    with (
        pytest.raises(AccessDenied, match=r"refuses the login.*nobody"),
        connect(replace(servers.postgres, login="nobody")),
    ):
        pass
    missing = replace(servers.postgres, schema="nowhere")
    with pytest.raises(ConfigurationError, match="cannot be entered"), connect(missing):
        pass
