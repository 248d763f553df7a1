"""Which of Airflow's processes import what tasks need, before they fork them."""

from __future__ import annotations

import sys

import pytest

from offset_ledger.airflow.preload import forks_tasks, preload


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
