"""The files of examples/: each is a pipeline file without mistakes, and in the table of the page there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offset_ledger.pipeline_file.parse import parse_pipeline
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"
PAGE = EXAMPLES / "README.md"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_has_no_mistakes_and_the_name_of_its_file(path: Path) -> None:
    assert parse_pipeline(path).name == path.stem


def test_the_page_names_every_file_and_no_other() -> None:
    table = "".join(re.findall(r"^\|.*\n", PAGE.read_text(), re.M))
    named = re.findall(r"\[([\w.]+)\]\(\1\)", table)
    assert sorted(named) == sorted(path.name for path in EXAMPLES.iterdir() if path != PAGE)
