"""Questions as a person reads them in Airflow's Required Actions."""

from __future__ import annotations

from typing import Any

import pytest

from offset_ledger.core.questions import MEANING, Question, QuestionKind


@pytest.mark.parametrize(
    ("kind", "details", "expected"),
    [
        (
            QuestionKind.LOST_RANGE,
            {"ranges": [[0, 0, 3], [2, 10, 1510]]},
            ["| ranges | 0:[0, 3) (3 offsets), 2:[10, 1510) (1,500 offsets) |"],
        ),
        (
            QuestionKind.RECREATED_TOPIC,
            {
                "topic_id": ["a", "b"],
                "cluster_id": ["c", "c"],
                "cursors": {"0": 2, "1": 0},
                "log": {"0": [0, 1], "1": [3, 3]},
            },
            [
                *("| topic id | a, now b |", "| cluster id | c |", "| cursors, by partition | 0: 2, 1: 0 |"),
                "| new log, by partition | 0:[0, 1) (1 offset), 1: empty at 3 |",
            ],
        ),
        (
            QuestionKind.TRUNCATED_LOG,
            {"log_ends": {"0": 60}, "back": [[0, 20, 40]], "abandons": 7},
            [
                *("| log ends, by partition | 0: 60 |", "| read once more | 0:[20, 40) (20 offsets) |"),
                "| abandoned batch | 7 |",
            ],
        ),
        (
            QuestionKind.UNREAD_TOMBSTONES,
            {"ranges": [[0, 3, 7]], "missing": {"0": 2}, "waited": "25 hours", "kept": "24 hours"},
            [
                *("| ranges | 0:[3, 7) (4 offsets) |", "| missing offsets, by partition | 0: 2 |"),
                *("| records may have waited | 25 hours |", "| tombstones are kept for at least | 24 hours |"),
            ],
        ),
        (
            QuestionKind.REJECTED_BATCH,
            {"ranges": ["0:[0, 2)"], "rows": 2, "refused": None, "reasons": "state matches ^(a|b)*$"},
            ["| ranges | 0:[0, 2) |", "| rows | 2 |", r"| reasons | state matches ^(a\|b)\*$ |"],
        ),
    ],
)
def test_the_numbers_and_the_meaning_of_the_answers_stand_below_a_question(
    kind: QuestionKind, details: dict[str, Any], expected: list[str]
) -> None:
    body = Question("orders", kind, "topic", "go on?", details).body().splitlines()
    assert body == ["| | |", "|---|---|", *expected, "", MEANING[kind], "", "No answer in time is a **Reject**."]
