"""When unread records are deleted: worked examples of both settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.reliability.unread_deadline import Deadline, UnreadLog, earliest

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# 10 hours of 100 bytes an hour, of which the last 4 hours are unread.
LOG = UnreadLog(NOW - 4 * HOUR, NOW - 10 * HOUR, 1000, 0.4)
BY_AGE, BY_SIZE = "retention.ms", "retention.bytes"


@pytest.mark.parametrize(
    ("age", "size", "expected"),
    [
        (None, None, None),
        (DAY, None, Deadline(NOW + 20 * HOUR, BY_AGE)),
        (None, 1000, Deadline(NOW + 6 * HOUR, BY_SIZE)),
        (DAY, 1000, Deadline(NOW + 6 * HOUR, BY_SIZE)),
        (DAY, 10_000, Deadline(NOW + 20 * HOUR, BY_AGE)),
        (None, 400, Deadline(NOW, BY_SIZE)),
        (None, 100, Deadline(NOW, BY_SIZE)),
        (None, 2**63 - 1, Deadline(NOW + timedelta(days=36_500), BY_SIZE)),
    ],
)
def test_whichever_setting_deletes_first_counts(age: timedelta | None, size: int, expected: Deadline | None) -> None:
    assert earliest([LOG], age, size, NOW) == expected


def test_the_partition_that_is_deleted_first_counts() -> None:
    later = UnreadLog(NOW - HOUR, NOW - 10 * HOUR, 100, 0.1)
    assert earliest([later, LOG], None, 1000, NOW) == Deadline(NOW + 6 * HOUR, BY_SIZE)
    assert earliest([later, LOG], DAY, None, NOW) == Deadline(NOW + 20 * HOUR, BY_AGE)


@pytest.mark.parametrize("log", [UnreadLog(None), UnreadLog(None, NOW - HOUR), UnreadLog(None, None, 1000, 1.0)])
def test_what_is_not_known_gives_no_deadline(log: UnreadLog) -> None:
    assert earliest([log], DAY, 1000, NOW) is None


def test_timestamps_of_the_future_are_a_log_that_has_just_begun() -> None:
    ahead = UnreadLog(None, NOW + HOUR, 1000, 1.0)
    assert earliest([ahead], None, 2000, NOW) == Deadline(NOW + timedelta(seconds=1), BY_SIZE)
