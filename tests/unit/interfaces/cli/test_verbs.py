"""The verbs of the command line: one module each, and help that is there at once."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

import pytest

from offset_ledger.errors import UsageError
from offset_ledger.interfaces.cli import set_up
from offset_ledger.interfaces.cli.verbs import Topics
from offset_ledger_kit.cli.main import build_parser, main

HEAVY = {
    "airflow", "great_expectations", "jinja2", "kafka", "psycopg2", "pyarrow", "pyspark", "tabulate", "tqdm", "yaml",
}  # fmt: skip


def verbs(parser: ArgumentParser, before: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Every verb by its words, without the names of families."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, made in action.choices.items():
                yield from list(verbs(made, f"{before}{name} ")) or [(f"{before}{name}", made)]


VERBS = dict(verbs(build_parser()))


OLD = ["batches", "redrive", "dead-letters", "accept-topic", "skip", "publish", "audit", "spark-server", "doctor"]


@pytest.mark.parametrize("verb", OLD)
def test_a_verb_has_one_name(verb: str) -> None:
    with pytest.raises(UsageError, match=f"there is no verb '{verb}'"):
        build_parser([verb, "flights"]).parse_args([verb, "flights"])


@pytest.mark.parametrize("verb", VERBS)
def test_the_parser_of_one_command_takes_it_as_that_of_all(verb: str) -> None:
    words = [*verb.split(), *required(verb)]
    of_one = build_parser(words)
    assert of_one.parse_args(words) == build_parser().parse_args(words)
    assert of_one.format_help() == build_parser().format_help()
    made = [parser for parser in next(a for a in of_one._actions if a.dest == "verb").choices.values() if parser]
    assert 1 <= len(made) <= len(verb.split())


@pytest.mark.parametrize("words", [["statsu"], ["batch", "lsit"], ["status", "--jsno"], ["help"]])
def test_what_was_meant_is_found_among_all_verbs(words: list[str]) -> None:
    with pytest.raises(UsageError) as by_one:
        build_parser(words).parse_args(words)
    with pytest.raises(UsageError) as by_all:
        build_parser().parse_args(words)
    assert str(by_one.value) == str(by_all.value)


@pytest.mark.parametrize("name", ["list", "retry", "flights"])
def test_a_pipeline_may_have_the_name_of_a_verb(name: str) -> None:
    given = build_parser().parse_args(["quarantine", "list", "--json", "--reason", name, name])
    assert (given.run.__name__, given.pipeline, given.reason) == ("run_quarantine", name, name)


@pytest.mark.parametrize("option", ["data", "schema", "system"])
def test_check_does_what_its_option_says(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Namespace] = []
    monkeypatch.setattr(set_up, "run_verb", run.append)
    given = build_parser().parse_args(["check", "flights", f"--{option}"])
    given.run(given)
    topics = Topics.TOGETHER if option == "system" else Topics.EACH
    assert [(each.run, each.topics, each.pipeline) for each in run] == [
        (getattr(set_up, f"check_{option}"), topics, "flights")
    ]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["check", "--data"], "the following arguments are required: PIPELINE (see: offset-ledger check --help)"),
        (["check", "p", "--since", "1h"], "--since needs --data (see: offset-ledger check --help)"),
        (["check", "p", "--schema", "--from-offset", "1"], "--from-offset needs --data"),
        (["check", "p", "--folder", "f"], "--folder checks every file; leave PIPELINE out (see: offset-ledger check "),
    ],
)
def test_what_check_is_for_is_said(arguments: list[str], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert wrong in capsys.readouterr().err


def required(verb: str) -> list[str]:
    """Values for the arguments that a verb cannot do without."""
    given: list[str] = []
    for action in VERBS[verb]._actions:
        value = next(iter(action.choices or ["1"]))
        if action.required and action.option_strings:
            given += [action.option_strings[0], value]
        elif action.required:
            given.append(value)
    return given


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    assert {"--json", "--verbose"} <= set(capsys.readouterr().out.replace(",", " ").split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_argument_and_option_has_help(verb: str) -> None:
    without = [each.option_strings or each.dest for each in VERBS[verb]._actions if not each.help]
    assert without == []


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from offset_ledger_kit.cli.main import build_parser; build_parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
