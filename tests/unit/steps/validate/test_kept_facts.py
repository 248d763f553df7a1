"""What Great Expectations has accepted is kept in the user's cache, so that the next check does without its import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.steps.validate.expectations import Facts, KeptFacts
from tests.paths import ROOT

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}, "meta": {"action": "warn"}}
BY_PARAMETER = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "a", "max_value": {"$PARAMETER": "x"}}}
FOR_PANDAS = {"type": "expect_column_values_to_be_json_parseable", "kwargs": {"column": "a"}}
WRONG = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a", "mostly": 2}}
CHECK = (
    "import sys; from pathlib import Path; from offset_ledger.pipeline_file.parse import parse_pipeline;"
    "from offset_ledger.steps.validate.step import read_suite;"
    "assert read_suite(parse_pipeline(Path('dags/pipelines/flights.yaml')));"
    "print('great_expectations' in sys.modules)"
)


def imports(cache: Path) -> str:
    command = ["env", f"XDG_CACHE_HOME={cache}", sys.executable, "-c", CHECK]
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def test_a_suite_that_was_checked_before_does_not_import_great_expectations(tmp_path: Path) -> None:
    assert [imports(tmp_path), imports(tmp_path)] == ["True", "False"]
    (file,) = (tmp_path / "offset-ledger").iterdir()
    file.write_text("not JSON")
    assert [imports(tmp_path), imports(tmp_path)] == ["True", "False"]


@pytest.mark.full
def test_a_cache_that_cannot_be_written_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "offset-ledger").write_text("a file where a folder should be")
    assert [imports(tmp_path), imports(tmp_path)] == ["True", "True"]


@pytest.mark.parametrize("entry", [NOT_NULL, BY_PARAMETER, FOR_PANDAS])
def test_what_is_kept_is_what_great_expectations_said(entry: dict[str, Any], tmp_path: Path) -> None:
    first = KeptFacts(tmp_path / "kept.json")
    assert first.facts_of(entry) == Facts.of(entry)
    first.write()
    second = KeptFacts(tmp_path / "kept.json")
    assert second.facts_of(entry) == Facts.of(entry)
    assert second.is_known(entry["type"])


def test_what_is_wrong_is_asked_about_again(tmp_path: Path) -> None:
    kept = KeptFacts(tmp_path / "kept.json")
    for _ in range(2):
        with pytest.raises(ValueError, match="mostly"):
            kept.facts_of(WRONG)
    kept.facts_of(NOT_NULL)
    kept.write()
    assert [each[0] for each in json.loads((tmp_path / "kept.json").read_text()).values()] == [NOT_NULL["type"]]
    assert not kept.is_known("expect_nothing")
