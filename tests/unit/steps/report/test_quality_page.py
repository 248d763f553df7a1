"""Data Docs pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.pipeline_file.pipeline import Unusual
from offset_ledger.steps.report.render import observed
from offset_ledger.steps.report.step import build_data_docs
from offset_ledger.steps.validate.suite import SuiteAction
from offset_ledger.steps.validate.verdict import Comparison, ExpectationResult, GateVerdict, Standing
from tests.paths import ROOT
from tests.unit.steps.report.pages import Page

MARKUP = "<script>alert('&')</script>"
FINDING = ExpectationResult(
    4, "expect_column_values_to_not_be_null", ("carrier",), SuiteAction.REJECT, MARKUP, False, 1000, 7, 0.7
)
RAISED = replace(FINDING, unexpected=None, evaluated=None, unexpected_percent=None, exception=MARKUP, observed=MARKUP)
VERDICT = GateVerdict(
    False,
    (FINDING, RAISED),
    1000,
    1,
    19,
    12,
    0.01,
    (MARKUP,),
    (MARKUP,),
    0.5,
    MARKUP,
    "ab" * 32,
    "1.24.1",
    {"raw": MARKUP},
)


def kept(verdict: GateVerdict) -> dict[str, Any]:
    """The verdict as the ledger keeps it."""
    return {**json.loads(verdict.to_json()), "great_expectations": verdict.gx_result}


VALUES: dict[str, Any] = {
    "pipeline": "flights",
    "batch_id": 42,
    "kind": "head",
    "state": "rejected",
    "engine": "process",
    "engine_reason": "12 offsets, fewer than <b>10,000",
    "boundaries": [],
    "judged_at": "2013-01-02T03:04:05+00:00",
    "ranges": [{"partition": 3, "from_offset": 1000, "until_offset": 2020}],
    "refusals": {"syntax": 2, MARKUP: 17},
    "decisions": [],
    "unread": None,
    "verdict": kept(VERDICT),
}


def test_the_page_shows_the_verdict_and_escapes_every_value(tmp_path: Path) -> None:
    page = Page(build_data_docs(VALUES, tmp_path))
    assert "script" not in [tag for tag, _ in page.tags]
    shown = [text for text in page.text if text]
    assert shown.count(MARKUP) == 7  # title of 2 findings, exception, observed, reason, note, reason code
    for text in (
        "Batch 42",
        "head · validated 2013-01-02 03:04:05 UTC · staged by one process (12 offsets, fewer than <b>10,000)",
        "Rejected",
        "3.04%",
        "limit 1%",
        "7",
        "0.7%",
    ):
        assert text in shown
    assert [text for text in shown[shown.index("Offsets") :] if text][1:5] == ["3", "1,000", "2,020", "1,020"]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("committed", ["Records read", "1,020", "Committed", "989", "1 of them deletes", "Quarantined", "31"]),
        ("rejected", ["Records read", "1,020", "Committed", "0", "rejected", "Refused", "31"]),
    ],
)
def test_the_page_says_what_was_read_committed_and_quarantined(tmp_path: Path, state: str, shown: list[str]) -> None:
    page = Page(build_data_docs(VALUES | {"state": state}, tmp_path))
    texts = [text for text in page.text if text]
    assert texts[texts.index("Records read") :][:7] == shown
    assert "19 by the decoder, 12 by expectations" in texts


def test_the_page_looks_like_the_ledger_page(tmp_path: Path) -> None:
    page_css = ROOT / "src" / "offset_ledger" / "interfaces" / "page" / "static" / "page.css"
    assert page_css.read_text().strip() in build_data_docs(VALUES, tmp_path).read_text()


def test_nothing_is_said_of_the_engine_of_a_batch_that_an_earlier_release_staged(tmp_path: Path) -> None:
    page = Page(build_data_docs(VALUES | {"engine": None, "engine_reason": None}, tmp_path))
    assert "head · validated 2013-01-02 03:04:05 UTC" in page.text


def test_a_page_asks_nothing_of_any_host(tmp_path: Path) -> None:
    made = build_data_docs(VALUES, tmp_path)
    links = [attributes.get("src") or attributes.get("href") for _, attributes in Page(made).tags]
    assert {link for link in links if link} == {"data:,", "index.html", "42.json"}
    assert not re.search(r"https?:|url\(|@import", made.read_text())


def test_the_stored_result_holds_verdict_and_raw_result(tmp_path: Path) -> None:
    stored = json.loads(build_data_docs(VALUES, tmp_path).with_suffix(".json").read_text())
    assert stored == VALUES


def test_the_files_of_the_oldest_batches_are_forgotten(tmp_path: Path) -> None:
    for batch_id in (9, 100, 8, 10):
        build_data_docs(VALUES | {"batch_id": batch_id}, tmp_path, history=3)
    assert {path.name for path in (tmp_path / "flights").iterdir()} == {
        *("9.html", "9.json", "10.html", "10.json", "100.html", "100.json")
    }


def test_the_page_shows_comparisons_and_decisions(tmp_path: Path) -> None:
    history = [
        Comparison("volume", Standing.UNUSUAL, Unusual.REJECT, MARKUP),
        Comparison("volume", Standing.NOT_COMPARED, Unusual.WARN, "too few"),
    ]
    decided = {"decision": "approved", "who": MARKUP, "at": "2013-01-02T04:00:00+00:00", "why": "seen"}
    results = VALUES | {"verdict": kept(replace(VERDICT, history=tuple(history))), "decisions": [decided]}
    page = Page(build_data_docs(results, tmp_path))
    assert "script" not in [tag for tag, _ in page.tags]
    assert f"Approved by {MARKUP}, 2013-01-02 04:00:00 UTC: seen" in page.text
    assert [text for text in page.text if text in ("unusual", "not compared", "too few")] == [
        *("unusual", "too few", "not compared")
    ]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("expect_column_proportion_of_unique_values_to_be_between", "0.9964947773395239", "99.65%"),
        ("expect_column_proportion_of_unique_values_to_be_between", "NaN", "NaN"),
        ("expect_column_mean_to_be_between", "12.345678901", "12.3457"),
        ("expect_column_mean_to_be_between", "4.83e+03", "4,830"),
        ("expect_column_mean_to_be_between", "0.0000123456789", "0.0000123457"),
        ("expect_column_stdev_to_be_between", "1.5e-07", "0.00000015"),
        ("expect_column_sum_to_be_between", "123456789.123456", "123456789"),
        ("expect_column_distinct_values_to_be_in_set", '["UA", "B6"]', '["UA", "B6"]'),
        ("expect_column_mean_to_be_between", None, "–"),
    ],
)
def test_an_observed_value_is_written_for_people(kind: str, value: str | None, text: str) -> None:
    assert observed(value, kind) == text


def test_a_verdict_without_suite_says_so(tmp_path: Path) -> None:
    bare = replace(VERDICT, success=True, findings=(), suite=None, gx_version=None, reasons=(), notes=())
    page = Page(build_data_docs(VALUES | {"verdict": kept(bare), "ranges": [], "refusals": {}}, tmp_path))
    assert "This pipeline names no suite: only the share of refused records was compared with its limit." in page.text


@pytest.mark.parametrize("name", ["..", "a/b", "", "."])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a folder"):
        build_data_docs(VALUES | {"pipeline": name}, tmp_path)


@pytest.mark.parametrize(
    ("unread", "said"),
    [
        (UnreadCounts.of(1_000_000, 3_900, {"$.new": 1_950, MARKUP: 1}), "In 3,900 sampled of 1,000,000 rows."),
        (UnreadCounts.of(1, 1, {"$.new": 1}), "In 1 row."),
        (UnreadCounts.of(2_000, 2_000, {"$.new": 1}, more=True), "In 2,000 rows. These are the most frequent ones"),
    ],
)
def test_fields_that_nothing_reads_are_named_with_what_was_looked_at(
    unread: UnreadCounts, said: str, tmp_path: Path
) -> None:
    page = Page(build_data_docs(VALUES | {"unread": unread.to_json()}, tmp_path))

    assert any(text.startswith(said) for text in page.text)
    shown = [[path, f"{count:,}"] for path, count in unread.fields.items()]
    start = page.text.index("Field")
    cells = [text for text in page.text[start:] if text][3:]
    assert [cells[n : n + 2] for n in range(0, 3 * len(shown), 3)] == shown
    assert cells[2] == ("50%" if unread.records > 2_000 else "100%" if unread.records == 1 else "0.05%")


def test_nothing_is_said_where_every_field_is_read(tmp_path: Path) -> None:
    page = Page(build_data_docs(VALUES | {"unread": UnreadCounts(5, 5).to_json()}, tmp_path))
    assert "Fields that nothing reads" not in page.text
