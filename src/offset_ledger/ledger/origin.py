"""Who runs a step, as the environment says."""

from __future__ import annotations

import os

from offset_ledger.model.batch import Origin


def current_origin() -> Origin:
    """The origin by the environment: the Airflow task, or the person at the command line."""
    dag_id, run_id = os.environ.get("AIRFLOW_CTX_DAG_ID"), os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    if not dag_id:
        return Origin(os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}")
    tried = os.environ.get("AIRFLOW_CTX_TRY_NUMBER")
    task = os.environ.get("AIRFLOW_CTX_TASK_ID", "")
    return Origin(f"airflow:{dag_id}.{task}", dag_id, run_id, int(tried) if tried else None)
