"""The comparison with other programs: the right answer, what is kept of a run, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.peers.__main__ import choose
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.render import BEGIN, END, write_page
from benchmarks.peers.results import Results, Trial
from benchmarks.peers.task import COLUMNS
from benchmarks.peers.workload import AnswerLines, Target, Width, Workload, newest, records, state


@pytest.mark.parametrize("count", [1, 9, 10, 19, 20, 21, 200])
def test_the_right_answer_has_the_newest_state_of_each_event(count: int) -> None:
    states = [state(i, wide=False) for i in range(count)]
    wanted = {}
    for each in sorted(states, key=lambda each: each["publish_at"]):
        wanted[each["event_id"]] = each
    found = [state(i, wide=False) for i in newest(count)]
    assert {each["event_id"]: each for each in found} == wanted
    assert len(found) == len(wanted)
    assert len({(each["event_id"], each["publish_at"]) for each in states}) == count


def test_an_event_has_one_key_and_late_states_come_after_newer_ones() -> None:
    published = list(records(Workload(200, Width.NARROW, Target.EMPTY)))
    assert [each.key for each in published] == [state(i, wide=False)["customer"].encode() for i in range(200)]
    late = [i for i in range(200) if state(i, wide=False)["status"] == "late"]
    assert late == list(range(19, 200, 20))
    for i in late:
        assert state(i, wide=False)["event_id"] == state(i - 7, wide=False)["event_id"]
        assert state(i, wide=False)["publish_at"] < state(i - 7, wide=False)["publish_at"]


@pytest.mark.parametrize("width", Width)
def test_the_answer_is_copied_whole(width: Width) -> None:
    workload, lines = Workload(9_000, width, Target.EMPTY), b""
    answer = AnswerLines(workload)
    while chunk := answer.read(8_192):
        lines += chunk
    rows = [line.split("\t") for line in lines.decode().splitlines()]
    assert [row[0] for row in rows] == [state(i, wide=False)["event_id"] for i in newest(9_000)]
    assert {len(row) for row in rows} == {len(COLUMNS) + (width is Width.WIDE)}


def test_without_its_program_faucet_takes_no_part_and_one_line_says_so() -> None:
    said: list[str] = []
    others = [each for each in CONTENDERS if each.name != "faucet"]
    assert choose(None, "", said.append) == others
    assert len(said) == 1
    assert said[0].startswith("faucet-stream does not take part: no program faucet is on the PATH")
    assert choose(None, "/opt/faucet", said.append) == list(CONTENDERS)
    assert choose(["dlt"], "", said.append) == [each for each in CONTENDERS if each.name == "dlt"]
    assert len(said) == 1
    with pytest.raises(SystemExit, match="faucet-stream does not take part"):
        choose(["faucet"], "", said.append)


def trial(contender: str, seconds: float, turn: int = 0, **more: object) -> Trial:
    figures = {"at": "2026-11-22T08:00:00+00:00", "seconds": seconds, "process": seconds + 5, "session": 5.0}
    return Trial(2_000_000, "narrow", "empty", contender, turn, **{**figures, **more})  # type: ignore[arg-type]


def test_the_page_says_who_is_faster_who_is_wrong_and_who_failed(tmp_path: Path) -> None:
    page, file = tmp_path / "performance.md", tmp_path / "results.json"
    page.write_text(f"before\n{BEGIN}\nof another run\n{END}\nafter\n")
    results = Results.load(file)
    for turn, seconds in enumerate((20.0, 22.0, 18.0)):
        results.add(trial("ours by a new session", seconds, turn))
    results.add(trial("ours by Spark Connect", 8.0))
    results.add(trial("spark-jdbc", 16.0))
    results.add(trial("debezium", 10.0, wrong=7))
    results.add(trial("faucet", 0.0, error="TrialFailed: no such program"))
    results.add(trial("raw pieces", 10.0))
    write_page(Results.load(file), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "of another run" not in text
    lines = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    assert lines == [
        "The fastest peer with the right answer is Spark, JDBC to a staging table, merge. Times as fast: this project, "
        "Spark Connect server 2.00 (aim: at least 1.8); this project, new Spark session 0.80 (aim: at least 1.3).",
        "Faster than this project, new Spark session: Debezium JDBC sink on Kafka Connect (2.00 times, with wrong "
        "rows), Spark, JDBC to a staging table, merge (1.25 times).",
        "Debezium JDBC sink on Kafka Connect left 7 rows in another state than the newest, and 0 missing or too many.",
        "faucet-stream, upsert failed: TrialFailed: no such program",
    ]
    (ours,) = (line for line in text.splitlines() if line.startswith("| this project, new Spark session"))
    assert [cell.strip() for cell in ours.split("|")[2:5]] == ["100,000", "90,909–111,111", "0.40"]
    (limit,) = (line for line in text.splitlines() if line.startswith("| raw pieces"))
    assert [cell.strip() for cell in limit.split("|")[2:5]] == ["200,000", "200,000–200,000", "0.80"]
    write_page(Results.load(file), page)
    assert page.read_text() == text


def test_a_run_goes_on_where_it_ended_and_a_new_one_forgets(tmp_path: Path) -> None:
    results = Results.load(tmp_path / "results.json")
    results.add(trial("dlt", 3.0, details={"load": 1}))
    results.add(trial("ours by a new session", 2.0))
    again = Results.load(tmp_path / "results.json")
    assert again.trials == results.trials
    again.forget(again.workloads()[0], ["dlt"])
    assert [key[1] for key in again.trials] == ["ours by a new session"]


def test_contenders_have_names_and_modules_of_their_own() -> None:
    assert len({each.name for each in CONTENDERS}) == len(CONTENDERS)
    assert all(Path(f"benchmarks/peers/{each.module}.py").exists() for each in CONTENDERS)
