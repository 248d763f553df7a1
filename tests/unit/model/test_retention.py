"""What the settings of retention say, and when unread records are deleted: worked examples of both limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.model.retention import Deadline, Retention, SizedLog, UnreadLog, earliest

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = {"delete.retention.ms": "86400000"}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# 10 hours of 100 bytes an hour, of which the last 4 hours are unread.
LOG = UnreadLog(NOW - 4 * HOUR, SizedLog(1000, NOW - 10 * HOUR), 0.4)
BY_AGE, BY_SIZE = "retention.ms", "retention.bytes"


@pytest.mark.parametrize(
    ("age", "size", "expected"),
    [
        (None, None, None), (DAY, None, Deadline(NOW + 20 * HOUR, BY_AGE)),
        (None, 1000, Deadline(NOW + 6 * HOUR, BY_SIZE)), (DAY, 1000, Deadline(NOW + 6 * HOUR, BY_SIZE)),
        (DAY, 10_000, Deadline(NOW + 20 * HOUR, BY_AGE)), (None, 400, Deadline(NOW, BY_SIZE)),
        (None, 100, Deadline(NOW, BY_SIZE)), (None, 2**63 - 1, Deadline(NOW + timedelta(days=36_500), BY_SIZE)),
    ],
)  # fmt: skip
def test_whichever_setting_deletes_first_counts(
    age: timedelta | None, size: int | None, expected: Deadline | None
) -> None:
    assert earliest([LOG], Retention(age, size), NOW) == expected


def test_the_partition_that_is_deleted_first_counts() -> None:
    later = UnreadLog(NOW - HOUR, SizedLog(100, NOW - 10 * HOUR), 0.1)
    assert earliest([later, LOG], Retention(bytes=1000), NOW) == Deadline(NOW + 6 * HOUR, BY_SIZE)
    assert earliest([later, LOG], Retention(DAY), NOW) == Deadline(NOW + 20 * HOUR, BY_AGE)


@pytest.mark.parametrize(
    "log", [UnreadLog(None), UnreadLog(None, SizedLog(None, NOW - HOUR)), UnreadLog(None, SizedLog(1000), 1.0)]
)
def test_what_is_not_known_gives_no_deadline(log: UnreadLog) -> None:
    assert earliest([log], Retention(DAY, 1000), NOW) is None


def test_timestamps_of_the_future_are_a_log_that_has_just_begun() -> None:
    ahead = UnreadLog(None, SizedLog(1000, NOW + HOUR), 1.0)
    assert earliest([ahead], Retention(bytes=2000), NOW) == Deadline(NOW + timedelta(seconds=1), BY_SIZE)


@pytest.mark.parametrize("kept", [-1, 365_000 * 86_400_000, 2**63 - 1])
def test_a_retention_beyond_the_calendar_is_without_limit(kept: int) -> None:
    found = Retention.from_settings(
        {**SETTINGS, "cleanup.policy": "delete", "retention.ms": str(kept), "retention.bytes": "-1"}
    )
    assert found == Retention()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("delete", "604800000", "-1"), Retention(timedelta(days=7))),
        (("compact,delete", "-1", "1024"), Retention(None, 1024, timedelta(days=1))),
        (("compact", "604800000", "1024"), Retention(tombstones=timedelta(days=1))),
    ],
)
def test_retention_is_what_the_broker_deletes(settings: tuple[str, str, str], expected: Retention) -> None:
    names = ("cleanup.policy", "retention.ms", "retention.bytes")
    assert Retention.from_settings({**SETTINGS, **dict(zip(names, settings, strict=True))}) == expected
