"""The tasks stage and commit, as operators.

The stage task reads the batch itself, is a client of a Spark Connect server, or submits a Spark job. The commit is one
transaction, an event of the table's asset, and lineage where OpenLineage's provider is installed.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offset_ledger import errors
from offset_ledger.airflow.failures import airflow_failures, as_airflow
from offset_ledger.airflow.planned_batch import batch_id_of, read_pipeline
from offset_ledger.config.model import DeployMode, Pipeline, Spark
from offset_ledger.config.parse import nearest_above
from offset_ledger.connections import Connection, get_connection, without_secrets
from offset_ledger.errors import one_line
from offset_ledger.extras import missing
from offset_ledger.model.batch import current_origin
from offset_ledger.model.engine import Engine, EngineChoice
from offset_ledger.pandas_later import this_process_is_ours
from offset_ledger.stage import submitted
from offset_ledger.stage.installed_spark import check_spark
from offset_ledger.stage.remote_session import is_remote, remote_session
from offset_ledger.stage.scratch import scratch
from offset_ledger.stage.session import FALLBACK
from offset_ledger.stage.spark_settings import SETTINGS
from offset_ledger.stage.submission import FAILURE_FILE, Submission, SubmitArguments, submit_arguments

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.commit.step import Committed
    from offset_ledger.ledger.staging import StageFailure
    from offset_ledger.stage.step import StagedBatch


JOB = Path(submitted.__file__).with_name("stage_batch.py")
_DEFAULT = Spark()


class StageOperator(BaseOperator):
    """Stage the batch that the run has planned; a small batch, or one that needs no staging any more, starts no Spark.

    If the connection names a Spark Connect server, the task is its client. Otherwise it submits a Spark job, which is a
    process of its own and cannot ask Airflow for connections: they reach its driver in a file that is written when the
    task runs, so no secret is shown in the UI, on a command line or in the environment of Spark.

    ``application``, ``conf`` and ``name`` are for the UI: the pipeline file is read when the task runs.
    """

    template_fields = ("application", "conf", "name", "topic")

    def __init__(
        self,
        *,
        pipeline_file: str,
        spark: Spark = _DEFAULT,
        name: str = "stage",
        topic: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = JOB.name
        self.conf = {**SETTINGS, **spark.conf}
        self.name = name
        self.topic = topic
        self.pipeline_file = pipeline_file
        self._hook: Any = None
        self._at_work = False

    def execute(self, context: Context) -> None:
        """Run the job; its own error, in one line, fails the task, at once if a retry cannot help."""
        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to stage")
        this_process_is_ours()
        self._at_work = True
        try:
            with airflow_failures():
                self._stage(read_pipeline(self.pipeline_file, self.topic), batch_id)
        finally:
            self._at_work = False

    def on_kill(self) -> None:
        """End the job of spark-submit; everything else ends with what ``execute`` has open, which this leaves.

        A Spark Connect server ends the job of a session that is released.
        """
        if self._hook is not None:
            self._hook.on_kill()
        if self._at_work:  # not after a timeout, which has left it already
            raise SystemExit("the task was stopped; nothing was committed")

    def _stage(self, pipeline: Pipeline, batch_id: int) -> None:
        from offset_ledger.stage.process_reader import ProcessReader
        from offset_ledger.stage.step import StagedBatch, next_stage, stage

        choice = next_stage(pipeline, batch_id)
        if isinstance(choice, StagedBatch):
            self._say(choice)
        elif choice.engine is Engine.PROCESS:
            self._say(stage(ProcessReader(choice), pipeline, batch_id, current_origin()))
        else:
            self._stage_by_spark(choice, pipeline, batch_id)

    def _stage_by_spark(self, choice: EngineChoice, pipeline: Pipeline, batch_id: int) -> None:
        """By the server that the connection names; else, or where that does not answer, by a job of spark-submit."""
        from offset_ledger.stage.spark_reader import SparkReader
        from offset_ledger.stage.step import stage

        connection, session = get_connection(pipeline.spark.connection), None
        with ExitStack() as opened:
            if is_remote(connection):
                fallback = connection.extra.get(FALLBACK)
                try:
                    session = opened.enter_context(remote_session(connection, wait=not fallback))
                except errors.SparkUnavailable as error:
                    if not fallback:
                        raise
                    self.log.warning("%s; its fallback is the connection %s", error, fallback)
                    connection = get_connection(fallback)
            if session:
                self._say(stage(SparkReader(session, choice), pipeline, batch_id, current_origin()))
            else:
                self._submit(connection, choice, pipeline, batch_id)

    def _say(self, staged: StagedBatch) -> None:
        self.log.info("%s %s: %s", "needs no staging:" if staged.done else "staged", staged.attempt, staged.counts)

    def _submit(self, at: Connection, choice: EngineChoice, pipeline: Pipeline, batch_id: int) -> None:
        """Run the nearest ``jobs/stage_batch.py`` above the pipeline file, else the package's own, by spark-submit."""
        check_spark()
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
                    raise as_airflow(getattr(errors, failed.error)(failed.message)) from None
                if pipeline.spark.deploy_mode is DeployMode.CLUSTER:
                    raise as_airflow(self._unrecorded(batch_id)) from error
                raise

    def _submit_hook(self, at: Connection, spark: Spark, given: SubmitArguments, batch_id: int) -> Any:
        """The provider's hook for that job.

        Raises:
            ConfigurationError: the provider is not installed.
        """
        try:
            from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
        except ModuleNotFoundError:
            what = "a batch that spark-submit stages"
            raise missing("spark", what, "apache-airflow-providers-apache-spark") from None
        asked = spark.resources
        return SparkSubmitHook(
            conf=_with_lineage(given.conf),
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
        """What the driver has left: in a file on this machine, and of a driver on the cluster in the ledger."""
        from offset_ledger.ledger import staging
        from offset_ledger.ledger.database import open_ledger, transaction

        if (file := folder / FAILURE_FILE).exists():
            return staging.StageFailure(**json.loads(file.read_text()))
        if pipeline.spark.deploy_mode is DeployMode.CLIENT:
            return None
        with suppress(errors.OffsetLedgerError), open_ledger(pipeline) as session, transaction(session) as cursor:
            return staging.read_failure(cursor, submission.submission_id)
        return None

    def _unrecorded(self, batch_id: int) -> errors.SparkFailed:
        hook = self._hook
        log = "the log of the driver, which spark-submit names above"
        if hook._yarn_application_id:
            log = f"yarn logs -applicationId {hook._yarn_application_id}"
        elif hook._kubernetes_driver_pod:
            log = f"kubectl logs -n {hook._connection['namespace'] or 'default'} {hook._kubernetes_driver_pod}"
        return errors.SparkFailed(
            f"the driver of batch {batch_id} failed on the cluster and recorded no error in the ledger; nothing was "
            f"committed; see: {log}"
        )


def _with_lineage(settings: dict[str, str]) -> dict[str, str]:
    """The settings with what Airflow's section ``openlineage`` adds to jobs of spark-submit, by default nothing."""
    from airflow.providers.common.compat.openlineage.utils import spark

    if conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
        settings = spark.inject_parent_job_information_into_spark_properties(settings, get_current_context())
    if conf.getboolean("openlineage", "spark_inject_transport_info", fallback=False):
        settings = spark.inject_transport_information_into_spark_properties(settings, get_current_context())
    return settings


log = logging.getLogger(__name__)


class CommitOperator(BaseOperator):
    """Commit the validated batch; skipped where nothing was planned or the batch is abandoned.

    Its outlet is the asset of the table, whose event says what was committed.
    """

    template_fields = ("topic",)

    def __init__(self, *, pipeline_file: str, topic: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline_file = pipeline_file
        self.topic = topic
        self._lineage: Any = None

    def execute(self, context: Context) -> None:
        """Commit; a batch that an earlier attempt has committed counts as well."""
        from offset_ledger.commit.step import commit, given_up
        from offset_ledger.model.batch import current_origin

        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to commit")
        with airflow_failures():
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            if given_up(pipeline, batch_id):
                raise AirflowSkipException(f"batch {batch_id} is abandoned: nothing to commit")
            committed = commit(pipeline, batch_id, current_origin())
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
        """What the provider of OpenLineage asks an operator for; None where nothing was committed."""
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
        from offset_ledger.airflow.lineage import lineage_of

        return lineage_of(pipeline, committed)
    except Exception as error:  # noqa: BLE001 - whatever a version of the provider raises
        log.warning("the lineage of %s is not sent: %s", committed.batch, one_line(error))
        return None
