"""Values of a document, or cells of a row -> what a schema's types hold, without rounding, cutting or guessing."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, NoReturn
from uuid import UUID

from offset_ledger.decoding import texts
from offset_ledger.decoding.decimals import SINGLE, numeric, single_text
from offset_ledger.decoding.outcome import Code, Mismatch
from offset_ledger.pipeline_file.json_path import format_path

SECOND = 1_000_000_000  # in nanoseconds
DAY = 86_400 * SECOND
_RFC_3339 = "timestamp in RFC 3339"
_CLOCK = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
_TIME = re.compile(_CLOCK)
_LOCAL = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[Tt ]({_CLOCK})")
_ZONE = re.compile(r"[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_MAX_DIGITS = 4_000  # Python converts no more than 4,300
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_DAY_ZERO = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


class Misfit(Exception):
    """A value that its type does not hold; each caller adds its step to the path, so the innermost comes first."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.steps: list[str | int] = []

    def __str__(self) -> str:
        path = "$"
        for step in reversed(self.steps):
            path += f"[{step}]" if isinstance(step, int) else format_path((step,))[1:]
        return f"{path}: {self.detail}"


def refuse(expected: str, value: object) -> NoReturn:
    """Raise a Misfit for a value that is not what was expected."""
    raise Misfit(f"expected {expected}, found {shown(value)}")


def shown(value: object) -> str:
    """Return a value as a message shows it, as JSON writes it."""
    if value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def at(step: str | int, convert: Callable[..., Any], *arguments: Any) -> Any:
    """Convert the part of a value that is found by that step."""
    try:
        return convert(*arguments)
    except Misfit as misfit:
        misfit.steps.append(step)
        raise


def items(value: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Convert every item of an array."""
    if not isinstance(value, list | tuple):
        refuse("array", value)
    return [at(index, convert, each) for index, each in enumerate(value)]


def members(value: Any, name: str, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert every member of an object."""
    if not isinstance(value, Mapping):
        refuse(name, value)
    return {key: at(key, convert, each) for key, each in value.items()}


def boolean(value: Any) -> bool:
    """Return true or false."""
    return value if type(value) is bool else refuse("boolean", value)


def integer(value: Any, name: str, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``."""
    if type(value) is not int:
        refuse(name, value)
    return value if low <= value <= high else refuse(f"{name} from {low} to {high}", value)


def floating(value: Any, name: str, single: bool = False) -> float:
    """Return the nearest float of a number whose shortest text, or exact value, is that number."""
    if type(value) not in (int, float, Decimal):
        refuse(name, value)
    try:
        nearest = float(SINGLE.unpack(SINGLE.pack(value))[0] if single else value)
    except OverflowError:
        refuse(f"{name} in its range", value)
    if type(value) is float and (nearest == value or value != value):
        return nearest
    written = Decimal(repr(value)) if type(value) is float else value
    if nearest == written or Decimal(single_text(nearest) if single else repr(nearest)) == written:
        return nearest
    return refuse(f"{name} that holds it", value)


def text(value: Any, name: str) -> str:
    """Return a text that UTF-8 can say."""
    if not isinstance(value, str):
        refuse(name, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(f"{name} without lone surrogates", value)
    return value


def binary(value: Any, name: str) -> bytes:
    """Return bytes, or those of a text in canonical base64."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        return texts.base64_bytes(value) if isinstance(value, str) else refuse(f"{name} in base64", value)
    except ValueError:
        return refuse(f"{name} in base64", value)


def uuid(value: Any) -> UUID:
    """Return a UUID, also of its canonical text."""
    if isinstance(value, UUID):
        return value
    try:
        return texts.uuid(value) if isinstance(value, str) else refuse("uuid", value)
    except Mismatch:
        return refuse("uuid", value)


def decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Return a number with no more digits than ``decimal(precision, scale)``, with all of its scale."""
    name = f"decimal({precision},{scale})"
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = Decimal(value)
    if type(value) not in (int, Decimal) or not Decimal(value).is_finite():
        refuse(name, value)
    number = Decimal(value)
    try:
        numeric(number, str, precision, scale)
    except Mismatch:
        refuse(name, value)
    if number and len(number.as_tuple().digits) > _MAX_DIGITS:
        refuse(name, value)
    return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT) if number else Decimal(0)


def day(value: Any) -> int:
    """Return the days since 1970 of a date, as YYYY-MM-DD or their number."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return date.toordinal(value) - _DAY_ZERO
    if isinstance(value, str):
        return _date(value).toordinal() - _DAY_ZERO
    return integer(value, "date", -(2**31), 2**31 - 1)


def clock(value: Any, unit: int) -> int:
    """Return the units of ``unit`` nanoseconds since midnight of a time, as HH:MM:SS or their number."""
    if type(value) is int:
        return value if 0 <= value * unit < DAY else refuse("time before 24:00:00", value)
    if isinstance(value, time) and value.tzinfo is None:
        return _units(_nanoseconds(value.isoformat()), unit, value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return _units(_nanoseconds(value), unit, value)
    return refuse("time as HH:MM:SS", value)


def moment(value: Any, unit: int, local: bool = False) -> int:
    """Return units of ``unit`` ns since 1970 from their number or RFC 3339 (``local``: without a zone)."""
    if type(value) is int:
        return integer(value, "timestamp", -(2**63), 2**63 - 1)
    if isinstance(value, datetime) and (value.tzinfo is None) is local:
        utc = value if local else value.astimezone(UTC).replace(tzinfo=None)
        return _units((utc - _EPOCH) // timedelta(microseconds=1) * 1_000, unit, value)
    name = "local timestamp as 2013-01-01T10:00:00" if local else _RFC_3339
    return integer(_units(_since_1970(value, name, local), unit, value), name, -(2**63), 2**63 - 1)


def rfc3339(value: Any) -> str:
    """Return the text itself, if it is a moment in RFC 3339."""
    _since_1970(value, _RFC_3339, local=False)
    return str(value).upper().replace(" ", "T")


def _since_1970(value: Any, name: str, local: bool) -> int:
    """Return nanoseconds."""
    match = _LOCAL.match(value) if isinstance(value, str) else None
    zone = value[match.end() :] if match else ""
    offset = None if local else _ZONE.fullmatch(zone)
    if match is None or (zone if local else offset is None):
        refuse(name, value)
    ahead = 0
    if offset:
        sign, hours, minutes = offset.groups(default="0")
        ahead = (int(hours) * 60 + int(minutes)) * 60 * SECOND * (-1 if sign == "-" else 1)
    return (_date(match[1]).toordinal() - _DAY_ZERO) * DAY + _nanoseconds(match[2]) - ahead


def _date(value: str) -> date:
    try:
        return texts.day(value)
    except Mismatch as mismatch:
        return refuse("date as YYYY-MM-DD" if mismatch.code is Code.FORMAT else "a day of the calendar", value)


def _nanoseconds(value: str) -> int:
    """Return those since midnight; the text has the form of a time."""
    match = _TIME.fullmatch(value)
    assert match is not None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    if hour > 23 or minute > 59 or second > 59:
        refuse("time before 24:00:00", value)
    return ((hour * 60 + minute) * 60 + second) * SECOND + int((match[4] or "").ljust(9, "0"))


def _units(nanoseconds: int, unit: int, value: object) -> int:
    count, rest = divmod(nanoseconds, unit)
    names = {1_000_000: "milliseconds", 1_000: "microseconds"}
    return refuse(f"at most {names.get(unit)}", value) if rest else count
