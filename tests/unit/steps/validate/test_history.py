"""A batch compared with the recent ones, as tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.model.batch import Profile
from offset_ledger.pipeline_file.pipeline import History, NullBand, Unusual, VolumeBand
from offset_ledger.steps.validate.verdict import GateVerdict, Standing, compare

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
USUAL, UNUSUAL, NOT_COMPARED = Standing.USUAL, Standing.UNUSUAL, Standing.NOT_COMPARED


def profile(minute: float | None, records: int = 100, nulls: int = 0, rows: int = 100) -> Profile:
    """A batch whose newest record is so many minutes after NOON."""
    return Profile(records, rows, {"note": nulls}, None if minute is None else NOON + timedelta(minutes=minute))


def every(minutes: int, *records: int) -> list[Profile]:
    """Batches of so many records each, given oldest first, so many minutes apart; returned newest first."""
    return [profile(minutes * place, count) for place, count in enumerate(records)][::-1]


VOLUME = History(batches=5, min_batches=3, volume=VolumeBand(0.5, 2, Unusual.REJECT))
STEADY = every(15, 7, 100, 100, 100)  # the first only says where the second begins


@pytest.mark.parametrize(
    ("batch", "before", "standing", "text"),
    [
        (profile(60, 100), STEADY, USUAL, "400 records an hour, usually 400; the band is 0.5 to 2 times that"),
        (profile(60, 50), STEADY, USUAL, "200 records an hour"),
        (profile(60, 49), STEADY, UNUSUAL, "196 records an hour, usually 400"),
        (profile(60, 200), STEADY, USUAL, "800 records an hour"),
        (profile(60, 201), STEADY, UNUSUAL, "804 records an hour"),
        # after a standstill of three hours one batch, or several, catch up: the pace is the same
        (profile(45 + 180, 1200), STEADY, USUAL, "400 records an hour"),
        (profile(45 + 180, 100), STEADY, UNUSUAL, "33 records an hour"),
        # a burst does not move the median
        (profile(75, 100), every(15, 7, 100, 90_000, 100, 100), USUAL, "400 records an hour, usually 400"),
        # only the newest five count
        (profile(105, 900), every(15, 7, 100, 900, 900, 900, 900, 900), USUAL, "3,600 records an hour, usually 3,600"),
        # late records do not turn time back
        (profile(60, 100), [profile(30, 9), *STEADY], USUAL, "400 records an hour, usually 400"),
        (profile(60, 100), STEADY[:3], NOT_COMPARED, "not compared: 2 earlier batches, and at least 3 are needed"),
        (profile(60, 100), [], NOT_COMPARED, "not compared: 0 earlier batches"),
        (profile(46, 100), STEADY, NOT_COMPARED, "not compared: its records cover 1 minute, usually 15 minutes"),
        (profile(40, 100), STEADY, NOT_COMPARED, "not compared: its records cover 0 seconds"),
        (profile(None, 0), STEADY, NOT_COMPARED, "not compared: its records cover 0 seconds"),
    ],
)
def test_volume_is_records_an_hour_of_record_time(
    batch: Profile, before: list[Profile], standing: Standing, text: str
) -> None:
    (found,) = compare(VOLUME, batch, before)
    assert (found.measure, found.standing, found.action) == ("volume", standing, Unusual.REJECT)
    assert found.text.startswith(f"volume: {text}")


NULLS = History(batches=4, min_batches=2, null_share=NullBand(tolerance=0.1))


@pytest.mark.parametrize(
    ("batch", "before", "standing", "text"),
    [
        (profile(0, nulls=12), [profile(0, nulls=2)] * 3, USUAL, "12%, usually 2%; it may differ by 10%"),
        (profile(0, nulls=13), [profile(0, nulls=2)] * 3, UNUSUAL, "13%, usually 2%"),
        (profile(0, nulls=79), [profile(0, nulls=90)] * 3, UNUSUAL, "79%, usually 90%"),
        (profile(0, nulls=2), [profile(0, nulls=n) for n in (2, 3, 99, 1)], USUAL, "2%, usually 2.5%"),
        (profile(0, nulls=2), [profile(0, nulls=2)], NOT_COMPARED, "not compared: 1 earlier batches"),
        (profile(0, nulls=2), [profile(0, rows=0)] * 5, NOT_COMPARED, "not compared: 0 earlier batches"),
        (profile(0, rows=0), [profile(0)] * 3, NOT_COMPARED, "not compared: the batch has no row"),
        (profile(0, nulls=50), [*[profile(0, nulls=50)] * 4, *[profile(0)] * 9], USUAL, "50%, usually 50%"),
    ],
)
def test_the_share_of_null_may_lie_within_a_tolerance_of_the_usual_one(
    batch: Profile, before: list[Profile], standing: Standing, text: str
) -> None:
    (found,) = compare(NULLS, batch, before)
    assert (found.standing, found.action) == (standing, Unusual.WARN)
    assert found.text.startswith(f"share of NULL in note: {text}")


def test_each_column_is_compared_by_itself_and_one_that_is_new_is_not_compared() -> None:
    before = [Profile(10, 10, {"a": 0, "b": 10}, NOON)] * 2
    batch = Profile(10, 10, {"c": 1, "b": 10, "a": 9}, NOON)
    assert [(each.measure, each.standing) for each in compare(NULLS, batch, before)] == [
        ("share of NULL in a", UNUSUAL),
        ("share of NULL in b", USUAL),
        ("share of NULL in c", NOT_COMPARED),
    ]
    only = replace(NULLS, null_share=NullBand(columns=("b",)))
    assert [each.measure for each in compare(only, batch, before)] == ["share of NULL in b"]


def test_a_rule_without_measures_compares_nothing() -> None:
    assert compare(History(), profile(60), STEADY) == ()


def test_what_is_unusual_rejects_or_warns_as_its_rule_says_and_what_is_not_compared_does_neither() -> None:
    rule = History(5, 3, VolumeBand(0.5, 2, Unusual.REJECT), NullBand(0.1))
    passed = GateVerdict(True, (), 100, 0, 0, 0, 1.0, (), ("a note",), 0.1)
    verdict = passed.compared(compare(rule, profile(60, 900, nulls=50), STEADY))
    volume = "volume: 3,600 records an hour, usually 400; the band is 0.5 to 2 times that"
    nulls = "share of NULL in note: 50%, usually 0%; it may differ by 10%"
    assert (verdict.success, verdict.reasons) == (False, (volume,))
    assert verdict.notes == ("a note", f"warning: {nulls}")
    kept = json.loads(verdict.to_json())["history"]
    assert [(each["standing"], each["action"], each["text"]) for each in kept] == [
        ("unusual", "reject", volume),
        ("unusual", "warn", nulls),
    ]
    assert replace(passed.compared(compare(rule, profile(60, 900), [])), history=()) == passed
