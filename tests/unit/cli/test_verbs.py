"""The verbs of the command line: one module each, and help that is there at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from offset_ledger.cli.main import build_parser, main

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
(VERBS,) = (action.choices or {} for action in build_parser()._actions if action.dest == "verb")


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_run_by_the_function_of_its_name(verb: str) -> None:
    run = build_parser().parse_args([verb, *required(verb)]).run
    assert run.__name__ == f"run_{verb.replace('-', '_')}"


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
        main([verb, "--help"])
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
