"""Values of a document, or cells of a row -> what a schema's types hold, without rounding, cutting or guessing."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.decimals import single_text
from offset_ledger.decoding.texts import base64_bytes

SECOND = 1_000_000_000  # in nanoseconds
DAY = 86_400 * SECOND
_RFC_3339 = "timestamp in RFC 3339"
_FRACTION = r"(?:\.([0-9]{1,9}))?"
_CLOCK = rf"([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}}){_FRACTION}"
_TIME = re.compile(_CLOCK)
_LOCAL = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[Tt ]({_CLOCK})")
_ZONE = re.compile(r"[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_MAX_DIGITS = 4_000  # Python converts no more than 4,300
_SINGLE = struct.Struct("<f")
_DAY_ZERO = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


def boolean(value: Any) -> bool:
    """true or false."""
    return value if type(value) is bool else refuse("boolean", value)


def integer(value: Any, name: str, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``."""
    if type(value) is not int:
        refuse(name, value)
    return value if low <= value <= high else refuse(f"{name} from {low} to {high}", value)


def floating(value: Any, name: str, single: bool = False) -> float:
    """The nearest float of a number whose shortest text, or exact value, is that number."""
    if type(value) not in (int, float, Decimal):
        refuse(name, value)
    try:
        nearest = _SINGLE.unpack(_SINGLE.pack(value))[0] if single else float(value)
    except OverflowError:
        refuse(f"{name} in its range", value)
    if type(value) is float and (nearest == value or value != value):
        return float(nearest)
    written = Decimal(repr(value)) if type(value) is float else value
    if nearest == written or Decimal(single_text(nearest) if single else repr(nearest)) == written:
        return float(nearest)
    return refuse(f"{name} that holds it", value)


def text(value: Any, name: str) -> bytes:
    """A text in UTF-8."""
    if not isinstance(value, str):
        refuse(name, value)
    try:
        return value.encode()
    except UnicodeEncodeError:
        return refuse(f"{name} without lone surrogates", value)


def binary(value: Any, name: str) -> bytes:
    """Bytes, or those of a text in canonical base64."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return base64_bytes(value)
        except ValueError:
            pass
    return refuse(f"{name} in base64", value)


def uuid(value: Any) -> UUID:
    """A UUID in its canonical form."""
    if isinstance(value, UUID):
        return value
    return UUID(value) if isinstance(value, str) and _UUID.fullmatch(value) else refuse("uuid", value)


def unscaled(value: Any, precision: int, scale: int) -> int:
    """A number with no more digits than ``decimal(precision, scale)``, without its point."""
    name = f"decimal({precision},{scale})"
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = Decimal(value)
    if type(value) not in (int, Decimal) or not Decimal(value).is_finite():
        refuse(name, value)
    sign, digits, exponent = Decimal(value).as_tuple()
    highest, shift = Decimal(value).adjusted() + scale, int(exponent) + scale
    if not any(digits):
        return 0
    if not 0 <= highest < precision or len(digits) > _MAX_DIGITS:
        refuse(name, value)
    number, unit = int("".join(map(str, digits))), int(10 ** abs(shift))
    if shift < 0 and number % unit:
        refuse(name, value)
    number = number // unit if shift < 0 else number * unit
    return -number if sign else number


def day(value: Any) -> int:
    """Days since 1970 of a date, as YYYY-MM-DD or their number."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return date.toordinal(value) - _DAY_ZERO
    if isinstance(value, str):
        return _date(value).toordinal() - _DAY_ZERO
    return integer(value, "date", -(2**31), 2**31 - 1)


def clock(value: Any, unit: int) -> int:
    """Units of so many nanoseconds since midnight of a time, as HH:MM:SS or their number."""
    if type(value) is int:
        return value if 0 <= value * unit < DAY else refuse("time before 24:00:00", value)
    if isinstance(value, time) and value.tzinfo is None:
        return _units(_nanoseconds(value.isoformat()), unit, value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return _units(_nanoseconds(value), unit, value)
    return refuse("time as HH:MM:SS", value)


def moment(value: Any, unit: int, local: bool = False) -> int:
    """Units of so many nanoseconds since 1970, of a moment in RFC 3339 (``local``: without a zone) or their number."""
    if type(value) is int:
        return integer(value, "timestamp", -(2**63), 2**63 - 1)
    if isinstance(value, datetime) and (value.tzinfo is None) is local:
        at = value if local else value.astimezone(UTC).replace(tzinfo=None)
        return _units((at - _EPOCH) // timedelta(microseconds=1) * 1_000, unit, value)
    name = "local timestamp as 2013-01-01T10:00:00" if local else _RFC_3339
    return integer(_units(_since_1970(value, name, local), unit, value), name, -(2**63), 2**63 - 1)


def rfc3339(value: Any) -> str:
    """The text itself, if it is a moment in RFC 3339."""
    _since_1970(value, _RFC_3339, local=False)
    return str(value).upper().replace(" ", "T")


def _since_1970(value: Any, name: str, local: bool) -> int:
    """In nanoseconds."""
    match = _LOCAL.match(value) if isinstance(value, str) else None
    zone = value[match.end() :] if match else ""
    offset = None if local else _ZONE.fullmatch(zone)
    if match is None or (zone if local else offset is None):
        refuse(name, value)
    days = _date(match[1]).toordinal() - _DAY_ZERO
    return days * DAY + _nanoseconds(match[2]) - (_offset(offset) if offset else 0)


def _offset(zone: re.Match[str]) -> int:
    sign, hours, minutes = zone.groups(default="0")
    return (int(hours) * 60 + int(minutes)) * 60 * SECOND * (-1 if sign == "-" else 1)


def _date(value: str) -> date:
    try:
        return date.fromisoformat(value) if _DAY.fullmatch(value) else refuse("date as YYYY-MM-DD", value)
    except ValueError:
        return refuse("a day of the calendar", value)


def _nanoseconds(value: str) -> int:
    """Since midnight; the text has the form of a time."""
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


class Misfit(Exception):
    """What was expected and found; who passes it on adds the step to the part, so the steps are innermost first."""

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
    """A value as a message shows it, as JSON writes it."""
    text = _WORDS.get(type(value), repr)(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_WORDS: Mapping[type, Callable[[object], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: str(value).lower(),
    Decimal: str,
}


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Cell(NamedTuple):
    """What a field may hold beside numbers and booleans: a text as it is, null, and a text or a moment of the kit's."""

    text: bool = True
    null: bool = False
    string: bool = False
    moment: bool = False


TEXT = Cell()


def typed_cell(text: str, cell: Cell) -> Any:
    """A text where texts may stand; else null of nothing, and a number or a boolean as JSON writes them."""
    if cell.text:
        return text
    if not text and cell.null:
        return None
    if text in ("true", "false"):
        return text == "true"
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 4_000:
        return text
    return Decimal(text) if match[1] or match[2] else int(text)


def row_reader(cells: Mapping[str, Cell]) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """Reads whole rows; a field that is no member stays a text."""
    return lambda row: {name: typed_cell(text, cells.get(name, TEXT)) for name, text in row.items()}
