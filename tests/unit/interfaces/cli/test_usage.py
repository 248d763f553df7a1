"""Wrong usage is one line that says what was probably meant, and help is the same for a log as for a person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offset_ledger.interfaces.cli.verbs import Family
from offset_ledger_kit.cli.main import GROUPS as _GROUPS
from offset_ledger_kit.cli.main import build_parser, main
from tests.unit.interfaces.cli.test_verbs import VERBS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stauts"], "there is no verb 'stauts'; did you mean status? (see: offset-ledger --help)"),
        (["acept", "topic", "p"], "there is no verb 'acept'; did you mean accept? (see: offset-ledger --help)"),
        (["zzz"], "there is no verb 'zzz' (see: offset-ledger --help)"),
        (["batch", "list", "p", "--limt=4"],
            "there is no option --limt; did you mean --limit? (see: offset-ledger batch list --help)"),
        (["check", "p", "q"], "'q' is one argument too many (see: offset-ledger check --help)"),
        (["stack", "up", "--spark", "conect"],
            "argument --spark: should be one of connect, standalone, none, found 'conect'; did you mean connect? "
            "(see: offset-ledger stack --help)"),
        (["replay", "p", "--partition", "-1"],
            "argument --partition: should be a whole number from 0, found '-1' (see: offset-ledger replay --help)"),
        (["replay", "p", "--from-offset", "-1"],
            "argument --from-offset: should be a whole number from 0, found '-1' (see: offset-ledger replay --help)"),
        (["replay", "p", "--limit", "0"],
            "argument --limit: should be a whole number from 1, found '0' (see: offset-ledger replay --help)"),
        (["quarantine", "retry", "p", "--limit", "99999999999999999999"],
            "argument --limit: should be a whole number from 1, found '99999999999999999999' "
            "(see: offset-ledger quarantine retry --help)"),
        (["quarantine", "dismiss", "p", "--offset", "99999999999999999999"],
            "argument --offset: should be a whole number from 0, found '99999999999999999999' "
            "(see: offset-ledger quarantine dismiss --help)"),
        (["quarantine", "list", "p", "--limit", "99999999999999999999"],
            "argument --limit: should be a whole number from 1, found '99999999999999999999' "
            "(see: offset-ledger quarantine list --help)"),
        (["batch", "show", "99999999999999999999"],
            "argument BATCH: should be a whole number from 1, found '99999999999999999999' "
            "(see: offset-ledger batch show --help)"),
        (["check", "p", "--data", "--partition", "0", "--from-offset", "-1"],
            "argument --from-offset: should be a whole number from 0, found '-1' (see: offset-ledger check --help)"),
        (["kafka", "publish", "t", "--file", "f", "--partition", "99999999999999999999"],
            "argument --partition: should be a whole number from 0, found '99999999999999999999' "
            "(see: offset-ledger kafka publish --help)"),
        (["serve", "spark", "--port", "70000"],
            "argument --port: should be a port from 1 to 65535, found '70000' (see: offset-ledger serve spark --help)"),
        (["check"], "the following arguments are required: PIPELINE (see: offset-ledger check --help)"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_with_a_suggestion(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"offset-ledger: UsageError: {message}\n")
    for with_json in ([*arguments, "--json"], ["--json", *arguments]):
        assert main(with_json) == 2
        shown = capsys.readouterr()
        assert (json.loads(shown.out), shown.err) == ({"error": "UsageError", "message": message}, "")


@pytest.mark.parametrize("option", ["--json", "--verbose", "-v", "--connections-from-airflow"])
def test_what_every_verb_takes_may_stand_before_it(option: str) -> None:
    parser = build_parser()
    before, behind = parser.parse_args([option, "check", "p"]), parser.parse_args(["check", "p", option])
    assert vars(before) == vars(behind) != vars(parser.parse_args(["check", "p"]))


def test_a_pipeline_that_does_not_exist_is_answered_with_a_close_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags/pipelines").mkdir(parents=True)
    (tmp_path / "dags/pipelines/orders.yaml").write_text("pipeline: orders\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "ordres"]) == 1
    assert "there is no pipeline 'ordres'; did you mean orders?" in capsys.readouterr().err


def help_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_lists_each_verb_once_in_its_group(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    sections = [section.splitlines() for section in help_of(["--help"], capsys).split("\n\n")]
    listed = {
        lines[0]: [line.split()[0] for line in lines[1:] if line[2] != " "]
        for lines in sections
        if lines[0].endswith(":")
    }
    del listed["options:"]
    added = {f"{title}:": [verb.name for verb in of] for title, of in _GROUPS.items()}
    assert listed == added
    families = [each for of in _GROUPS.values() for each in of if isinstance(each, Family)]
    named = {verb for of in listed.values() for verb in of} - {each.name for each in families}
    named |= {f"{each.name} {verb}" for each in families for verb in each.verbs}
    assert named == set(VERBS)
    for each in families:
        assert f"  {each.name} {'|'.join(each.verbs)}" in help_of(["--help"], capsys)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_that_the_parser_takes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of([*verb.split(), "--help"], capsys)
    _, found, examples = shown.partition("\nexample:\n  ")
    assert found, f"{verb} has no example"
    for words in map(command_words, examples.strip().splitlines()):
        assert words[0] == "offset-ledger"
        given = build_parser().parse_args([*words[1:]])
        assert " ".join(filter(None, [given.verb, getattr(given, "command", "")])) == verb


def command_words(example: str) -> list[str]:
    """The words of the example as a shell splits them, of ``eval "$(...)"`` those inside."""
    import shlex

    inside = example.partition("$(")[2].partition(")")[0]
    return shlex.split(inside or example)


def test_colours_are_for_terminals(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = help_of(["status", "--help"], capsys)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = help_of(["status", "--help"], capsys)
    monkeypatch.setenv("NO_COLOR", "1")
    assert ("\x1b" in plain, "\x1b" in coloured) == (False, True)
    assert help_of(["status", "--help"], capsys) == plain


def test_no_argument_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert "offset-ledger VERB ..." in shown.out
    assert "ingest" in shown.out
    assert shown.err == ""
