"""The tasks plan, stage, stage_ahead, validate and commit, as operators.

The stage task reads the batch itself, is a client of a Spark Connect server, or submits a Spark job. Plan and validate
skip the question after them where there is nothing to ask. The commit is one transaction, an event of the table's
asset, and lineage where OpenLineage's provider is installed.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator, get_current_context
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offset_ledger import errors
from offset_ledger.base import ids
from offset_ledger.base.extras import missing
from offset_ledger.base.without_pandas import this_process_is_ours
from offset_ledger.errors import ContradictoryRequest, LostRange, UnknownTopic, one_line
from offset_ledger.interfaces.airflow.callbacks import rejected
from offset_ledger.interfaces.airflow.form import by_person, request_of
from offset_ledger.interfaces.airflow.steps import airflow_failures, as_airflow, at_batch, batch_id_of, read_pipeline
from offset_ledger.model.batch import Engine, EngineChoice, current_origin
from offset_ledger.model.request import BUSY, NOTHING_NEW, OUTCOME, Request, RunAction
from offset_ledger.model.states import State
from offset_ledger.outside.connections import Connection, get_connection, without_secrets
from offset_ledger.outside.spark.home import SETTINGS, check_java, check_spark
from offset_ledger.outside.spark.remote_session import is_remote, remote_session
from offset_ledger.outside.spark.scratch import scratch
from offset_ledger.outside.spark.session import FALLBACK
from offset_ledger.outside.spark.submission import FAILURE_FILE, Submission, SubmitArguments, submit_arguments
from offset_ledger.pipeline_file.parse import nearest_above
from offset_ledger.pipeline_file.pipeline import DeployMode, Pipeline, Spark
from offset_ledger.steps.stage import submitted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.postgres.ledger.database import Session
    from offset_ledger.postgres.ledger.staging import StageFailure
    from offset_ledger.steps.commit.step import Committed
    from offset_ledger.steps.plan.step import PlannedBatch
    from offset_ledger.steps.stage.step import Reader

log = logging.getLogger(__name__)

JOB = Path(submitted.__file__).with_name("stage_batch.py")
_DEFAULT = Spark()
_DECISIONS = (RunAction.APPROVE, RunAction.ABANDON, RunAction.SKIP)


class _PipelineOperator(BaseOperator):
    """A task about one pipeline, whose file is read when the task runs."""

    template_fields: Sequence[str] = ("topic",)

    def __init__(self, *, pipeline_file: str, topic: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline_file = pipeline_file
        self.topic = topic


class _AskingOperator(_PipelineOperator, SkipMixin):
    """A task that leaves the task ``question`` after it to run, or skips it."""

    inherits_from_skipmixin = True

    def __init__(self, *, question: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.question = question

    def skip_question(self, context: Context, *more: str) -> None:
        """End the task, and skip the question: there is nothing to ask. So are ``more`` tasks, by their names."""
        self.skip(context["ti"], [task for task in self.downstream_list if task.label in (self.question, *more)])


class PlanOperator(_AskingOperator):
    """Check the request and plan its batch, whose id is the result.

    A lost range, a topic that is gone, or a schema to decide about leaves the task ``question`` to run; in every other
    case it is skipped, and so is all that follows where there is no batch.
    """

    def execute(self, context: Context) -> None:
        """Plan, show what would be planned, or decide; the log says which."""
        from offset_ledger.interfaces.airflow.concurrent_runs import one_run_plans, other_run
        from offset_ledger.postgres.ledger.database import open_ledger
        from offset_ledger.steps.plan.step import batch_limit

        with airflow_failures():
            request = request_of(context)
            if request.topic and self.topic is None:
                raise ContradictoryRequest(f"the pipeline reads one topic; clear topic, found {request.topic}")
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            if request.dry_run:
                from offset_ledger.steps.run.requests import preview

                shown = preview(pipeline, request)
                self.log.info("%s", shown)
                context["ti"].xcom_push("preview", shown.data)
                self.skip(context["ti"], self.downstream_list)
            with one_run_plans(pipeline), open_ledger(pipeline) as session:
                if request.action is RunAction.NEXT and (busy := other_run(pipeline, context["ti"], session)):
                    self._nothing(context, BUSY, f"nothing to do: {busy}")
                planned = self._plan(session, pipeline, request, context)
        if planned is not None and planned.batch is not None:
            context["ti"].xcom_push("return_value", planned.batch.batch_id)
            backlog = planned.resumed or planned.waiting >= batch_limit(pipeline, None)
            self.skip_question(context, *([] if backlog and may_be_ahead(request) else [ids.STAGE_AHEAD]))

    def _plan(self, session: Session, pipeline: Pipeline, request: Request, context: Context) -> PlannedBatch | None:
        from offset_ledger.steps.decide.accept_topic import schema_question
        from offset_ledger.steps.decide.answers import loss_question, question_before_staging
        from offset_ledger.steps.run.requests import plan_request

        try:
            planned = plan_request(pipeline, request, by_person(context), session)
        except (LostRange, UnknownTopic) as error:
            question = loss_question(pipeline) if request.action is RunAction.NEXT else None
            if question is None:
                raise
            self.log.warning("%s; the task %s asks: %s", error, self.question, question.text)
            return None
        self.log.info(planned.message)
        if planned.batch is not None:
            if request.action is RunAction.NEXT and not planned.batch.judged:  # a loss since then, or a changed schema
                question = question_before_staging(pipeline) if planned.resumed else schema_question(pipeline, session)
                if question:
                    self.log.warning("the task %s asks: %s", self.question, question.text)
                    return None
            return planned
        if request.action in _DECISIONS:
            self.skip(context["ti"], self.downstream_list)
        self._nothing(context, NOTHING_NEW, planned.message)
        return None

    def _nothing(self, context: Context, outcome: str, message: str) -> None:
        context["ti"].xcom_push(OUTCOME, outcome)
        raise AirflowSkipException(message)


class StageOperator(_PipelineOperator):
    """Stage the batch that the run has planned; a small batch, or one that needs no staging any more, starts no Spark.

    If the connection names a Spark Connect server, the task is its client. Otherwise it submits a Spark job, which is a
    process of its own and cannot ask Airflow for connections: they reach its driver in a file that is written when the
    task runs, so no secret is shown in the UI, on a command line or in the environment of Spark.

    ``application``, ``conf`` and ``name`` are for the UI.
    """

    template_fields = ("application", "conf", "name", "topic")

    def __init__(self, *, spark: Spark = _DEFAULT, name: str = "stage", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application = JOB.name
        self.conf = {**SETTINGS, **spark.conf}
        self.name = name
        self._hook: Any = None
        self._at_work = False

    def execute(self, context: Context) -> None:
        """Run the job; its own error, in one line, fails the task, at once if a retry cannot help."""
        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to stage")
        self.stage_batch(batch_id)

    def stage_batch(self, batch_id: int) -> None:
        """Stage this batch, by the engine that suits it."""
        from offset_ledger.postgres.ledger.database import open_ledger
        from offset_ledger.steps.stage.step import StagedBatch, next_stage, stage

        this_process_is_ours()
        self._at_work = True
        try:
            with at_batch(self.pipeline_file, self.topic, batch_id) as pipeline, ExitStack() as opened:
                session = opened.enter_context(open_ledger(pipeline))
                choice = next_stage(session, pipeline, batch_id)
                if isinstance(choice, StagedBatch):
                    self.log.info("needs no staging: %s %s", choice.attempt, choice.counts)
                    return
                engine = self._engine(choice, pipeline, opened)
                if isinstance(engine, Connection):
                    opened.close()  # the driver has a session of its own
                    self._submit(engine, choice, pipeline, batch_id)
                else:
                    staged = stage(engine, pipeline, batch_id, current_origin(), session)
                    verb = "needs no staging:" if staged.done else "staged"
                    self.log.info("%s %s: %s", verb, staged.attempt, staged.counts)
        finally:
            self._at_work = False

    def on_kill(self) -> None:
        """End the job of spark-submit; all else ends with what ``execute`` has open, which this leaves.

        A Spark Connect server ends the job of a session that is released.
        """
        if self._hook is not None:
            self._hook.on_kill()
        if self._at_work:  # not after a timeout, which has left it already
            raise SystemExit("the task was stopped; nothing was committed")

    def _engine(self, choice: EngineChoice, pipeline: Pipeline, opened: ExitStack) -> Reader | Connection:
        """Return this process, or the server that the connection names; else the connection to submit a job to.

        It is this process, too, if the server does not answer and has a fallback.
        """
        from offset_ledger.steps.stage.readers import ProcessReader, SparkReader

        if choice.engine is Engine.PROCESS:
            return ProcessReader(choice)
        connection = get_connection(pipeline.spark.connection)
        if not is_remote(connection):
            return connection
        fallback = connection.extra.get(FALLBACK)
        try:
            spark = opened.enter_context(remote_session(connection, wait=not fallback))
        except errors.SparkUnavailable as error:
            if not fallback:
                raise
            self.log.warning("%s; its fallback is the connection %s", error, fallback)
            return get_connection(fallback)
        return SparkReader(spark, choice)

    def _submit(self, at: Connection, choice: EngineChoice, pipeline: Pipeline, batch_id: int) -> None:
        """Run the nearest ``jobs/stage_batch.py`` above the pipeline file, else the package's own, by spark-submit."""
        check_spark()
        check_java()
        application = nearest_above(pipeline.path, f"jobs/{JOB.name}") or JOB
        connections = map(get_connection, pipeline.connections)
        submission = Submission.of(str(uuid.uuid4()), current_origin(), choice.reason, *connections)
        with scratch() as folder:
            given = submit_arguments(folder, at, pipeline, submission)
            self._hook = self._submit_hook(at, pipeline.spark, given, batch_id)
            try:
                self._hook.submit(str(application), env=without_secrets(os.environ))
            except AirflowException as error:
                if failed := self._failure(folder, pipeline, submission):
                    error_of_driver = errors.revive(failed.error, failed.message)
                    raise as_airflow(error_of_driver or errors.UnexpectedError(failed.message)) from None
                if pipeline.spark.deploy_mode is not DeployMode.CLUSTER:
                    raise
                hook, log = self._hook, "the log of the driver, which spark-submit names above"
                if hook._yarn_application_id:
                    log = f"yarn logs -applicationId {hook._yarn_application_id}"
                elif hook._kubernetes_driver_pod:
                    namespace = hook._connection["namespace"] or "default"
                    log = f"kubectl logs -n {namespace} {hook._kubernetes_driver_pod}"
                unrecorded = errors.SparkFailed(
                    f"the driver of batch {batch_id} failed on the cluster and recorded no error in the ledger; "
                    f"nothing was committed; see: {log}"
                )
                raise as_airflow(unrecorded) from error

    def _submit_hook(self, at: Connection, spark: Spark, given: SubmitArguments, batch_id: int) -> Any:
        """Return the provider's hook for that job.

        Raises:
            ConfigurationError: the provider is not installed.
        """
        try:
            from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
        except ModuleNotFoundError:
            what = "a batch that spark-submit stages"
            raise missing("spark", what, "apache-airflow-providers-apache-spark") from None
        from airflow.providers.common.compat.openlineage.utils import spark as lineage

        # By default Airflow's section openlineage adds nothing to jobs of spark-submit.
        settings, asked = given.conf, spark.resources
        if conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
            settings = lineage.inject_parent_job_information_into_spark_properties(settings, get_current_context())
        if conf.getboolean("openlineage", "spark_inject_transport_info", fallback=False):
            settings = lineage.inject_transport_information_into_spark_properties(settings, get_current_context())
        return SparkSubmitHook(
            conf=settings,
            conn_id=at.conn_id,
            files=given.files,
            py_files=given.py_files,
            properties_file=given.properties_file,
            application_args=[given.pipeline_file, str(batch_id), *given.job_arguments],
            name=self.name,
            deploy_mode=str(spark.deploy_mode),
            yarn_queue=spark.queue,
            driver_memory=asked.driver_memory,
            executor_memory=asked.executor_memory,
            executor_cores=asked.executor_cores,
            num_executors=asked.executors,
            total_executor_cores=asked.total_executor_cores,
        )

    def _failure(self, folder: Path, pipeline: Pipeline, submission: Submission) -> StageFailure | None:
        """Return the driver's failure: from a file on this machine, or for a driver on the cluster from the ledger."""
        from offset_ledger.postgres.ledger import staging
        from offset_ledger.postgres.ledger.database import open_ledger, transaction

        if (file := folder / FAILURE_FILE).exists():
            return staging.StageFailure(**json.loads(file.read_text()))
        if pipeline.spark.deploy_mode is DeployMode.CLIENT:
            return None
        with suppress(errors.OffsetLedgerError), open_ledger(pipeline) as session, transaction(session) as cursor:
            return staging.read_failure(cursor, submission.submission_id)
        return None


def may_be_ahead(request: Request) -> bool:
    """Return whether a run that was asked for this works for the next batch too: not where somebody bounds its own."""
    return request.action is RunAction.NEXT and request.limit is None


class StageAheadOperator(StageOperator):
    """Plan and stage the next batch of a backlog while the run's own is validated and committed; the next run takes it.

    It is skipped where there is none. So it is where something fails: the next run meets that at its own batch.
    """

    def execute(self, context: Context) -> None:
        """Plan and stage."""
        from offset_ledger.steps.plan.step import plan_ahead

        if not may_be_ahead(request_of(context)):
            raise AirflowSkipException("the run was asked for one batch")
        try:
            with airflow_failures():
                planned = plan_ahead(read_pipeline(self.pipeline_file, self.topic), current_origin())
            if planned.batch is not None:
                self.log.info(planned.message)
                self.stage_batch(planned.batch.batch_id)
                return
        except AirflowException as error:
            raise AirflowSkipException(f"the next run stages its batch: {error}") from error
        raise AirflowSkipException(planned.message)


class ValidateOperator(_AskingOperator):
    """Judge the staged batch; the task ``question`` runs only after a rejected one."""

    def execute(self, context: Context) -> None:
        """Judge the batch; a rejected one gets its quality page before anybody is asked."""
        from offset_ledger.steps.report.step import report
        from offset_ledger.steps.validate.step import validate

        batch_id = batch_id_of(context["ti"])
        assert batch_id is not None
        with at_batch(self.pipeline_file, self.topic, batch_id) as pipeline:
            batch, _ = validate(pipeline, batch_id, current_origin())
            if batch.state is State.REJECTED:
                self.log.warning("%s: %s; quality page %s", batch, batch.reasons, report(pipeline, batch_id))
                rejected(pipeline, batch, context)
                return
        self.log.info("%s passed", batch)
        self.skip_question(context)


class CommitOperator(_PipelineOperator):
    """Commit the validated batch; skipped where nothing was planned or the batch is abandoned.

    Its outlet is the asset of the table, whose event says what was committed.
    """

    _lineage: Any = None

    def execute(self, context: Context) -> None:
        """Commit the batch; one that an earlier attempt has committed counts as well."""
        from offset_ledger.postgres.ledger.batches import read_batch
        from offset_ledger.postgres.ledger.database import open_ledger, transaction
        from offset_ledger.steps.commit.step import commit

        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to commit")
        with at_batch(self.pipeline_file, self.topic, batch_id) as pipeline, open_ledger(pipeline) as session:
            with transaction(session) as cursor:
                batch = read_batch(cursor, batch_id)
            if batch.state is State.ABANDONED:
                raise AirflowSkipException(f"batch {batch_id} is abandoned: nothing to commit")
            committed = commit(pipeline, batch_id, current_origin(), session)
        (table,) = self.outlets
        context["outlet_events"][table].extra = {
            "batch_id": batch_id,
            "kind": committed.batch.kind.value,
            "topic": pipeline.source.topic,
            "ranges": {str(r.partition): [r.from_offset, r.until_offset] for r in committed.batch.ranges},
            "counts": asdict(committed.total),
        }
        print(f"committed batch {batch_id}: {committed.total}")
        self._lineage = _lineage(pipeline, committed)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """Return the facets for OpenLineage's provider, which asks for them; None if nothing was committed.

        No other task describes datasets: what they do may be repeated, or the batch abandoned.
        """
        return self._lineage


def _lineage(pipeline: Pipeline, committed: Committed) -> Any:
    """The batch for OpenLineage, where that is installed and switched on.

    Made here and not when the provider asks, because that is in a forked process, which cannot ask Airflow for
    connections. The batch is committed: a failure is only logged.
    """
    try:
        from airflow.providers.openlineage.api import is_openlineage_active
    except ImportError:
        return None
    try:
        if not is_openlineage_active():
            return None
        from offset_ledger.interfaces.airflow.lineage import lineage_of

        return lineage_of(pipeline, committed)
    except Exception as error:  # noqa: BLE001 - whatever a version of the provider raises
        log.warning("the lineage of %s is not sent: %s", committed.batch, one_line(error))
        return None
