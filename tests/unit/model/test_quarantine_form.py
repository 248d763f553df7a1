"""The trigger form of the redrive DAG -> a request without contradictions."""

from __future__ import annotations

from typing import Any

import pytest

from offset_ledger.errors import ContradictoryRequest
from offset_ledger.model.request import QuarantineAction, QuarantineRequest, parse_quarantine_request

REDRIVE, DISMISS, UNDO = QuarantineAction
EMPTY = dict.fromkeys(("action", "reason", "since", "limit", "partition", "offsets", "why", "topic"))
TIME = "2026-05-12T00:00:00Z"


@pytest.mark.parametrize(
    ("form", "request_"),
    [
        ({}, QuarantineRequest(REDRIVE)),
        (EMPTY, QuarantineRequest(REDRIVE)),
        ({"reason": "syntax", "since": TIME, "limit": 5, "why": " mended "},
            QuarantineRequest(REDRIVE, reason="syntax", since=TIME, limit=5, why="mended")),
        ({**EMPTY, "action": "dismiss", "partition": 0, "offsets": "17, 18\n20", "why": "a test"},
            QuarantineRequest(DISMISS, 0, (17, 18, 20), why="a test")),
        ({"action": "undo_dismissal", "reason": "syntax", "since": TIME, "why": "an order after all"},
            QuarantineRequest(UNDO, reason="syntax", since=TIME, why="an order after all")),
    ],
)  # fmt: skip
def test_a_form_is_one_request(form: dict[str, Any], request_: QuarantineRequest) -> None:
    assert parse_quarantine_request(form) == request_


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"partition": 0, "offsets": "17"}, "action redrive takes no partition and no offsets; clear it"),
        ({"action": "dismiss", "why": "w", "limit": 5}, "action dismiss takes no limit; clear it"),
        ({"action": "dismiss", "why": "  "}, "action dismiss needs why; it is kept with the decision"),
        (
            {"action": "dismiss", "why": "w", "offsets": "17 x"},
            "'x' is no offset; write whole numbers with spaces between, such as 17 18",
        ),
    ],
)
def test_a_contradiction_is_named(form: dict[str, Any], message: str) -> None:
    with pytest.raises(ContradictoryRequest) as refused:
        parse_quarantine_request(form)
    assert str(refused.value) == message
