"""How the ledger page looks and is used, in Chromium without an Airflow: keyboard, phones, contrast, pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tests.ui.alone.views import DESK, PHONE, VIEWS, answer_with, picture, serious, shown, theme, unfold

pytestmark = pytest.mark.timeout(600)
# A text that is a date and a time; on more than one line it has more than one rectangle.
BROKEN_DATES = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (!/^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d/.test(walk.currentNode.data)) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    if (new Set([...range.getClientRects()].map((r) => r.top)).size > 1) found.push(walk.currentNode.data);
  }
  return found;
}"""


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_has_no_serious_finding(open_page: Callable[..., Page], address: str, colours: str) -> None:
    page = open_page("", colours)
    found: dict[tuple[str, str], list[str]] = {}
    for part in VIEWS:
        unfold(shown(page, address, part))
        found |= {(part, name): nodes for name, nodes in serious(page).items()}
    assert found == {}


def test_axe_finds_what_is_wrong(open_page: Callable[..., Page]) -> None:
    page = open_page("orders")
    page.evaluate("document.querySelector('h2').style.color = '#ddd'")
    assert list(serious(page)) == ["color-contrast"]


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_no_part_scrolls_sideways_and_no_date_is_broken(
    open_page: Callable[..., Page], address: str, viewport: dict[str, int]
) -> None:
    page = open_page("", viewport=viewport)
    for part in VIEWS:
        unfold(shown(page, address, part))
        assert (part, page.evaluate("document.documentElement.scrollWidth")) == (part, viewport["width"])
        assert (part, page.evaluate(BROKEN_DATES)) == (part, [])
        picture(page, f"{re.sub('[/#]', '-', part) or 'overview'}-{viewport['width']}")


def test_heads_of_columns_and_rows_say_what_they_are_of(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    for part in VIEWS:
        unfold(shown(page, address, part))
        assert (
            page.locator("th:not([scope])").locator("visible=true").and_(page.locator(":not(.u-legend th)")).count()
            == 0
        )


def test_a_batch_is_opened_and_closed_with_the_keyboard(open_page: Callable[..., Page]) -> None:
    page = open_page("orders")
    toggle = page.locator('button[data-key="batch-2"]')
    toggle.focus()
    for expanded in ("true", "false", "true"):
        page.keyboard.press("Enter")
        expect(toggle).to_have_attribute("aria-expanded", expanded)
        expect(toggle).to_be_focused()
    expect(page.locator("ul.steps")).to_contain_text("staged by one process (490 offsets, fewer than")
    steps = page.locator("table.waterfall tbody tr")
    names = steps.locator("th").all_inner_texts()
    assert names == ["offsets", "quarantined", "decoded", "superseded", "written", "updated", "inserted"]
    counts = [int(re.sub(r"\D", "", text)) for text in steps.locator("td:nth-child(2)").all_inner_texts()]
    assert counts == [490, 9, 481, 80, 401, 400, 1]


def test_a_click_on_a_bar_opens_its_batch(open_page: Callable[..., Page]) -> None:
    page = open_page("orders")
    over = page.locator(".u-over").first
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    over.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.8})
    expect(page.locator('button[data-key="batch-2"]')).to_have_attribute("aria-expanded", "true")


def test_a_row_opens_by_a_click_anywhere_in_it(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator("table.pipelines tr", has_text="bookings").locator('td[data-label="Lag in records"]').click()
    expect(page.get_by_role("heading", name="bookings")).to_be_visible()
    row = page.locator("table.batches > tbody > tr").first
    for expanded in ("true", "false"):
        row.locator('td[data-label="Planned"]').click()
        expect(row.locator("button.toggle")).to_have_attribute("aria-expanded", expanded)


def test_the_address_is_that_of_the_view(open_page: Callable[..., Page], address: str) -> None:
    page = open_page("orders/quarantine")
    page.get_by_label("Reason").select_option("precision")
    page.get_by_label("Partition").select_option("1")
    expect(page.locator("tbody button.toggle")).to_have_count(3)
    page.locator("tbody button.toggle").first.click()
    expect(page.locator(".unfolded")).to_contain_text("12.345")
    given = page.url
    page.reload()
    colleague = open_page()
    colleague.goto(given)
    colleague.reload()
    for each in (page, colleague):
        expect(each.locator("tbody button.toggle")).to_have_count(3)
        expect(each.get_by_label("Reason")).to_have_value("precision")
        expect(each.locator(".unfolded")).to_contain_text("12.345")
    page.get_by_label("State").select_option("dismissed")  # what is as at first is not in the address
    page.get_by_label("State").select_option("unresolved")
    expect(page).to_have_url(f"{address}/#orders/quarantine?reason=precision&partition=1")


def test_the_address_of_the_frame_is_airflows_too(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    sandbox = "allow-scripts allow-same-origin allow-forms allow-downloads"  # as Airflow 3.3 has it
    frame = f'<iframe src="../" sandbox="{sandbox}" width="1300" height="800"></iframe>'
    page.route(f"{address}/plugin/ledger", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.goto(f"{address}/plugin/ledger")
    inner = page.frame_locator("iframe")
    inner.locator("a.name", has_text="orders").click()
    inner.get_by_role("link", name="Quarantine").click()
    inner.get_by_label("Partition").select_option("1")
    expect(page).to_have_url(f"{address}/plugin/ledger#orders/quarantine?partition=1")
    page.reload()
    expect(inner.locator("tbody button.toggle")).to_have_count(3)
    page.evaluate("location.hash = '#bookings'")  # as a link that somebody follows in the same window
    expect(inner.get_by_role("heading", name="bookings")).to_be_visible()
    page.go_back()
    expect(inner.locator("tbody button.toggle")).to_have_count(3)


def test_charts_fit_what_there_is_and_a_value_that_is_not_pointed_at_is_not_a_dash(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("bookings")
    page.get_by_role("button", name="30d").click()
    expect(page).to_have_url(re.compile("window=30d"))
    chart = page.locator(".charts .plot").first
    first = """e => {
      const canvas = e.querySelector('canvas'), {width, height} = canvas;
      const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
      for (let x = 0; x < width; x++) for (let y = 0; y < height; y++) {
        const [r, g, b] = pixels.slice(4 * (y * width + x));
        if (r < 20 && g > 90 && g < 130 && b > 150) return x / width;
      }
    }"""
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")
    assert chart.evaluate(first) < 0.6
    assert "–" not in "".join(page.locator(".u-legend").all_inner_texts())


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_amber_is_for_warnings(open_page: Callable[..., Page], colours: str) -> None:
    page = open_page("", colours)
    amber = """() => {
      const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true }), found = {};
      const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
      for (const { selectorText } of rules.filter((rule) => /^[.](is|mark)-/.test(rule.selectorText))) {
        const dot = document.body.appendChild(document.createElement('i'));
        dot.className = selectorText.slice(1);
        context.fillStyle = getComputedStyle(dot).color;
        context.fillRect(0, 0, 1, 1);
        found[selectorText] = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
      }
      return found;
    }"""
    parts = page.evaluate(amber)
    assert len(parts) > 15
    assert {name: rgb for name, rgb in parts.items() if rgb[0] > 170 and rgb[1] > 130 and rgb[2] < 110} == {}


def test_a_replay_is_by_time_and_says_how_much_it_reads_before_it_runs(open_page: Callable[..., Page]) -> None:
    page = open_page("bookings")
    page.locator('button[data-key="Replay…"]').click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator('select[name="by"]')).to_have_value("window")
    now = datetime.now(UTC)
    dialog.locator('input[name="since"]').fill(f"{now - timedelta(hours=9):%Y-%m-%dT%H:%M:%S}")
    dialog.locator('input[name="until"]').fill(f"{now:%Y-%m-%dT%H:%M:%S}")
    expect(dialog.locator(".reads")).to_contain_text("400 offsets in 3 partitions, 400 read before")
    picture(page, "replay-light")
    dialog.locator('input[name="limit"]').fill("7")
    expect(dialog.locator(".reads")).to_contain_text("7 offsets in 3 partitions")
    dialog.locator('input[name="limit"]').fill("")
    dialog.locator('select[name="by"]').select_option("offset ranges")
    dialog.locator('textarea[name="ranges"]').fill("0:1-99999999")
    expect(dialog.locator(".reads")).to_contain_text("partition 0")


def test_values_open_in_full(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    answer = page.request.get(f"{address}/api/pipelines/orders").json()
    value = answer["rejection"]["records"][0]["value"]
    value["text"] = "x" * 500 + "the end"
    answer_with(page, re.compile("/api/pipelines/orders$"), answer)
    shown(page, address, "orders")
    page.get_by_role("button", name="xxx").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text(value["text"])
    picture(page, "value-light")
    page.keyboard.press("Escape")
    whole = {**answer["rejection"]["records"][0], "value": {**value, "size": 70_000, "text": "y" * 600}}
    value["size"] = 70_000  # of which these are the first ones
    answer_with(page, re.compile("/api/pipelines/orders$"), answer)
    answer_with(page, re.compile("/api/pipelines/orders/refused/"), whole)
    shown(page, address, "orders")
    page.get_by_role("button", name="xxx").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text(whole["value"]["text"])
    page.keyboard.press("Escape")
    record = page.request.get(f"{address}/api/pipelines/orders/quarantine/9").json()
    record["value"] |= {"text": record["value"]["text"][:5], "shown": 5}
    answer_with(page, re.compile("/api/pipelines/orders/quarantine/9$"), record)
    unfold(shown(page, address, "orders/quarantine"))
    expect(page.locator(".unfolded")).not_to_contain_text('"amount": 12.345')
    page.get_by_role("button", name="Open in full").click()
    expect(page.get_by_role("dialog")).to_contain_text('"amount": 12.345')


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_report_looks_like_the_page(open_page: Callable[..., Page], colours: str) -> None:
    page = open_page("bookings", colours)
    page.get_by_role("button", name="Quality report").click()
    report = page.get_by_role("dialog").frame_locator("iframe")
    expect(report.locator("dl")).to_contain_text(re.compile(r"Records read\s*600\s*Committed\s*600\s*Quarantined\s*0"))
    looks = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color, getComputedStyle(e).fontFamily]"
    expect(report.locator("html")).to_have_attribute("data-theme", colours)
    assert report.locator("body").evaluate(looks) == page.locator("body").evaluate(looks)
    picture(page, f"report-{colours}")


def test_the_rules_that_passed_are_folded_and_stay_as_they_are(open_page: Callable[..., Page]) -> None:
    page = open_page("audit#orders")
    table = page.locator("section > details table.passed")
    expect(table).to_be_hidden()
    page.get_by_text("1 rule passed").first.click()
    with page.expect_response(re.compile("/api/audits$")):
        expect(table).to_be_visible()
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")
    expect(table).to_be_visible()


def test_quarantined_records_are_filtered_opened_and_redriven_by_reason(open_page: Callable[..., Page]) -> None:
    page = open_page("orders/quarantine")
    toggles = page.locator("tbody button.toggle")
    expect(toggles).to_have_count(9)
    heading = page.locator("section > .head", has_text="Quarantined records")
    expect(heading).to_contain_text("9 of 9")
    page.get_by_label("Reason").select_option(label="precision (9)")
    expect(heading).to_contain_text("9 of 9")
    page.get_by_label("Partition").select_option("1")
    expect(toggles).to_have_count(3)
    toggles.first.click()
    record = page.locator(".unfolded")
    expect(record).to_contain_text('"amount": 12.345')
    expect(record.locator("mark")).to_have_text("12.345")
    expect(page.locator('button[data-key="dismiss-filtered"]')).to_have_count(0)  # it would take every partition
    record.get_by_role("button", name="Dismiss…").click()
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(re.compile(r"^Dismiss: 1:\d+ of orders$"))
    page.keyboard.press("Escape")
    page.locator('button[data-key="redrive-filtered"]').click()
    expect(page.get_by_role("dialog").locator('input[name="reason"]')).to_have_value("precision")


DOCUMENT = """{"id":12345678901234567890,"b":[{"c":"x\\n"},[],{}],"b":1.50,"it's":null,"d":{"e":[1,2]}}"""
INDENTED = r"""{
  "id": [12345678901234567890],
  "b": [
    {
      "c": ["x\n"]
    },
    [],
    {}
  ],
  "b": 1.50,
  "it's": [null],
  "d": [{
    "e": [
      1,
      2
    ]
  }]
}"""


def test_a_document_is_shown_as_it_was_written_and_what_was_refused_is_marked(
    open_page: Callable[..., Page], address: str
) -> None:
    """No number loses a digit, and no member that is there twice."""
    page = open_page()
    record = page.request.get(f"{address}/api/pipelines/orders/quarantine/9").json()
    size = len(DOCUMENT)
    record["value"] |= {"text": DOCUMENT, "shown": size, "size": size}
    record["key"] = {"form": "text", "text": "", "shown": 0, "size": 0}
    paths = ("$.id", "$.b[0].c", "$['it\\'s']", "$.d")
    record["reasons"] = [{"code": "type", "path": path, "detail": "wrong"} for path in paths]
    answer_with(page, re.compile("/api/pipelines/orders/quarantine/9$"), record)
    unfold(shown(page, address, "orders/quarantine"))
    key, value = page.locator(".unfolded pre").all()
    expect(key).to_have_text('""')
    marked = value.evaluate(
        "e => { for (const m of e.querySelectorAll('mark')) m.replaceWith('[', ...m.childNodes, ']');"
        "  return e.textContent; }"
    )
    assert marked == INDENTED
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy value").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("copied") == DOCUMENT


def test_two_hundred_pipelines_are_filtered_by_condition_and_name(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    answer = page.request.get(f"{address}/api/pipelines").json()
    orders = next(each for each in answer["pipelines"] if each["name"] == "orders")
    bookings = next(each for each in answer["pipelines"] if each["name"] == "bookings")
    many = [{**(orders if n % 20 == 0 else bookings), "name": f"pipeline_{n}"} for n in range(200)]
    answer_with(page, re.compile("/api/pipelines$"), {"problems": [], "pipelines": many})
    shown(page, address, "")
    names = page.locator("a.name")
    expect(names).to_have_count(200)
    page.get_by_label("Filter by name").press_sequentially("pipeline_19")
    expect(names).to_have_count(11)
    page.get_by_label("Filter by name").fill("")
    page.get_by_role("button", name="waiting for a decision").click()
    expect(names).to_have_count(10)


def test_five_hundred_partitions_are_a_heatmap_and_a_timeline_of_those_that_are_behind(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page()
    for kind in ("", "/completeness"):
        answer = page.request.get(f"{address}/api/pipelines/events{kind}").json()
        places = answer["partitions"]
        answer["partitions"] = [{**places[n % 100], "partition": n} for n in range(500)]
        answer_with(page, re.compile(rf"/api/pipelines/events{kind}(\?.*)?$"), answer)
    shown(page, address, "events")
    expect(page.locator(".heat")).to_have_count(500)
    expect(page.locator("table.partitions tbody tr")).to_have_count(5)
    shown(page, address, "events/completeness")
    expect(page.locator("table.timeline tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Show 450 more partitions").click()
    expect(page.locator("table.timeline tbody tr")).to_have_count(500)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_a_bar_has_an_axis_of_its_offsets(
    open_page: Callable[..., Page], address: str, viewport: dict[str, int]
) -> None:
    page = open_page("", viewport=viewport)
    answer = page.request.get(f"{address}/api/pipelines/orders/completeness").json()
    for line in answer["partitions"]:
        for run, end in ((run, end) for run in line["runs"] for end in ("from_offset", "until_offset")):
            run[end] = None if run[end] is None else run[end] + 1_234_000
    answer_with(page, re.compile(r"/api/pipelines/orders/completeness(\?.*)?$"), answer)
    shown(page, address, "orders/completeness")
    expect(page.locator(".legend").last).to_have_text("below a bar: offsets")
    rows = page.locator("table.timeline tbody tr")
    expect(rows).to_have_count(len(answer["partitions"]))
    for n, line in enumerate(answer["partitions"]):
        first = next(run["from_offset"] for run in line["runs"] if run["from_offset"] is not None)
        last = [run["until_offset"] for run in line["runs"] if run["until_offset"] is not None][-1] - 1
        texts = rows.nth(n).locator(".offsets text")
        seen = [int(text.replace(",", "")) for text in texts.all_text_contents()]
        assert texts.all_text_contents() == [f"{offset:,}" for offset in seen]
        assert {first, last} >= {seen[0], seen[-1]} >= {last}
        assert len(seen) > 1 or last - first < 10
        boxes = [box for each in texts.all() if (box := each.bounding_box())]
        assert all(left["x"] + left["width"] < right["x"] for left, right in pairwise(boxes))
    expect(rows.first.get_by_role("img")).to_have_attribute("aria-label", re.compile("offsets 1,234,"))


def test_charts_follow_the_theme(open_page: Callable[..., Page]) -> None:
    page = open_page("orders")
    chart = page.locator(".charts .plot").first
    marker = "e.querySelector('.u-series:last-child .u-marker').style.cssText"
    drawn = f"e => [e.querySelector('canvas').toDataURL(), {marker}]"
    light = chart.evaluate(drawn)
    theme(page, "dark")
    dark = open_page("orders", "dark").locator(".charts .plot").first.evaluate(drawn)
    assert dark != light
    assert chart.evaluate(drawn) == dark


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_pictures_of_the_documents(open_page: Callable[..., Page], address: str, colours: str) -> None:
    page = open_page("", colours)
    picture(page, f"overview-{colours}")
    unfold(shown(page, address, "orders"))
    page.get_by_role("heading", name="Batches", exact=True).scroll_into_view_if_needed()
    page.evaluate("document.querySelector('.tabs').scrollIntoView()")
    picture(page, f"batches-{colours}")
    shown(page, address, "events")
    page.get_by_role("heading", name="Partitions").evaluate("(e) => e.scrollIntoView()")
    picture(page, f"partitions-{colours}")
    shown(page, address, "orders/completeness")
    picture(page, f"completeness-{colours}")
    unfold(shown(page, address, "orders/quarantine"))
    picture(page, f"quarantine-{colours}")
