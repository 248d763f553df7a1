"""What changed from one audit to the next, as the page of audits tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.page.audits import Judged, Line, judged, line, words
from offset_ledger.reliability.audit.finding import Severity

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ERROR, WARNING, INFO, OK = Severity
SAID = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(Severity))
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


@given(SAID, SAID)
def test_every_rule_that_one_of_two_audits_found_broken_has_its_word(
    after: dict[str, Severity], before: dict[str, Severity]
) -> None:
    told = words(after, before)
    wanted = {rule: expected(after.get(rule), before.get(rule)) for rule in {*after, *before}}
    assert told == {rule: word for rule, word in wanted.items() if word}


@given(SAID, SAID)
def test_looked_at_from_the_other_end_everything_is_its_opposite(
    after: dict[str, Severity], before: dict[str, Severity]
) -> None:
    assert words(before, after) == {rule: OPPOSITE[word] for rule, word in words(after, before).items()}


@given(SAID)
def test_the_first_audit_has_no_changes(after: dict[str, Severity]) -> None:
    assert words(after, None) == {}


def a_row(after: dict[str, str], before: dict[str, str] | None) -> dict[str, Any]:
    origin = {"who": "airflow:audit_topics.audit_orders", "dag_id": "audit_topics", "run_id": "r"}
    return {"audit_id": 7, "audited_at": NOON, **origin, "severities": after, "before": before}


def test_an_audit_in_one_line() -> None:
    after = {"a": "error", "b": "ok", "c": "warning", "d": "warning"}
    before = {"a": "warning", "b": "error", "c": "warning", "e": "info"}
    counts = {"error": 1, "warning": 2, "info": 0, "ok": 1}
    origin = ("airflow:audit_topics.audit_orders", "audit_topics", "r")
    told = {"worse": ["a"], "still": ["c"], "new": ["d"], "gone": ["b", "e"]}
    assert line(a_row(after, before)) == Line(7, NOON, *origin, counts, told)
    assert line(a_row(after, None)).changes is None
    assert line(a_row(after, after)).changes == {"still": ["a", "c", "d"]}


def test_what_an_audit_said_of_each_rule_and_what_is_no_longer_asked() -> None:
    texts = {"found": "f", "risk": "r", "since": NOON}
    rows = [
        {"rule": "a", "severity": "error", "remedy": "m", **texts},
        {"rule": "b", "severity": "ok", "remedy": None, **texts},
    ]
    assert judged(rows, {"a": OK, "b": WARNING, "c": INFO, "d": OK}) == (
        Judged("a", "error", "f", "r", "m", NOON, "new", "ok"),
        Judged("b", "ok", "f", "r", None, NOON, "gone", "warning"),
        Judged("c", None, "no longer judged", "", None, None, "gone", "info"),
    )
