"""Counts, as other systems write days, times, moments and intervals: so many units since 1970, since midnight, or long.

One count becomes a value exactly or not at all.
"""

from datetime import date, datetime, time, timedelta

from offset_ledger.decoding import kinds
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Code, Mismatch

NANOSECONDS_PER_DAY = 86_400_000_000_000
_ENDS = (-(2**63), 2**63 - 1)
"""What a source writes for all that 64 bits cannot hold."""


def day(days: int) -> date:
    """Return the day so many days after 1970-01-01."""
    if not kinds.FIRST_DAY <= days <= kinds.LAST_DAY:
        raise Mismatch(Code.RANGE, f"expected a day in the years 1 to 9999, got day {days} since 1970-01-01")
    return kinds.EPOCH.date() + timedelta(days=days)


def time_of_day(count: int, nanoseconds: int) -> time:
    """Return the time so many units of ``nanoseconds`` after midnight."""
    microseconds = _microseconds(within_a_day(count, nanoseconds))
    return (datetime.min + timedelta(microseconds=microseconds)).time()


def moment(count: int, nanoseconds: int) -> datetime:
    """Return the moment so many units of ``nanoseconds`` after 1970."""
    microseconds = _microseconds(count * nanoseconds)
    try:
        return kinds.EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise far(count * nanoseconds) from None


def interval(count: int, kind: ColumnKind) -> str:
    """Return the interval of so many units of the kind's encoding, as Postgres writes and reads it."""
    if count in _ENDS:
        raise Mismatch(Code.RANGE, f"expected an interval, got {count}, which is written for all that is longer")
    microseconds = _microseconds(count * kind.unit)
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{'-' * (microseconds < 0)}{hours:02}:{minutes:02}:{seconds % 60:02}.{fraction:06}"


def within_a_day(count: int, nanoseconds: int) -> int:
    """Return the nanoseconds since midnight."""
    total = count * nanoseconds
    if not 0 <= total < NANOSECONDS_PER_DAY:
        raise Mismatch(Code.RANGE, f"expected a time before 24:00:00, got {total} ns since midnight")
    return total


def far(nanoseconds: int) -> Mismatch:
    """Return what is wrong with a moment so many nanoseconds after 1970."""
    return Mismatch(Code.RANGE, f"expected a moment in the years 1 to 9999, got {nanoseconds} ns since 1970")


def _microseconds(nanoseconds: int) -> int:
    microseconds, rest = divmod(nanoseconds, 1000)
    if rest:
        raise Mismatch(Code.PRECISION, f"expected at most microseconds, got {nanoseconds} ns")
    return microseconds
