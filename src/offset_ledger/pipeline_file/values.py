"""Kinds of single values: each defines the allowed values for the reader and for the JSON Schema."""

import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

import yaml

from offset_ledger.pipeline_file.keys import Kind, read_or_note
from offset_ledger.pipeline_file.located import CORE, Refused, Value, describe, is_null, is_text, quoted
from offset_ledger.pipeline_file.names import CONNECTION_PATTERN

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
MAX_INTEGER = 2**63 - 1


def text(value: Value) -> str:
    """Return any text."""
    node = value.node
    if is_text(node):
        return str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.tag in (CORE + "int", CORE + "float", CORE + "bool"):
        raise Refused(f"expected text, found {describe(node)}", f'write "{node.value}" in quotes')
    raise Refused(f"expected text, found {describe(node)}", "write text, or leave the key out where it is optional")


def filled_text(longest: int | None = None, what: str = "") -> Kind[str]:
    """Read text that is not empty; ``what`` names it if its length is limited."""

    def read(value: Value) -> str:
        if not (given := text(value)).strip():
            raise Refused("expected text, found none", "write something, or leave the key out where it is optional")
        if longest and len(given) > longest:
            raise Refused(f"{what} of {len(given)} characters, and Airflow takes {longest}", "shorten it")
        return given

    return Kind(read, {"type": "string", "pattern": r"\S", **({"maxLength": longest} if longest else {})})


def matching(pattern: str, what: str, right: str) -> Kind[str]:
    """Read text of a form; ``what`` names it, and ``right`` says what to write for another one."""

    def read(value: Value) -> str:
        if not re.fullmatch(pattern[1:-1], given := text(value)):
            raise Refused(f"{quoted(given)} is not {what}", right)
        return given

    return Kind(read, {"type": "string", "pattern": pattern})


def or_null(kind: Kind[T]) -> Kind[T | None]:
    """A value of that kind, or null."""
    read = kind.read
    return Kind(lambda value: None if is_null(value.node) else read(value), kind.schema | {"type": ["string", "null"]})


def choice(kind: type[E]) -> Kind[E]:
    """Return one of the words of an enum."""
    return Kind(lambda value: kind(one_of(text(value), tuple(kind))), {"enum": list(kind)})


def word(*words: str) -> Kind[str]:
    """Return one of these words."""
    return Kind(lambda value: one_of(text(value), words), {"enum": list(words)})


def one_of(given: str, words: Iterable[str]) -> str:
    """The word, if it is one of ``words``."""
    if given in words:
        return given
    close = get_close_matches(given, list(words), n=1)
    right = f"did you mean {close[0]}?" if close else f"write {' or '.join(words)}"
    raise Refused(f"expected one of {', '.join(words)}, found {quoted(given)}", right)


def boolean(value: Value) -> bool:
    """``true`` or ``false``; the ``yes`` and ``on`` of old YAML are text."""
    if value.node.tag != CORE + "bool":
        raise Refused(f"expected true or false, found {describe(value.node)}", "write true or false without quotes")
    return str(value.node.value).lower() == "true"


def number(value: Value) -> float:
    """A number, whole or not."""
    if value.node.tag not in (CORE + "int", CORE + "float"):
        right = "write digits alone, without quotes or separators"
        raise Refused(f"expected a number, found {describe(value.node)}", right)
    return float(value.node.value)


def whole_number(highest: int) -> Kind[int]:
    """A whole number from 1 to ``highest``."""

    def read(value: Value) -> int:
        if not (given := number(value)).is_integer():
            raise Refused(f"expected a whole number, found {describe(value.node)}", f"write 1 to {highest}")
        if not 1 <= given <= highest:
            raise Refused(f"{describe(value.node)} is not in 1 to {highest}", "write a number inside")
        return int(given)

    return Kind(read, {"type": "integer", "minimum": 1, "maximum": highest})


def _share(value: Value) -> float:
    if not 0 <= (given := number(value)) <= 1:
        raise Refused(f"the share {describe(value.node)} is not in 0 to 1", "write 0.01 for one percent")
    return given


def _factor(value: Value) -> float:
    if not 1 <= (given := number(value)) < float("inf"):
        raise Refused(f"{describe(value.node)} times the usual is not above it", "write 1 or more")
    return given


def _plain(value: Value) -> str | bool | int:
    node = value.node
    if node.tag == CORE + "bool":
        return boolean(value)
    if node.tag == CORE + "int":
        if len(node.value) > 20 or not -MAX_INTEGER - 1 <= (whole := int(node.value)) <= MAX_INTEGER:
            raise Refused(f"{describe(node)} is not a number of 64 bits", "write a smaller one, or a text in quotes")
        return whole
    if not is_text(node):
        wrong = f"expected a text, true or false, or a whole number, found {describe(node)}"
        raise Refused(wrong, "write a single value")
    return text(value)


VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"


def from_environment(kind: Kind[T], written: Callable[[str], str] = str) -> Kind[T]:
    """Values in which ``${NAME}`` stands for an environment variable, as ``written``; the node has the result."""

    def value_of(variable: re.Match[str]) -> str:
        if (given := os.environ.get(variable[1])) is None:
            wrong = f"the environment variable {variable[1]} is not set"
            raise Refused(wrong, "set it for every process of Airflow and for the command line")
        return written(given)

    def read(value: Value) -> T:
        if is_text(value.node):
            value.node.value = re.sub(VARIABLE, value_of, value.node.value)
        return kind.read(value)

    schema = {"type": kind.schema["type"], "anyOf": [kind.schema, {"type": "string", "pattern": VARIABLE}]}
    return Kind(read, schema)


def different(
    kind: Kind[T], twice: str = "", expected: str = "a list", right: str = "write [one, two]", **schema: object
) -> Kind[tuple[T, ...]]:
    """Read a list of different values, each written as text; ``twice`` begins the message about a repeated one."""

    def read(value: Value) -> tuple[T, ...]:
        if not isinstance(value.node, yaml.SequenceNode) or ("minItems" in schema and not value.node.value):
            raise Refused(f"expected {expected}, found {describe(value.node)}", right)
        given: list[T] = []
        for item in value.items():
            for one in read_or_note(kind, item):
                if one in given:
                    item.note(Refused(f"{twice}{quoted(text(item))} is there already", "keep one of them"))
                else:
                    given.append(one)
        return tuple(given)

    return Kind(read, {"type": "array", "items": kind.schema, "uniqueItems": True, **schema})


def one_or_more(kind: Kind[str], what: str, right: str) -> Kind[tuple[str, ...]]:
    """Read a text, or a list of different ones; ``what`` names them."""
    several = different(kind, expected=f"{what}, or a list of them", right=right, minItems=1)

    def read(value: Value) -> tuple[str, ...]:
        return (kind.read(value),) if is_text(value.node) else several.read(value)

    return Kind(read, {"anyOf": [kind.schema, several.schema]})


CONNECTION = matching(CONNECTION_PATTERN, "an Airflow connection id", "write A-Z, a-z, 0-9, _, . and -")
TEXT = Kind(text, {"type": "string"})
FLAG = Kind(boolean, {"type": "boolean"})
SHARE = Kind(_share, {"type": "number", "minimum": 0, "maximum": 1})
FACTOR = Kind(_factor, {"type": "number", "minimum": 1})
PLAIN_VALUE = Kind(
    _plain, {"type": ["string", "boolean", "integer"], "minimum": -MAX_INTEGER - 1, "maximum": MAX_INTEGER}
)


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
    # 45 ms, unless Airflow has imported it already; it carries no types.
    from croniter import CroniterBadDateError, CroniterError, croniter

    if re.search(r"(?<![A-Za-z])[RrHh](?![A-Za-z])", given):
        raise Refused(f"{quoted(given)} asks for a random time, another at every parse", "write the time itself")
    try:
        croniter(given).get_next()
    except CroniterBadDateError:
        raise Refused(f"{quoted(given)} is never due", "write a day that exists") from None
    except CroniterError as error:
        raise Refused(f"{quoted(given)} is not a cron expression ({error})", "write times in range") from None
    return given


TIMESTAMP = Kind(_timestamp, {"type": "string", "pattern": TIMESTAMP_PATTERN})
DURATION = Kind(_duration, {"type": "string", "pattern": DURATION_PATTERN})
SCHEDULE = Kind(
    _schedule, {"anyOf": [{"type": "null"}, {"enum": list(CRON_PRESETS)}, {"type": "string", "pattern": CRON_PATTERN}]}
)
