"""What is right beyond doubt: the table is that of Great Expectations, which agrees with whatever passes without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.validate import expectations as gx
from offset_ledger.validate import known_expectations, known_table
from offset_ledger.validate.known_expectations import Facts, facts_of, table, table_of
from tests.examples import examples
from tests.paths import ROOT

_TEXT = st.text(max_size=5)
_NUMBER = st.integers() | st.floats() | st.integers(-3, 3)
_SCALAR = _TEXT | _NUMBER | st.booleans() | st.none()
_CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["comparison", "nullity", "and"]), "column": st.fixed_dictionaries({"name": _TEXT})},
    optional={
        "operator": st.sampled_from(["==", "<=", "IN", "NOT_IN", "is"]),
        "parameter": _SCALAR | st.lists(_SCALAR, max_size=2),
        "is_null": st.booleans() | st.none(),
    },
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": _TEXT,
    "flag": st.booleans(),
    "integer": _NUMBER,
    "number": _NUMBER,
    "bound": st.integers(-3, 3) | st.sampled_from(["2013-01-01", "2013-12-31", "2013-02-30", "now", "20130101", ""]),
    "condition": _CONDITION,
    "share": st.floats(-0.1, 1.1) | st.integers(0, 1),
    "query": st.sampled_from(["SELECT 1 FROM {batch}", "{batch} {", "{batch} {{x}}", "SELECT '{}' FROM {batch}"]),
    "columns": st.lists(_TEXT, max_size=3),
    "texts": st.lists(_TEXT, max_size=3),
    "values": st.lists(_SCALAR, max_size=3),
}


def _values(kind: str | list[str]) -> st.SearchStrategy[Any]:
    right = st.sampled_from(kind) if isinstance(kind, list) else _VALUES[kind]
    return st.one_of(right, right, right, _SCALAR | st.just({"$PARAMETER": "x"}))


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """Entries of a suite file: mostly what the table allows, and what is just outside of it."""
    name = draw(st.sampled_from(sorted(table())))
    known = table()[name]
    required = {each: _values(known["arguments"][each]) for each in known["required"]}
    optional = {each: _values(kind) for each, kind in known["arguments"].items() if each not in required}
    kwargs = draw(st.fixed_dictionaries(required, optional=optional))
    more = {"severity": st.sampled_from(["critical", "info", "INFO", None]), "description": _SCALAR, "id": _SCALAR}
    return {"type": name, "kwargs": kwargs, "meta": {}, **draw(st.fixed_dictionaries({}, optional=more))}


def test_the_table_is_that_of_the_installed_version() -> None:
    path = Path(known_expectations.__file__).with_suffix(".json")
    assert path.read_text() == known_table.table_text(), "python -m offset_ledger.validate.known_table writes it"


def test_a_table_of_another_version_says_nothing() -> None:
    assert table_of("1.23.0") == {}


@examples(1500)
@given(entries())
def test_great_expectations_agrees_with_what_passes_without_it(entry: dict[str, Any]) -> None:
    if (known := facts_of(entry)) is not None:
        assert gx.built_facts(entry) == known


@pytest.mark.parametrize("name", sorted(table()))
def test_each_type_of_the_table_can_pass(name: str) -> None:
    examples: dict[str, Any] = {
        **{"text": "a", "flag": True, "integer": 1, "number": 1.5, "share": 0.9, "query": "SELECT * FROM {batch}"},
        **{"bound": "2013-01-01", "condition": {"type": "nullity", "column": {"name": "a"}, "is_null": True}},
        **{"columns": ["a", "b"], "texts": ["a"], "values": ["a", 1]},
    }
    known = table()[name]
    kinds = known["arguments"]
    kwargs = {each: kind[0] if isinstance(kind, list) else examples[kind] for each, kind in kinds.items()}
    entry = {"type": name, "kwargs": kwargs, "meta": {"action": "warn"}, "severity": "warning", "description": "text"}
    assert facts_of(entry) == Facts(known["names_rows"], known["runs_on_postgres"]) == gx.built_facts(entry)


@examples(300)
@given(_CONDITION)
def test_great_expectations_agrees_with_conditions_that_pass_without_it(condition: dict[str, Any]) -> None:
    kwargs = {"column": "a", "row_condition": condition}
    entry = {"type": "expect_column_values_to_not_be_null", "kwargs": kwargs}
    if (known := facts_of(entry)) is not None:
        assert gx.built_facts(entry) == known


def test_checking_a_suite_without_mistakes_does_not_import_great_expectations() -> None:
    code = (
        "import sys; from pathlib import Path; from offset_ledger.config.parse import parse_pipeline;"
        "from offset_ledger.validate.step import read_suite;"
        "assert read_suite(parse_pipeline(Path('dags/pipelines/flights.yaml')));"
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
