"""The stage task: a job of a Spark Connect server, or spark-submit of the package's own one, by its connection."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offset_ledger import errors
from offset_ledger.airflow.failures import airflow_failures, as_airflow
from offset_ledger.airflow.planned_batch import batch_id_of, read_pipeline
from offset_ledger.airflow.spark_submit import SparkSubmitOperator
from offset_ledger.config.model import Pipeline
from offset_ledger.config.spark_application import DeployMode, Spark
from offset_ledger.connections import Connection, get_connection
from offset_ledger.model.engine import Engine, EngineChoice
from offset_ledger.pandas_later import this_process_is_ours
from offset_ledger.stage import submitted
from offset_ledger.stage.installed_spark import check_spark
from offset_ledger.stage.remote_session import is_remote, remote_session
from offset_ledger.stage.scratch import scratch
from offset_ledger.stage.session import FALLBACK
from offset_ledger.stage.spark_settings import SETTINGS, spark_jars
from offset_ledger.stage.submission import FAILURE_FILE, Submission, SubmitArguments, submit_arguments

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.ledger.stage_failures import StageFailure
    from offset_ledger.model.batch import Origin
    from offset_ledger.stage.step import StagedBatch

JOB = Path(submitted.__file__).with_name("stage_batch.py")
_DEFAULT = Spark()


def _arguments(spark: Spark) -> dict[str, Any]:
    """The operator's own arguments. A retry submits again: the ledger decides what is left to do."""
    asked = spark.resources
    return {
        "conn_id": spark.connection,
        "deploy_mode": str(spark.deploy_mode),
        "yarn_queue": spark.queue,
        "driver_memory": asked.driver_memory,
        "executor_memory": asked.executor_memory,
        "executor_cores": asked.executor_cores,
        "num_executors": asked.executors,
        "total_executor_cores": asked.total_executor_cores,
        "durable": False,
    }


class StageOperator(SparkSubmitOperator):
    """Stage the batch that the run has planned; a small batch, or one that needs no staging any more, starts no Spark.

    If the connection names a Spark Connect server, the task is its client. Otherwise it submits a Spark job, which is a
    process of its own and cannot ask Airflow for connections: they reach its driver in a file that is written when the
    task runs, so no secret is shown in the UI or on a command line.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "topic")

    def __init__(
        self,
        *,
        pipeline_file: str,
        connections: list[str],
        spark: Spark = _DEFAULT,
        topic: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=JOB.name,
            conf={**SETTINGS, **spark.conf},
            **{**_arguments(spark), **kwargs},
        )
        self._connection_ids = connections
        self._pipeline_file = pipeline_file
        self.topic = topic
        self._at_work = False

    def execute(self, context: Context) -> None:
        """Run the job; its own error, in one line, fails the task, at once if a retry cannot help."""
        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to stage")
        this_process_is_ours()
        self._at_work = True
        try:
            self._stage(context, batch_id)
        finally:
            self._at_work = False

    def on_kill(self) -> None:
        """End the job of spark-submit; everything else ends with what ``execute`` has open, which this leaves.

        A Spark Connect server ends the job of a session that is released; other processes end with their slices.
        """
        if self._hook is not None:
            super().on_kill()
        if self._at_work:  # not after a timeout, which has left it already
            raise SystemExit("the task was stopped; nothing was committed")

    def _stage(self, context: Context, batch_id: int) -> None:
        from offset_ledger.ledger.origin import current_origin
        from offset_ledger.stage.process_reader import ProcessReader
        from offset_ledger.stage.step import StagedBatch, next_stage, stage

        with airflow_failures():
            pipeline = read_pipeline(self._pipeline_file, self.topic)
            origin = current_origin()
            choice = next_stage(pipeline, batch_id)
            if isinstance(choice, StagedBatch):
                self._say(choice)
                return
            if choice.engine is Engine.PROCESS:
                self._say(stage(ProcessReader(choice), pipeline, batch_id, origin))
                return
            connection = get_connection(self._conn_id)
            if is_remote(connection) and self._staged_by_server(connection, choice, pipeline, batch_id, origin):
                return
            self._submit(context, choice, pipeline, batch_id, origin)

    def _staged_by_server(
        self, connection: Connection, choice: EngineChoice, pipeline: Pipeline, batch_id: int, origin: Origin
    ) -> bool:
        """Whether the server has staged it; where it does not answer, the connection's fallback is used from now on."""
        from offset_ledger.stage.spark_reader import SparkReader
        from offset_ledger.stage.step import stage

        fallback = connection.extra.get(FALLBACK)
        with ExitStack() as opened:
            try:
                session = opened.enter_context(remote_session(connection, wait=not fallback))
            except errors.SparkUnavailable as error:
                if not fallback:
                    raise
                self.log.warning("%s; its fallback is the connection %s", error, fallback)
                self._conn_id = fallback
                return False
            staged = stage(SparkReader(session, choice), pipeline, batch_id, origin)
        self._say(staged)
        return True

    def _say(self, staged: StagedBatch) -> None:
        self.log.info("%s %s: %s", "needs no staging:" if staged.done else "staged", staged.attempt, staged.counts)

    def _submit(
        self, context: Context, choice: EngineChoice, pipeline: Pipeline, batch_id: int, origin: Origin
    ) -> None:
        check_spark()
        self.application, self.jars = str(JOB), spark_jars()
        connections = map(get_connection, self._connection_ids)
        submission = Submission.of(str(uuid.uuid4()), origin, choice.reason, *connections)
        with scratch() as folder:
            self._apply(batch_id, submit_arguments(folder, get_connection(self._conn_id), pipeline, submission))
            try:
                super().execute(context)
            except AirflowException as error:
                if failed := self._failure(folder, pipeline, submission):
                    raise as_airflow(getattr(errors, failed.error)(failed.message)) from None
                if pipeline.spark.deploy_mode is DeployMode.CLUSTER:
                    raise as_airflow(self._unrecorded(batch_id)) from error
                raise

    def _apply(self, batch_id: int, given: SubmitArguments) -> None:
        self.conf, self.files, self.py_files = given.conf, given.files, given.py_files
        self.properties_file = given.properties_file
        self.application_args = [given.pipeline_file, str(batch_id), *given.job_arguments]

    def _failure(self, folder: Path, pipeline: Pipeline, submission: Submission) -> StageFailure | None:
        """What the driver has left: in a file on this machine, and of a driver on the cluster in the ledger."""
        from offset_ledger.ledger import stage_failures
        from offset_ledger.ledger.database import transaction
        from offset_ledger.ledger.open import open_ledger

        if (file := folder / FAILURE_FILE).exists():
            return stage_failures.StageFailure(**json.loads(file.read_text()))
        if pipeline.spark.deploy_mode is DeployMode.CLIENT:
            return None
        with suppress(errors.OffsetLedgerError), open_ledger(pipeline) as session, transaction(session) as cursor:
            return stage_failures.read(cursor, submission.submission_id)
        return None

    def _unrecorded(self, batch_id: int) -> errors.SparkFailed:
        hook: Any = self._hook
        log = "the log of the driver, which spark-submit names above"
        if hook and hook._yarn_application_id:
            log = f"yarn logs -applicationId {hook._yarn_application_id}"
        elif hook and hook._kubernetes_driver_pod:
            log = f"kubectl logs -n {hook._connection['namespace'] or 'default'} {hook._kubernetes_driver_pod}"
        return errors.SparkFailed(
            f"the driver of batch {batch_id} failed on the cluster and recorded no error in the ledger; nothing was "
            f"committed; see: {log}"
        )
