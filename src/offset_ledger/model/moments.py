"""Moments: Kafka's record timestamps, and those that people write."""

from dataclasses import dataclass
from datetime import UTC, datetime

from offset_ledger.errors import ConfigurationError

_LATEST = 253_402_300_799_999


def known_timestamp(added: int | None) -> int | None:
    """A timestamp of kafka-python, in milliseconds; None where Kafka has none: -1, or a record of the oldest format."""
    if added is None:
        return None
    # Overflow as in Kafka: kafka-python adds to the first timestamp of a record batch without one.
    timestamp = (added + 2**63) % 2**64 - 2**63
    return None if timestamp == -1 else timestamp


def moment(milliseconds: int) -> datetime:
    """The timestamp of a record; one beyond the year 9999, as of a producer that counts in microseconds, is its end."""
    return datetime.fromtimestamp(min(milliseconds, _LATEST) / 1000, UTC)


def moment_or_none(milliseconds: int) -> datetime | None:
    """The timestamp of a record; None for the broker's -1."""
    return moment(milliseconds) if milliseconds >= 0 else None


def zoned(text: str) -> datetime | None:
    """The moment of a text in ISO 8601 with a zone; None where it is something else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def parse_since(text: str | None) -> datetime | None:
    """The moment of an option ``since``, if given; raises ConfigurationError unless it is ISO 8601 with a zone."""
    if text is None:
        return None
    if moment := zoned(text):
        return moment
    raise ConfigurationError(f"since: {text!r} is not ISO 8601 with a zone, such as 2013-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True)
class FirstAt:
    """The first record at or after some moment, and its own timestamp."""

    offset: int
    timestamp: datetime
