"""The parser: verbs listed in groups, colours at a terminal only, and wrong usage as one line with a suggestion."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from offset_ledger.errors import UsageError


class Parser(argparse.ArgumentParser):
    """A parser that raises :class:`UsageError` instead of ending the process, and says what was probably meant."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _formatter, **options})

    def error(self, message: str) -> NoReturn:
        """Refuse the usage.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see: {self.prog} --help)")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all of it: what is left over is refused here, where the options of the verb are known."""
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(_left_over(rest[0], self._option_string_actions))
        return known, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        suggestion = did_you_mean(str(value), choices)
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"there is no verb {value!r}{suggestion}")
        raise argparse.ArgumentError(action, f"should be one of {', '.join(choices)}, found {str(value)!r}{suggestion}")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` with what is close to it; empty where nothing is."""
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _left_over(given: str, options: Iterable[str]) -> str:
    name = given.partition("=")[0]
    if not name.startswith("-"):
        return f"{given!r} is one argument too many"
    return f"there is no option {name}{did_you_mean(name, options)}"


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Rich's where it can be seen; its import takes longer than the plain help."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return argparse.RawDescriptionHelpFormatter(prog)
    from rich_argparse import RawDescriptionRichHelpFormatter

    class Coloured(RawDescriptionRichHelpFormatter):
        text_markup = False  # brackets are brackets

    return Coloured(prog)
