"""Runs of one DAG through Airflow's REST API."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from offset_ledger.errors import OffsetLedgerError, TransientError, one_line
from offset_ledger.model.request import BUSY, OUTCOME
from offset_ledger_kit.sandbox.airflow import Airflow

_STEPS = ("plan", "approve_loss", "stage", "validate", "approve_batch", "commit", "report")


class DagRunFailed(OffsetLedgerError):
    """A DAG run did not succeed."""


@dataclass(frozen=True, slots=True)
class DagRun:
    """A finished run: the state of each of its tasks, and the seconds each took."""

    run_id: str
    tasks: dict[str, str]
    seconds: dict[str, float]
    outcome: str | None = None  # why plan skipped


class DagRuns:
    """Triggers runs of one DAG and waits for each."""

    def __init__(self, airflow: Airflow, dag_id: str, say: Callable[[str], None]) -> None:
        self._airflow = airflow
        self._dag_id = dag_id
        self._say = say
        self._token = airflow.token()

    def _call(self, method: str, path: str, body: object = None, expect: tuple[int, ...] = (200, 201)) -> Any:
        status, answer = self._airflow.request(method, f"/api/v2{path}", body, self._token)
        if status not in expect:
            raise TransientError(f"Airflow answered {method} {path} with status {status}: {str(answer)[:200]}")
        return answer

    def unpause(self, timeout: float = 240) -> None:
        """Wait until the DAG is parsed, and let it run."""
        deadline = time.monotonic() + timeout
        path = f"/dags/{self._dag_id}"
        while self._airflow.request("GET", f"/api/v2{path}", None, self._token)[0] == 404:
            if time.monotonic() > deadline:
                errors = self._call("GET", "/importErrors")["import_errors"]
                cause = errors[0]["stack_trace"].strip().splitlines()[-1] if errors else "no import error is known"
                raise DagRunFailed(f"Airflow did not show the DAG {self._dag_id} within {timeout:.0f} s: {cause}")
            time.sleep(0.5)
        self._call("PATCH", path, {"is_paused": False})

    def trigger(self, **form: str) -> DagRun:
        """Let the runs under way finish, then run the DAG :meth:`once`; again if the schedule came in between."""
        self.settle()
        while (finished := self.once(**form)).outcome == BUSY:
            self.settle()
        return finished

    def once(self, **form: str) -> DagRun:
        """Run the DAG once, whatever else runs, and wait for it; ``form`` are the values of the trigger form.

        Raises:
            DagRunFailed: it failed; the message names the task.
        """
        body = {"logical_date": None, "conf": form}
        run_id = self._call("POST", f"/dags/{self._dag_id}/dagRuns", body)["dag_run_id"]
        began = said = time.monotonic()
        path = f"/dags/{self._dag_id}/dagRuns/{run_id}"
        while (run := self._call("GET", path))["state"] not in ("success", "failed"):
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self._say(f"  {run_id}: {self._running(run_id)} ({said - began:.0f} s)")
            time.sleep(1)
        finished = self._finished(run_id)
        if run["state"] == "failed":
            failed = [task for task, state in finished.tasks.items() if state == "failed"]
            causes = "; ".join(f"{task}: {self._cause(run_id, task)}" for task in failed)
            raise DagRunFailed(
                f"DAG run {run_id} failed in {causes}; its log is in the Airflow UI at {self._airflow.address}"
            )
        return finished

    def _cause(self, run_id: str, task_id: str) -> str:
        """The error that a failed task's log ends with."""
        path = f"/api/v2/dags/{self._dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        tries = self._airflow.request("GET", path, None, self._token)[1].get("try_number", 1)
        status, log = self._airflow.request("GET", f"{path}/logs/{tries}", None, self._token)
        events = log.get("content", []) if status == 200 else []
        details = [detail for event in events if isinstance(event, dict) for detail in event.get("error_detail") or ()]
        return one_line(details[-1].get("exc_value"), 500) if details else "its log does not say why"

    def settle(self) -> list[DagRun]:
        """Wait for the runs that the schedule has begun, and return them."""
        path = f"/dags/{self._dag_id}/dagRuns?state=running&state=queued"
        said, seen = 0.0, set()
        while active := self._call("GET", path)["dag_runs"]:
            seen |= {run["dag_run_id"] for run in active}
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self._say(f"  {active[0]['dag_run_id']}: {self._running(active[0]['dag_run_id'])}")
            time.sleep(1)
        return [self._finished(run_id) for run_id in sorted(seen)]

    def _tasks(self, run_id: str) -> list[Any]:
        tasks = self._call("GET", f"/dags/{self._dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return sorted(tasks, key=lambda task: _STEPS.index(task["task_id"]) if task["task_id"] in _STEPS else 99)

    def _running(self, run_id: str) -> str:
        over = (None, "success", "skipped")
        active = [f"{t['task_id']} {t['state']}" for t in self._tasks(run_id) if t["state"] not in over]
        return ", ".join(active) or "waiting to be scheduled"

    def _finished(self, run_id: str) -> DagRun:
        tasks = self._tasks(run_id)
        seconds = {task["task_id"]: round(task["duration"] or 0.0, 1) for task in tasks if task["state"] == "success"}
        path = f"/api/v2/dags/{self._dag_id}/dagRuns/{run_id}/taskInstances/plan/xcomEntries/{OUTCOME}"
        status, answer = self._airflow.request("GET", path, None, self._token)
        outcome = answer["value"] if status == 200 else None
        if outcome == BUSY:
            self._say(f"  {self._dag_id}, {run_id}: another run was at work")
        elif seconds:
            taken = ", ".join(f"{task} {each:.0f} s" for task, each in seconds.items())
            self._say(f"  {self._dag_id}, {run_id}: {taken}")
        return DagRun(run_id, {task["task_id"]: str(task["state"]) for task in tasks}, seconds, outcome)
