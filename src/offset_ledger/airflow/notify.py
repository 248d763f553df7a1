"""Notifications of a pipeline: what happened is recorded in the ledger, and what is due is sent.

Nothing here raises, and all of it together takes a bounded time: a run never fails for want of a notification.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta

from offset_ledger.airflow.notifiers import SECONDS, message, send
from offset_ledger.config.model import Cause, Notify, Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import notifications
from offset_ledger.ledger.database import Cursor, Session, open_ledger_at, transaction
from offset_ledger.model.notices import Notice

log = logging.getLogger(__name__)

_LEDGER_SECONDS = 10.0
# Of the time that one message may take.
_ALL = 3
_CLAIM = 4


def wants(pipeline: Pipeline, cause: Cause) -> tuple[Notify, ...]:
    """The entries of ``notify`` that are about this cause."""
    return tuple(each for each in pipeline.notify if cause in each.causes)


def notify(pipeline: Pipeline, *notices: Notice, seconds: float = SECONDS) -> None:
    """Notify of what happened, once for each cause; what could not be sent earlier is tried again.

    Each message takes ``seconds`` at most, and all of them three times as long.
    """

    def record(cursor: Cursor) -> None:
        for notice in notices:
            for entry in _recipients(pipeline, notice):
                notifications.see(cursor, notice, entry.notifier.label)

    _on_occasion(pipeline, record, notices, seconds)


def ended(pipeline: Pipeline, causes: Collection[Cause], key: str | None = None, still: Collection[str] = ()) -> None:
    """Record that causes have gone away: of one key, or of all that are not among ``still``."""
    _on_occasion(pipeline, lambda cursor: notifications.end(cursor, pipeline.name, causes, key, still))


def _recipients(pipeline: Pipeline, notice: Notice) -> Iterable[Notify]:
    left = notice.within or timedelta(0)
    asked = (each for each in wants(pipeline, notice.cause) if notice.covers not in each.causes)
    return (each for each in asked if left <= timedelta(hours=each.loss_ahead_hours))


def _on_occasion(
    pipeline: Pipeline,
    record: Callable[[Cursor], None],
    notices: Iterable[Notice] = (),
    seconds: float = SECONDS,
) -> None:
    if not pipeline.notify:
        return
    try:
        connection = get_connection(pipeline.target.connection)
        with open_ledger_at(connection, timeout=_LEDGER_SECONDS) as session:
            with transaction(session) as cursor:
                record(cursor)
            _deliver(session, pipeline, seconds)
    except OffsetLedgerError as error:
        log.warning("the ledger does not remember notifications of %s now: %s", pipeline.name, error)
        _send_without_ledger(pipeline, notices, seconds)
    except Exception:
        log.exception("notifications of %s were not sent", pipeline.name)


def _deliver(session: Session, pipeline: Pipeline, seconds: float) -> None:
    """Send what is due; a notifier that fails is left for the next occasion with all that is due to it."""
    started = time.monotonic()
    for each in {entry.notifier.label: entry.notifier for entry in pipeline.notify}.values():
        error = None
        while error is None and time.monotonic() - started < (_ALL - 1) * seconds:
            with transaction(session) as cursor:
                due = notifications.claim(cursor, pipeline.name, each.label, _CLAIM * seconds)
            if due is None:
                break
            values = message(pipeline.name, due.cause, due.subject, due.body, due.link)
            error = send(each, values, seconds)
            reach(Failpoint.NOTIFICATION_SENT)
            with transaction(session) as cursor:
                notifications.attempted(cursor, due.notification_id, error)
            _say(each.label, due.subject, error)


def _send_without_ledger(pipeline: Pipeline, notices: Iterable[Notice], seconds: float) -> None:
    for notice in notices:
        for entry in _recipients(pipeline, notice):
            values = message(pipeline.name, notice.cause, notice.subject, notice.body, notice.link)
            _say(entry.notifier.label, notice.subject, send(entry.notifier, values, seconds))


def _say(label: str, subject: str, error: str | None) -> None:
    if error:
        log.warning("notification %r was not sent by %s: %s; the next occasion tries again", subject, label, error)
    else:
        log.info("notification %r was sent by %s", subject, label)
