"""The stage task: a job of a Spark Connect server, or spark-submit of the package's own one, by its connection."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offset_ledger import errors
from offset_ledger.airflow.failures import airflow_failures, as_airflow
from offset_ledger.airflow.planned_batch import BATCH_ID, batch_id_of
from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.connections import Connection, environment_name, get_connection
from offset_ledger.stage import submitted
from offset_ledger.stage.cds_archive import with_archive
from offset_ledger.stage.package_zip import package_zip
from offset_ledger.stage.remote_session import is_remote, remote_session
from offset_ledger.stage.scratch import scratch, with_scratch
from offset_ledger.stage.session import FALLBACK
from offset_ledger.stage.spark_settings import LOCAL_SETTINGS, SETTINGS, spark_jars

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.stage.step import StagedBatch

JOB = Path(submitted.__file__).with_name("stage_batch.py")


class StageOperator(SparkSubmitOperator):
    """Stage the batch that the run has planned; a small batch, or one that needs no staging any more, starts no Spark.

    If the connection names a Spark Connect server, the task is its client. Otherwise it submits a Spark job, which is a
    process of its own and cannot ask Airflow for connections: they reach its driver through the environment, set when
    the task runs and never as a rendered field, so no secret is shown in the UI.
    """

    def __init__(self, *, pipeline_file: str, connections: list[str], **kwargs: Any) -> None:
        super().__init__(
            application=str(JOB),
            application_args=[pipeline_file, BATCH_ID],
            conf=dict(SETTINGS),
            **kwargs,
        )
        self._connection_ids = connections
        self._pipeline_file = pipeline_file
        self._session: Any = None

    def execute(self, context: Context) -> None:
        """Run the job; its own error, in one line, fails the task, at once if a retry cannot help."""
        from offset_ledger.ledger.origin import current_origin
        from offset_ledger.stage.step import stage_without_spark

        batch_id = batch_id_of(context["ti"])
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing to stage")
        with airflow_failures():
            pipeline = parse_pipeline(Path(self._pipeline_file))
            if staged := stage_without_spark(pipeline, batch_id, current_origin()):
                self._say(staged)
                return
            connection = get_connection(self._conn_id)
            if is_remote(connection) and self._staged_by_server(connection, pipeline, batch_id):
                return
        self._submit(context)

    def on_kill(self) -> None:
        """End the job, wherever it runs."""
        if self._session is None:
            super().on_kill()
        else:  # in a thread: the one that is interrupted may be inside of a call to the server
            threading.Thread(target=self._session.interruptAll, daemon=True).start()

    def _staged_by_server(self, connection: Connection, pipeline: Pipeline, batch_id: int) -> bool:
        """Whether the server has staged it; where it does not answer, the connection's fallback is used from now on."""
        from offset_ledger.ledger.origin import current_origin
        from offset_ledger.stage.step import stage

        fallback = connection.extra.get(FALLBACK)
        with ExitStack() as opened:
            try:
                self._session = opened.enter_context(remote_session(connection, wait=not fallback))
            except errors.SparkUnavailable as error:
                if not fallback:
                    raise
                self.log.warning("%s; its fallback is the connection %s", error, fallback)
                self._conn_id = fallback
                return False
            staged = stage(self._session, pipeline, batch_id, current_origin())
        self._say(staged)
        return True

    def _say(self, staged: StagedBatch) -> None:
        self.log.info("%s %s: %s", "needs no staging:" if staged.done else "staged", staged.attempt, staged.counts)

    def _submit(self, context: Context) -> None:
        secrets = {environment_name(conn_id): get_connection(conn_id).to_json() for conn_id in self._connection_ids}
        self.env_vars = {**(self.env_vars or {}), **secrets}
        self.jars = spark_jars()
        settings = with_archive(self.conf or {})
        with scratch() as folder:
            if (get_connection(self._conn_id).host or "").startswith("local"):
                settings |= LOCAL_SETTINGS
            else:
                self.py_files = str(package_zip(folder))  # executors on other machines import the package from it
            self.conf = with_scratch(settings, folder)
            failure = folder / "failure.json"
            self.application_args = [*(self.application_args or []), "--failure", str(failure)]
            try:
                super().execute(context)
            except AirflowException:
                if not failure.exists():
                    raise
                failed = json.loads(failure.read_text())
                raise as_airflow(getattr(errors, failed["error"])(failed["message"])) from None
