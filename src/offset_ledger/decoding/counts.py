"""Counts, as other systems write days, times, moments and intervals: so many units since 1970, since midnight, or long.

One count becomes a value exactly, or rounded where the file says so, or not at all.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

from offset_ledger.decoding import kinds
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Code, Mismatch

NANOSECONDS_PER_DAY = 86_400_000_000_000
MIDNIGHT = "24:00:00"
"""The end of a day, which Postgres has as a time, and Python has not."""
_LAST_MICROSECOND = 86_399_999_999
_ENDS = (-(2**63), 2**63 - 1)
"""What a source writes for all that 64 bits cannot hold."""


def reader(kind: ColumnKind) -> Callable[[int], Any]:
    """Return how a count becomes a value of the kind, by its encoding."""
    match kind.name:
        case "date":
            return day
        case "time":
            return partial(time_of_day, nanoseconds=kind.unit, rounds=kind.round)
        case "interval":
            return partial(interval, kind=kind)
        case _:
            return partial(moment, nanoseconds=kind.unit, rounds=kind.round)


def day(days: int) -> date:
    """Return the day so many days after 1970-01-01."""
    if not kinds.FIRST_DAY <= days <= kinds.LAST_DAY:
        raise Mismatch(Code.RANGE, f"expected a day in the years 1 to 9999, got day {days} since 1970-01-01")
    return kinds.EPOCH.date() + timedelta(days=days)


def time_of_day(count: int, nanoseconds: int, rounds: bool = False) -> time | str:
    """Return the time so many units of ``nanoseconds`` after midnight."""
    microseconds = whole(count * nanoseconds, 1000, rounds, f"{count * nanoseconds} ns")
    if not 0 <= count * nanoseconds <= NANOSECONDS_PER_DAY:
        raise late(count * nanoseconds)
    return (
        MIDNIGHT if microseconds > _LAST_MICROSECOND else (datetime.min + timedelta(microseconds=microseconds)).time()
    )


def moment(count: int, nanoseconds: int, rounds: bool = False) -> datetime:
    """Return the moment so many units of ``nanoseconds`` after 1970."""
    microseconds = whole(count * nanoseconds, 1000, rounds, f"{count * nanoseconds} ns")
    try:
        return kinds.EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise far(count * nanoseconds) from None


def interval(count: int, kind: ColumnKind) -> str:
    """Return the interval of so many units of the kind's encoding, as Postgres writes and reads it."""
    if count in _ENDS:
        raise Mismatch(Code.RANGE, f"expected an interval, got {count}, which is written for all that is longer")
    microseconds = whole(count * kind.unit, 1000, kind.round, f"{count * kind.unit} ns")
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{'-' * (microseconds < 0)}{hours:02}:{minutes:02}:{seconds % 60:02}.{fraction:06}"


_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_IN_2000 = date(2000, 1, 1)


def days_of(year: int, month: int, day_: int) -> int:
    """Return the days from 2000-01-01 to a day of any year; 0 is the year before 1, as in ISO 8601."""
    cycles, rest = divmod(year - 2000, _CYCLE_YEARS)
    return (date(2000 + rest, month, day_) - _IN_2000).days + cycles * _CYCLE_DAYS


def whole(numerator: int, divisor: int, rounds: bool, shown: str) -> int:
    """Return the quotient as microseconds, which is whole, or where it ``rounds`` the nearest, of two the even one."""
    quotient, rest = divmod(numerator, divisor)
    if rest and not rounds:
        detail = f"expected at most microseconds, got {shown}; write round: true to take the nearest"
        raise Mismatch(Code.PRECISION, detail)
    return quotient + (2 * rest + quotient % 2 > divisor)


def late(nanoseconds: int) -> Mismatch:
    """Return what is wrong with a time so many nanoseconds after midnight."""
    return Mismatch(Code.RANGE, f"expected a time up to 24:00:00, got {nanoseconds} ns since midnight")


def far(nanoseconds: int) -> Mismatch:
    """Return what is wrong with a moment so many nanoseconds after 1970."""
    return Mismatch(Code.RANGE, f"expected a moment in the years 1 to 9999, got {nanoseconds} ns since 1970")
