"""The task commit: one transaction, an event of the table's asset, and lineage where OpenLineage is installed."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.airflow.planned_batch import batch_id_of, read_pipeline
from offset_ledger.config.model import Pipeline
from offset_ledger.errors import one_line

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.commit.step import Committed

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
        from offset_ledger.ledger.origin import current_origin

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
