"""The rights of a user on the page; they are those on DAGs."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from offset_ledger.base.ids import DAILY_REPORT_DAG, ingest_dag
from offset_ledger.pipeline_file.names import DAILY_FOLDER


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of the user who is logged in, in DAG ids. ``existing`` are those that Airflow has now.

    ``editable``: those that they may edit, whose quarantined records they may read. ``failed``: those whose newest run
    failed. ``audit_due``: from when on Airflow starts the next scheduled audit.
    """

    readable: frozenset[str] = frozenset()
    triggerable: frozenset[str] = frozenset()
    existing: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()
    import_errors: bool = False
    editable: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    audit_due: datetime | None = None

    def sees(self, pipeline: str) -> bool:
        """Return whether the rows of this pipeline are shown."""
        return ingest_dag(pipeline) in self.readable

    def reads_values(self, pipeline: str) -> bool:
        """Return whether keys, values, headers and details of quarantined records are shown, not only their sizes."""
        return self.sees(pipeline) and ingest_dag(pipeline) in self.editable

    def sees_report(self, folder: str, pipelines: Collection[str]) -> bool:
        """Return whether reports under this folder are shown; the daily pages are about all pipelines."""
        if folder == DAILY_FOLDER:
            return DAILY_REPORT_DAG in self.readable and all(map(self.sees, pipelines))
        return self.sees(folder)

    def blocked_reason(self, dag_id: str) -> str | None:
        """Return why the user cannot trigger this DAG here; None if they can."""
        if dag_id not in self.existing:
            return f"Airflow has no DAG {dag_id}: dags/ledger.py of docs/add-to-airflow.md builds it, with all_dags"
        if dag_id not in self.triggerable:
            return f"you may not trigger {dag_id}"
        return f"{dag_id} is paused: a run would not start until the DAG is unpaused" if dag_id in self.paused else None
