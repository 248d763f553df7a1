"""Notifications of a pipeline: what happened is recorded in the ledger, and what is due is sent.

Nothing here raises, and all of it together takes a bounded time: a notification that fails does not fail the run.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import copy_context
from datetime import timedelta
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from offset_ledger.base.extras import has_module
from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.errors import OffsetLedgerError, error_line
from offset_ledger.model.notices import Notice, texts
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.pipeline import Cause, Notifier, Notify, Pipeline

if TYPE_CHECKING:
    from offset_ledger.postgres.ledger.database import Cursor, Session

SECONDS = 15.0
_URL = re.compile(r"(?i)https?://\S+|\burl: \S+")  # what follows the host may be a secret, as in webhooks


def missing_notifiers(pipeline: Pipeline) -> Iterator[str]:
    """A line for each notifier whose provider is not installed."""
    return (line for each in pipeline.notify if (line := _missing(pipeline, each.notifier.path)))


def wrong_notifiers(pipeline: Pipeline) -> Iterator[str]:
    """A line for each notifier that is missing or whose class cannot be used; their modules are imported."""
    for path in (each.notifier.path for each in pipeline.notify):
        if line := _missing(pipeline, path):
            yield line
        elif why := _unusable(path):
            yield f"pipeline {pipeline.name}: notify names {path}, {why}; correct class in {pipeline.path}"


def _missing(pipeline: Pipeline, path: str) -> str | None:
    module = path.rpartition(".")[0]
    if has_module(module):
        return None
    provider = re.match(r"airflow\.providers\.([^.]+)", module)
    package = f"apache-airflow-providers-{provider[1]}" if provider else "the package that has it"
    return (
        f"pipeline {pipeline.name}: notify needs {path}, which is not installed; install {package}, or "
        f"remove the entry from {pipeline.path}"
    )


def _unusable(path: str) -> str | None:
    """Return why the class cannot be a notifier; None if it can."""
    from airflow.sdk import BaseNotifier

    try:
        made = _class(path)
    except AttributeError:
        return "which its module does not have"
    except Exception as error:  # noqa: BLE001 - whatever its module raises is the answer
        return f"whose module cannot be imported ({_without_urls(error)})"
    if isinstance(made, type) and issubclass(made, BaseNotifier):
        return None
    return "which is no notifier: it does not extend airflow.sdk.BaseNotifier"


def message(pipeline: str, cause: Cause, subject: str, body: str, link: str) -> Mapping[str, str]:
    """Return the values that a notifier's arguments may name."""
    return {"pipeline": pipeline, "cause": str(cause), **texts(subject, body, link)}


def send(notifier: Notifier, values: Mapping[str, str], seconds: float = SECONDS) -> str | None:
    """Send one message; return None, or why it was not sent in one line.

    It takes ``seconds`` at most, once it is imported. A notifier that does not return is left behind in a thread that
    ends with the process.
    """
    if why := _unusable(notifier.path):
        return f"{notifier.path}, {why}"
    try:
        made = _class(notifier.path)(**notifier.arguments)
    except Exception as error:  # noqa: BLE001 - whatever its module raises, the run goes on
        return _without_urls(error)
    outcome: list[str | None] = []
    thread = Thread(target=copy_context().run, args=(_notify, made, values, outcome), daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else f"no answer within {seconds:.0f} s"


def _class(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _notify(made: Any, values: Mapping[str, str], outcome: list[str | None]) -> None:
    try:
        context: Any = dict(values)
        made.render_template_fields(context)
        made.notify(context)
        outcome.append(None)
    except Exception as error:  # noqa: BLE001 - whatever a notifier raises, the run goes on
        outcome.append(_without_urls(error))


def _without_urls(error: Exception) -> str:
    return _URL.sub("(a URL)", error_line(error))


log = logging.getLogger(__name__)

_LEDGER_SECONDS = 10.0
# The share of the time that one message may take.
_ALL = 3
_CLAIM = 4


def wants(pipeline: Pipeline, cause: Cause) -> tuple[Notify, ...]:
    """The entries of ``notify`` that are about this cause."""
    return tuple(each for each in pipeline.notify if cause in each.causes)


def notify(pipeline: Pipeline, *notices: Notice, seconds: float = SECONDS) -> None:
    """Notify of what happened, once for each cause; what could not be sent earlier is tried again.

    Each message takes ``seconds`` at most, and all of them three times as long.
    """
    from offset_ledger.postgres.ledger import notifications

    def record(cursor: Cursor) -> None:
        for notice in notices:
            for entry in _recipients(pipeline, notice):
                notifications.record_seen(cursor, notice, entry.notifier.label)

    _on_occasion(pipeline, record, notices, seconds)


def ended(pipeline: Pipeline, causes: Collection[Cause], key: str | None = None, still: Collection[str] = ()) -> None:
    """Record that causes have ended: of one key, or of all that are not among ``still``."""
    from offset_ledger.postgres.ledger import notifications

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
    from offset_ledger.postgres.ledger.database import open_ledger_at, transaction

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
        for notice in notices:
            for entry in _recipients(pipeline, notice):
                values = message(pipeline.name, notice.cause, notice.subject, notice.body, notice.link)
                _say(entry.notifier.label, notice.subject, send(entry.notifier, values, seconds))
    except Exception:
        log.exception("notifications of %s were not sent", pipeline.name)


def _deliver(session: Session, pipeline: Pipeline, seconds: float) -> None:
    """Send what is due; if a notifier fails, all that is due to it waits for the next occasion."""
    from offset_ledger.postgres.ledger import notifications
    from offset_ledger.postgres.ledger.database import transaction

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


def _say(label: str, subject: str, error: str | None) -> None:
    if error:
        log.warning("notification %r was not sent by %s: %s; the next occasion tries again", subject, label, error)
    else:
        log.info("notification %r was sent by %s", subject, label)
