"""Kinds of times: a moment, a duration, and a cron expression."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from offset_ledger.config.document import Value
from offset_ledger.config.keys import Kind
from offset_ledger.config.located import Refused, is_null, quoted
from offset_ledger.config.values import text

CRON_PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
CRON_PATTERN = r"^[^\s@]+(?: +[^\s@]+){4}$"
DURATION_PATTERN = r"^[1-9][0-9]{0,5}[smhd]$"
TIMESTAMP_PATTERN = (
    r"^(?:19[7-9][0-9]|2[0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})$"
)


def _timestamp(value: Value) -> datetime:
    """A moment with its zone, from 1970 on, in UTC."""
    given = text(value)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise Refused(f"{quoted(given)} is not a timestamp ({error})", "write 2013-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise Refused(f"the timestamp {given} has no zone", "end it with Z for UTC, or an offset such as +01:00")
    if moment.timestamp() < 0:
        raise Refused(f"the timestamp {given} is before 1970", "write a later one, or earliest")
    if not re.fullmatch(TIMESTAMP_PATTERN[1:-1], given):
        raise Refused(f"{quoted(given)} is not written as RFC 3339", "write it as 2013-01-01T00:00:00Z")
    return moment.astimezone(UTC)


def _duration(value: Value) -> timedelta:
    """A whole number of seconds, minutes, hours or days, such as 90s, 15m, 1h or 1d."""
    if not re.fullmatch(DURATION_PATTERN[1:-1], given := text(value)):
        raise Refused(f"{quoted(given)} is not a duration", "write a number with s, m, h or d, such as 15m")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[given[-1]]
    return timedelta(**{unit: int(given[:-1])})


def _schedule(value: Value) -> str | None:
    """A cron expression that comes round, one of Airflow's presets, or None for by hand only."""
    if is_null(value.node) or (given := text(value)) in CRON_PRESETS:
        return None if is_null(value.node) else given
    if not re.fullmatch(CRON_PATTERN[1:-1], given):
        right = f"write minute hour day month weekday, such as */15 * * * *, or {', '.join(CRON_PRESETS)} or null"
        raise Refused(f"{quoted(given)} is not a cron expression of five fields", right)
    _check_cron(given)
    return given


def _check_cron(expression: str) -> None:
    # 45 ms, unless Airflow has imported it already; it carries no types.
    from croniter import CroniterBadDateError, CroniterError, croniter

    if re.search(r"(?<![A-Za-z])[RrHh](?![A-Za-z])", expression):
        raise Refused(f"{quoted(expression)} asks for a random time, another at every parse", "write the time itself")
    try:
        croniter(expression).get_next()
    except CroniterBadDateError:
        raise Refused(f"{quoted(expression)} is never due", "write a day that exists") from None
    except CroniterError as error:
        raise Refused(f"{quoted(expression)} is not a cron expression ({error})", "write times in range") from None


TIMESTAMP = Kind(_timestamp, {"type": "string", "pattern": TIMESTAMP_PATTERN})
DURATION = Kind(_duration, {"type": "string", "pattern": DURATION_PATTERN})
SCHEDULE = Kind(
    _schedule, {"anyOf": [{"type": "null"}, {"enum": list(CRON_PRESETS)}, {"type": "string", "pattern": CRON_PATTERN}]}
)
