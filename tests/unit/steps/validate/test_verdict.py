"""The verdict as a value."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from offset_ledger.steps.validate.suite import SuiteAction
from offset_ledger.steps.validate.verdict import ExpectationResult, GateVerdict, observed_text

FINDING = ExpectationResult(
    4, "expect_column_values_to_not_be_null", ("carrier",), SuiteAction.REJECT, "carrier is known", True, 10, 0
)
VERDICT = GateVerdict(True, (FINDING,), 90, 5, 5, 3, 0.1, (), (), 0.5, "suite", "00", "1.24.1", {"raw": 1})


@pytest.mark.parametrize(
    ("action", "sql", "rejects"),
    [
        (SuiteAction.REJECT, None, True),
        (SuiteAction.WARN, None, False),
        (SuiteAction.QUARANTINE, "SELECT 1, 1", False),
        (SuiteAction.QUARANTINE, None, True),
    ],
)
def test_a_failure_rejects_unless_it_only_warns_or_its_rows_are_named(
    action: SuiteAction, sql: str | None, rejects: bool
) -> None:
    assert replace(FINDING, action=action, success=False, quarantine_sql=sql).rejects is rejects
    assert not replace(FINDING, action=action).rejects


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({"unexpected": 3}, "carrier is known: 3 of 10 rows fail"),
        ({"unexpected": None, "observed": "0.5"}, "carrier is known: observed 0.5"),
        ({"unexpected": 3, "evaluated": None, "observed": "[1]"}, "carrier is known: observed [1]"),
        ({"unexpected": None}, "carrier is known: observed no value"),
        ({"exception": "no such operator"}, "carrier is known: Great Expectations raised: no such operator"),
    ],
)
def test_the_summary_contains_every_finding(changes: dict[str, object], summary: str) -> None:
    assert replace(FINDING, success=False, **changes).summary == summary  # type: ignore[arg-type]


def test_the_share_counts_refused_and_quarantined_among_all_records() -> None:
    assert VERDICT.quarantined_share == 0.08
    assert replace(VERDICT, rows=0, deleted=0, refused=0, quarantined=0).quarantined_share == 0


def test_the_verdict_is_json_without_the_raw_result() -> None:
    found = json.loads(VERDICT.to_json())
    assert "gx_result" not in found
    assert found["quarantined_share"] == 0.08
    assert found["findings"] == [
        {"line": 4, "type": "expect_column_values_to_not_be_null", "columns": ["carrier"], "action": "reject",
            "text": "carrier is known", "success": True, "evaluated": 10, "unexpected": 0, "unexpected_percent": None,
            "observed": None, "exception": None, "quarantine_sql": None, "reasons_sql": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), ("TEXT", "TEXT"), (1.5, "1.5"), ([1, "a"], '[1, "a"]'), ("x" * 201, "x" * 199 + "…")],
)
def test_an_observed_value_is_short_text(value: object, text: str | None) -> None:
    assert observed_text(value) == text
