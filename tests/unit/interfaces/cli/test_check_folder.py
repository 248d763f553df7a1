"""``check --folder``: the files of a folder, also beside each other, and their suites, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offset_ledger_kit.cli.main import main

PIPELINE = """
pipeline: {name}
source: {{topic: shop.{name}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{amount: {column}}}}}
target: {{table: public.{table}}}
quality: {{suite: {suite}}}
"""
SUITE = {"name": "orders", "expectations": [{"type": "expect_column_to_exist", "kwargs": {"column": "amount"}}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with two pipelines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines").mkdir()
    write("orders")
    write("refunds")
    return tmp_path


def write(name: str, *, column: str = "int", table: str = "", suite: str = "null") -> None:
    text = PIPELINE.format(name=name, column=column, table=table or name, suite=suite)
    Path("pipelines", f"{name}.yaml").write_text(text)


def mistakes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["check", "--folder", "pipelines"]) == 1
    return capsys.readouterr().err.splitlines()


def test_files_without_mistakes_are_named_with_their_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--folder", "pipelines"]) == 0
    assert capsys.readouterr().out == "pipelines: 2 pipeline files, no mistakes\n"
    assert main(["check", "--folder", "pipelines", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["pipeline"], len(each["config_hash"])) for each in listed] == [("orders", 64), ("refunds", 64)]


def test_two_files_of_one_table_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    write("refunds", table="orders")
    (line,) = mistakes(capsys)
    assert line.startswith("pipelines/refunds.yaml:5: pipelines/orders.yaml has the target public.orders too")


def test_suites_and_defaults_are_checked_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("orders", suite="orders")
    write("refunds", column="{type: uuid, default: x}")
    (folder / "expectations").mkdir()
    (folder / "expectations/orders.json").write_text(json.dumps(SUITE | {"sauce": 1}))
    suite, default = mistakes(capsys)
    assert suite.startswith(f"{folder}/expectations/orders.json:1: 'sauce' is not a known key")
    assert default.startswith("pipelines/refunds.yaml: record.columns.amount: ")


def test_a_folder_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--folder", "pipeline"]) == 1
    assert "pipeline is not a folder; give the folder of the pipeline files" in capsys.readouterr().err
