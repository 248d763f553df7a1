"""The pipeline over time and the daily report, as values and as pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.base.units import show_number, show_share
from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.page.app import find_report
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.steps.report.render import bars, short, span
from offset_ledger.steps.report.timeline import (
    Freshness,
    PipelineDay,
    Timeline,
    ValidatedBatch,
    build_day,
    build_timeline,
)
from tests.unit.steps.report.pages import Page

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MARKUP = "<script>alert('&')</script>"


def finding(text: str, success: bool, unexpected: int | None = 0, evaluated: int | None = 100) -> dict[str, Any]:
    found = {"text": text, "type": "expect_x", "action": "quarantine", "success": success}
    return {**found, "unexpected": unexpected, "evaluated": evaluated}


def validated(batch_id: int, state: str = "committed", **verdict: Any) -> ValidatedBatch:
    counts = {"success": True, "rows": 90, "deleted": 0, "refused": 10, "quarantined": 5, "findings": []}
    return ValidatedBatch(
        *(batch_id, "head", state, NOON, NOON + timedelta(minutes=2), 100, NOON - timedelta(minutes=1)),
        verdict={**counts, **verdict},
        reasons={"syntax": 10, MARKUP: 5},
    )


BATCHES = (
    validated(4, "rejected", success=False, reasons=[MARKUP], findings=[finding("a", False, 7), finding("b", True)]),
    validated(3, success=False, findings=[finding("a", True), finding("b", False, None, None)]),
    validated(2, "abandoned", success=False),
    validated(1, findings=[finding("a", False, 3), finding("old", True)]),
)
TIMELINE = Timeline("orders", BATCHES, Freshness(NOON, NOON - timedelta(hours=1)), 4)


def test_a_batch_that_a_person_let_pass_is_called_approved() -> None:
    assert [each.outcome for each in BATCHES] == ["rejected", "approved", "abandoned", "committed"]


def test_the_age_at_commit_is_that_of_the_newest_record() -> None:
    assert [each.age for each in BATCHES] == [None, 180.0, None, 180.0]


def test_each_rule_has_its_results_over_the_batches_that_it_validated() -> None:
    found = [(r.text, r.passed, r.evaluated, r.failing, r.last_failed, round(r.pass_rate, 2)) for r in TIMELINE.rules]
    assert found == [
        ("a", (False, True, False), 300, 10, 4, 0.33),
        ("b", (False, True), 100, 0, 3, 0.5),
        ("old", (True,), 100, 0, None, 1.0),
    ]


def test_the_metrics_count_what_is_committed_and_are_json() -> None:
    assert json.loads(json.dumps(TIMELINE.metrics())) == {
        "batches": {"rejected": 1, "approved": 1, "abandoned": 1, "committed": 1}, "records": 200, "quarantined": 30,
        "quarantined_share": 0.15, "reasons": {"syntax": 20, MARKUP: 10}, "failed_rules": {"a": 2, "b": 1},
        "newest_record": "2026-01-01T12:00:00+00:00", "every_partition_up_to": "2026-01-01T11:00:00+00:00",
        "waiting_batch": 4,
    }  # fmt: skip


def test_a_batch_of_lost_offsets_has_a_verdict_without_counts() -> None:
    skipped = replace(validated(9), verdict={"success": True, "reasons": [], "notes": ["9 lost offsets skipped"]})
    assert (skipped.quarantined, skipped.share, skipped.findings, skipped.outcome) == (0, 0, (), "committed")


# -- charts ----------------------------------------------------------------------------------------------------


def test_bars_end_at_the_highest_value_and_a_small_one_is_visible() -> None:
    drawn = bars([0, 1, None, 1000], slots=4)
    assert drawn.top == 1000
    assert [(bar.index, bar.x, bar.width, bar.height) for bar in drawn.bars] == [
        (0, 0.025, 0.2, 0.0),
        (1, 0.275, 0.2, 0.015),
        (3, 0.775, 0.2, 1.0),
    ]


@pytest.mark.parametrize(("values", "min_top", "top"), [([], 0, 0), ([None], 0.5, 0.5), ([0.0], 0, 0), ([2], 1, 2)])
def test_bars_of_nothing_and_of_nothing_but_zero(values: list[float | None], min_top: float, top: float) -> None:
    drawn = bars(values, min_top)
    assert drawn.top == top
    assert all(0 <= bar.height <= 1 and bar.x >= 0 and bar.x + bar.width <= 1 for bar in drawn.bars)


def test_numbers_for_people() -> None:
    assert [short(value) for value in (0, 7, 999, 12_345, 1_234_567, 2e9)] == [
        "0", "7", "999", "12.3 k", "1.23 M", "2 G",
    ]  # fmt: skip
    assert [span(value) for value in (None, 0.5, 59, 90, 7_200, 200_000)] == [
        *("–", "0.5 s", "59 s", "1 min 30 s", "2 h", "2 d 8 h")
    ]
    assert [span(value) for value in (4_800, 86_399.9, 417_312_000)] == ["1 h 20 min", "24 h", "4,830 d"]
    assert [short(value) for value in (999.7, 999_900)] == ["1,000", "1,000 k"]
    assert [span(value) for value in (0, 0.00004, 0.0421, 0.4999)] == ["0 s", "< 0.001 s", "0.0421 s", "0.5 s"]
    assert [show_number(value) for value in (0.000012345, -0.5, -1234.5)] == ["0.0000123", "-0.5", "-1,234"]
    shares = [show_share(value, 4) for value in (0.41666666, 0.02, 1, 0, 1e-9, 0.9999999)]
    assert shares == ["41.6667%", "2%", "100%", "0%", "< 0.0001%", "> 99.9999%"]


# -- pages -----------------------------------------------------------------------------------------------------


def check_offline(page: Page) -> None:
    assert not re.search(r"https?:|url\(|@import", page.raw)
    assert not {"script", "link", "img", "iframe"} & {
        t for t, a in page.tags if a.get("href", a.get("src")) != "data:,"
    }
    assert "color-scheme: light dark" in page.raw


def test_the_page_of_a_pipeline_shows_its_time_and_links_the_batches_that_have_a_page(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "3.html").touch()
    page = Page(build_timeline(TIMELINE, tmp_path))
    check_offline(page)
    assert page.links == {"3.html"}
    for part in (
        "Batch 4 is rejected and needs a decision",
        "2026-01-01 11:00:00 UTC",
        "Records read 200",
        "Committed 170",
        "Quarantined 30 15%",
        "33.33% 1 of 3",
        "rejected, needs approval",
        "Batch 3, approved: 15%",
        MARKUP,
    ):
        assert part in page.shown
    drawn = [attributes["class"] for tag, attributes in page.tags if tag == "rect" and attributes.get("class") != "hit"]
    assert drawn[:4] == ["bar ", "bar gone", "bar ", "bar bad"]
    assert drawn[4:8] == ["bar quarantined", "bar gone", "bar quarantined", "bar bad"]
    assert drawn[8:] == ["bar ", "bar ", "bad", "good", "bad", "bad", "good", "good"]  # two ages, then a rule a line


def test_a_pipeline_without_batches_has_a_page_too(tmp_path: Path) -> None:
    page = Page(build_timeline(Timeline("orders", (), Freshness()), tmp_path))
    check_offline(page)
    assert "No batch has been validated yet." in page.shown


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    many = replace(TIMELINE, batches=tuple(validated(n) for n in range(50, 0, -1)))
    page = Page(build_timeline(many, tmp_path))
    assert [text for text in page.text if re.fullmatch(r"Batch \d+", text)] == [f"Batch {n}" for n in range(50, 20, -1)]
    assert "offset-ledger batch list orders --limit 50" in page.shown


def test_the_page_of_a_day_has_every_pipeline_and_says_why_one_has_no_data(tmp_path: Path) -> None:
    build_timeline(TIMELINE, tmp_path)
    build_day(date(2026, 1, 1), [], tmp_path)
    build_day(date(2026, 1, 4), [], tmp_path)
    found = [PipelineDay("orders", TIMELINE), PipelineDay("gone", None, MARKUP)]
    made = build_day(date(2026, 1, 3), found, tmp_path)
    page = Page(made)
    check_offline(page)
    assert made == tmp_path / "_daily" / "2026-01-03.html"
    assert page.links == {"2026-01-01.html", "../orders/index.html"}
    for part in ("no data", "batch 4 needs approval", "Batches committed 2 of 4 validated", "in 2 of 3 batches"):
        assert part in page.shown
    assert page.shown.count(MARKUP) == 3  # why there is no data, why a batch is rejected, a reason of quarantine


@pytest.mark.parametrize("name", ["..", "a/b", "", "."])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a folder"):
        build_timeline(replace(TIMELINE, pipeline=name), tmp_path)


def test_a_pipeline_named_daily_has_its_own_folder(tmp_path: Path) -> None:
    build_day(date(2026, 1, 1), [], tmp_path)
    build_timeline(replace(TIMELINE, pipeline="daily"), tmp_path)
    made = build_day(date(2026, 1, 2), [], tmp_path)
    assert {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("*.html")} == {
        "daily/index.html",
        "_daily/2026-01-01.html",
        "_daily/2026-01-02.html",
    }
    assert 'href="2026-01-01.html"' in made.read_text()
    found = find_report(tmp_path, "daily/index.html")
    assert found is not None
    assert Rights(readable=frozenset({"ingest_daily"})).sees_report(found[0], ["daily"])
    found = find_report(tmp_path, "_daily/2026-01-01.html")
    assert found is not None
    assert not Rights(readable=frozenset({"ingest_daily"})).sees_report(found[0], ["daily"])
