"""What every verb needs: its place in the parser, the arguments that several verbs share, and its result."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.completer import complete_pipelines
from offset_ledger.cli.parser import Parser, listed
from offset_ledger.connections import FROM_AIRFLOW

if TYPE_CHECKING:
    from offset_ledger.config.model import Pipeline


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a verb: ``data`` for --json, ``text`` for people."""

    data: Any
    text: str
    exit_code: int = 0


Command = Callable[[Namespace], Outcome]


class Topics(Enum):
    """What a verb takes of a pipeline file with several topics: one after the other, a single one, or all at once."""

    EACH = "each"
    ONE = "one"
    TOGETHER = "together"


def add_common(parser: ArgumentParser, default: Any) -> None:
    """What stands before the verb or behind it."""
    about = "look connections up in Airflow's secrets backends and metadata database, without an API server"
    for names, help_of in (
        (["--json"], "print the result as one JSON document"),
        (["--connections-from-airflow"], about),
        (["-v", "--verbose"], "log every step"),
    ):
        parser.add_argument(*names, action="store_true", default=default, help=help_of)


class Verbs:
    """The verbs of a parser, in groups; each takes --json and --verbose."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._group = parser.add_argument_group("verbs")
        self._verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", help=SUPPRESS, prog=parser.prog)
        self._common = Parser(add_help=False)
        add_common(parser, default=False)
        add_common(self._common, default=SUPPRESS)  # or it would undo what stands before the verb

    def begin_group(self, title: str) -> None:
        """List the verbs that are added from now on under this title."""
        self._group = self._parser.add_argument_group(title)

    def add(self, name: str, summary: str, run: Command, example: str = "") -> ArgumentParser:
        """A verb, to add its arguments to; its help ends with the example."""
        epilog = f"example:\n  {example}" if example else None
        description = f"{summary[0].upper()}{summary[1:]}."
        verb = self._verbs.add_parser(
            name, help=summary, description=description, epilog=epilog, parents=[self._common]
        )
        verb.set_defaults(run=run, topics=Topics.TOGETHER, prog=self._parser.prog)
        self._group._group_actions.append(listed(name, summary))
        return verb

    def add_for_pipeline(
        self, name: str, summary: str, run: Command, topics: Topics = Topics.EACH, example: str = ""
    ) -> ArgumentParser:
        """A verb whose first argument is a pipeline, for :func:`pipeline_of`."""
        verb = self.add(name, summary, run, example)
        verb.set_defaults(topics=topics)
        add_pipeline(verb)
        return verb


def add_pipeline(verb: ArgumentParser, about: str = "", **options: Any) -> None:
    """The argument that names a pipeline."""
    name = "a name under dags/pipelines/, or the path of a YAML file; @TOPIC behind it for one of several topics"
    complete_pipelines(verb.add_argument("pipeline", metavar="PIPELINE", help=f"{about}{name}", **options))


def run_verb(arguments: Namespace) -> Outcome:
    """Run the verb; on a pipeline file with several topics perhaps for each of them.

    Raises:
        ConfigurationError: the file reads several topics and the verb is for one, or none has been found yet.
    """
    if arguments.connections_from_airflow:
        os.environ[FROM_AIRFLOW] = "true"
    run: Command = arguments.run
    if arguments.topics is Topics.TOGETHER or not arguments.pipeline:
        return run(arguments)
    pipeline = pipeline_of(arguments)
    if not pipeline.source.several:
        return run(arguments)
    outcomes = {name: _outcome(each) for name, each in _arguments_by_topic(arguments, pipeline).items()}
    text = by_topic({name: outcome.text for name, outcome in outcomes.items()})
    data = {name: outcome.data for name, outcome in outcomes.items()}
    return Outcome(data, text, max(outcome.exit_code for outcome in outcomes.values()))


def by_topic(texts: Mapping[str, str]) -> str:
    """The texts of several topics, each under the name of its pipeline."""
    return "\n\n".join(f"{name}\n{text}" for name, text in texts.items())


def _arguments_by_topic(arguments: Namespace, pipeline: Pipeline) -> dict[str, Namespace]:
    from offset_ledger.errors import ConfigurationError
    from offset_ledger.plan.topics import known_pipelines

    names = {each.name: f"{arguments.pipeline}@{each.source.topic}" for each in known_pipelines(pipeline)}
    if not names:
        raise ConfigurationError(f"pipeline {pipeline.name} has read no topic yet; ingest it first")
    if arguments.topics is Topics.ONE:
        raise ConfigurationError(f"pipeline {pipeline.name} reads several topics; name one of {', '.join(names)}")
    return {name: Namespace(**{**vars(arguments), "pipeline": given}) for name, given in names.items()}


def _outcome(arguments: Namespace) -> Outcome:
    """The outcome for one topic, also if it is an error; a verb that needs a topic that was retired has none."""
    from offset_ledger.errors import OffsetLedgerError, UnknownTopic
    from offset_ledger.ledger.pipelines import read_retirement

    try:
        outcome: Outcome = arguments.run(arguments)
    except OffsetLedgerError as error:
        with suppress(OffsetLedgerError):  # the verb may need no ledger
            if isinstance(error, UnknownTopic) and (retired := read_retirement(pipeline_of(arguments))):
                return Outcome({"retired": str(retired)}, str(retired))
        data = {"error": type(error).__name__, "message": str(error)}
        return Outcome(data, f"{type(error).__name__}: {error}", error.exit_code)
    return outcome


def add_why(verb: ArgumentParser, kept_with: str) -> None:
    """The required reason of a decision; ``kept_with`` names what the ledger keeps it with."""
    verb.add_argument("--why", required=True, help=f"recorded with the {kept_with}")


def add_connection(verb: ArgumentParser, default: str) -> None:
    """The Airflow connection of a verb that takes no pipeline."""
    verb.add_argument("--connection", default=default, help=f"Airflow connection id ({default})")


def from_1(text: str) -> int:
    """A whole number from 1, as the ``type`` of an argument."""
    if not text.isdecimal() or not 1 <= int(text) < 2**63:
        raise ArgumentTypeError(f"should be a whole number from 1, found {text!r}")
    return int(text)


def name_and_value(setting: str) -> tuple[str, str]:
    """The two sides of an argument of --set.

    Raises:
        ConfigurationError: there is no ``=`` in it.
    """
    from offset_ledger.errors import ConfigurationError

    name, equals, value = setting.partition("=")
    if not equals:
        raise ConfigurationError(f"--set takes NAME=VALUE, such as linger.ms=20, found {setting!r}")
    return name.strip(), value


def pipeline_of(arguments: Namespace) -> Pipeline:
    """The pipeline that the arguments name."""
    from offset_ledger.config.parse import parse_named

    return parse_named(arguments.pipeline)


def say(line: str) -> None:
    """Progress: to stderr, so that the result stands alone on stdout."""
    print(line, file=sys.stderr, flush=True)
