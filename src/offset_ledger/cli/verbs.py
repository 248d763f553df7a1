"""How a verb of the command line is declared: its arguments stand beside what it does."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tabulate import tabulate

from offset_ledger.config.model import Pipeline


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verb found: ``data`` for --json, ``text`` for people."""

    data: Any
    text: str
    exit_code: int = 0


Command = Callable[[Namespace], Outcome]


class Verbs:
    """The verbs of a parser; each takes --json and --verbose."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        self._common = ArgumentParser(add_help=False)
        self._common.add_argument("--json", action="store_true", help="print the result as one JSON document")
        self._common.add_argument("-v", "--verbose", action="store_true", help="log every step")

    def add(self, name: str, summary: str, run: Command) -> ArgumentParser:
        """A verb, to add its arguments to."""
        made = self._verbs.add_parser(name, help=summary, description=summary, parents=[self._common])
        made.set_defaults(run=run)
        return made

    def of_pipeline(self, name: str, summary: str, run: Command) -> ArgumentParser:
        """A verb whose first argument is a pipeline, for :func:`pipeline_of`."""
        made = self.add(name, summary, run)
        made.add_argument(
            "pipeline", metavar="PIPELINE", help="a name under dags/pipelines/, or the path of a YAML file"
        )
        return made


def table(found: Iterable[Mapping[str, Any]]) -> str:
    """Rows for people: under their names, moments in UTC to the second."""
    return tabulate([{name: _shown(value) for name, value in row.items()} for row in found], headers="keys")


def _shown(value: Any) -> Any:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if isinstance(value, datetime) else value


def from_1(text: str) -> int:
    """A whole number from 1, as the ``type`` of an argument."""
    if not text.isdecimal() or not 1 <= int(text) < 2**63:
        raise ArgumentTypeError(f"should be a whole number from 1, found {text!r}")
    return int(text)


def say(line: str) -> None:
    """Progress: to stderr, so that the result stands alone on stdout."""
    print(line, file=sys.stderr, flush=True)


def pipeline_of(arguments: Namespace) -> Pipeline:
    """The pipeline that the arguments name."""
    from offset_ledger.config.parse import find_pipeline, parse_pipeline

    return parse_pipeline(find_pipeline(arguments.pipeline))
