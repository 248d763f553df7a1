"""The texts of notifications: a subject, a few lines for people, and a link."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from offset_ledger import errors
from offset_ledger.base.units import show_span
from offset_ledger.model.batch import Batch
from offset_ledger.model.questions import Question, QuestionKind, visible
from offset_ledger.pipeline_file.pipeline import Cause

_LINE = 600


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to notify of. While ``key`` of this cause is the same and it has not ended, it is the same event.

    Whoever is notified of the cause ``covers`` knows already. ``within`` is the time left, for those who want to know
    that long before.
    """

    pipeline: str
    cause: Cause
    key: str
    subject: str
    lines: tuple[str, ...]
    link: str = ""
    covers: Cause | None = None
    within: timedelta | None = None

    @property
    def body(self) -> str:
        """The lines without invisible characters; values of records may be in them."""
        return "\n".join(visible(line, _LINE) for line in self.lines)


def texts(subject: str, body: str, link: str) -> Mapping[str, str]:
    """The message in the forms that notifiers need: plain text, HTML, and Slack's own."""
    marked = f"*{subject}*\n{body}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in body.splitlines())
    anchor = f'<p><a href="{escape(link)}">{escape(link)}</a></p>' if link else ""
    return {
        "subject": subject,
        "text": "\n".join(filter(None, (subject, body, link))),
        "html": f"<p><b>{escape(subject)}</b></p>{paragraphs}{anchor}",
        "slack": f"{marked}\n<{link}|Open in Airflow>" if link else marked,
        "link": link,
    }


def batch_rejected(batch: Batch, link: str) -> Notice:
    """The gate rejected a batch."""
    lines = (
        f"The quality gate rejected batch {batch.batch_id} ({batch.kind}): {batch.reasons}",
        f"Rows: {batch.rows or 0:,}. Refused records: {batch.refused or 0:,}. Nothing was merged, and no cursor moved.",
        f"Answer in Required Actions, or: offset-ledger batch approve {batch.batch_id} --why ..., or "
        f"offset-ledger batch abandon {batch.batch_id} --why ...",
    )
    subject = f"{batch.pipeline}: batch {batch.batch_id} was rejected"
    return Notice(batch.pipeline, Cause.BATCH_REJECTED, f"{batch.batch_id} {batch.reasons}", subject, lines, link)


def approval_needed(question: Question, answer_within: timedelta, link: str) -> Notice:
    """A run waits in Required Actions for an answer."""
    about = "a rejected batch" if question.kind is QuestionKind.REJECTED_BATCH else "the next batch"
    lines = (
        question.text,
        f"Answer in Required Actions within {show_span(answer_within)}. No answer counts as no: nothing is changed.",
    )
    key = f"{question.kind} {question.topic_id} {question.batch_id or ''} {question.text}"
    covers = Cause.BATCH_REJECTED if question.kind is QuestionKind.REJECTED_BATCH else None
    subject = f"{question.pipeline}: an approval is needed for {about}"
    return Notice(question.pipeline, Cause.APPROVAL_NEEDED, key, subject, lines, link, covers)


def freshness_missed(pipeline: str, run_id: str, freshness: timedelta, link: str) -> Notice:
    """A run has not ended within the pipeline's freshness."""
    lines = (
        f"Run {run_id} has not ended {show_span(freshness)} after it was queued, which is the pipeline's freshness.",
        f"See which task is late, and: offset-ledger status {pipeline}",
    )
    return Notice(pipeline, Cause.FRESHNESS_MISSED, "", f"{pipeline}: the table is not fresh", lines, link)


def audit_error(pipeline: str, topic: str, rule: str, finding: str, risk: str, link: str) -> Notice:
    """The audit of a topic has found an error."""
    lines = (
        f"The audit of topic {topic} has found an error, {rule}: {finding}",
        f"The risk: {risk}.",
        f"The log of the task has the command that fixes it; so does: offset-ledger kafka audit {pipeline}",
    )
    return Notice(pipeline, Cause.AUDIT_ERROR, rule, f"{pipeline}: audit error {rule}", lines, link)


def loss_ahead(pipeline: str, topic: str, deleted_at: datetime, setting: str, now: datetime, link: str) -> Notice:
    """Retention, by that setting of the topic, is about to delete records that no batch has committed."""
    left = deleted_at - now
    estimate = ", at the rate at which the log has grown" if setting == "retention.bytes" else ""
    when = f"in {show_span(left)}" if left > timedelta(0) else "with its next check"
    moment = f"{deleted_at:%Y-%m-%d %H:%M} UTC{estimate}"
    lines = (
        f"Retention deletes the oldest unread records of topic {topic} {when} ({moment}).",
        f"Catch up: offset-ledger ingest {pipeline} --until-drained. Or raise {setting} of the topic.",
    )
    subject = f"{pipeline}: records will be lost {when}"
    return Notice(pipeline, Cause.LOSS_AHEAD, topic, subject, lines, link, within=left)


_SERVERS = {
    errors.BrokerUnavailable.__name__: "Kafka",
    errors.DatabaseUnavailable.__name__: "Postgres",
    errors.RegistryUnavailable.__name__: "the schema registry",
    errors.UnknownHost.__name__: "a server",
}


def server_away(pipeline: str, task: str, error: str, link: str) -> Notice | None:
    """A server did not answer for longer than a task retries; None where the error is another one."""
    server = _SERVERS.get(error.partition(":")[0])
    if server is None:
        return None
    lines = (error, "Nothing is lost: Airflow tries the task again, and the next run continues with the same batch.")
    return Notice(pipeline, Cause.SERVER_AWAY, f"{task} {server}", f"{pipeline}: {server} is away", lines, link)


def run_failed(pipeline: str, task: str, error: str, link: str, run_id: str = "") -> Notice:
    """Return the notice of a task that failed for good; with ``run_id``, each run is another failure.

    An unavailable server has a notice of its own, for those who want that one.
    """
    name, colon, _ = error.partition(":")
    known = bool(colon) and name in errors.names()
    help_line = f"What to do: docs/runbook.md, heading {name}." if known else "The log of the task has more."
    subject = f"{pipeline}: task {task} failed" + (f" with {name}" if known else "")
    key = f"{task} {run_id or (name if known else '')}"
    covers = Cause.SERVER_AWAY if name in _SERVERS else None
    return Notice(pipeline, Cause.RUN_FAILED, key, subject, (error, help_line), link, covers)


def trial(pipeline: str, link: str) -> Notice:
    """A notification that tries a notifier out."""
    lines = ("This is a test: nothing has happened.",)
    return Notice(pipeline, Cause.RUN_FAILED, "test", f"{pipeline}: test notification", lines, link)
