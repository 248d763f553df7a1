"""Readers of single values: each takes a :class:`Value` and returns what it means or raises Refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

import yaml

from offset_ledger.config.document import CORE, Refused, Value, describe, line_of, quoted
from offset_ledger.config.names import DURATION_PATTERN
from offset_ledger.config.schema import CRON_PATTERN, CRON_PRESETS, MAX_INTEGER, MAX_TAG, TIMESTAMP_PATTERN

E = TypeVar("E", bound=StrEnum)


def is_null(value: Value) -> bool:
    """Whether the value is ``null``, ``~`` or nothing at all."""
    return bool(value.node.tag == CORE + "null")


def text(value: Value) -> str:
    """Any text."""
    node = value.node
    if isinstance(node, yaml.ScalarNode) and node.tag == CORE + "str":
        return str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.tag in (CORE + "int", CORE + "float", CORE + "bool"):
        raise Refused(f"expected text, found {describe(node)}", f'write "{node.value}" in quotes')
    raise Refused(f"expected text, found {describe(node)}", "write text, or leave the key out where it is optional")


def filled_text(value: Value) -> str:
    """Text with something in it."""
    if not (found := text(value)).strip():
        raise Refused("expected text, found none", "write something, or leave the key out where it is optional")
    return found


def matching(pattern: str, what: str, right: str) -> Callable[[Value], str]:
    """Text of a form; ``what`` it names, and what to write where it has another form."""

    def read(value: Value) -> str:
        if not re.fullmatch(pattern[1:-1], found := text(value)):
            raise Refused(f"{quoted(found)} is not {what}", right)
        return found

    return read


def choice(kind: type[E]) -> Callable[[Value], E]:
    """One of the words of an enum."""

    def read(value: Value) -> E:
        one_of(found := text(value), tuple(kind))
        return kind(found)

    return read


def one_of(found: str, words: tuple[str, ...]) -> str:
    """The word, if it is one of ``words``."""
    if found in words:
        return found
    close = get_close_matches(found, words, n=1)
    right = f"did you mean {close[0]}?" if close else f"write {' or '.join(words)}"
    raise Refused(f"expected one of {', '.join(words)}, found {quoted(found)}", right)


def boolean(value: Value) -> bool:
    """``true`` or ``false``; the ``yes`` and ``on`` of old YAML are text."""
    if value.node.tag != CORE + "bool":
        raise Refused(f"expected true or false, found {describe(value.node)}", "write true or false without quotes")
    return str(value.node.value).lower() == "true"


def number(value: Value) -> float:
    """A number, whole or not."""
    if value.node.tag not in (CORE + "int", CORE + "float"):
        raise Refused(
            f"expected a number, found {describe(value.node)}", "write digits alone, without quotes or separators"
        )
    return float(value.node.value)


def share(value: Value) -> float:
    """A number from 0 to 1."""
    if not 0 <= (found := number(value)) <= 1:
        raise Refused(f"the share {describe(value.node)} is not in 0 to 1", "write 0.01 for one percent")
    return found


def whole_number(highest: int) -> Callable[[Value], int]:
    """A whole number from 1 to ``highest``."""

    def read(value: Value) -> int:
        if not (found := number(value)).is_integer():
            raise Refused(f"expected a whole number, found {describe(value.node)}", f"write 1 to {highest}")
        if not 1 <= found <= highest:
            raise Refused(f"{describe(value.node)} is not in 1 to {highest}", "write a number inside")
        return int(found)

    return read


def plain(value: Value) -> str | bool | int:
    """A text, ``true`` or ``false``, or a whole number of 64 bits."""
    node = value.node
    if node.tag == CORE + "bool":
        return boolean(value)
    if node.tag == CORE + "int":
        if len(node.value) > 20 or not -MAX_INTEGER - 1 <= (whole := int(node.value)) <= MAX_INTEGER:
            raise Refused(f"{describe(node)} is not a number of 64 bits", "write a smaller one, or a text in quotes")
        return whole
    if node.tag != CORE + "str":
        wrong = f"expected a text, true or false, or a whole number, found {describe(node)}"
        raise Refused(wrong, "write the value that a delete has")
    return text(value)


def tags(value: Value) -> tuple[str, ...]:
    """A list of different tags that Airflow takes."""
    if not isinstance(value.node, yaml.SequenceNode):
        raise Refused(f"expected a list, found {describe(value.node)}", "write [one, two]")
    found: list[str] = []
    for place, node in enumerate(value.node.value):
        item = Value(f"{value.where}[{place}]", line_of(node), node, value.mistakes)
        if (tag := item.read(_tag, "")) in found:
            value.mistakes.add(item.line, f"{item.where}: the tag {quoted(tag)} is there already", "keep one of them")
        elif tag:
            found.append(tag)
    return tuple(found)


def _tag(value: Value) -> str:
    if len(found := filled_text(value)) > MAX_TAG:
        raise Refused(f"a tag of {len(found)} characters, and Airflow takes {MAX_TAG}", "shorten it")
    return found


def timestamp(value: Value) -> datetime:
    """A moment with its zone, from 1970 on, in UTC."""
    found = text(value)
    try:
        moment = datetime.fromisoformat(found)
    except ValueError as error:
        raise Refused(f"{quoted(found)} is not a timestamp ({error})", "write 2013-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise Refused(f"the timestamp {found} has no zone", "end it with Z for UTC, or an offset such as +01:00")
    if moment.timestamp() < 0:
        raise Refused(f"the timestamp {found} is before 1970", "write a later one, or earliest")
    if not re.fullmatch(TIMESTAMP_PATTERN[1:-1], found):
        raise Refused(f"{quoted(found)} is not written as RFC 3339", "write it as 2013-01-01T00:00:00Z")
    return moment.astimezone(UTC)


def duration(value: Value) -> timedelta:
    """A whole number of seconds, minutes, hours or days, such as 90s, 15m, 1h or 1d."""
    if not re.fullmatch(DURATION_PATTERN[1:-1], found := text(value)):
        raise Refused(f"{quoted(found)} is not a duration", "write a number with s, m, h or d, such as 15m")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[found[-1]]
    return timedelta(**{unit: int(found[:-1])})


def schedule(value: Value) -> str | None:
    """A cron expression that comes round, one of Airflow's presets, or None for by hand only."""
    if is_null(value) or (found := text(value)) in CRON_PRESETS:
        return None if is_null(value) else found
    if not re.fullmatch(CRON_PATTERN[1:-1], found):
        right = f"write minute hour day month weekday, such as */15 * * * *, or {', '.join(CRON_PRESETS)} or null"
        raise Refused(f"{quoted(found)} is not a cron expression of five fields", right)
    _check_cron(found)
    return found


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
