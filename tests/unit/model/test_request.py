"""The trigger form as a request: what it means, and each contradiction as one plain line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from offset_ledger.errors import ContradictoryRequest
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction, parse_request
from offset_ledger.model.states import BatchKind

FIRST, SECOND = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
EMPTY = {"action": "next", "since": None, "until": "", "ranges": " ", "limit": None, "dry_run": False, "why": None}
WINDOW = {"action": "window", "since": "2026-03-01T00:00:00Z", "until": "2026-03-02T01:00:00+01:00"}


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ({}, Request()),
        (EMPTY, Request()),
        ({**EMPTY, "limit": 5, "dry_run": True, "why": " a look "}, Request(limit=5, dry_run=True, why="a look")),
        (WINDOW, Request(RunAction.WINDOW, FIRST, SECOND)),
        ({**WINDOW, "scan": True}, Request(RunAction.WINDOW, FIRST, SECOND, scan=True)),
        ({**WINDOW, "fill": True}, Request(RunAction.WINDOW, FIRST, SECOND, fill=True)),
        ({"action": "ranges", "ranges": "1:10-20\n 0:5-6 , 2:0-1\n", "limit": "7"}, Request(RunAction.RANGES,
            ranges=(OffsetRange(0, 5, 6), OffsetRange(1, 10, 20), OffsetRange(2, 0, 1)), limit=7)),
        ({"action": "approve", "batch_id": 17, "why": "seen"}, Request(RunAction.APPROVE, batch_id=17, why="seen")),
        ({"action": "abandon", "batch_id": 17, "why": "x"}, Request(RunAction.ABANDON, batch_id=17, why="x")),
        ({"action": "skip", "why": "gone for good"}, Request(RunAction.SKIP, why="gone for good")),
    ],
)  # fmt: skip
def test_a_form_is_a_request(form: dict[str, Any], wanted: Request) -> None:
    assert parse_request(form) == wanted


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"action": "again"}, "action is 'again'; it is one of next, window, ranges, approve, abandon, skip"),
        ({"actoin": "next"}, "actoin is no field of the form"),
        ({"since": "2026-03-01T00:00:00Z"}, "action next takes no since; clear it, or choose action window"),
        ({"scan": True}, "action next takes no scan; clear it, or choose action window"),
        ({"fill": True}, "action next takes no fill; clear it, or choose action window or ranges"),
        ({"ranges": "0:1-2"}, "action next takes no ranges; clear it, or choose action ranges"),
        ({"batch_id": 3}, "action next takes no batch_id; clear it, or choose action approve or abandon"),
        ({"action": "window"}, "action window needs since and until"),
        ({**WINDOW, "until": None}, "action window needs until"),
        ({**WINDOW, "ranges": "0:1-2"}, "action window takes no ranges"),
        ({**WINDOW, "since": "2026-03-01T00:00:00"}, "since is '2026-03-01T00:00:00'; write ISO 8601 with a zone"),
        ({**WINDOW, "since": "0001-01-01T00:00:00+14:00"}, "since is '0001-01-01T00:00:00+14:00'; write ISO 8601"),
        ({**WINDOW, "until": "tomorrow"}, "until is 'tomorrow'; write ISO 8601 with a zone"),
        ({**WINDOW, "until": WINDOW["since"]}, "is not before until"),
        ({"action": "ranges"}, "action ranges needs ranges"),
        ({"action": "ranges", "ranges": "0:1"}, "'0:1' is no range; write partition:from-until"),
        ({"action": "ranges", "ranges": "0:5-5"}, "range 0:5-5 is empty: its end 5 must be above its start 5"),
        ({"action": "ranges", "ranges": "0:1-2,0:7-9"}, "partition 0 has two ranges"),
        ({"limit": 0}, "limit is 0; write a whole number from 1"),
        ({"limit": "many"}, "limit is 'many'; write a whole number from 1"),
        ({"limit": True}, "limit is True; write a whole number from 1"),
        ({"action": "approve", "batch_id": 3}, "action approve needs why"),
        ({"action": "abandon", "why": "x"}, "action abandon needs batch_id"),
        ({"action": "approve", "batch_id": 3, "why": "x", "dry_run": True}, "action approve takes no dry_run"),
        ({"action": "skip"}, "action skip needs why"),
    ],
)
def test_a_contradiction_is_one_plain_line(form: dict[str, Any], told: str) -> None:
    with pytest.raises(ContradictoryRequest) as raised:
        parse_request(form)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_backfill_run_reads_its_interval() -> None:
    found = parse_request({**EMPTY, "limit": 9, "scan": True, "dry_run": True, "why": "twice"}, (FIRST, SECOND))
    assert found == Request(RunAction.WINDOW, FIRST, SECOND, limit=9, dry_run=True, why="twice", scan=True)
    assert found.kind is BatchKind.BACKFILL


@pytest.mark.parametrize("form", [WINDOW, {"action": "skip", "why": "x"}, {"batch_id": 1}])
def test_a_backfill_run_takes_nothing_that_contradicts_its_interval(form: dict[str, Any]) -> None:
    with pytest.raises(ContradictoryRequest, match="a backfill run reads its data interval and takes no"):
        parse_request(form, (FIRST, SECOND))


def test_the_key_only_distinguishes_requests() -> None:
    first = parse_request(WINDOW)
    assert parse_request({**WINDOW, "why": "another reason"}).key == first.key
    others = [
        {**WINDOW, "limit": 3},
        {**WINDOW, "scan": True},
        {**WINDOW, "fill": True},
        {**WINDOW, "until": "2026-03-03T00:00:00Z"},
    ]
    assert all(parse_request(other).key != first.key for other in others)
