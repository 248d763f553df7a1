"""The gate on real Postgres: what Great Expectations finds is what hand-written SQL finds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest
from msgspec import UNSET

from offset_ledger.errors import DatabaseUnavailable, IncompleteStaging
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.steps.validate.gate import run_gate
from offset_ledger.steps.validate.suite import Suite, SuiteAction, load_suite
from offset_ledger.steps.validate.verdict import GateVerdict
from offset_ledger_kit.publishing.flights import Actual, Event, events_of, read_rows, winning_events
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import new_database
from tests.paths import ROOT

SCHEMA = "offset_ledger_staging"
FLIGHTS = ROOT / "expectations" / "flights.json"
DECLARED = """
    event_id text, publish_at timestamptz, status text, carrier text, flight_number integer, tail_number text,
    origin varchar(3), destination varchar(3), flight_date date, scheduled_departure timestamptz,
    scheduled_arrival smallint, distance integer, dep_time smallint, dep_delay integer, arr_time smallint,
    arr_delay integer, air_time integer
"""
KAFKA = "_partition integer, _offset bigint, _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean"
COLUMNS = [column.split()[0] for column in f"{DECLARED}, {KAFKA}, _value bytea".split(",")]

Session = psycopg2.extensions.connection
Arguments = dict[str, str | int]
Places = set[tuple[int, int]]


@pytest.fixture(scope="module")
def arguments(shared_stack: Stack) -> Iterator[Arguments]:
    """What psycopg2.connect takes to reach a database of this module."""
    with new_database(shared_stack) as made:
        yield postgres_arguments(made)


@pytest.fixture(scope="module")
def session(arguments: Arguments) -> Iterator[Session]:
    opened = psycopg2.connect(**arguments, client_encoding="UTF8")
    opened.autocommit = True
    with opened.cursor() as cursor:
        cursor.execute("SET standard_conforming_strings = on")  # hand-written SQL has backslashes
    yield opened
    opened.close()


def query(session: Session, statement: str) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def stage(session: Session, table: str, values: str) -> None:
    """A small staging table: (a, b, text, _deleted), one partition, offsets from 0."""
    with session.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {SCHEMA}.{table}")
        cursor.execute(f'CREATE UNLOGGED TABLE {SCHEMA}.{table} (a integer, b integer, "Text" text, {KAFKA})')
        cursor.execute(
            f'INSERT INTO {SCHEMA}.{table} (a, b, "Text", _deleted, _partition, _offset) '
            f"SELECT v.*, 0, row_number() OVER () - 1 FROM (VALUES {values}) AS v"
        )


ROWS = """
    (1, 1, 'one', false), (2, 1, 'two', false), (NULL, 5, NULL, false), (4, NULL, '100%', false),
    (4, 4, '50%%', false), (NULL, NULL, '%', false), (99, 5, E'it''s \\\\ "q"', false), (-7, -8, '', false),
    (NULL, NULL, NULL, true), (NULL, NULL, NULL, true)
"""
DELETED = 2


@pytest.fixture(scope="module")
def small(session: Session) -> int:
    """The table ``small``; its number of rows."""
    stage(session, "small", ROWS)
    return 10


def suite_of(folder: Path, *entries: dict[str, Any]) -> Suite:
    path = folder / "suite.json"
    path.write_text(json.dumps({"name": "suite", "expectations": entries}))
    return load_suite(path, ["a", "b", "Text", "_partition", "_offset", "_deleted"])


def entry(kind: str, action: SuiteAction, **kwargs: object) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "meta": {"action": str(action)}}


def where(column: str, operator: str, parameter: object) -> dict[str, object]:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


def to_quarantine(session: Session, verdict: GateVerdict) -> Places:
    return {tuple(row) for found in verdict.quarantines for row in query(session, str(found.quarantine_sql))}


BETWEEN = "expect_column_values_to_be_between"
NOT_NULL = "expect_column_values_to_not_be_null"


@pytest.mark.parametrize(
    ("kind", "kwargs", "failing"),
    [
        (NOT_NULL, {"column": "a"}, "a IS NULL"),
        ("expect_column_values_to_be_null", {"column": "b"}, "b IS NOT NULL"),
        (BETWEEN, {"column": "a", "min_value": 1, "max_value": 10}, "a NOT BETWEEN 1 AND 10"),
        (BETWEEN, {"column": "a", "max_value": 1, "row_condition": where("b", ">", 3)}, "b > 3 AND a > 1"),
        (NOT_NULL, {"column": "a", "row_condition": where("b", "==", 5)}, "b = 5 AND a IS NULL"),
        (
            "expect_column_values_to_be_in_set",
            {"column": "Text", "value_set": ["one", "two", 'it\'s \\ "q"', ""]},
            """ "Text" NOT IN ('one', 'two', E'it''s \\\\ "q"', '') """,
        ),
        (
            "expect_column_values_to_match_regex",
            {"column": "Text", "regex": "^[a-z%]*$"},
            """ "Text" !~ '^[a-z%]*$' """,
        ),
        (
            "expect_column_values_to_not_match_like_pattern",
            {"column": "Text", "like_pattern": "%0\\%"},
            """ "Text" LIKE '%0\\%' """,
        ),
        ("expect_column_values_to_be_unique", {"column": "a"}, "a = 4"),
        (
            "expect_column_values_to_be_unique",
            {"column": "a", "row_condition": where("b", ">", 1)},
            "false",
        ),
        (
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": "a", "column_B": "b", "or_equal": False},
            "a <= b",
        ),
        ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b"}, "a IS DISTINCT FROM b"),
        ("expect_compound_columns_to_be_unique", {"column_list": ["a", "b"]}, "false"),
        (BETWEEN, {"column": "_offset", "min_value": 3}, "_offset < 3"),
    ],
)
def test_the_rows_that_fail_are_those_of_hand_written_sql(
    session: Session, arguments: Arguments, small: int, tmp_path: Path, kind: str, kwargs: dict[str, Any], failing: str
) -> None:
    suite = suite_of(tmp_path, entry(kind, SuiteAction.QUARANTINE, **kwargs))
    verdict = run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    by_hand = set(query(session, f"SELECT _partition, _offset FROM {SCHEMA}.small WHERE NOT _deleted AND ({failing})"))
    (finding,) = verdict.findings
    assert (finding.exception, finding.unexpected, finding.success) == (None, len(by_hand), not by_hand)
    assert to_quarantine(session, verdict) == by_hand
    assert (verdict.success, verdict.quarantined, verdict.reasons) == (True, len(by_hand), ())


def test_reject_and_warn_and_quarantine_each_do_their_own(
    session: Session, arguments: Arguments, small: int, tmp_path: Path
) -> None:
    suite = suite_of(
        tmp_path,
        entry(NOT_NULL, SuiteAction.WARN, column="a"),
        entry(NOT_NULL, SuiteAction.REJECT, column="b"),
        entry(NOT_NULL, SuiteAction.QUARANTINE, column="a"),
        entry(BETWEEN, SuiteAction.QUARANTINE, column="a", max_value=10),
        entry(NOT_NULL, SuiteAction.REJECT, column="_offset"),
    )
    verdict = run_gate(suite, arguments, SCHEMA, "small", row_count=small, refused=2, max_quarantined_share=0.4)
    assert verdict.reasons == (
        f'{NOT_NULL}(column="b"): 2 of 8 rows fail',
        "quarantined share 41.6667% is above the limit of 40% "
        "(2 refused by the decoder, 3 failed quarantine expectations)",
    )
    assert verdict.notes == (
        f'warning: {NOT_NULL}(column="a"): 2 of 8 rows fail',
        f'quarantine: {NOT_NULL}(column="a"): 2 of 8 rows fail',
        f'quarantine: {BETWEEN}(column="a", max_value=10): 1 of 8 rows fail',
    )
    assert not verdict.success
    assert to_quarantine(session, verdict) == {(0, 2), (0, 5), (0, 6)}
    assert [(each.success, each.evaluated, each.unexpected) for each in verdict.findings] == [
        (False, 8, 2),
        (False, 8, 2),
        (False, 8, 2),
        (False, 8, 1),
        (True, 8, 0),
    ]
    assert json.loads(verdict.to_json())["suite_sha256"] == suite.sha256


def test_a_row_that_fails_twice_is_quarantined_once(
    session: Session, arguments: Arguments, small: int, tmp_path: Path
) -> None:
    twice = [entry(NOT_NULL, SuiteAction.QUARANTINE, column=column) for column in ("a", "b")]
    verdict = run_gate(suite_of(tmp_path, *twice), arguments, SCHEMA, "small", row_count=small)
    assert [each.unexpected for each in verdict.quarantines] == [2, 2]
    assert (verdict.quarantined, to_quarantine(session, verdict)) == (3, {(0, 2), (0, 3), (0, 5)})


def test_mostly_lets_a_share_of_the_rows_fail(arguments: Arguments, small: int, tmp_path: Path) -> None:
    shares = [entry(NOT_NULL, SuiteAction.REJECT, column="a", mostly=share) for share in (0.75, 0.76)]
    verdict = run_gate(suite_of(tmp_path, *shares), arguments, SCHEMA, "small", row_count=small)
    assert [(each.success, each.unexpected_percent) for each in verdict.findings] == [(True, 25.0), (False, 25.0)]


def test_expectations_on_the_whole_see_no_delete_markers(arguments: Arguments, small: int, tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path,
        entry("expect_table_row_count_to_equal", SuiteAction.REJECT, value=small - DELETED),
        entry("expect_column_values_to_be_of_type", SuiteAction.REJECT, column="a", type_="INTEGER"),
        entry("expect_column_mean_to_be_between", SuiteAction.REJECT, column="a", min_value=1000),
        entry(
            "unexpected_rows_expectation",
            SuiteAction.WARN,
            unexpected_rows_query="SELECT 1 FROM {batch} WHERE _deleted",
        ),
    )
    verdict = run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    assert [(each.success, each.observed) for each in verdict.findings] == [
        (True, "8"),
        (True, "INTEGER"),
        (False, "17.166666666666668"),
        (True, "0"),
    ]
    assert (verdict.rows, verdict.deleted) == (8, DELETED)


@pytest.mark.parametrize("action", list(SuiteAction))
def test_an_exception_in_great_expectations_is_a_failure(
    arguments: Arguments, small: int, tmp_path: Path, action: SuiteAction
) -> None:
    suite = suite_of(tmp_path, entry("expect_column_values_to_match_regex", action, column="a", regex="x"))
    verdict = run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    (finding,) = verdict.findings
    assert "operator does not exist: integer ~ unknown" in str(finding.exception)
    assert (finding.success, finding.quarantine_sql) == (False, None)
    assert verdict.success is (action is SuiteAction.WARN)


def test_the_query_of_the_failing_rows_is_compared_with_their_count(
    session: Session, arguments: Arguments, tmp_path: Path
) -> None:
    """Two rows of one offset cannot be told apart: the batch is rejected, and nothing is moved."""
    stage(session, "twins", "(NULL::integer, 1, 'x', false), (NULL, 2, 'x', false), (3, 3, 'x', false)")
    with session.cursor() as cursor:
        cursor.execute(f"UPDATE {SCHEMA}.twins SET _offset = 0")
    suite = suite_of(tmp_path, entry(NOT_NULL, SuiteAction.QUARANTINE, column="a"))
    verdict = run_gate(suite, arguments, SCHEMA, "twins", row_count=3)
    assert verdict.reasons == (
        f'{NOT_NULL}(column="a"): Great Expectations raised: it counted 2 failing rows and its query selects 1',
    )
    assert (verdict.quarantines, verdict.quarantined) == ((), 0)


@pytest.mark.parametrize("values", ["(NULL::integer, NULL::integer, NULL, true)", "(1, 1, 'x', false)"])
def test_without_a_row_to_validate_no_expectation_fails(
    session: Session, arguments: Arguments, tmp_path: Path, values: str
) -> None:
    stage(session, "bare", values)
    with session.cursor() as cursor:
        cursor.execute(f"DELETE FROM {SCHEMA}.bare WHERE NOT _deleted")
    ((deleted,),) = query(session, f"SELECT count(*) FROM {SCHEMA}.bare")
    suite = suite_of(
        tmp_path,
        entry("expect_table_row_count_to_be_between", SuiteAction.REJECT, min_value=1),
        entry(NOT_NULL, SuiteAction.QUARANTINE, column="a"),
    )
    verdict = run_gate(suite, arguments, SCHEMA, "bare", row_count=deleted)
    assert (verdict.success, verdict.rows, verdict.deleted) == (True, 0, deleted)
    assert [(each.success, each.evaluated) for each in verdict.findings] == [(True, 0), (True, 0)]
    refused = run_gate(suite, arguments, SCHEMA, "bare", row_count=deleted, refused=9, max_quarantined_share=0.5)
    assert not refused.success


def test_without_a_suite_only_the_share_counts(arguments: Arguments, small: int) -> None:
    shares = [
        run_gate(None, arguments, SCHEMA, "small", row_count=small, refused=2, max_quarantined_share=s)
        for s in (0.2, 0.1)
    ]
    assert [(each.success, each.findings) for each in shares] == [(True, ()), (False, ())]


def test_a_table_that_lost_its_rows_gets_no_verdict(session: Session, arguments: Arguments) -> None:
    stage(session, "emptied", "(1, 1, 'x', false)")
    with session.cursor() as cursor:
        cursor.execute(f"TRUNCATE {SCHEMA}.emptied")
    with pytest.raises(IncompleteStaging, match="expected 1 row, found 0; stage again"):
        run_gate(None, arguments, SCHEMA, "emptied", row_count=1)
    with pytest.raises(IncompleteStaging, match="expected 1 row, found no table; stage again"):
        run_gate(None, arguments, SCHEMA, "gone", row_count=1)


def test_a_lost_session_gets_no_verdict(arguments: Arguments, small: int, tmp_path: Path) -> None:
    ends_its_session = "SELECT pg_terminate_backend(pg_backend_pid()) FROM {batch}"
    suite = suite_of(
        tmp_path, entry("unexpected_rows_expectation", SuiteAction.REJECT, unexpected_rows_query=ends_its_session)
    )
    with pytest.raises(DatabaseUnavailable, match="Great Expectations lost its session"):
        run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    with pytest.raises(DatabaseUnavailable, match="was lost"):
        run_gate(None, {**arguments, "port": 1}, SCHEMA, "small", row_count=small)


def test_the_session_of_great_expectations_cannot_write(
    session: Session, arguments: Arguments, small: int, tmp_path: Path
) -> None:
    with session.cursor() as cursor:
        cursor.execute(f"CREATE SEQUENCE {SCHEMA}.counted")
    writes = f"SELECT nextval('{SCHEMA}.counted') FROM {{batch}}"
    suite = suite_of(tmp_path, entry("unexpected_rows_expectation", SuiteAction.REJECT, unexpected_rows_query=writes))
    verdict = run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    assert "cannot execute nextval() in a read-only transaction" in verdict.reasons[0]


def test_the_application_name_is_that_of_the_caller(arguments: Arguments, small: int, tmp_path: Path) -> None:
    """So that a later claim, which ends the sessions of lower epochs by that name, ends this one too."""
    other = "SELECT 1 FROM {batch} WHERE current_setting('application_name') <> 'offset-ledger b1 e2 validate'"
    suite = suite_of(tmp_path, entry("unexpected_rows_expectation", SuiteAction.REJECT, unexpected_rows_query=other))
    named = {**arguments, "application_name": "offset-ledger b1 e2 validate"}
    assert run_gate(suite, named, SCHEMA, "small", row_count=small).success


def test_the_gate_prints_and_logs_nothing(
    arguments: Arguments,
    small: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    suite = suite_of(tmp_path, entry("expect_column_values_to_match_regex", SuiteAction.REJECT, column="a", regex="x"))
    run_gate(suite, arguments, SCHEMA, "small", row_count=small)
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


def test_a_validated_table_can_be_dropped_at_once(session: Session, arguments: Arguments, tmp_path: Path) -> None:
    """Nothing of the gate depends on the table any more, however slowly the server ends closed sessions."""
    suite = suite_of(tmp_path, entry(NOT_NULL, SuiteAction.QUARANTINE, column="a"))
    left = "SELECT relname FROM pg_class WHERE relpersistence = 't' AND relkind = 'v'"
    for _ in range(20):
        stage(session, "dropped", ROWS)
        run_gate(suite, arguments, SCHEMA, "dropped", row_count=10)
        assert query(session, left) == []
        with session.cursor() as cursor:
            cursor.execute(f"DROP TABLE {SCHEMA}.dropped")


# -- the suite of the flights ----------------------------------------------------------------------------------


def published() -> Iterator[Event]:
    """The newest event of every flight, and the earlier ones of the first 20,000."""
    yield from winning_events()
    for row in read_rows(20_000):
        yield from events_of(row)[:-1]


def staged_row(place: int, event: Event) -> list[object]:
    flight, schedule = event.flight, event.schedule
    actual = Actual() if event.actual is UNSET else event.actual
    return [
        *(event.event_id, event.publish_at, event.status, flight.carrier, flight.number, flight.tailnum, flight.origin),
        *(flight.dest, schedule.date, schedule.dep, schedule.arr_time, event.distance),
        *(actual.dep_time, actual.dep_delay, actual.arr_time, actual.arr_delay, actual.air_time),
        *(place % 8, place // 8, event.publish_at, None, None, False, None),
    ]


@pytest.fixture(scope="module")
def staged_flights(session: Session) -> int:
    """The table ``flights``; its number of rows."""
    text = io.StringIO()
    csv.writer(text).writerows(staged_row(place, event) for place, event in enumerate(published()))
    text.seek(0)
    with session.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {SCHEMA}.flights ({DECLARED}, {KAFKA}, _value bytea)")
        cursor.copy_expert(f"COPY {SCHEMA}.flights FROM STDIN WITH (FORMAT csv)", text)
        return cursor.rowcount


@pytest.fixture(scope="module")
def verdict_of_flights(arguments: Arguments, staged_flights: int) -> GateVerdict:
    return run_gate(
        load_suite(FLIGHTS, COLUMNS), arguments, SCHEMA, "flights", row_count=staged_flights, max_quarantined_share=0
    )


def test_the_suite_of_flights_passes_on_the_events_that_are_published(
    verdict_of_flights: GateVerdict, staged_flights: int
) -> None:
    verdict = verdict_of_flights
    assert (verdict.success, verdict.reasons, verdict.notes, verdict.rows) == (True, (), (), staged_flights)
    assert [each.exception for each in verdict.findings] == [None] * 11


BREAK = {
    "status": "status = 'lost'",
    "origin": "origin = 'BOS'",
    "destination": "destination = 'XX'",
    "carrier": "carrier = 'ua'",
    "scheduled_departure": "scheduled_departure = NULL",
    "flight_date": "flight_date = '2014-01-01'",
    "distance": "distance = 0",
    "arr_time": "status = 'arrived', arr_time = NULL",
    "too early": "status = 'scheduled', arr_time = 1",
}


@pytest.mark.usefixtures("staged_flights")
@pytest.mark.parametrize("broken", BREAK)
def test_each_expectation_of_flights_finds_its_own_mistake(session: Session, arguments: Arguments, broken: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {SCHEMA}.broken")
        cursor.execute(f"CREATE UNLOGGED TABLE {SCHEMA}.broken AS SELECT * FROM {SCHEMA}.flights WHERE _offset < 125")
        cursor.execute(
            f"UPDATE {SCHEMA}.broken SET tail_number = 'N1', (_partition, _offset) = (9, 9) WHERE ctid = '(0,1)'"
        )
        cursor.execute(f"UPDATE {SCHEMA}.broken SET {BREAK[broken]} WHERE _partition = 9")
    verdict = run_gate(load_suite(FLIGHTS, COLUMNS), arguments, SCHEMA, "broken", row_count=1000)
    failed = [each for each in verdict.findings if not each.success]
    column = "arr_time" if broken == "too early" else broken
    assert [(each.columns, each.unexpected, each.exception) for each in failed] == [((column,), 1, None)]
    rejected = failed[0].action is SuiteAction.REJECT
    assert verdict.success is not rejected
    assert to_quarantine(session, verdict) == (set() if rejected else {(9, 9)})


@pytest.mark.usefixtures("staged_flights")
def test_a_delay_beyond_all_bounds_needs_more_than_one_in_a_thousand_rows(
    session: Session, arguments: Arguments
) -> None:
    suite = load_suite(FLIGHTS, COLUMNS)
    with session.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {SCHEMA}.delays AS SELECT * FROM {SCHEMA}.flights WHERE _offset < 125")
        cursor.execute(
            f"UPDATE {SCHEMA}.delays SET status = 'arrived', dep_delay = 0, arr_time = 1, tail_number = 'N1'"
        )
        outcomes = []
        for late in (1, 2):
            cursor.execute(
                f"UPDATE {SCHEMA}.delays SET dep_delay = 1441 WHERE (_partition, _offset) IN "
                f"(SELECT _partition, _offset FROM {SCHEMA}.delays ORDER BY 1, 2 LIMIT {late})"
            )
            verdict = run_gate(suite, arguments, SCHEMA, "delays", row_count=1000)
            outcomes.append((verdict.success, [each.columns for each in verdict.findings if not each.success]))
    assert outcomes == [(True, []), (False, [("dep_delay",)])]


def test_the_same_rows_get_the_same_verdict(
    arguments: Arguments, verdict_of_flights: GateVerdict, staged_flights: int
) -> None:
    again = run_gate(
        load_suite(FLIGHTS, COLUMNS), arguments, SCHEMA, "flights", row_count=staged_flights, max_quarantined_share=0
    )
    assert replace(again, seconds=0) == replace(verdict_of_flights, seconds=0)
