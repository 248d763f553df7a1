"""Every row-level expectation that can quarantine, on generated rows with NULLs: Great Expectations' count, the rows
that are moved, their reasons, and hand-written SQL agree."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.postgres.ledger.database import Session, rows
from offset_ledger.postgres.ledger.staging import SCHEMA
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.validate import expectations as gx
from offset_ledger.steps.validate.step import validate
from tests.fixtures.batches_with_suite import Entry, Row, a_pipeline_with, stage_rows
from tests.fixtures.staged import ME

# -- every rule ------------------------------------------------------------------------------------------------

_MEAN = "(SELECT avg(d) FROM live)"
_DEVIATION = "(SELECT stddev_samp(d) FROM live)"
ONE: dict[str, tuple[Entry, str]] = {
    "expect_column_values_to_not_be_null": ({"column": "a"}, "a IS NULL"),
    "expect_column_values_to_be_null": ({"column": "b"}, "b IS NOT NULL"),
    "expect_column_values_to_be_unique": ({"column": "d"}, "d IN (SELECT d FROM live GROUP BY d HAVING count(*) > 1)"),
    "expect_column_values_to_be_between": ({"column": "a", "min_value": 2, "max_value": 3}, "a NOT BETWEEN 2 AND 3"),
    "expect_column_values_to_be_in_set": ({"column": "a", "value_set": [1, 2]}, "a NOT IN (1, 2)"),
    "expect_column_values_to_not_be_in_set": ({"column": "a", "value_set": [1, 2]}, "a IN (1, 2)"),
    "expect_column_value_lengths_to_equal": ({"column": "t", "value": 2}, "length(t) <> 2"),
    "expect_column_value_lengths_to_be_between": (
        {"column": "t", "min_value": 1, "max_value": 2},
        "length(t) NOT BETWEEN 1 AND 2",
    ),
    "expect_column_value_z_scores_to_be_less_than": (
        {"column": "d", "threshold": 1.2, "double_sided": True},
        f"abs((d - {_MEAN}) / {_DEVIATION}) >= 1.2",
    ),
    "expect_column_values_to_not_be_outliers": (
        {"column": "d", "method": "std", "multiplier": 1.5},
        f"abs(d - {_MEAN}) >= 1.5 * {_DEVIATION}",
    ),
    "expect_column_values_to_match_regex": ({"column": "t", "regex": "^[ab%]+$"}, "t !~ '^[ab%]+$'"),
    "expect_column_values_to_not_match_regex": ({"column": "t", "regex": "a['\\\\]?b"}, "t ~ 'a[''\\\\]?b'"),
    "expect_column_values_to_match_regex_list": (
        {"column": "t", "regex_list": ["^a", "b$"], "match_on": "any"},
        "NOT (t ~ '^a' OR t ~ 'b$')",
    ),
    "expect_column_values_to_not_match_regex_list": (
        {"column": "t", "regex_list": ["^a", "b$"]},
        "t ~ '^a' OR t ~ 'b$'",
    ),
    "expect_column_values_to_match_like_pattern": ({"column": "t", "like_pattern": "a%"}, "t NOT LIKE 'a%'"),
    "expect_column_values_to_not_match_like_pattern": ({"column": "t", "like_pattern": "%\\%"}, "t LIKE '%\\%'"),
    "expect_column_values_to_match_like_pattern_list": (
        {"column": "t", "like_pattern_list": ["a%", "%b"], "match_on": "any"},
        "NOT (t LIKE 'a%' OR t LIKE '%b')",
    ),
    "expect_column_values_to_not_match_like_pattern_list": (
        {"column": "t", "like_pattern_list": ["a%", "%b"]},
        "t LIKE 'a%' OR t LIKE '%b'",
    ),
}
SEVERAL: dict[str, tuple[Entry, str]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": ({"column_A": "a", "column_B": "b"}, "a <= b"),
    "expect_column_pair_values_to_be_equal": ({"column_A": "a", "column_B": "b"}, "a IS DISTINCT FROM b"),
    "expect_column_pair_values_to_be_in_set": (
        {"column_A": "a", "column_B": "b", "value_pairs_set": [[1, 1], [1, 2], [2, 3]]},
        "(a, b) NOT IN ((1, 1), (1, 2), (2, 3))",
    ),
    "expect_compound_columns_to_be_unique": (
        {"column_list": ["a", "b"]},
        "(a, b) IN (SELECT a, b FROM live GROUP BY a, b HAVING count(*) > 1)",
    ),
    "expect_select_column_values_to_be_unique_within_record": (
        {"column_list": ["a", "b", "c"]},
        "num_nonnulls(a, b, c) > 0 AND (a IS NOT DISTINCT FROM b OR b IS NOT DISTINCT FROM c"
        " OR a IS NOT DISTINCT FROM c)",
    ),
    "expect_multicolumn_sum_to_equal": ({"column_list": ["a", "b", "c"], "sum_total": 6}, "a + b + c <> 6"),
    "expect_multicolumn_values_to_be_equal": (
        {"column_list": ["a", "b", "c"]},
        "a IS DISTINCT FROM b OR a IS DISTINCT FROM c",
    ),
}
RULES = ONE | SEVERAL


def test_every_type_that_names_rows_and_runs_on_postgres_is_among_the_rules() -> None:
    gx.load()
    from great_expectations.expectations.expectation import ColumnMapExpectation, ColumnPairMapExpectation
    from great_expectations.expectations.expectation import MulticolumnMapExpectation as Multicolumn
    from great_expectations.expectations.registry import get_expectation_impl

    found = {name: get_expectation_impl(name) for name in gx.known_types()}
    by_row = (ColumnMapExpectation, ColumnPairMapExpectation, Multicolumn)
    named = {name for name, made in found.items() if issubclass(made, by_row) and gx.has_sql(made)}
    assert named - {"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"} == set(RULES)


def generated(seed: int, count: int = 240) -> list[Row]:
    """Rows of few different values, a sixth of them NULL, a twelfth delete markers."""
    draw = random.Random(seed)

    def maybe(values: Sequence[Any]) -> Any:
        return None if draw.random() < 1 / 6 else draw.choice(values)

    def row() -> Row:
        few, text = (1, 2, 3), ("", "a", "b", "ab", "aab", "a%", "a'b", "a\\b", "xyz", "ba", "ü")
        return (*(maybe(few) for _ in range(3)), maybe(range(-150, 150)), maybe(text), False)

    return [(*[None] * 5, True) if draw.random() < 1 / 12 else row() for _ in range(count)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_rows_moved_are_those_that_great_expectations_counts_each_with_all_its_reasons(
    session: Session, tmp_path: Path, seed: int
) -> None:
    entries = [
        {"type": kind, "kwargs": kwargs, "meta": {"action": "quarantine"}, "description": kind}
        for kind, (kwargs, _) in RULES.items()
    ]
    pipeline = a_pipeline_with(tmp_path, entries)
    tables = stage_rows(session, pipeline, generated(seed))
    by_hand: dict[int, list[str]] = {}
    for kind, (_, fails) in RULES.items():
        live = f"WITH live AS (SELECT * FROM {SCHEMA}.{tables.rows} WHERE NOT _deleted)"
        for (offset,) in rows(session, f"{live} SELECT _offset FROM live WHERE {fails}".replace("%", "%%")):
            by_hand.setdefault(offset, []).append(kind)
    staged = {row[0]: bytes(row[1]) for row in rows(session, f"SELECT _offset, _value FROM {SCHEMA}.{tables.rows}")}

    batch, verdict = validate(pipeline, tables.batch_id, ME)

    assert verdict is not None
    assert [finding.exception for finding in verdict.findings] == [None] * len(RULES)
    refused = rows(session, f"SELECT _offset, reasons, _key, _value FROM {SCHEMA}.{tables.refused}")
    moved = {row[0]: [reason["code"] for reason in row[1]] for row in refused}
    assert moved == by_hand
    counted = Counter(kind for kinds in by_hand.values() for kind in kinds)
    assert {finding.type: finding.unexpected for finding in verdict.findings} == {k: counted[k] for k in RULES}
    assert {row[0]: (bytes(row[2]), bytes(row[3])) for row in refused} == {n: (b"key", staged[n]) for n in by_hand}
    left = {row[0] for row in rows(session, f"SELECT _offset FROM {SCHEMA}.{tables.rows}")}
    assert left == set(staged) - set(by_hand)
    assert (batch.state, verdict.quarantined) == (State.VALIDATED, len(by_hand))
    sheet = commit(pipeline, tables.batch_id, ME).total
    assert (sheet.quarantined, sheet.total) == (len(by_hand), len(staged))
    assert verify(pipeline)[0] == []
