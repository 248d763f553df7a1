"""The tasks of a run, and the batch that it is about."""

from __future__ import annotations

from typing import Any

PLAN, APPROVE_LOSS, STAGE = "plan", "approve_loss", "stage"
VALIDATE, APPROVE_BATCH, COMMIT, REPORT = "validate", "approve_batch", "commit", "report"
BATCH_ID = f"{{{{ ti.xcom_pull(task_ids='{APPROVE_LOSS}') or ti.xcom_pull(task_ids='{PLAN}') or '' }}}}"


def batch_id_of(ti: Any) -> int | None:
    """The batch that this run is about: planned after an approved loss, or at once."""
    found = ti.xcom_pull(task_ids=APPROVE_LOSS) or ti.xcom_pull(task_ids=PLAN)
    return int(found) if found else None
