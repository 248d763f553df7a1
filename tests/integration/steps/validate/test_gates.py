"""What becomes of a batch at each gate and what the reports say of it; every row-level expectation beside its SQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BatchRejected, StateConflict
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import History, NullBand, Pipeline, Quality, Unusual, VolumeBand
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.staging import SCHEMA, StagingTables
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.report.step import daily_report, report
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger.steps.validate import expectations as gx
from offset_ledger.steps.validate.step import validate
from tests.fixtures.batches_with_suite import Row, a_pipeline_with, stage_rows
from tests.fixtures.staged import ME, NOON
from tests.fixtures.suites import Entry
from tests.fixtures.tables import do

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}, "meta": {"action": "quarantine"}}
GOOD: Row = (1, 1, 1, 1, "x", False)
BAD: Row = (None, 1, 1, 1, "x", False)


def in_table(session: Session, pipeline: Pipeline) -> set[tuple[str, int]]:
    return {tuple(row) for row in rows(session, f"SELECT event_id, _offset FROM {pipeline.target.table}")}


def in_quarantine(session: Session) -> set[tuple[int, bytes, str]]:
    found = rows(session, "SELECT \"offset\", value, reasons->0->>'code' FROM offset_ledger.quarantine")
    return {(row[0], bytes(row[1]), row[2]) for row in found}


def rejected(session: Session, pipeline: Pipeline, found: Sequence[Row]) -> StagingTables:
    tables = stage_rows(session, pipeline, found)
    with pytest.raises(BatchRejected, match="quarantined share"):
        validate_or_raise(pipeline, tables.batch_id, ME)
    return tables


def test_a_share_above_the_limit_rejects_and_an_approved_batch_commits_exactly_what_was_validated(
    session: Session, tmp_path: Path
) -> None:
    pipeline = a_pipeline_with(tmp_path, [NOT_NULL], max_quarantined_share=0.2)
    tables = rejected(session, pipeline, [GOOD, BAD, GOOD, (*[None] * 5, True)])
    assert (in_table(session, pipeline), in_quarantine(session)) == (set(), set())
    validated = rows(session, f"SELECT event_id, _offset FROM {SCHEMA}.{tables.rows}")

    # Neither another suite nor another limit is asked again.
    strict = a_pipeline_with(tmp_path, [{**NOT_NULL, "kwargs": {"column": "t"}}], max_quarantined_share=0.0)
    decide(session, tables.batch_id, State.VALIDATED, ME, "the airline sent it so")
    assert validate_or_raise(strict, tables.batch_id, ME).approved
    sheet = commit(strict, tables.batch_id, ME).total

    assert in_table(session, pipeline) == {tuple(row) for row in validated} == {("e0", 0), ("e2", 2), ("e3", 3)}
    assert in_quarantine(session) == {(1, b"value 1", NOT_NULL["type"])}
    assert (sheet.inserted, sheet.deleted, sheet.quarantined, sheet.total) == (2, 1, 1, 4)
    assert verify(pipeline)[0] == []
    kept = "SELECT who, why, at <= now() FROM offset_ledger.batch_event WHERE from_state = 'rejected'"
    assert [tuple(row) for row in rows(session, kept)] == [("test", "the airline sent it so", True)]


def test_an_abandoned_batch_gives_its_offsets_back_and_the_sheet_closes(session: Session, tmp_path: Path) -> None:
    pipeline = a_pipeline_with(tmp_path, [NOT_NULL], max_quarantined_share=0.2)
    tables = rejected(session, pipeline, [GOOD, BAD])
    decide(session, tables.batch_id, State.ABANDONED, ME, "the suite was wrong")
    lax = replace(pipeline, quality=Quality(max_quarantined_share=0.0))
    again = stage_rows(session, lax, [GOOD, BAD])
    validate_or_raise(lax, again.batch_id, ME)
    assert commit(lax, again.batch_id, ME).total.inserted == 2
    assert (in_table(session, pipeline), in_quarantine(session)) == ({("e0", 0), ("e1", 1)}, set())
    assert verify(pipeline)[0] == []


def test_a_batch_unlike_the_recent_ones_warns_or_is_rejected(session: Session, tmp_path: Path) -> None:
    history = History(5, 2, VolumeBand(0.5, 2, Unusual.REJECT), NullBand(0.2, ("t",), Unusual.WARN))
    pipeline = a_pipeline_with(tmp_path, history=history)
    offset = 0

    def stage_next(minute: int, found: Sequence[Row], kind: BatchKind = BatchKind.HEAD) -> int:
        nonlocal offset
        tables = stage_rows(session, pipeline, found, 0 if kind is BatchKind.REPLAY else offset, minute, kind)
        offset += 0 if kind is BatchKind.REPLAY else len(found)
        return tables.batch_id

    def standings(batch_id: int) -> list[str]:
        (found,) = rows(session, "SELECT verdict FROM offset_ledger.batch WHERE batch_id = %s", [batch_id])
        return [each["standing"] for each in found[0]["history"]]

    seen = []
    for minute in (0, 15, 30, 45):
        seen.append(stage_next(minute, [GOOD] * 10))
        validate_or_raise(pipeline, seen[-1], ME)
        commit(pipeline, seen[-1], ME)
    assert [standings(each) for each in seen] == [["not compared"] * 2] * 2 + [["not compared", "usual"], ["usual"] * 2]

    without = stage_next(60, [(1, 1, 1, 1, None, False)] * 10)
    _, verdict = validate(pipeline, without, ME)
    assert verdict is not None
    assert (verdict.success, verdict.notes) == (
        True,
        ("warning: share of NULL in t: 100%, usually 0%; it may differ by 20%",),
    )
    commit(pipeline, without, ME)

    few = stage_next(75, [GOOD] * 4)
    reason = "volume: 16 records an hour, usually 40; the band is 0.5 to 2 times that"
    with pytest.raises(BatchRejected, match=reason):
        validate_or_raise(pipeline, few, ME)
    with pytest.raises(BatchRejected, match=reason):
        commit(pipeline, few, ME)
    decide(session, few, State.VALIDATED, ME, "a holiday")
    commit(pipeline, few, ME)

    replayed, verdict = validate(pipeline, stage_next(75, [GOOD], BatchKind.REPLAY), ME)
    assert (replayed.state, verdict.history if verdict else None) == (State.VALIDATED, ())
    assert verify(pipeline)[0] == []


def test_staging_of_a_rejected_batch_is_kept_for_a_set_time_and_then_it_can_only_be_abandoned(
    session: Session, tmp_path: Path
) -> None:
    pipeline = a_pipeline_with(tmp_path, [NOT_NULL], max_quarantined_share=0.2, keep_rejected_days=7)
    tables = rejected(session, pipeline, [GOOD, BAD])

    def there() -> bool:
        return bool(rows(session, "SELECT to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.{tables.rows}"])[0][0])

    def older_by(days: float) -> None:
        with transaction(session) as cursor:
            cursor.execute(
                "UPDATE offset_ledger.batch SET validated_at = now() - make_interval(secs => %s)", [86400 * days]
            )

    older_by(6.9)
    with pytest.raises(BatchRejected, match="needs approval"):
        plan(pipeline, ME)
    assert there()
    yesterday = daily_report([pipeline], date.today() - timedelta(days=1)).metrics["orders"]
    assert (yesterday["batches"], yesterday["waiting_batch"]) == ({}, tables.batch_id)
    older_by(7.1)
    with pytest.raises(BatchRejected, match="needs approval"):
        plan(pipeline, ME)
    assert not there()
    with pytest.raises(
        StateConflict, match=r"cannot be approved: its staging is gone .* offset-ledger batch abandon 1 --why"
    ):
        decide(session, tables.batch_id, State.VALIDATED, ME, "too late")
    decide(session, tables.batch_id, State.ABANDONED, ME, "too late")
    assert commit_again(session, replace(pipeline, quality=Quality())) == {("e0", 0), ("e1", 1)}


def commit_again(session: Session, pipeline: Pipeline) -> set[tuple[str, int]]:
    tables = stage_rows(session, pipeline, [GOOD, BAD])
    validate_or_raise(pipeline, tables.batch_id, ME)
    commit(pipeline, tables.batch_id, ME)
    return in_table(session, pipeline)


@pytest.mark.parametrize("emptied", ["rows", "refused"])
def test_staging_that_a_stopped_postgres_emptied_cannot_be_approved(
    session: Session, tmp_path: Path, emptied: str
) -> None:
    pipeline = a_pipeline_with(tmp_path, [NOT_NULL], max_quarantined_share=0.2)
    tables = rejected(session, pipeline, [GOOD, BAD])
    do(session, f"TRUNCATE {SCHEMA}.{getattr(tables, emptied)}")
    with pytest.raises(StateConflict, match="a Postgres that stops empties it"):
        decide(session, tables.batch_id, State.VALIDATED, ME, "why not")


WHOLE = [
    ("expect_table_row_count_to_be_between", {"min_value": 5}, {"min_value": 7}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "d", "min_value": 0.9}, {"max_value": 0.9}),
    ("expect_column_unique_value_count_to_be_between", {"column": "a", "max_value": 3}, {"max_value": 2}),
    ("expect_column_distinct_values_to_equal_set", {"column": "t", "value_set": ["x", "y"]}, {"value_set": ["x"]}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "t", "value_set": ["x"]}, {"value_set": ["y"]}),
    (
        "expect_column_max_to_be_between",
        {"column": "publish_at", "min_value": "2026-01-01"},
        {"min_value": "2027-01-01"},
    ),
    ("expect_column_mean_to_be_between", {"column": "d", "min_value": 3, "max_value": 4}, {"max_value": 3.4}),
    ("expect_column_median_to_be_between", {"column": "d", "min_value": 3, "max_value": 4}, {"min_value": 4}),
    ("expect_column_stdev_to_be_between", {"column": "d", "max_value": 2}, {"max_value": 1}),
    ("expect_column_sum_to_be_between", {"column": "d", "max_value": 21}, {"max_value": 20}),
    (
        "expect_column_quantile_values_to_be_between",
        {"column": "d", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[3, 4]]}},
        {"quantile_ranges": {"quantiles": [0.5], "value_ranges": [[5, 6]]}},
    ),
    (
        "expect_column_kl_divergence_to_be_less_than",
        {"column": "t", "threshold": 0.01, "partition_object": {"values": ["x", "y"], "weights": [2 / 3, 1 / 3]}},
        {"partition_object": {"values": ["x", "y"], "weights": [0.1, 0.9]}},
    ),
    (
        "unexpected_rows_expectation",  # freshness: it fails if it selects a row
        {"unexpected_rows_query": "SELECT 1 FROM {batch} HAVING max(publish_at) < '2026-01-01'"},
        {"unexpected_rows_query": "SELECT 1 FROM {batch} HAVING max(publish_at) < '2027-01-01'"},
    ),
]


def test_expectations_on_the_whole_batch_reject_or_warn(session: Session, tmp_path: Path) -> None:
    entries = []
    for place, (kind, passing, failing) in enumerate(WHOLE):
        action = "reject" if place % 2 else "warn"
        for name, kwargs in (("passing", passing), ("failing", {**passing, **failing})):
            entries.append(
                {"type": kind, "kwargs": kwargs, "meta": {"action": action}, "description": f"{name} {place}"}
            )
    pipeline = a_pipeline_with(tmp_path, entries)
    found = [(1 + n % 3, 1, 1, n + 1, "y" if n > 3 else "x", False) for n in range(6)]
    tables = stage_rows(session, pipeline, [*found, (*[None] * 5, True)])
    batch, verdict = validate(pipeline, tables.batch_id, ME)
    assert verdict is not None
    assert [each.exception for each in verdict.findings] == [None] * len(entries)
    assert {each.text for each in verdict.findings if each.success} == {f"passing {n}" for n in range(len(WHOLE))}
    assert [reason.split(":")[0] for reason in verdict.reasons] == [f"failing {n}" for n in range(1, len(WHOLE), 2)]
    assert [note.split(":")[1] for note in verdict.notes] == [f" failing {n}" for n in range(0, len(WHOLE), 2)]
    assert batch.state is State.REJECTED


# -- reports ---------------------------------------------------------------------------------------------------


def test_the_pages_and_metrics_of_a_day_and_a_failure_to_write_them_that_fails_no_batch(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = a_pipeline_with(tmp_path, [NOT_NULL])
    tables = stage_rows(session, pipeline, [GOOD, BAD, BAD, GOOD])
    validate_or_raise(pipeline, tables.batch_id, ME)
    commit(pipeline, tables.batch_id, ME)
    page = report(pipeline, tables.batch_id)
    assert page is not None
    away = replace(pipeline, name="away", target=replace(pipeline.target, connection="nowhere"))
    ((day,),) = rows(session, "SELECT (ended_at AT TIME ZONE 'UTC')::date FROM offset_ledger.batch")
    made = daily_report([pipeline, away], day)
    assert made.metrics["orders"] == {
        "batches": {"committed": 1},
        "records": 4,
        "quarantined": 2,
        "quarantined_share": 0.5,
        "reasons": {'expect_column_values_to_not_be_null(column="a")': 2},
        "failed_rules": {'expect_column_values_to_not_be_null(column="a")': 1},
        "newest_record": NOON.isoformat(),
        "every_partition_up_to": NOON.isoformat(),
        "waiting_batch": None,
    }
    assert "connection 'nowhere' is not defined" in made.metrics["away"]["error"]
    assert daily_report([pipeline], day - timedelta(days=1)).metrics["orders"]["batches"] == {}
    for written in (page, page.with_name("index.html"), made.page):
        assert not any(host in written.read_text() for host in ("http:", "https:", "url(", "@import", "<script"))

    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the reports folder should be")
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(blocked))
    last = stage_rows(session, pipeline, [GOOD], start=4)
    validate_or_raise(pipeline, last.batch_id, ME)
    commit(pipeline, last.batch_id, ME)
    assert report(pipeline, last.batch_id) is None
    (warning,) = [each for each in caplog.records if "could not be written" in each.message]
    assert str(blocked) in warning.message
    assert warning.exc_info is None, "a folder that cannot be written to is one line, without a traceback"
    assert ("e4", 4) in in_table(session, pipeline)
    assert rows(session, "SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]) == []


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
