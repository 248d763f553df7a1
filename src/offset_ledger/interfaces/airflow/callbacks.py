"""Callbacks: the events of tasks, deadlines, gates and audits of which people are notified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from offset_ledger.base import ids
from offset_ledger.errors import BrokerUnavailable, DatabaseUnavailable, OffsetLedgerError, UnknownTopic, one_line
from offset_ledger.interfaces.airflow.notify import ended, missing_notifiers, notify, wants
from offset_ledger.interfaces.airflow.steps import read_pipeline
from offset_ledger.model import notices
from offset_ledger.model.request import NOTHING_NEW, OUTCOME
from offset_ledger.pipeline_file.outline import from_outline, outline
from offset_ledger.pipeline_file.pipeline import Cause, Pipeline

if TYPE_CHECKING:
    from offset_ledger.model.batch import Batch
    from offset_ledger.model.questions import Question
    from offset_ledger.operations.audit.run import Audit

log = logging.getLogger(__name__)

LEDGER_TAB = "plugin/offset-ledger-run"
_IN_TRIGGERER = 120.0  # no run waits there, and the first connection that a busy triggerer asks for took 45 s
_OF_TASKS = (Cause.RUN_FAILED, Cause.SERVER_AWAY)


def callbacks(pipeline: Pipeline) -> dict[str, Any]:
    """The callbacks of a pipeline's tasks; none if its file has no ``notify``."""
    for line in missing_notifiers(pipeline):
        log.warning("%s", line)
    if not pipeline.notify:
        return {}
    file = str(pipeline.path)
    return {
        "on_failure_callback": partial(failed, file),
        "on_retry_callback": partial(retried, file),
        "on_success_callback": partial(on_success, file),
        "on_skipped_callback": partial(skipped, file),
    }


def failed(file: str, context: Any) -> None:
    """Notify that a task has failed for good."""
    if pipeline := _pipeline(file, context):
        _failed(pipeline, context)
        _check_deadline(pipeline, context)


def retried(file: str, context: Any) -> None:
    """Notify about a retry only if a server is unavailable.

    Without Postgres nothing is remembered: only the first try notifies.
    """
    pipeline, error, ti = _pipeline(file, context), _error(context), context["ti"]
    if pipeline is None or (ti.try_number > 1 and error.startswith(DatabaseUnavailable.__name__)):
        return
    if away := notices.server_away(pipeline.name, ti.task_id, error, run_link(context)):
        notify(pipeline, away)


def on_success(file: str, context: Any) -> None:
    """Record that the failures of a task have ended, as it has succeeded."""
    if pipeline := _pipeline(file, context):
        task_id = context["ti"].task_id
        ended(pipeline, _OF_TASKS, task_id)
        if _label(task_id) == ids.REPORT:
            ended(read_pipeline(file, None), [Cause.FRESHNESS_MISSED])
        _check_deadline(pipeline, context)


def skipped(file: str, context: Any) -> None:
    """A task had nothing to do; where nothing was new the table is fresh."""
    if pipeline := _pipeline(file, context):
        ti = context["ti"]
        if _label(ti.task_id) == ids.PLAN:
            ended(pipeline, _OF_TASKS, ti.task_id)
            if ti.xcom_pull(task_ids=ti.task_id, key=OUTCOME, map_indexes=ti.map_index) == NOTHING_NEW:
                ended(read_pipeline(file, None), [Cause.FRESHNESS_MISSED])
        _check_deadline(pipeline, context)


def rejected(pipeline: Pipeline, batch: Batch, context: Any) -> None:
    """The gate has rejected the batch of this run."""
    notify(pipeline, notices.batch_rejected(batch, run_link(context, "required_actions")))


def question_asked(pipeline: Pipeline, question: Question, context: Any) -> None:
    """The run is about to wait for an answer."""
    link = run_link(context, "required_actions")
    notify(pipeline, notices.approval_needed(question, pipeline.answer_within, link))


def on_deadline_missed(known: Mapping[str, Any], run_id: str, seconds: int) -> None:
    """A run is late by its deadline; called in a thread of the triggerer, which has the outline and not the file."""
    pipeline = from_outline(known)
    link = _link(ids.ingest_dag(pipeline.name), run_id)
    notice = notices.freshness_missed(pipeline.name, run_id, timedelta(seconds=seconds), link)
    notify(pipeline, notice, seconds=_IN_TRIGGERER)


def audited(file: Pipeline, audit: Audit, context: Any) -> None:
    """The topic of one of the file's pipelines was audited: errors, errors that have ended, and a loss ahead."""
    from offset_ledger.operations.audit.finding import Severity

    pipeline = file.of_topic(audit.topic) if file.source.several else file
    errors, link = audit.failing(Severity.ERROR), run_link(context)
    ended(pipeline, [Cause.AUDIT_ERROR], still=[finding.rule for finding in errors])
    ended(pipeline, [Cause.SERVER_AWAY], context["ti"].task_id)
    audit_errors = [notices.audit_error(pipeline.name, audit.topic, f.rule, f.found, f.risk, link) for f in errors]
    if audit_errors:
        notify(pipeline, *audit_errors)
    _loss_ahead(pipeline, context)


def run_link(context: Any, tab: str = "") -> str:
    """The page of this run in Airflow, or one of its tabs; empty if Airflow does not know its own address."""
    ti = context["ti"]
    return _link(ti.dag_id, ti.run_id, tab)


def _link(dag_id: str, run_id: str, tab: str = "") -> str:
    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="").rstrip("/")
    page = f"{base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
    return (f"{page}/{tab}" if tab else page) if base else ""


def _pipeline(file: str, context: Any) -> Pipeline | None:
    """The pipeline of the task, or that of its topic; None, with a line in the log, if the file is bad."""
    task = context["task"]
    topic = getattr(task, "topic", None) or (getattr(task, "op_kwargs", None) or {}).get("topic")
    try:
        return read_pipeline(Path(file), topic if isinstance(topic, str) else None)
    except OffsetLedgerError as error:
        log.warning("nobody is notified: %s", error)
        return None


def _failed(pipeline: Pipeline, context: Any) -> None:
    error, ti, link = _error(context), context["ti"], run_link(context)
    # A question is skipped in a run without one: it has no later success that would end its failure.
    run_id = ti.run_id if _label(ti.task_id) in (ids.APPROVE_LOSS, ids.APPROVE_BATCH) else ""
    away = notices.server_away(pipeline.name, ti.task_id, error, link)
    notify(pipeline, *filter(None, [away, notices.run_failed(pipeline.name, ti.task_id, error, link, run_id)]))


def _error(context: Any) -> str:
    error = context.get("exception")
    return one_line(error, 500) if error else "the process of the task ended without an error"


def _check_deadline(pipeline: Pipeline, context: Any) -> None:
    """Notify of what lies ahead of the topic, whatever became of the plan."""
    if _label(context["ti"].task_id) == ids.PLAN:
        _loss_ahead(pipeline, context)


def _loss_ahead(pipeline: Pipeline, context: Any) -> None:
    from offset_ledger.operations.status.brokers import unread_deadline

    hours = max((each.loss_ahead_hours for each in wants(pipeline, Cause.LOSS_AHEAD)), default=0)
    if not hours:
        return
    link = run_link(context)
    try:
        deadline = unread_deadline(pipeline)
    except UnknownTopic:  # its unread records are lost already
        deadline = None
    except OffsetLedgerError as error:
        log.warning("whether a loss is ahead is not known: %s", error)
        if isinstance(error, BrokerUnavailable):
            away = notices.server_away(pipeline.name, context["ti"].task_id, error.named, link)
            notify(pipeline, *filter(None, [away]))
        return
    now = datetime.now(UTC)
    if deadline is None or deadline.at - now > timedelta(hours=hours):
        ended(pipeline, [Cause.LOSS_AHEAD])
        return
    name, topic = pipeline.name, pipeline.source.topic
    notify(pipeline, notices.loss_ahead(name, topic, deadline.at, deadline.setting, now, link))


def _label(task_id: str) -> str:
    return task_id.rpartition(".")[2]


def freshness_alert(pipeline: Pipeline) -> DeadlineAlert | None:
    """The alert of the pipeline; None if its file sets no ``freshness``."""
    if pipeline.freshness is None:
        return None
    arguments: dict[str, Any] = {"pipeline": pipeline.name, "seconds": int(pipeline.freshness.total_seconds())}
    if pipeline.notify:
        arguments["known"] = outline(pipeline)
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=pipeline.freshness,
        callback=AsyncCallback(late, kwargs=arguments),
        name=f"freshness of {pipeline.name}",
    )


async def late(
    pipeline: str, seconds: int, context: Any = None, known: Mapping[str, Any] | None = None, **_: Any
) -> None:
    """Say in one line, in the triggerer's log, which run is late, and notify where the pipeline file asks for it."""
    run = (context or {}).get("dag_run") or {}
    run_id = run.get("dag_run_id") or run.get("run_id") if isinstance(run, dict) else run
    log.warning("pipeline %s is not fresh: run %s has not ended %d s after it was queued", pipeline, run_id, seconds)
    if known:
        await asyncio.to_thread(on_deadline_missed, known, str(run_id), seconds)  # its questions to servers block
