"""The messages when something is wrong: the error's name, the place, and what to do."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from kafka import errors as kafka_errors
from psycopg2 import OperationalError

from offset_ledger.errors import AccessDenied, BrokerUnavailable, ConfigurationError, Fenced, TerminalError
from offset_ledger.interfaces.cli.output import table
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.errors import unavailable as kafka_unavailable
from offset_ledger.postgres.ledger.database import _is_away, check_applied, check_server
from offset_ledger.postgres.ledger.sqlstates import meaning
from offset_ledger.steps.stage.readers import classify
from offset_ledger_kit.cli.main import main

WRONG = """
pipeline: orders
source: {connection: kafka_default, topic: t}
record: {event_ids: $.id, event_id: $.id, publish_at: $.at, columns: {state: txt}}
target: {connection: postgres_default, table: public.orders}
"""


def test_an_error_begins_with_the_name_that_the_runbook_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "no/such.yaml"]) == 1
    assert capsys.readouterr().err.startswith(
        "offset-ledger: ConfigurationError: there is no pipeline file no/such.yaml"
    )


def test_mistakes_of_a_file_each_begin_with_their_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(WRONG)
    assert main(["check", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{path}:4"] * 2


def test_a_missing_connection_leads_to_the_local_stack_where_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "airflow.sdk", raising=False)  # which another test may have imported
    for conn_id in ("kafka_default", "kafka_other"):
        monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id.upper()}", raising=False)
    (tmp_path / "env").write_text("export AIRFLOW_CONN_KAFKA_DEFAULT=x\n")
    with pytest.raises(ConfigurationError, match=f"as `. {tmp_path}/env` does for the local stack$"):
        get_connection("kafka_default")
    with pytest.raises(ConfigurationError, match=r"set AIRFLOW_CONN_KAFKA_OTHER$"):
        get_connection("kafka_other")


def test_tables_have_moments_in_utc_to_the_second() -> None:
    noon = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    shown = table([{"at": noon}, {"at": noon.astimezone(timezone(timedelta(hours=5)))}, {"at": None}])
    assert shown.split()[2:] == ["2026-01-01", "12:00:00Z"] * 2


@pytest.mark.parametrize(
    ("state", "message", "kind", "terminal"),
    [
        ("54000", "index row size 5000 exceeds", "LedgerViolation", True),
        ("23514", "violates check constraint", "LedgerViolation", True),
        ("P0001", "not today", "LedgerViolation", True),
        ("0A000", "MERGE is not supported for relations with rules.", "TargetMismatch", True),
        ("57014", "canceling statement due to statement timeout", "ConfigurationError", True),
        ("53400", "temporary file size exceeds temp_file_limit", "ConfigurationError", True),
        ("42501", "permission denied for table orders", "AccessDenied", True),
        ("57014", "canceling statement due to user request", "TransientError", False),
        ("40P01", "deadlock detected", "TransientError", False),
        ("55P03", "canceling statement due to lock timeout", "TransientError", False),
        ("53100", "could not extend file", "DatabaseFull", False),
        ("53200", "out of memory", "DatabaseUnavailable", False),
        ("25006", "cannot execute UPDATE in a read-only transaction", "DatabaseUnavailable", False),
    ],
)
def test_what_stays_wrong_is_not_tried_again(state: str, message: str, kind: str, terminal: bool) -> None:
    known = meaning(state, message)
    assert known
    assert (known.kind.__name__, issubclass(known.kind, TerminalError)) == (kind, terminal)


@pytest.mark.parametrize("state", [None, "57P01", "57P03", "08006", "42P01", "22003"])
def test_what_a_state_alone_does_not_say_is_left_to_the_statement(state: str | None) -> None:
    assert meaning(state) is None


@pytest.mark.parametrize(
    ("message", "away"),
    [
        ('FATAL:  password authentication failed for user "x"', False),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "x", database "d", SSL off', False),
        ('FATAL:  permission denied for database "d"', False),
        ('FATAL:  role "x" is not permitted to log in', False),
        ('FATAL:  role "x" does not exist', False),
        ("fe_sendauth: no password supplied", False),
        ('FATAL:  database "d" does not exist', False),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ("connection refused", True),
    ],
)
def test_postgres_is_waited_for_only_where_that_may_help(message: str, away: bool) -> None:
    assert _is_away(OperationalError(message)) is away


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (kafka_errors.TopicAuthorizationFailedError("orders"), AccessDenied),
        (kafka_errors.GroupAuthorizationFailedError("group"), AccessDenied),
        (kafka_errors.SaslAuthenticationFailedError("no"), AccessDenied),
        (kafka_errors.KafkaTimeoutError("slow"), BrokerUnavailable),
    ],
)
def test_a_right_that_kafka_refuses_is_no_absence(error: kafka_errors.KafkaError, kind: type[Exception]) -> None:
    assert type(kafka_unavailable("kafka:9092", error)) is kind


def test_of_an_error_of_this_project_and_its_causes_the_error_is_reported() -> None:
    text = (
        "offset_ledger.errors.DatabaseUnavailable: Postgres is not available\n\nThe above exception was the direct "
        "cause of the following exception:\n\noffset_ledger.errors.Fenced: batch 1 of orders: claimed epoch 2\n"
    )
    error = classify(RuntimeError(f"job failed\n{text}"))
    assert (type(error), str(error)) == (Fenced, "batch 1 of orders: claimed epoch 2")


def test_an_old_postgres_is_reported_before_anything_is_created() -> None:
    check_server(150000)
    for check in (check_server, partial(check_applied, {})):
        with pytest.raises(ConfigurationError, match=r"PostgreSQL 15 or newer is needed, found 14\.19"):
            check(140019)


def test_a_database_without_a_ledger_is_no_list_of_migrations() -> None:
    with pytest.raises(ConfigurationError, match=r"^the database has no ledger yet; run: offset-ledger migrate$"):
        check_applied({}, 180004)


def test_a_table_leaves_out_the_effects_that_no_row_has() -> None:
    rows = [
        {"partition": 0, "inserted": 1, "gap": 0, "skipped": 0},
        {"partition": 0, "inserted": 0, "gap": 2, "skipped": 0},
    ]
    assert table(rows).splitlines()[0].split() == ["partition", "inserted", "gap"]
    still_open = {"partition": 1, "inserted": None, "gap": None, "skipped": None}
    assert table([*rows, still_open]).splitlines()[0].split() == ["partition", "inserted", "gap"]
    assert table([{"records": 1, "in_redrive": 0}]).splitlines()[0].split() == ["records"]
    assert table([{"records": 0, "in_redrive": 2}]).splitlines()[0].split() == ["records", "in_redrive"]
