"""Which batch a DAG run is about, as its tasks have passed it on by XCom."""

from __future__ import annotations

from typing import Any

from offset_ledger.ids import APPROVE_LOSS, PLAN

# In this order: a run that is cleared may still have what its question once led to.
BATCH_ID = f"{{{{ ti.xcom_pull(task_ids='{PLAN}') or ti.xcom_pull(task_ids='{APPROVE_LOSS}') or '' }}}}"


def batch_id_of(ti: Any) -> int | None:
    """The batch that this run is about: planned at once, or after an approved loss."""
    batch_id = ti.xcom_pull(task_ids=PLAN) or ti.xcom_pull(task_ids=APPROVE_LOSS)
    return int(batch_id) if batch_id else None
