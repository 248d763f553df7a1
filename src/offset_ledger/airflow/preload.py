"""Imports for Airflow's ``airflow_local_settings.py``: what every task loads, loaded once where tasks are forked.

``LocalExecutor`` and Celery fork a process for each task. What their parent has imported, a task need not import again:
Great Expectations alone costs ``validate`` five seconds of processor time.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

# Without Airflow's own modules: its settings are not complete while airflow_local_settings.py is imported.
_STEPS = (
    "offset_ledger.run.requests",
    "offset_ledger.decisions.losses",
    "offset_ledger.stage.step",
    "offset_ledger.stage.slices",
    "offset_ledger.stage.record_batches",
    "offset_ledger.validate.step",
    "offset_ledger.commit.step",
    "offset_ledger.report.step",
    "offset_ledger.report.consumer_group",
)


def preload() -> bool:
    """Import what tasks need, if this process is one that forks them (scheduler or Celery worker); whether it was.

    A scheduler whose executor forks nothing loads it in vain: call this only where tasks run.
    """
    if not forks_tasks(sys.argv):
        return False
    from offset_ledger.extras import is_installed
    from offset_ledger.validate.expectations import load

    for name in _STEPS:
        import_module(name)
    if is_installed("gx"):
        load()
    return True


def forks_tasks(command: Sequence[str]) -> bool:
    """Return whether this command line forks tasks: that of ``airflow scheduler`` or ``airflow celery worker``."""
    arguments = list(command[1:3])
    return arguments[:1] == ["scheduler"] or arguments == ["celery", "worker"]
