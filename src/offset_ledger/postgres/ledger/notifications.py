"""The notifications of people: once for each cause, until it has ended."""

from collections.abc import Collection
from dataclasses import dataclass

from offset_ledger.model.notices import Notice
from offset_ledger.pipeline_file.pipeline import Cause
from offset_ledger.postgres.ledger.database import Cursor


@dataclass(frozen=True, slots=True)
class DueNotification:
    """A notification that this process is to send now; nobody else does for the time of its claim."""

    notification_id: int
    cause: Cause
    subject: str
    body: str
    link: str


def record_seen(cursor: Cursor, notice: Notice, notifier: str) -> None:
    """Record an event for one notifier; nothing if it was notified of this and that has not ended."""
    about = {"pipeline": notice.pipeline, "cause": notice.cause, "key": notice.key, "notifier": notifier}
    cursor.run("notify/record_seen", **about, subject=notice.subject, body=notice.body, link=notice.link)


def claim(cursor: Cursor, pipeline: str, notifier: str, seconds: float) -> DueNotification | None:
    """Claim the oldest unsent notification for ``seconds``, and return it; None if there is none.

    One that was last seen more than a day ago, or has ended, is not sent any more.
    """
    row = cursor.run("notify/claim", pipeline=pipeline, notifier=notifier, seconds=seconds).fetchone()
    if row is None:
        return None
    said = row["subject"], row["body"], row["link"]
    return DueNotification(row["notification_id"], Cause(row["cause"]), *said)


def attempted(cursor: Cursor, notification_id: int, error: str | None) -> None:
    """Record an attempt that has ended: sent, or the error, after which the next occasion tries again."""
    cursor.run("notify/attempted", notification_id=notification_id, error=error)


def end(
    cursor: Cursor, pipeline: str, causes: Collection[Cause], key: str | None = None, still: Collection[str] = ()
) -> None:
    """Record that a cause has ended, so that its return is notified of; for all keys, or those that begin with ``key``.

    ``still`` are the keys that have not.
    """
    cursor.run("notify/end", pipeline=pipeline, causes=[str(cause) for cause in causes], key=key, still=list(still))
