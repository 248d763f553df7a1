"""Verbs: their declaration, the arguments that several share, and the outcome of running one.

With argparse, as Airflow's own command line: the parser of all verbs is there before anything heavy is imported.
"""

import argparse
import os
import re
import sys
from argparse import SUPPRESS, Action, ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from offset_ledger.base.progress import clear
from offset_ledger.base.units import parse_span
from offset_ledger.errors import ConfigurationError, OffsetLedgerError, UnknownTopic, UsageError, failure_of
from offset_ledger.interfaces.cli.completer import complete_batches, complete_pipelines
from offset_ledger.model.moments import zoned
from offset_ledger.outside.connections import FROM_AIRFLOW
from offset_ledger.pipeline_file.pipeline import Pipeline


class Parser(argparse.ArgumentParser):
    """A parser that raises :class:`UsageError` instead of ending the process, and suggests what was meant."""

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
        """Parse all of it: left-over arguments are refused here, where the options of the verb are known."""
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            name = rest[0].partition("=")[0]
            if not name.startswith("-"):
                self.error(f"{rest[0]!r} is one argument too many")
            self.error(f"there is no option {name}{did_you_mean(name, self._option_string_actions)}")
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
    """Return ``; did you mean X?`` with the closest words; empty if there are none."""
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Rich's where it can be seen; its import takes longer than the plain help."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return argparse.RawDescriptionHelpFormatter(prog)
    from rich_argparse import RawDescriptionRichHelpFormatter

    class Coloured(RawDescriptionRichHelpFormatter):
        text_markup = False  # brackets are brackets

    return Coloured(prog)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a verb: ``data`` for --json, ``text`` for people."""

    data: Any
    text: str
    exit_code: int = 0


class Topics(Enum):
    """The topics of a pipeline file that a verb takes: one after the other, a single one, or all at once."""

    EACH = "each"
    ONE = "one"
    TOGETHER = "together"


class Option:
    """An argument or an option of verbs, as argparse takes it; ``complete`` is its completer."""

    def __init__(self, *names: str, complete: Callable[..., list[str]] | None = None, **settings: Any) -> None:
        self.names = names
        self.complete = complete
        self.settings = settings

    def add_to(self, parser: _ActionsContainer, **more: Any) -> None:
        """Add this to the parser, or a group of it."""
        action = parser.add_argument(*self.names, **self.settings, **more)
        if self.complete:
            action.completer = self.complete  # type: ignore[attr-defined]


class OneOf:
    """Options of which at most one may be given."""

    def __init__(self, *options: Option) -> None:
        self.options = options

    def add_to(self, parser: _ActionsContainer) -> None:
        """Add these to the parser."""
        group = parser.add_mutually_exclusive_group()
        for each in self.options:
            each.add_to(group)


def from_1(text: str, lowest: int = 1) -> int:
    """A whole number from 1, as the ``type`` of an argument."""
    if not text.isdecimal() or not lowest <= int(text) < 2**63:
        raise ArgumentTypeError(f"should be a whole number from {lowest}, found {text!r}")
    return int(text)


def from_0(text: str) -> int:
    """A whole number from 0, as the ``type`` of an argument."""
    return from_1(text, 0)


_PIPELINE = "a name under dags/pipelines/, or the path of a YAML file; @TOPIC behind it for one of several topics"
PIPELINE = Option("pipeline", metavar="PIPELINE", help=_PIPELINE, complete=complete_pipelines)
BATCH = Option("batch_id", type=from_1, metavar="BATCH", help="the id of a batch", complete=complete_batches)
_TAKE_OVER = "take an open batch from another run although that is alive"
TAKE_OVER = Option("--take-over", action="store_true", help=_TAKE_OVER)
_EVERYWHERE = (
    Option("--json", action="store_true", help="print the result as one JSON document"),
    Option(
        "--connections-from-airflow",
        action="store_true",
        help="look connections up in Airflow's secrets backends and metadata database, without an API server",
    ),
    Option("-v", "--verbose", action="store_true", help="log every step"),
)


def optional_pipeline(about: str = "") -> Option:
    """Return the argument that may name a pipeline."""
    help_ = f"{about}{_PIPELINE}"
    return Option("pipeline", metavar="PIPELINE", nargs="?", help=help_, complete=complete_pipelines)


def why(kept_with: str) -> Option:
    """Return the required reason of a decision; ``kept_with`` names what the ledger keeps it with."""
    return Option("--why", required=True, help=f"recorded with the {kept_with}")


def since(about: str, name: str = "--since") -> Option:
    """Return the option of a moment."""
    return Option(name, type=moment, metavar="WHEN", help=f"{about}: ISO 8601 with zone, or 30m, 1h or 2d ago")


def connection(default: str) -> Option:
    """Return the Airflow connection of a verb that takes no pipeline."""
    return Option("--connection", default=default, help=f"Airflow connection id ({default})")


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the command line: the function that runs it, whose docstring is its help, and its arguments."""

    run: Callable[[Namespace], Outcome]
    options: tuple[Option | OneOf, ...]
    topics: Topics
    example: str

    @property
    def name(self) -> str:
        """The name at the command line."""
        return self.run.__name__.removeprefix("run_").replace("_", "-")

    @property
    def description(self) -> str:
        """The first sentence of the docstring."""
        return " ".join((self.run.__doc__ or self.name).partition("\n\n")[0].split())

    @property
    def summary(self) -> str:
        """The verb's line of the help."""
        return self.description[0].lower() + self.description[1:].removesuffix(".")

    def add_to(self, prog: str, verbs: Any, common: Parser, name: str) -> None:
        """Add the verb of this name with its arguments to a parser."""
        given = {"description": self.description, "epilog": f"example:\n  {self.example}", "parents": [common]}
        made = verbs.add_parser(name, **given, help=self.summary)
        made.set_defaults(run=self.run, topics=self.topics, prog=prog)
        for each in self.options:
            each.add_to(made)


@dataclass(frozen=True, slots=True)
class Family:
    """Verbs behind a common word, by their names."""

    name: str
    summary: str
    verbs: Mapping[str, Verb]

    def add_to(self, prog: str, verbs: Any, common: Parser) -> None:
        """Add these verbs to the parser, behind the word."""
        made = verbs.add_parser(self.name, help=self.summary, description=f"{self.summary}.", parents=[common])
        group = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for name, each in self.verbs.items():
            each.add_to(prog, group, common, name)


def verb(
    *options: Option | OneOf, topics: Topics = Topics.EACH, example: str
) -> Callable[[Callable[[Namespace], Outcome]], Verb]:
    """Declare the verb of a function ``run_NAME``; the first sentence of its docstring is the verb's help."""
    return lambda run: Verb(run, options, topics, example)


def add_verbs(
    parser: Parser, groups: Mapping[str, Iterable[Verb | Family]], given: Collection[str] | None = None
) -> None:
    """Add the verbs, listed in these groups, to the parser; each takes --json as the parser does.

    With the words ``given`` only the verbs among them get a parser: one command needs one of twenty.
    """
    parser.add_argument_group("verbs")
    verbs: Any = parser.add_subparsers(dest="verb", required=True, metavar="VERB", help=SUPPRESS, prog=parser.prog)
    common = Parser(add_help=False)
    for each in _EVERYWHERE:
        each.add_to(parser, default=False)
        each.add_to(common, default=SUPPRESS)  # or it would undo options before the verb
    known: dict[str, Callable[[], None]] = {}
    for title, of_group in groups.items():
        group = parser.add_argument_group(title)
        for each_verb in of_group:
            name = each_verb.name
            if isinstance(each_verb, Family):
                known[name] = partial(each_verb.add_to, parser.prog, verbs, common)
                name = f"{name} {'|'.join(each_verb.verbs)}"
            else:
                known[name] = partial(each_verb.add_to, parser.prog, verbs, common, name)
            group._group_actions.append(Action([], each_verb.name, metavar=name, help=each_verb.summary))
    for name, add_known in known.items():
        if given is None or name in given:
            add_known()
        else:
            verbs.choices[name] = None


def run_verb(arguments: Namespace) -> Outcome:
    """Run the verb; on a pipeline file with several topics perhaps for each of them.

    Raises:
        ConfigurationError: the file reads several topics and the verb is for one, or none has been found yet.
    """
    if arguments.connections_from_airflow:
        os.environ[FROM_AIRFLOW] = "true"
    run: Callable[[Namespace], Outcome] = arguments.run
    if arguments.topics is Topics.TOGETHER or not getattr(arguments, "pipeline", None):
        return run(arguments)
    pipeline = pipeline_of(arguments)
    if not pipeline.source.several:
        return run(arguments)
    from offset_ledger.steps.plan.topics import known_pipelines

    names = {each.name: f"{arguments.pipeline}@{each.source.topic}" for each in known_pipelines(pipeline)}
    if not names:
        raise ConfigurationError(f"pipeline {pipeline.name} has read no topic yet; ingest it first")
    if arguments.topics is Topics.ONE or getattr(arguments, "export", None):
        raise ConfigurationError(f"pipeline {pipeline.name} reads several topics; name one of {', '.join(names)}")
    outcomes = {name: _outcome(Namespace(**{**vars(arguments), "pipeline": given})) for name, given in names.items()}
    text = by_topic({name: outcome.text for name, outcome in outcomes.items()})
    data = {name: outcome.data for name, outcome in outcomes.items()}
    return Outcome(data, text, max(outcome.exit_code for outcome in outcomes.values()))


def by_topic(texts: Mapping[str, str]) -> str:
    """The texts of several topics, each under the name of its pipeline."""
    return "\n\n".join(f"{name}\n{text}" for name, text in texts.items())


def _outcome(arguments: Namespace) -> Outcome:
    """The outcome for one topic, also if it is an error; a verb that needs a topic that was retired has none."""
    from offset_ledger.postgres.ledger.pipelines import read_retirement

    try:
        outcome: Outcome = arguments.run(arguments)
    except OffsetLedgerError as error:
        with suppress(OffsetLedgerError):  # the verb may need no ledger
            if isinstance(error, UnknownTopic) and (retired := read_retirement(pipeline_of(arguments))):
                return Outcome({"retired": str(retired)}, str(retired))
        return Outcome(failure_of(error), error.named, error.exit_code)
    return outcome


def moment(text: str) -> str:
    """A moment in ISO 8601, of that or of a time ago such as 30m, 1h or 2d, as the ``type`` of an argument."""
    if re.fullmatch("[0-9]{1,5}[smhd]", text):
        return (datetime.now(UTC) - parse_span(text)).isoformat()
    if zoned(text):
        return text
    raise ArgumentTypeError(
        "should be ISO 8601 with a zone, such as 2026-01-31T00:00Z, or a time ago, such as 30m, 1h or 2d, "
        f"found {text!r}"
    )


def name_and_value(setting: str) -> tuple[str, str]:
    """The two sides of an argument of --set.

    Raises:
        ConfigurationError: there is no ``=`` in it.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise ConfigurationError(f"--set takes NAME=VALUE, such as linger.ms=20, found {setting!r}")
    return name.strip(), value


def pipeline_of(arguments: Namespace) -> Pipeline:
    """The pipeline that the arguments name."""
    from offset_ledger.pipeline_file.parse import parse_named

    return parse_named(arguments.pipeline)


def say(line: str) -> None:
    """Print something that is not a result to stderr, so that stdout has the result alone."""
    clear()
    print(line, file=sys.stderr, flush=True)
