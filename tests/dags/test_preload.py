"""Which of Airflow's processes import what tasks need, before they fork them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offset_ledger.interfaces.airflow.preload import forks_tasks, preload
from tests.dags.fresh import answer_of

_FORKING = """
import json, os, sys
from offset_ledger.interfaces.airflow.preload import preload
said = [preload()]
for fork in (False, True):
    if fork and not os.fork():
        os._exit(0)
    names = "airflow", "offset_ledger.interfaces.airflow.dags", "great_expectations"
    said.append([name in sys.modules for name in names])
print(json.dumps(said))
"""


@pytest.mark.parametrize("command", ["scheduler --skip-serve-logs", "scheduler", "celery worker --queues spark"])
def test_a_scheduler_and_a_celery_worker_fork_tasks(command: str) -> None:
    assert forks_tasks(["airflow", *command.split()])


@pytest.mark.parametrize(
    "command", ["", "api-server", "dag-processor", "triggerer", "celery flower", "dags list scheduler"]
)
def test_no_other_command_of_airflow_does(command: str) -> None:
    assert not forks_tasks(["airflow", *command.split()])


def test_another_process_imports_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["airflow", "api-server"])
    before = set(sys.modules)
    assert not preload()
    assert set(sys.modules) == before


def test_what_builds_dags_is_imported_at_the_first_fork(tmp_path: Path) -> None:
    """Not before: Airflow imports ``airflow_local_settings.py`` in the middle of its own settings."""
    assert answer_of(_FORKING, tmp_path, "dag-processor") == [False, [False, False, False], [True, True, False]]
