"""What a sources.yml says of a pipeline file and its suite."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from offset_ledger_kit.cli.main import main

PIPELINE = """
pipeline: orders
description: Orders of the shop
owner: shop
{more}
source: {{connection: kafka_default, topic: orders}}
record:
  event_id: $.id
  publish_at: $.at
  {deletes}
  columns:
    state: text
    stars: {{type: smallint, nullable: true, description: One to three}}
target: {{connection: postgres_default, table: shop.orders, view: orders_now}}
quality: {{suite: orders}}
"""


def expectation(column: str, values: list[Any], action: str = "quarantine", **kwargs: Any) -> dict[str, Any]:
    arguments = {"column": column, "value_set": values, **kwargs}
    return {"type": "expect_column_values_to_be_in_set", "kwargs": arguments, "meta": {"action": action}}


def sources(folder: Path, *expectations: dict[str, Any], more: str = "", deletes: str = "") -> dict[str, Any]:
    """The document that the verb writes for a folder with one pipeline."""
    (folder / "expectations").mkdir()
    (folder / "pipelines").mkdir()
    text = {"name": "orders", "expectations": [*expectations] or [expectation("state", ["new"])]}
    (folder / "expectations/orders.json").write_text(json.dumps(text))
    (folder / "pipelines/orders.yaml").write_text(PIPELINE.format(more=more, deletes=deletes))
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["dbt", "sources", "--folder", str(folder / "pipelines")]) == 0
    written: dict[str, Any] = yaml.safe_load(printed.getvalue())
    return written


def data_tests(document: dict[str, Any], column: str) -> list[Any]:
    table = document["sources"][0]["tables"][0]
    (tests,) = [each.get("data_tests", []) for each in table["columns"] if each["name"] == column]
    return list(tests)


def test_a_schema_is_a_source_with_table_and_view(tmp_path: Path) -> None:
    (source,) = sources(tmp_path)["sources"]
    table, view = source["tables"]
    assert (source["name"], table["name"], view["name"]) == ("shop", "orders", "orders_now")
    assert table["description"] == view["description"] == "Orders of the shop"
    assert table["config"] == {"meta": {"pipeline": "orders", "owner": "shop"}}
    assert [each["name"] for each in table["columns"]][-2:] == ["_deleted", "_batch_id"]
    assert view["columns"][2:] == [
        {"name": "state", "data_type": "text"},
        {"name": "stars", "description": "One to three", "data_type": "smallint"},
    ]


@pytest.mark.parametrize(
    ("more", "minutes"),
    [
        ('schedule: "*/15 * * * *"', 30),
        ('schedule: "*/15 * * * *"\nfreshness: 1h', 75),
        ('schedule: "0 6 * * 1-5"', 2 * 3 * 24 * 60),
        ('schedule: "@quarterly"\nfreshness: 1d', 93 * 24 * 60),
    ],
)
def test_freshness_is_the_longest_pause_and_the_deadline(more: str, minutes: int, tmp_path: Path) -> None:
    config = sources(tmp_path, more=more)["sources"][0]["tables"][0]["config"]
    assert config["loaded_at_field"] == "_timestamp"
    assert config["freshness"] == {"warn_after": {"count": minutes, "period": "minute"}}


def test_sets_of_the_suite_are_accepted_values(tmp_path: Path) -> None:
    rules = [
        expectation("state", ["new", "paid"]),
        expectation("stars", [1, 2, 3], "reject"),
        expectation("state", ["new"], "warn", mostly=0.9),
    ]
    document = sources(tmp_path, *rules)
    assert data_tests(document, "state") == [
        "not_null",
        {"accepted_values": {"arguments": {"values": ["new", "paid"], "quote": True}, "config": {"severity": "error"}}},
    ]
    of_numbers = {"arguments": {"values": [1, 2, 3], "quote": False}, "config": {"severity": "warn"}}
    assert data_tests(document, "stars") == [{"accepted_values": of_numbers}]


def test_columns_that_need_quotes_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PIPELINE", PIPELINE.replace("stars:", "starsOf:"))
    (table, _) = sources(tmp_path)["sources"][0]["tables"]
    assert [each["name"] for each in table["columns"] if each.get("quote")] == ["starsOf"]


def test_delete_markers_are_left_out_of_the_tests(tmp_path: Path) -> None:
    document = sources(tmp_path, deletes="delete_when: {path: $.op, equals: d}")
    where = {"where": "not _deleted"}
    not_null, accepted = data_tests(document, "state")
    assert not_null == {"not_null": {"config": where}}
    assert accepted["accepted_values"]["config"] == {**where, "severity": "error"}
    assert data_tests(document, "event_id") == ["unique", "not_null"]


def test_a_project_reads_one_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources(tmp_path)
    assert main(["dbt", "sources", "--folder", str(tmp_path / "pipelines"), "--connection", "postgres_eu"]) == 0
    assert capsys.readouterr().out.endswith("version: 2\nsources: []\n")
