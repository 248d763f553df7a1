"""Questions as a person reads them in Airflow's Required Actions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from markdown_it import MarkdownIt

from offset_ledger.model.questions import MEANING, SAFE, Question, QuestionKind

MARKDOWN = MarkdownIt("gfm-like", {"html": True})


@pytest.mark.parametrize(
    ("kind", "details", "expected"),
    [
        (QuestionKind.LOST_RANGE, {"ranges": [[0, 0, 3], [2, 10, 1510]]},
            ["| ranges | partition 0, offsets 0 to 2 (3 offsets); partition 2, offsets 10 to 1509 (1,500 offsets) |"]),
        (QuestionKind.RECREATED_TOPIC, {"topic_id": ["a", "b"], "cluster_id": ["c", "c"], "cursors": {"0": 2, "1": 0},
            "log": {"0": [0, 1], "1": [3, 3]}},
            [*("| topic id | a, now b |", "| cluster id | c |", "| cursors, by partition | 0: 2; 1: 0 |"),
                "| new log, by partition | partition 0, offset 0 (1 offset); partition 1, empty at 3 |"]),
        (QuestionKind.TRUNCATED_LOG, {"log_ends": {"0": 60}, "back": [[0, 20, 40]], "abandons": 7},
            [*("| log ends, by partition | 0: 60 |", "| read again | partition 0, offsets 20 to 39 (20 offsets) |"),
                "| abandoned batch | 7 |"]),
        (QuestionKind.TOPIC_GONE, {"topic_id": "a", "cursors": {"0": 2}, "committed": "1,500", "open_batches": [7, 9]},
            [*("| topic id | a |", "| cursors, by partition | 0: 2 |", "| committed offsets | 1,500 |"),
                "| open batches | 7, 9 |"]),
        (QuestionKind.UNREAD_TOMBSTONES,
            {"ranges": [[0, 3, 7]], "missing": {"0": 2}, "waited": "25 hours", "kept": "24 hours"},
            [*("| ranges | partition 0, offsets 3 to 6 (4 offsets) |", "| missing offsets, by partition | 0: 2 |"),
                *("| records may have waited | 25 hours |", "| tombstones are kept for at least | 24 hours |")]),
        (QuestionKind.CHANGED_SCHEMA,
            {"schemas": ["schema id 7"], "begins": {"0": 2, "3": 1}, "differences": ["$.a|b: *x*"], "adds": None},
            [*("| schemas | schema id 7 |", "| from these offsets on, by partition | 0: 2; 3: 1 |"),
                r"| differences | ` $.a\|b: *x* ` |"]),
        (QuestionKind.REJECTED_BATCH,
            {"ranges": [[0, 0, 2]], "rows": 2, "refused": None, "reasons": "state matches ^(a|b)*$"},
            ["| ranges | partition 0, offsets 0 to 1 (2 offsets) |", "| rows | 2 |",
                r"| reasons | ` state matches ^(a\|b)*$ ` |"]),
    ],
)  # fmt: skip
def test_the_numbers_and_the_meaning_of_the_answers_stand_below_a_question(
    kind: QuestionKind, details: dict[str, Any], expected: list[str]
) -> None:
    body = Question("orders", kind, "topic", "go on?", details).body().splitlines()
    where = ["", "Records and quality report: tab Ledger of the run."] if kind is QuestionKind.REJECTED_BATCH else []
    assert body == ["| | |", "|---|---|", *expected, *where, "", MEANING[kind], "", SAFE]


@pytest.mark.parametrize("kind", QuestionKind)
def test_every_question_names_the_answer_that_changes_nothing(kind: QuestionKind) -> None:
    *_, last = Question("orders", kind, "topic", "go on?", {}).body().splitlines()
    assert last.startswith("Not sure? **Reject** changes nothing: it fails this run, and you can decide later.")


def test_a_question_about_a_rejected_batch_shows_what_was_refused_and_where_to_look() -> None:
    samples = [["0:3, 1:5", "missing at $.a|b (6 records)"], ["0:4", "type at $.c (1 record)"]]
    details = {"rows": 2, "reasons": "too much", "samples": samples}
    question = Question("orders", QuestionKind.REJECTED_BATCH, "topic", "Commit batch 7 (too much)?", details, 7)
    body = question.body("https://airflow.example/runs/r/plugin/offset-ledger-run")
    assert shown(body) == [
        [("text", "rows")],
        [("text", "2")],
        [("text", "refused (partition:offset) 0:3, 1:5")],
        [("code_inline", "missing at $.a|b (6 records)")],
        [("text", "refused (partition:offset) 0:4")],
        [("code_inline", "type at $.c (1 record)")],
    ], "the reasons stand in the subject"
    link = "[tab Ledger](https://airflow.example/runs/r/plugin/offset-ledger-run)"
    assert f"Records and quality report: {link} of the run." in body.splitlines()


def shown(body: str) -> list[list[tuple[str, str]]]:
    """The cells of the table below a question as Markdown shows them: what each piece is, and its text."""
    found: list[list[tuple[str, str]]] = []
    for before, token in pairwise(MARKDOWN.parse(body)):
        if before.type == "td_open":
            found.append([(each.type, each.content) for each in token.children or ()])
    return found


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("observed [Approve](https://evil.example/now)", None),
        ("see https://evil.example/a?b=c and www.evil.example and mail a@evil.example", None),
        ("![x](https://evil.example/pixel.png)", None),
        ("<img src=x onerror=alert(1)> <b>Approve</b> &amp; &#42;", None),
        ("a `code` and ``more`` of ```it```", None),
        ("`", None),
        (" spaces ", None),
        ("**bold** _it_ ~~gone~~ # title", None),
        ("a | b |\n|---|---|\n| c | d", r"a | b |\n|---|---|\n| c | d"),
        ("a\n\n# Approve this\n\n- x", r"a\n\n# Approve this\n\n- x"),
        ("a\rb\u2028c\u202ed\x00e", r"a\rb\u2028c\u202ed\x00e"),
        ("trailing \\", None),
        ("x" * 100_000, "x" * 2000 + "…"),
        ("`" * 100_000, "`" * 2000 + "…"),
    ],
)
def test_record_contents_are_shown_as_they_are_and_not_as_markdown(value: str, visible: str | None) -> None:
    question = Question("orders", QuestionKind.REJECTED_BATCH, "topic", "go on?", {"rows": 2, "reasons": value})
    assert shown(question.body()) == [
        [("text", "rows")],
        [("text", "2")],
        [("text", "reasons")],
        [("code_inline", visible or value)],
    ]


@pytest.mark.parametrize("value", ["\\|", "\\\\|", "a\\|b\\\\\\|c"])
def test_a_backslash_before_a_pipe_makes_no_new_cell(value: str) -> None:
    question = Question("orders", QuestionKind.REJECTED_BATCH, "topic", "go on?", {"reasons": value})
    ((_,), ((kind, content),)) = shown(question.body())
    assert kind == "code_inline"
    assert content.replace("\\", "") == value.replace("\\", "")


def test_the_subject_is_one_short_line() -> None:
    question = Question("orders", QuestionKind.REJECTED_BATCH, "topic", "observed a\n\nb\x00" + "x" * 5000, {})
    assert question.subject() == r"observed a\n\nb\x00" + "x" * 286 + "…"
