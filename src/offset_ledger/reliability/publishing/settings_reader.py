"""Reading a producer's settings: every mistake is named at once, and what is unsafe has to be allowed by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from offset_ledger.errors import UnsafeSettings
from offset_ledger.reliability.publishing.settings import COMPRESSIONS, MAX_IN_FLIGHT, Danger, ProducerSettings

_LARGEST = 2**31 - 1  # of the protocol: a larger number fails only when the client sends it


def dotted(field_name: str) -> str:
    """Kafka's name of a field: ``max.block.ms`` of ``max_block_ms``."""
    return field_name.replace("_", ".")


def read_settings(
    connection: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    *,
    allow: Collection[str] = (),
    transactional: bool = False,
) -> ProducerSettings:
    """The settings that ``given`` and, behind it, the connection's extra name, safe defaults for the others.

    Raises:
        UnsafeSettings: with every mistake: a name or value that is none, and each combination that is not allowed.
    """
    given = given or {}
    known = {dotted(each.name): each.name for each in fields(ProducerSettings)}
    mistakes = [_unknown(name, known) for name in given if name not in known]
    mistakes += [f"{name!r} is no danger; allow {', '.join(Danger)}" for name in allow if name not in list(Danger)]
    values: dict[str, Any] = {}
    for name, field_name in known.items():
        text = given.get(name, connection.get(name))
        if text is not None:
            try:
                values[field_name] = _READERS.get(name, _whole_number)(text.strip())
            except ValueError as error:
                mistakes.append(f"{name}={text} should be {error}")
    values.setdefault("enable_idempotence", transactional or _may_be_idempotent(values))
    settings = ProducerSettings(**values)
    mistakes += [str(problem) for problem in settings.problems(transactional) if problem.danger not in allow]
    if mistakes:
        raise UnsafeSettings(mistakes)
    return settings


def _may_be_idempotent(values: Mapping[str, Any]) -> bool:
    """As the Java client: what idempotence cannot go with turns it off, and the rules then say what that means."""
    in_flight = values.get("max_in_flight_requests_per_connection", MAX_IN_FLIGHT)
    return bool(values.get("acks", "all") == "all" and values.get("retries", 1) > 0 and in_flight <= MAX_IN_FLIGHT)


def _unknown(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"{name} is no setting of a producer" + (
        f"; is {close[0]} meant?" if close else f"; there are {', '.join(known)}"
    )


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"a whole number up to {_LARGEST}")
    return int(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


_READERS: Mapping[str, Callable[[str], Any]] = {
    "acks": lambda text: _one_of("all", "0", "1")("all" if text == "-1" else text),
    "enable.idempotence": lambda text: _one_of("true", "false")(text.lower()) == "true",
    "compression.type": _one_of(*COMPRESSIONS),
}
