"""The dashboard and the alert rules ask for metrics that the exporter has, and the docs name every one."""

from __future__ import annotations

import re

from offset_ledger.interfaces.exporter.collector import FAMILIES
from tests.fixtures.expressions import alerts, panels, queries, selectors
from tests.paths import ROOT

LABELS = {family.exposed: set(family.labels) for family in FAMILIES}
ASKED = [*queries(), *(alert["expr"] for alert in alerts())]
MONITORING = (ROOT / "docs" / "monitoring.md").read_text()


def test_every_expression_asks_for_metrics_and_labels_of_the_exporter() -> None:
    matched = [
        (name, re.findall(r'(\w+)(?:=~|!~|!=|=)"', braces)) for each in ASKED for name, braces in selectors(each)
    ]
    assert len(matched) >= len(ASKED)
    assert [(name, labels) for name, labels in matched if not set(labels) <= LABELS.get(name, set())] == []


def test_every_grouping_is_by_labels_that_its_metrics_have() -> None:
    for each in ASKED:
        labels = [set(LABELS[name]) for name, _ in selectors(each)]
        for grouping in re.findall(r"(?:by|on) \(([^)]*)\)", each):
            assert all(set(grouping.split(", ")) <= known for known in labels), each


def test_every_metric_is_in_the_dashboard_or_in_a_rule() -> None:
    used = {name for each in ASKED for name, _ in selectors(each)}
    assert {family.exposed for family in FAMILIES} - used == {"offset_ledger_build_info"}


def test_every_label_in_the_text_of_an_alert_is_one_that_its_expression_keeps() -> None:
    for alert in alerts():
        shown = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
        grouped = re.findall(r"by \(([^)]*)\)", alert["expr"])
        kept = set(grouped[0].split(", ")) if grouped else LABELS[selectors(alert["expr"])[0][0]]
        assert shown <= kept, alert["alert"]


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        x, y, width, height = (panel["gridPos"][name] for name in ("x", "y", "w", "h"))
        assert x + width <= 24
        cells = [(column, line) for column in range(x, x + width) for line in range(y, y + height)]
        assert [taken[cell] for cell in cells if cell in taken] == []
        taken |= dict.fromkeys(cells, panel["title"])
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_page_of_the_docs_names_every_metric_and_every_alert() -> None:
    named = [family.exposed for family in FAMILIES] + [alert["alert"] for alert in alerts()]
    assert [name for name in named if f"`{name}" not in MONITORING] == []


def test_the_page_of_the_docs_names_no_other_metric() -> None:
    assert set(re.findall(r"`(offset_ledger_\w+)", MONITORING)) <= set(LABELS)
