"""The verbs of the command line: one module each, and help that is there at once."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger.cli import set_up
from offset_ledger.cli.main import build_parser, main
from offset_ledger.errors import UsageError

HEAVY = {
    "airflow",
    "great_expectations",
    "jinja2",
    "kafka",
    "psycopg2",
    "pyarrow",
    "pyspark",
    "tabulate",
    "tqdm",
    "yaml",
}
OLD = {
    **{"batches": "batch list", "approve": "batch approve", "abandon": "batch abandon"},
    **{"redrive": "quarantine retry", "dismiss": "quarantine dismiss", "dead-letters": "quarantine deliver"},
    **{"accept-topic": "accept topic", "accept-schema": "accept schema", "accept-table": "accept table"},
    **{"skip": "accept loss", "publish": "kafka publish", "topic": "kafka topic", "audit": "kafka audit"},
    **{"lab": "kafka lab", "metrics": "serve metrics", "spark-server": "serve spark"},
}


def verbs(parser: ArgumentParser, before: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Every verb by its words, with its old name too, and without the names of families."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, made in action.choices.items():
                yield from list(verbs(made, f"{before}{name} ")) or [(f"{before}{name}", made)]


VERBS = dict(verbs(build_parser()))


@pytest.mark.parametrize("verb", sorted({*VERBS} - {*OLD.values(), "quarantine list", "batch show"}))
def test_a_verb_is_run_by_the_function_of_its_name(verb: str) -> None:
    run = build_parser().parse_args([*verb.split(), *required(verb)]).run
    assert run.__name__ == f"run_{verb.replace('-', '_')}"


@pytest.mark.parametrize("verb", [*VERBS, "quarantine"])
def test_the_parser_of_one_command_takes_it_as_that_of_all(verb: str) -> None:
    words = [*verb.split(), *required(verb if verb in VERBS else f"{verb} list")]
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


@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_an_old_name_goes_on_working(old: str, new: str) -> None:
    by_both = [vars(build_parser().parse_args([*verb.split(), *required(new)])) for verb in (old, new)]
    for each in by_both:
        del each["verb"]
    assert by_both[1].pop("command") == new.split()[1]
    assert by_both[0] == by_both[1]


@pytest.mark.parametrize("options", [[], ["--limit", "3"], ["--json"], ["--since", "1h", "--reason", "type"]])
def test_quarantine_alone_lists(options: list[str]) -> None:
    for words in (["quarantine"], ["quarantine", "list"]):
        given = build_parser().parse_args([*words, *options, "flights"])
        assert (given.run.__name__, given.pipeline) == ("run_quarantine", "flights")


@pytest.mark.parametrize("name", ["list", "retry"])
def test_quarantine_alone_lists_a_pipeline_that_is_called_like_a_verb(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parsed(*words: str) -> tuple[str, str, str | None]:
        given = build_parser().parse_args(["quarantine", *words])
        return given.run.__name__, given.pipeline, given.reason

    assert parsed("--json", "--reason", name, "flights") == ("run_quarantine", "flights", name)
    assert parsed("flights", "--reason", name) == ("run_quarantine", "flights", name)
    assert parsed("list", name) == ("run_quarantine", name, None)
    assert parsed("retry", name) == ("run_redrive", name, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="required: PIPELINE"):  # it was left out: there is no pipeline of that name
        parsed(name)
    (tmp_path / "dags" / "pipelines").mkdir(parents=True)
    (tmp_path / "dags" / "pipelines" / "some.yaml").write_text(f"pipeline: {name}\n")
    assert parsed(name) == ("run_quarantine", name, None)


@pytest.mark.parametrize(("option", "old"), [("data", "preview"), ("schema", "diff"), ("system", "doctor")])
def test_check_does_what_an_old_verb_did(option: str, old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Namespace] = []
    monkeypatch.setattr(set_up, "run_verb", run.append)
    given = build_parser().parse_args(["check", "flights", f"--{option}"])
    given.run(given)
    by_old = build_parser().parse_args([old, "flights"])
    assert [(each.run, each.topics, each.pipeline) for each in run] == [(by_old.run, by_old.topics, "flights")]


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
    code = "import sys; from offset_ledger.cli.main import build_parser; build_parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
