"""What a database, a role or the environment sets for sessions changes nothing that is read or written here."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.page import answers
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.reader import read_ledger, reading
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.report.step import report
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger.steps.run.redrive import list_quarantined, plan_redrive, stage_redrive
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.servers import Servers, configure, execute
from tests.fixtures.staged import ME
from tests.fixtures.suites import entry, in_set, write_suite

PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: orders.far}
record:
  event_id: $.id
  publish_at: $.at
  columns:
    day: date
    moment: timestamptz
    word: text
    share: "double precision"
target: {connection: postgres_default, table: public.orders}
quality: {suite: orders, max_quarantined_share: 1.0}
"""
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
SHARE = 0.1234567890123456


BOUNDS = [
    entry("expect_column_min_to_be_between", "reject", column="moment", min_value="0001-01-01"),
    entry("expect_column_max_to_be_between", "reject", column="moment", max_value="9999-12-31 23:59:59.999999+00"),
    entry("expect_column_max_to_be_between", "reject", column="day", max_value="9999-12-31"),
    entry("expect_column_values_to_not_be_null", "reject", column="publish_at"),
]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_suite(tmp_path, *BOUNDS, in_set("quarantine", "word", "größer ≠ 漢字"))
    (tmp_path / "orders.yaml").write_text(PIPELINE)
    return parse_pipeline(tmp_path / "orders.yaml")


def order(event_id: str, at: str, word: str = "größer ≠ 漢字") -> bytes:
    values = {"id": event_id, "at": at, "moment": at, "day": at[:10], "word": word, "share": SHARE}
    return json.dumps(values, ensure_ascii=False).encode()


def in_the_table(session: Session) -> set[tuple[str, ...]]:
    """As UTC texts, whatever the session is set to."""
    query = (
        "SELECT event_id, to_char(publish_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'),"
        " to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), to_char(day, 'YYYY-MM-DD'), word, share"
        " FROM orders"
    )
    return {tuple(row) for row in rows(session, query)}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_the_first_and_last_moments_pass_every_step_in_every_zone(
    session: Session, servers: Servers, pipeline: Pipeline, tmp_path: Path, zone: str
) -> None:
    configure(servers.postgres, TimeZone=zone)
    far = 253_402_300_799_999  # the last millisecond, as Kafka counts
    latest = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
    records = [
        Raw(0, 0, order("first", FIRST), timestamp=-62_135_596_800_000),
        Raw(0, 1, order("last", LAST), timestamp=far),
        Raw(0, 2, order("odd", LAST, "other"), timestamp=far),
        Raw(0, 3, b"no JSON", timestamp=far),
    ]
    done = commit_raw(session, pipeline, records)
    first, last = "0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999"
    expected = {(name, at, at, at[:10], "größer ≠ 漢字", SHARE) for name, at in [("first", first), ("last", last)]}
    assert in_the_table(session) == expected
    assert (done.total.inserted, done.total.quarantined) == (2, 2)

    assert report(pipeline, done.batch.batch_id)
    with reading("postgres_default") as cursor:
        known = read_ledger(cursor, ["orders"]).partitions["orders"]
        found = answers.batch_rows(cursor, "orders", answers.BatchFilter())
    assert [(p.partition, p.complete_to) for p in known if p.cursor] == [(0, latest)]
    assert [(b["batch_id"], b["max_timestamp"]) for b in found] == [(1, latest)]

    write_suite(tmp_path, *BOUNDS, in_set("quarantine", "word", "größer ≠ 漢字", "other"))
    redriven = plan_redrive(pipeline, RedriveChoice(reason="expect_column_values_to_be_in_set"), ME)
    assert redriven.batch
    stage_redrive(pipeline, redriven.batch.batch_id, ME)
    validate_or_raise(pipeline, redriven.batch.batch_id, ME)
    commit(pipeline, redriven.batch.batch_id, ME)
    assert in_the_table(session) == expected | {("odd", last, last, last[:10], "other", SHARE)}
    assert list_quarantined(pipeline, RedriveChoice(limit=5))[0]["records"] == 1
    assert verify(pipeline)[0] == []


def test_what_a_role_sets_does_not_reach_the_sessions_of_the_gate(
    session: Session, servers: Servers, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    role, database = servers.postgres.login, servers.postgres.schema
    for setting in ("client_encoding TO 'LATIN1'", "TimeZone TO 'America/New_York'", "idle_session_timeout TO '1ms'"):
        execute(servers.postgres, f"ALTER ROLE {role} IN DATABASE {database} SET {setting}")
    monkeypatch.setenv("PGTZ", "Europe/Berlin")
    monkeypatch.setenv("PGDATESTYLE", "German")
    done = commit_raw(session, pipeline, [Raw(0, 0, order("last", LAST)), Raw(0, 1, order("odd", FIRST, "größer"))])
    assert (done.total.inserted, done.total.quarantined) == (1, 1)


def test_the_gate_validates_what_was_staged_whatever_table_has_the_name_of_its_view(
    session: Session, servers: Servers, pipeline: Pipeline
) -> None:
    execute(
        servers.postgres,
        "CREATE TABLE public.staged AS SELECT 'odd' AS word, now() AS publish_at, now() AS moment,"
        " current_date AS day, 0 AS _partition, 7 AS _offset FROM generate_series(1, 5)",
    )
    done = commit_raw(session, pipeline, [Raw(0, 0, order("a", LAST)), Raw(0, 1, order("odd", FIRST, "größer"))])
    assert {row[0] for row in in_the_table(session)} == {"a"}
    assert done.total.quarantined == 1


def test_the_timeouts_of_a_connection_are_its_own(servers: Servers) -> None:
    given = replace(servers.postgres, extra={"options": "-c statement_timeout=12s -c TimeZone=Asia/Tokyo"})
    with connect(given) as session:
        assert rows(session, "SELECT current_setting('statement_timeout'), current_setting('TimeZone')") == [
            ["12s", "UTC"]
        ]


@pytest.mark.parametrize("where", ["DATABASE {database}", "ROLE {login} IN DATABASE {database}"])
def test_no_session_works_while_triggers_and_foreign_keys_are_off(
    servers: Servers, pipeline: Pipeline, where: str
) -> None:
    database, superuser = servers.postgres.schema, servers.superuser
    setting = f"ALTER {where.format(database=database, login=servers.postgres.login)} SET session_replication_role"
    execute(superuser, f"{setting} TO replica")
    refusal = r"session_replication_role is replica .*RESET session_replication_role"
    with pytest.raises(ConfigurationError, match=refusal), connect(servers.postgres):
        pass
    with connect(superuser) as session:  # a login that may set it: the session does
        assert rows(session, "SHOW session_replication_role") == [["origin"]]
    execute(superuser, setting.replace("SET", "RESET"))
    with connect(servers.postgres) as session:
        commit_raw(session, pipeline, [Raw(0, 0, order("last", LAST))])
        states = rows(session, "SELECT to_state FROM offset_ledger.batch_event ORDER BY event_id")
    assert [row[0] for row in states] == ["planned", "staging", "staged", "validated", "committed"]


# -- nothing that was set once in a session is trusted in a later transaction ---------------------------------


def test_each_transaction_begins_with_what_it_needs(servers: Servers) -> None:
    """Another client of the same backend has set all of it meanwhile, as behind a pooler."""
    other = {
        "TimeZone": "Asia/Tokyo",
        "DateStyle": "SQL, DMY",
        "IntervalStyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "-15",
        "quote_all_identifiers": "on",
        "default_transaction_isolation": "repeatable read",
    }
    needed = {
        "TimeZone": "UTC",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        "quote_all_identifiers": "off",
        "transaction_isolation": "read committed",
    }
    with connect(servers.postgres) as session:
        execute_in(session, "; ".join(f"SET {name} TO '{value}'" for name, value in other.items()))
        with transaction(session) as cursor:
            assert {name: cursor.execute(f"SHOW {name}").one()[0] for name in needed} == needed


def execute_in(session: Session, statements: str) -> None:
    """Run what another client of the same backend would."""
    session.autocommit = True
    session.cursor().execute(statements)
    session.autocommit = False


def test_triggers_that_another_client_has_switched_off_are_on_in_the_next_transaction(servers: Servers) -> None:
    with connect(servers.superuser) as session:
        execute_in(session, "SET session_replication_role TO replica")
        assert rows(session, "SHOW session_replication_role") == [["origin"]]


def test_a_session_whose_backend_was_reset_for_another_client_goes_on_with_nothing(servers: Servers) -> None:
    """Its locks and temporary tables are gone with its settings."""
    with connect(servers.postgres) as session:
        execute_in(session, "DISCARD ALL")
        with pytest.raises(ConfigurationError, match="pools transactions or statements, not sessions"):
            rows(session, "SELECT 1")


def test_sessions_read_values_that_python_lacks_as_texts(session: Session) -> None:
    read = rows(
        session,
        "SELECT '24:00:00'::time, '23:59:59.5'::time, 'infinity'::timestamptz, '0044-03-15 BC'::date, "
        "'294276-12-31 00:00:00+00'::timestamptz, '2026-01-02'::date, ARRAY['24:00:00', NULL]::time[], "
        "ARRAY['-infinity', '2026-01-02 00:00:00+00']::timestamptz[]",
    )
    lists = ["24:00:00", None], ["-infinity", datetime(2026, 1, 2, tzinfo=UTC)]
    far = "infinity", "0044-03-15 BC", "294276-12-31 00:00:00+00"
    assert read == [["24:00:00", time(23, 59, 59, 500_000), *far, date(2026, 1, 2), *lists]]
