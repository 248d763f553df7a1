"""Days, times and moments as schemas count them -> Python's, and their texts."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import Code, Mismatch

NANOSECONDS_PER_DAY = 86_400_000_000_000
_NANOSECONDS_PER_SECOND = 1_000_000_000
_DAY_ZERO = date(1970, 1, 1).toordinal()
_ZONELESS_EPOCH = EPOCH.replace(tzinfo=None)


def day(days: int) -> date:
    """The day so many days after 1970-01-01."""
    try:
        return date.fromordinal(_DAY_ZERO + days)
    except (ValueError, OverflowError):
        raise Mismatch(Code.RANGE, f"expected a day in the years 1 to 9999, got day {days} since 1970-01-01") from None


def time_of_day(count: int, nanoseconds: int) -> time:
    """The time so many units of ``nanoseconds`` after midnight."""
    microseconds = _microseconds(_within_a_day(count, nanoseconds))
    return (datetime.min + timedelta(microseconds=microseconds)).time()


def moment(count: int, nanoseconds: int) -> datetime:
    """The moment so many units of ``nanoseconds`` after 1970."""
    microseconds = _microseconds(count * nanoseconds)
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise _far(count * nanoseconds) from None


def time_text(count: int, nanoseconds: int) -> str:
    """The time as HH:MM:SS, with every digit of its fraction."""
    seconds, rest = divmod(_within_a_day(count, nanoseconds), _NANOSECONDS_PER_SECOND)
    return (datetime.min + timedelta(seconds=seconds)).time().isoformat() + _fraction(rest)


def moment_text(count: int, nanoseconds: int) -> str:
    """The moment in RFC 3339, with every digit of its fraction, in UTC but for the ``Z`` at its end."""
    seconds, rest = divmod(count * nanoseconds, _NANOSECONDS_PER_SECOND)
    try:
        return (_ZONELESS_EPOCH + timedelta(seconds=seconds)).isoformat() + _fraction(rest)
    except OverflowError:
        raise _far(count * nanoseconds) from None


def _within_a_day(count: int, nanoseconds: int) -> int:
    total = count * nanoseconds
    if not 0 <= total < NANOSECONDS_PER_DAY:
        raise Mismatch(Code.RANGE, f"expected a time before 24:00:00, got {total} ns since midnight")
    return total


def _microseconds(nanoseconds: int) -> int:
    microseconds, rest = divmod(nanoseconds, 1000)
    if rest:
        raise Mismatch(Code.PRECISION, f"expected at most microseconds, got {nanoseconds} ns")
    return microseconds


def _fraction(nanoseconds: int) -> str:
    """Nothing, or as many digits as are needed, in threes."""
    digits = f"{nanoseconds:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits and "." + digits


def _far(nanoseconds: int) -> Mismatch:
    return Mismatch(Code.RANGE, f"expected a moment in the years 1 to 9999, got {nanoseconds} ns since 1970")
