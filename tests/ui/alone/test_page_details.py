"""What the page says and draws of one pipeline, in Chromium without an Airflow: links, narrow windows, marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.ui.alone.views import PHONE, answer_with, picture, shown, unfold

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("part", "api", "opened"),
    [("?window=7d", "pipelines", "#bookings?window=7d"), ("audit", "audits", "audit#bookings")],
)
def test_a_link_names_the_only_pipeline(
    open_page: Callable[..., Page], address: str, part: str, api: str, opened: str
) -> None:
    """Once there is a second one, it still leads to the first."""
    page = open_page()
    answer = page.request.get(f"{address}/api/{api}").json()
    answer["pipelines"] = [each for each in answer["pipelines"] if each["name"] == "bookings"]
    answer_with(page, re.compile(f"/api/{api}$"), answer)
    expect(shown(page, address, part)).to_have_url(f"{address}/{opened}")


def test_in_a_narrow_window_bars_have_its_width_and_no_transition_is_cut(open_page: Callable[..., Page]) -> None:
    page = open_page("orders", viewport=PHONE)
    unfold(page)
    bars = [box["width"] for each in page.locator(".waterfall .bar").all() if (box := each.bounding_box())]
    assert len(bars) == 7
    assert min(bars) > 0.7 * PHONE["width"]
    table = page.get_by_role("region", name="Transitions")
    assert table.evaluate("e => e.scrollWidth - e.clientWidth") == 0
    expect(table).to_contain_text("validated → committed")


def test_no_label_of_a_chart_is_cut(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    page.add_init_script("""
        window.drawn = [];
        const draw = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          if (this.textAlign === "center" && /:/.test(text))
            window.drawn.push([text, x + this.measureText(text).width / 2 - this.canvas.width]);
          return draw.call(this, text, x, y);
        };
    """)
    end = datetime.now(UTC).replace(minute=29, second=0, microsecond=0)  # a tick is where the axis ends
    nothing = {"lag": None, "lag_after": None, "quarantined_share": None, "again": 0}
    points = [{"at": (end - timedelta(minutes=n)).isoformat(), "head": 1, **nothing} for n in reversed(range(60))]
    answer_with(page, re.compile(r"/api/pipelines/bookings/history"), points)
    shown(page, address, "bookings?window=1h")
    drawn = page.evaluate("drawn")
    assert f"{end + timedelta(minutes=1):%H:%M}" in {text for text, _ in drawn}
    assert max(beyond for _, beyond in drawn) <= 0


def test_the_limit_crosses_the_chart_of_a_pipeline_with_one_batch(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    history = page.request.get(f"{address}/api/pipelines/bookings/history").json()
    none = {"head": 0, "again": 0, "lag": None, "lag_after": None, "quarantined_share": None}
    points = [{**each, **none} for each in history]
    points[-1] |= {"head": 5, "quarantined_share": 0.5}
    answer_with(page, re.compile(r"/api/pipelines/bookings/history"), points)
    chart = shown(page, address, "bookings").locator(".plot").last
    red = chart.locator("canvas").evaluate("""canvas => {
        const { width, height } = canvas, pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        const columns = new Set();
        for (let at = 0; at < pixels.length; at += 4)
          if (pixels[at] > 200 && pixels[at + 1] < 60 && pixels[at + 3] > 200) columns.add((at / 4) % width);
        return columns.size / width;
    }""")
    assert red > 0.3  # dashed, and beside the numbers of the axis


def test_a_mark_says_how_many_records_were_refused_and_when(open_page: Callable[..., Page]) -> None:
    page = open_page("orders/completeness")
    marks = page.locator("table.timeline rect.mark-quarantined")
    expect(marks).to_have_count(3)
    hour = r"\d{4}-\d\d-\d\d \d\d:[03]0"
    assert re.fullmatch(rf"{hour} to {hour}: 3 records quarantined", marks.first.locator("title").text_content() or "")
    bar = page.locator("table.timeline tbody tr").first.locator("g title").all_text_contents()
    assert any("in the table" in each and "3 quarantined" in each for each in bar)


def test_an_attempt_that_gives_no_sign_is_not_at_work(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    one = page.request.get(f"{address}/api/pipelines/bookings").json()
    listed = page.request.get(f"{address}/api/pipelines/bookings/batches").json()
    batch = listed["batches"][0]
    batch |= {"state": "staging", "sheet": None, "steps": [{"name": "stage", "seconds": 42, "running": True}]}
    names = ("batch_id", "state", "kind", "planned_at", "dag_id", "run_id")
    silence = "no sign of the attempt at batch 7 for 40 s, and no session of it in Postgres"
    one |= {"open_batch": {name: batch[name] for name in names}, "silence": silence}
    answer_with(page, re.compile("/api/pipelines/bookings$"), one)
    answer_with(page, re.compile("/api/pipelines/bookings/batches[?]"), listed)
    shown(page, address, "bookings")
    expect(page.locator(".notice.unknown")).to_have_text(f"Its task may have ended: {silence}")
    page.locator("tbody button.toggle").first.click()
    expect(page.locator("ul.steps")).to_contain_text("stage 42 s since its claim, no sign of the attempt")
    picture(page, "silent-light")


def test_a_paused_dag_is_linked_below_the_buttons_that_it_disables(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page()
    answer = page.request.get(f"{address}/api/pipelines/bookings").json()
    answer["actions"]["ingest"]["blocked_reason"] = "ingest_bookings is paused"
    answer["actions"]["redrive"]["blocked_reason"] = "Airflow has no DAG redrive_bookings"
    answer_with(page, re.compile("/api/pipelines/bookings$"), answer)
    shown(page, address, "bookings")
    reasons = page.locator(".blocked-reason")
    expect(reasons).to_have_text(["ingest_bookings is paused", "Airflow has no DAG redrive_bookings"])
    expect(reasons.locator("a")).to_have_attribute("href", re.compile("/dags/ingest_bookings$"))


@pytest.mark.parametrize(
    ("blocked", "text"),
    [
        (None, "This topic was never audited. Audit it now, or: offset-ledger kafka audit refunds"),
        ("audit_topics is paused", "This topic was never audited. To audit it: offset-ledger kafka audit refunds"),
    ],
)
def test_a_topic_that_was_never_audited_is_audited_by_a_button_only_if_it_can_be_pressed(
    open_page: Callable[..., Page], address: str, blocked: str | None, text: str
) -> None:
    page = open_page()
    answer = page.request.get(f"{address}/api/audits").json()
    answer["action"]["blocked_reason"] = blocked
    answer_with(page, re.compile("/api/audits$"), answer)
    shown(page, address, "audit#refunds")
    expect(page.locator(".notice.plain")).to_have_text(text)
    button = page.get_by_role("button", name="Audit now…")
    expect(button).to_be_disabled() if blocked else expect(button).to_be_enabled()
