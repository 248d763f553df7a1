"""Counts, as other systems write days, times, moments and intervals: units since 1970 or midnight, or of a duration.

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
LAST_MICROSECOND = 86_399_999_999
_ENDS = (-(2**63), 2**63 - 1)
"""A source writes this for all that 64 bits cannot hold."""
INFINITE = ("infinity", "-infinity")
_INFINITE_COUNTS = {9_223_372_036_825_200_000: "infinity", -9_223_372_036_832_400_000: "-infinity"}
"""The JDBC driver of Postgres, and so Debezium, gives this for an infinite timestamp, whatever the unit."""
_FAR_DAYS = range(-2_440_588, 2_145_042_906)
_FAR_MOMENTS = range(-210_866_803_200_000_000, 9_224_318_016_000_000_000)
"""Days and microseconds since 1970 that Postgres holds: from 4714 BC to the years 5874897 and 294276."""
_MICROSECONDS_PER_DAY = 86_400_000_000
ALL_YEARS = "a column with years: all takes all that Postgres holds"


def reader(kind: ColumnKind, nanoseconds: int = 0) -> Callable[[int], Any]:
    """Return the function that makes a value of the kind of a count of ``nanoseconds``, or of its encoding's unit."""
    unit = nanoseconds or kind.unit
    match kind.name:
        case "date":
            return partial(day, far=kind.far)
        case "time":
            return partial(time_of_day, nanoseconds=unit, rounds=kind.round)
        case "interval":
            return partial(interval, kind=kind)
        case _:
            return partial(moment, nanoseconds=unit, rounds=kind.round, far=kind.far)


def day(days: int, far: bool = False) -> date | str:
    """Return the day ``days`` days after 1970-01-01; as text if only Postgres has it and ``far``."""
    if kinds.FIRST_DAY <= days <= kinds.LAST_DAY:
        return kinds.EPOCH.date() + timedelta(days=days)
    if far and days in _FAR_DAYS:
        return "".join(_written(days))
    raise beyond("a day", f"day {days} since 1970-01-01", far)


def time_of_day(count: int, nanoseconds: int, rounds: bool = False) -> time | str:
    """Return the time ``count`` units of ``nanoseconds`` after midnight."""
    microseconds = whole(count * nanoseconds, 1000, rounds, f"{count * nanoseconds} ns")
    if not 0 <= count * nanoseconds <= NANOSECONDS_PER_DAY:
        raise late(count * nanoseconds)
    return MIDNIGHT if microseconds > LAST_MICROSECOND else (datetime.min + timedelta(microseconds=microseconds)).time()


def moment(count: int, nanoseconds: int, rounds: bool = False, far: bool = False) -> datetime | str:
    """Return the moment ``count`` units of ``nanoseconds`` after 1970; as text if only Postgres has it and ``far``."""
    got = f"{count * nanoseconds} ns since 1970"
    microseconds = whole(count * nanoseconds, 1000, rounds, f"{count * nanoseconds} ns")
    if kinds.FIRST_MOMENT <= microseconds <= kinds.LAST_MOMENT:
        return kinds.EPOCH + timedelta(microseconds=microseconds)
    if infinite := _INFINITE_COUNTS.get(count, ""):
        if far:
            return infinite
        got = infinite
    if far and count not in _ENDS and microseconds in _FAR_MOMENTS:
        days, rest = divmod(microseconds, _MICROSECONDS_PER_DAY)
        day_, era = _written(days)
        return f"{day_} {(datetime.min + timedelta(microseconds=rest)).time()}Z{era}"
    raise beyond("a moment", got, far)


def interval(count: int, kind: ColumnKind) -> str:
    """Return the interval of ``count`` units of the kind's encoding, as Postgres writes and reads it."""
    if count in _ENDS:
        raise Mismatch(Code.RANGE, f"expected an interval, got {count}, which is written for all that is longer")
    microseconds = whole(count * kind.unit, 1000, kind.round, f"{count * kind.unit} ns")
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{'-' * (microseconds < 0)}{hours:02}:{minutes:02}:{seconds % 60:02}.{fraction:06}"


CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
_IN_2000 = date(2000, 1, 1)


def days_of(year: int, month: int, day_: int) -> int:
    """Return the days from 2000-01-01 to a day of any year; 0 is the year before 1, as in ISO 8601."""
    cycles, rest = divmod(year - 2000, CYCLE_YEARS)
    return (date(2000 + rest, month, day_) - _IN_2000).days + cycles * CYCLE_DAYS


def _written(days: int) -> tuple[str, str]:
    """Return any day, ``days`` days after 1970, and its era, as Postgres writes them."""
    cycles, rest = divmod(days - (_IN_2000 - kinds.EPOCH.date()).days, CYCLE_DAYS)
    in_cycle = _IN_2000 + timedelta(days=rest)
    year = in_cycle.year + cycles * CYCLE_YEARS
    return f"{year if year > 0 else 1 - year:04}-{in_cycle:%m-%d}", "" if year > 0 else " BC"


def whole(numerator: int, divisor: int, rounds: bool, shown: str) -> int:
    """Return the quotient as microseconds, which is whole, or where it ``rounds`` the nearest, of two the even one."""
    quotient, rest = divmod(numerator, divisor)
    if rest and not rounds:
        detail = f"expected at most microseconds, got {shown}; write round: true to take the nearest"
        raise Mismatch(Code.PRECISION, detail)
    return quotient + (2 * rest + quotient % 2 > divisor)


def late(nanoseconds: int) -> Mismatch:
    """Return what is wrong with a time that many nanoseconds after midnight."""
    return Mismatch(Code.RANGE, f"expected a time up to 24:00:00, got {nanoseconds} ns since midnight")


def beyond(what: str, got: str, far: bool) -> Mismatch:
    """Return what is wrong with a day or a moment that Python, or if it may be ``far`` Postgres, does not have."""
    if far:
        return Mismatch(Code.RANGE, f"expected {what} that Postgres holds, got {got}")
    return Mismatch(Code.RANGE, f"expected {what} in the years 1 to 9999, got {got}; {ALL_YEARS}")
