"""``--since`` and ``--until``: a moment, or a time ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offset_ledger_kit.cli.main import build_parser, main

AGO = {"90s": timedelta(seconds=90), "30m": timedelta(minutes=30), "1h": timedelta(hours=1), "2d": timedelta(days=2)}
TAKING = [
    ["check", "--data", "p"], ["replay", "p"], ["quarantine", "retry", "p"], ["quarantine", "list", "p"],
    ["quarantine", "dismiss", "p", "--why", "w"],
]  # fmt: skip


@pytest.mark.parametrize("verb", TAKING, ids=lambda verb: verb[0])
@pytest.mark.parametrize("text", AGO)
def test_a_time_ago_is_a_moment(verb: list[str], text: str) -> None:
    moment = datetime.fromisoformat(build_parser().parse_args([*verb, "--since", text]).since)
    assert abs(datetime.now(UTC) - AGO[text] - moment) < timedelta(seconds=10)


def test_a_window_may_end_a_time_ago() -> None:
    given = build_parser().parse_args(["replay", "p", "--since", "2026-01-31T00:00Z", "--until", "1h"])
    assert given.since == "2026-01-31T00:00Z"
    assert datetime.fromisoformat(given.until) < datetime.now(UTC)


PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: t}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
"""


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--until", "1h"], "--until needs --since, at which the window begins"),
        (
            ["--partition", "0", "--from-offset", "1", "--until-offset", "3", "--scan"],
            "--scan is for a window of time: give --since instead of offsets",
        ),
        (["--partition", "0"], "replay takes --partition, --from-offset and --until-offset, or --since"),
        (["--since", "1h", "--until", "2h"], "is not before until"),
    ],
)
def test_a_contradiction_is_said_in_the_words_of_the_verb(
    arguments: list[str], wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.yaml").write_text(PIPELINE)
    assert main(["replay", str(tmp_path / "orders.yaml"), *arguments]) == 1
    err = capsys.readouterr().err
    assert (wrong in err, "action" in err) == (True, False)


@pytest.mark.parametrize("text", ["yesterday", "1w", "h", "-1h", "", "999999d", "2026-01-31"])
def test_anything_else_is_refused_with_an_example(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "list", "p", f"--since={text}"]) == 2
    assert f"or a time ago, such as 30m, 1h or 2d, found {text!r}" in capsys.readouterr().err
