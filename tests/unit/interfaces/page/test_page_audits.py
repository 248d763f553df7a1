"""What changed from one audit to the next, as the audit page shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.interfaces.page.views import RuleStatus, change_kinds, rule_statuses, summary
from offset_ledger.operations.audit.finding import Severity

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ERROR, WARNING, INFO, OK = Severity
SEVERITIES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(Severity))
OPPOSITE = {"new": "gone", "gone": "new", "worse": "better", "better": "worse", "still": "still"}


def expected(after: Severity | None, before: Severity | None) -> str | None:
    """Written apart from the code: what a person would call it."""
    broken, was_broken = after not in (None, OK), before not in (None, OK)
    if not broken and not was_broken:
        return None
    if broken and not was_broken:
        return "new"
    if was_broken and not broken:
        return "gone"
    order = [INFO, WARNING, ERROR]
    assert after is not None
    assert before is not None
    step = order.index(after) - order.index(before)
    return "worse" if step > 0 else "better" if step < 0 else "still"


@given(SEVERITIES, SEVERITIES)
def test_every_rule_that_failed_in_one_of_two_audits_has_its_kind_of_change(
    after: dict[str, Severity], before: dict[str, Severity]
) -> None:
    kinds = change_kinds(after, before)
    wanted = {rule: expected(after.get(rule), before.get(rule)) for rule in {*after, *before}}
    assert kinds == {rule: word for rule, word in wanted.items() if word}


@given(SEVERITIES, SEVERITIES)
def test_with_the_audits_swapped_every_change_is_its_opposite(
    after: dict[str, Severity], before: dict[str, Severity]
) -> None:
    assert change_kinds(before, after) == {rule: OPPOSITE[word] for rule, word in change_kinds(after, before).items()}


@given(SEVERITIES)
def test_the_first_audit_has_no_changes(after: dict[str, Severity]) -> None:
    assert change_kinds(after, None) == {}


def a_row(after: dict[str, str], before: dict[str, str] | None) -> dict[str, Any]:
    origin = {"who": "airflow:audit_topics.audit_orders", "dag_id": "audit_topics", "run_id": "r"}
    return {"audit_id": 7, "audited_at": NOON, **origin, "severities": after, "before": before}


def test_an_audit_in_one_line() -> None:
    after = {"a": "error", "b": "ok", "c": "warning", "d": "warning"}
    before = {"a": "warning", "b": "error", "c": "warning", "e": "info"}
    counts = {"error": 1, "warning": 2, "info": 0, "ok": 1}
    origin = {"who": "airflow:audit_topics.audit_orders", "dag_id": "audit_topics", "run_id": "r"}
    changes = {"worse": ["a"], "still": ["c"], "new": ["d"], "gone": ["b", "e"]}
    shown = {"audit_id": 7, "audited_at": NOON, **origin, "counts": counts, "changes": changes}
    assert summary(a_row(after, before)) == shown
    assert summary(a_row(after, None))["changes"] is None
    assert summary(a_row(after, after))["changes"] == {"still": ["a", "c", "d"]}


def test_the_result_of_each_rule_and_of_those_no_longer_checked() -> None:
    texts = {"found": "f", "risk": "r", "since": NOON}
    rows = [
        {"rule": "a", "severity": "error", "remedy": "m", **texts},
        {"rule": "b", "severity": "ok", "remedy": None, **texts},
    ]
    assert rule_statuses(rows, {"a": OK, "b": WARNING, "c": INFO, "d": OK}) == (
        RuleStatus("a", "error", "f", "r", "m", NOON, "new", "ok"),
        RuleStatus("b", "ok", "f", "r", None, NOON, "gone", "warning"),
        RuleStatus("c", None, "no longer checked", "", None, None, "gone", "info"),
    )
