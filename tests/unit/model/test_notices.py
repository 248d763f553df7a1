"""Notifications as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.model import notices
from offset_ledger.model.batch import Batch
from offset_ledger.model.notices import Notice, texts
from offset_ledger.model.questions import Question, QuestionKind
from offset_ledger.model.states import BatchKind, State
from offset_ledger.pipeline_file.pipeline import Cause

LINK = "https://airflow.example/dags/ingest_orders/runs/r"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rejected_batch() -> Batch:
    verdict = {"reasons": ["state in set: 1 of 3 rows"]}
    counts = {"slices_expected": 1, "gap_reason": None, "rows": 1200, "refused": 3, "skipped": 0}
    times = {"planned_at": NOW, "validated_at": NOW}
    return Batch(7, "orders", BatchKind.HEAD, State.REJECTED, 1, "t", (), verdict=verdict, **counts, **times)  # type: ignore[arg-type]


def test_a_rejected_batch() -> None:
    lines = (
        "The quality gate rejected batch 7 (head): state in set: 1 of 3 rows",
        "Rows: 1,200. Refused records: 3. Nothing was merged, and no cursor moved.",
        "Answer in Required Actions, or: offset-ledger batch approve 7 --why ..., or "
        "offset-ledger batch abandon 7 --why ...",
    )
    expected = Notice(
        "orders", Cause.BATCH_REJECTED, "7 state in set: 1 of 3 rows", "orders: batch 7 was rejected", lines, LINK
    )
    assert notices.batch_rejected(rejected_batch(), LINK) == expected


@pytest.mark.parametrize(
    ("kind", "batch_id", "about", "covers"),
    [
        (QuestionKind.REJECTED_BATCH, 7, "a rejected batch", Cause.BATCH_REJECTED),
        (QuestionKind.LOST_RANGE, None, "the next batch", None),
    ],
)
def test_a_question_of_a_rejected_batch_is_covered_by_the_rejection(
    kind: QuestionKind, batch_id: int | None, about: str, covers: Cause | None
) -> None:
    question = Question("orders", kind, "t", "go on?", {}, batch_id)
    expected = Notice(
        "orders",
        Cause.APPROVAL_NEEDED,
        f"{kind} t {batch_id or ''} go on?",
        f"orders: an approval is needed for {about}",
        ("go on?", "Answer in Required Actions within 4 hours. No answer counts as no: nothing is changed."),
        LINK,
        covers,
    )
    assert notices.approval_needed(question, timedelta(hours=4), LINK) == expected


@pytest.mark.parametrize(("left", "when"), [(timedelta(hours=5), "in 5 hours"), (timedelta(0), "with its next check")])
@pytest.mark.parametrize(
    ("setting", "estimate"), [("retention.ms", ""), ("retention.bytes", ", at the rate at which the log has grown")]
)
def test_a_loss_ahead_says_how_soon(left: timedelta, when: str, setting: str, estimate: str) -> None:
    made = notices.loss_ahead("orders", "orders.eu", NOW + left, setting, NOW, LINK)
    assert (made.subject, made.key, made.within) == (f"orders: records will be lost {when}", "orders.eu", left)
    moment = f"{NOW + left:%Y-%m-%d %H:%M} UTC{estimate}"
    assert made.lines == (
        f"Retention deletes the oldest unread records of topic orders.eu {when} ({moment}).",
        f"Catch up: offset-ledger ingest orders --until-drained. Or raise {setting} of the topic.",
    )


@pytest.mark.parametrize(
    ("error", "run_id", "subject", "key", "advice"),
    [
        ("LogTruncated: cut", "", " with LogTruncated", "stage LogTruncated",
            "What to do: docs/runbook.md, heading LogTruncated."),
        ("KeyError: 'a'", "", "", "stage ", "The log of the task has more."),
        ("rejected by ada: no", "r", "", "stage r", "The log of the task has more."),
    ],
)  # fmt: skip
def test_a_failure_names_the_heading_of_an_error_of_ours(
    error: str, run_id: str, subject: str, key: str, advice: str
) -> None:
    title = f"orders: task stage failed{subject}"
    expected = Notice("orders", Cause.RUN_FAILED, key, title, (error, advice), LINK)
    assert notices.run_failed("orders", "stage", error, LINK, run_id) == expected


def test_values_of_records_are_text_in_every_form() -> None:
    notice = Notice("orders", Cause.RUN_FAILED, "", "a <b> & c", ("first\nline \u202e", "<!channel> *b*"))
    assert notice.body == "first\\nline \\u202e\n<!channel> *b*"
    assert texts(notice.subject, notice.body, "https://a/?b=1&c=2") == {
        "subject": "a <b> & c",
        "text": "a <b> & c\nfirst\\nline \\u202e\n<!channel> *b*\nhttps://a/?b=1&c=2",
        "html": "<p><b>a &lt;b&gt; &amp; c</b></p><p>first\\nline \\u202e</p><p>&lt;!channel&gt; *b*</p>"
        '<p><a href="https://a/?b=1&amp;c=2">https://a/?b=1&amp;c=2</a></p>',
        "slack": "*a &lt;b&gt; &amp; c*\nfirst\\nline \\u202e\n&lt;!channel&gt; *b*\n"
        "<https://a/?b=1&c=2|Open in Airflow>",
        "link": "https://a/?b=1&c=2",
    }
    assert "http" not in texts("a", "b", "")["html"] + texts("a", "b", "")["slack"]
