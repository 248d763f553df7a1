"""Kafka's record timestamps as moments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

_LATEST = 253_402_300_799_999


def moment(milliseconds: int) -> datetime:
    """The timestamp of a record; one beyond the year 9999, as of a producer that counts in microseconds, is its end."""
    return datetime.fromtimestamp(min(milliseconds, _LATEST) / 1000, UTC)


@dataclass(frozen=True, slots=True)
class FirstAt:
    """The first record at or after some moment, and its own timestamp."""

    offset: int
    timestamp: datetime
