"""A part of a document that does not fit its schema, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import NoReturn

from offset_ledger.config.json_path import format_path


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
