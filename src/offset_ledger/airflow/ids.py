"""The tasks of a run, and the batch that it is about."""

from __future__ import annotations

from typing import Any

PLAN, APPROVE_LOSS, STAGE = "plan", "approve_loss", "stage"
VALIDATE, APPROVE_BATCH, COMMIT, REPORT = "validate", "approve_batch", "commit", "report"
DEAD_LETTERS = "dead_letters"
# In this order: a run that is cleared may still have what its question once led to.
BATCH_ID = f"{{{{ ti.xcom_pull(task_ids='{PLAN}') or ti.xcom_pull(task_ids='{APPROVE_LOSS}') or '' }}}}"


def batch_id_of(ti: Any) -> int | None:
    """The batch that this run is about: planned at once, or after an approved loss."""
    found = ti.xcom_pull(task_ids=PLAN) or ti.xcom_pull(task_ids=APPROVE_LOSS)
    return int(found) if found else None
