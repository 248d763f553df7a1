"""Imports for Airflow's ``airflow_local_settings.py``: what every task loads, loaded once where tasks are forked.

``LocalExecutor`` and Celery fork a process for each task, the DAG processor one for each file. What their parent has
imported, these need not import again: Great Expectations alone costs ``validate`` five seconds of processor time.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

_STEPS = (
    "offset_ledger.steps.run.requests",
    "offset_ledger.steps.stage.step",
    "offset_ledger.steps.stage.slices",
    "offset_ledger.steps.stage.record_batches",
    "offset_ledger.steps.validate.step",
    "offset_ledger.steps.commit.step",
    "offset_ledger.steps.report.step",
    "offset_ledger.steps.report.consumer_group",
)
_WITH_AIRFLOW = ("offset_ledger.interfaces.airflow.dags", "offset_ledger.interfaces.airflow.metrics")


def preload() -> bool:
    """Import what tasks need, if this process is one that forks them (scheduler or Celery worker); whether it was.

    What builds the DAGs is imported at the first fork, in the DAG processor too: Airflow's settings are not complete
    while ``airflow_local_settings.py`` is imported. A scheduler whose executor forks nothing loads the rest in vain:
    call this only where tasks run.
    """
    tasks = forks_tasks(sys.argv)
    if tasks or sys.argv[1:2] == ["dag-processor"]:
        os.register_at_fork(before=_load_with_airflow)
    if tasks:
        from offset_ledger.base.extras import is_installed
        from offset_ledger.steps.validate.expectations import load

        for name in _STEPS:
            import_module(name)
        if is_installed("gx"):
            load()
    return tasks


def forks_tasks(command: Sequence[str]) -> bool:
    """Return whether this command line forks tasks: that of ``airflow scheduler`` or ``airflow celery worker``."""
    arguments = list(command[1:3])
    return arguments[:1] == ["scheduler"] or arguments == ["celery", "worker"]


@cache
def _load_with_airflow() -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    manager: Any = DagBundlesManager
    manager()  # imports the classes of the bundles, of which that for Git takes longest
    for name in _WITH_AIRFLOW:
        import_module(name)
