"""Suite files: what is read, and that each mistake is found with its line."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.steps.validate.suite import SuiteAction, load_suite
from tests.paths import ROOT

COLUMNS = ("event_id", "carrier", "distance", "_partition", "_offset")
FLIGHTS_COLUMNS = (
    *("event_id", "publish_at", "status", "carrier", "flight_number", "tail_number", "origin", "destination"),
    *("flight_date", "scheduled_departure", "scheduled_arrival", "distance"),
    *("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"),
    *("_partition", "_offset", "_timestamp", "_key", "_headers", "_deleted", "_value"),
)
EXPECTATIONS = ROOT / "expectations"


def write(folder: Path, *entries: dict[str, Any]) -> Path:
    """A suite file with one expectation a line, the first on line 4."""
    path = folder / "suite.json"
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text('{\n"name": "suite",\n"expectations": [\n' + lines + "\n]\n}\n")
    return path


def not_null(column: str, **more: Any) -> dict[str, Any]:
    return {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": column}, **more}


def mistakes(path: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_suite(path, COLUMNS)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_the_suite_of_flights_is_as_great_expectations_writes_it() -> None:
    path = EXPECTATIONS / "flights.json"
    suite = load_suite(path, FLIGHTS_COLUMNS)
    assert (suite.name, suite.sha256) == ("flights", hashlib.sha256(path.read_bytes()).hexdigest())

    from great_expectations import ExpectationSuite

    written = ExpectationSuite(**json.loads(path.read_text())).to_json_dict()
    assert {**json.loads(path.read_text()), "id": None} == written


def test_what_fails_is_done_as_meta_says_and_else_as_the_severity_says(tmp_path: Path) -> None:
    path = write(tmp_path, not_null("carrier", meta={"action": "quarantine"}, severity="critical"),
        not_null("carrier", severity="critical"), not_null("carrier", severity="warning"),
        not_null("carrier", severity="info"), not_null("carrier"))  # fmt: skip
    found = [(each.line, each.action) for each in load_suite(path, COLUMNS).expectations]
    assert found == [
        (4, SuiteAction.QUARANTINE), (5, SuiteAction.REJECT), (6, SuiteAction.WARN), (7, SuiteAction.WARN),
        (8, SuiteAction.REJECT),
    ]  # fmt: skip


def test_all_mistakes_come_together_each_with_its_line(tmp_path: Path) -> None:
    condition = {"type": "comparison", "column": {"name": "statos"}, "operator": "==", "parameter": "x"}
    path = write(
        tmp_path,
        not_null("carier"),
        {"type": "expect_column_values_to_not_be_nul", "kwargs": {"column": "carrier"}},
        not_null("carrier", meta={"action": "drop"}),
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "meta": {"action": "quarantine"}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "carrier"}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier", "row_condition": condition}},
        not_null("carrier", severity="terrible"),
        {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "SELECT 1"}},
    )
    assert mistakes(path) == [
        "4: column 'carier' is not in the staging table; did you mean 'carrier'?",
        "5: 'expect_column_values_to_not_be_nul' is not an expectation type that Great Expectations knows; "
        "did you mean expect_column_values_to_not_be_null?",
        "6: action: expected one of quarantine, reject, warn, found 'drop'",
        "7: quarantine needs an expectation about single rows; use reject or warn here",
        "8: value_set: field required",
        "9: column 'statos' is not in the staging table; the columns are event_id, carrier, distance, _partition, "
        "_offset",
        "10: Invalid severity 'terrible'. Must be one of: critical, warning, info",
        "11: the query must read FROM {batch}, the staged rows",
    ]


@pytest.mark.parametrize(
    ("where", "mistake"),
    [
        ("""carrier::jsonb @> '{{"a": 2}}'""", None),
        ("""carrier::jsonb @> '{{"a"\\:2}}' AND carrier <> 'k:v'""", None),
        ("""carrier::jsonb @> '{{"a":2}}'""",
            "the query has a parameter :2 for SQLAlchemy; write a blank after the colon, or \\: for it"),
        ("carrier = 'a--b' -- but for these",
            "the query ends in a comment, and Great Expectations writes behind it; drop it"),
        ("carrier -- the code\n= 'a--b'", None),
        ("""carrier::jsonb @> '{"a": 2}'""",
            "the braces of the query are those of a template; write {{ and }} for its own"),
    ],
)  # fmt: skip
def test_a_query_is_what_great_expectations_can_run(tmp_path: Path, where: str, mistake: str | None) -> None:
    """Otherwise each batch would be rejected with the text of an exception (findings/gx-query-colon.sh)."""
    query = f"SELECT * FROM {{batch}} WHERE {where}"
    path = write(tmp_path, {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}})
    assert (mistakes(path) if mistake else load_suite(path, COLUMNS).name and []) == (
        [f"4: {mistake}"] if mistake else []
    )


QUARANTINE = {"meta": {"action": "quarantine"}}
NO_ROWS = "quarantine needs an expectation about single rows; use reject or warn here"
UNABLE = "Great Expectations cannot run {} on Postgres, where the rows are; use another expectation"


@pytest.mark.parametrize(
    ("kind", "kwargs", "more", "mistake"),
    [
        ("mean_to_be_between", {"min_value": 1}, QUARANTINE, NO_ROWS),
        ("values_to_be_of_type", {"type_": "INTEGER"}, QUARANTINE, NO_ROWS),
        ("values_to_not_be_null", {"mostly": 0.9}, QUARANTINE,
            "quarantine moves each failing row, so mostly says nothing; remove it "
            "(quality.max_quarantined_share is the limit) or use reject"),
        *((kind, {}, {}, UNABLE.format(f"expect_column_{kind}"))
            for kind in ("values_to_be_increasing", "values_to_be_dateutil_parseable")),
        ("values_to_not_be_null", {"result_format": "COMPLETE"}, {},
            "result_format is not allowed in a suite: the gate chooses it; remove it"),
        ("values_to_not_be_null", {"catch_exceptions": False}, {},
            "catch_exceptions is not allowed in a suite: an exception is always a failure; remove it"),
        ("values_to_be_in_set", {"value_set": {"$PARAMETER": "known"}}, {},
            "parameter 'known' is not supplied here; write the value itself"),
    ],
)  # fmt: skip
def test_what_the_gate_cannot_run_is_refused_when_the_file_is_read(
    tmp_path: Path, kind: str, kwargs: dict[str, Any], more: dict[str, Any], mistake: str
) -> None:
    entry = {"type": f"expect_column_{kind}", "kwargs": {"column": "distance", **kwargs}, **more}
    assert mistakes(write(tmp_path, entry)) == [f"4: {mistake}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{\n"name": "x"\n"y": 1}', ["3: not valid JSON: Expecting ',' delimiter; correct the syntax"]),
        ('{"name": "x",\n"name": "y"}', ["2: key 'name' stands twice in one object; keep one of them"]),
        ("[]", ["1: expected an object with name and expectations, found a list"]),
        ('{"name": "",\n"expectations": [],\n"expectation": 1}',
            ["1: name: expected the name of the suite as text; add it",
                "2: expectations: expected a list with at least one expectation; add one",
                "3: 'expectation' is not a known key; known are expectations, id, meta, name, notes, suite_parameters"
            ]),
        ('{"name": "x", "expectations": [\n3,\n{"type": "expect_column_to_exist", "kwargs": []},\n'
            '{"type": "expect_column_to_exist", "kwargs":\n["carrier"]}]}',
            ["2: expected an expectation object, found a number", "3: column: field required",
                "5: kwargs: expected an object, found a list"]),
    ],
)  # fmt: skip
def test_other_shapes_are_mistakes(tmp_path: Path, text: str, found: list[str]) -> None:
    path = tmp_path / "suite.json"
    path.write_text(text)
    assert mistakes(path) == found


def test_great_expectations_is_imported_only_when_a_suite_is_read() -> None:
    modules = "offset_ledger.steps.validate.gate, offset_ledger.steps.report.step"
    code = f"import sys, {modules}; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no such suite file; create it or change quality\.suite"):
        load_suite(tmp_path / "none.json", COLUMNS)


def test_an_expectation_may_wait_for_its_column(tmp_path: Path) -> None:
    later = not_null("gate", meta={"once_declared": True, "action": "reject"})
    assert mistakes(write(tmp_path, not_null("gate"), not_null("carrier")))
    path = write(tmp_path, later, not_null("carrier"))
    assert [each.columns for each in load_suite(path, COLUMNS).expectations] == [("carrier",)]
    declared = [each.columns for each in load_suite(path, (*COLUMNS, "gate")).expectations]
    assert declared == [("gate",), ("carrier",)]
    wrong = mistakes(write(tmp_path, not_null("carrier", meta={"once_declared": "yes"})))
    assert wrong == ["4: once_declared: expected true or false, found 'yes'"]
