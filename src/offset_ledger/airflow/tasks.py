"""The steps as Airflow tasks, for DAG files to put in order."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, get_current_context, task

from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.pipeline.parse import parse_pipeline


def validate_task(path: Path, batch_id: Any) -> Any:
    """Judge the batch; a rejected one fails the task at once."""

    @task(task_id="validate")
    def validate_batch(batch_id: int) -> None:
        from offset_ledger.ledger.batches import here
        from offset_ledger.steps.validate import pass_gate

        with airflow_failures():
            batch = pass_gate(parse_pipeline(path), batch_id, here())
        print(f"{batch} passed")

    return validate_batch(batch_id)


def commit_task(path: Path, batch_id: Any, asset: Asset) -> Any:
    """Commit the batch and tell the asset's readers what it brought."""

    @task(task_id="commit", outlets=[asset])
    def commit_batch(batch_id: int) -> None:
        from offset_ledger.ledger.batches import here
        from offset_ledger.steps.commit import commit

        with airflow_failures():
            committed = commit(parse_pipeline(path), batch_id, here())
        get_current_context()["outlet_events"][asset].extra = {
            "batch_id": batch_id,
            "kind": committed.batch.kind.value,
            "ranges": {str(r.partition): [r.from_offset, r.until_offset] for r in committed.batch.ranges},
            "counts": asdict(committed.total),
        }
        print(f"committed batch {batch_id}: {committed.total}")

    return commit_batch(batch_id)


def report_task(path: Path, batch_id: Any) -> Any:
    """Render the batch's quality page."""

    @task(task_id="report")
    def report_batch(batch_id: int) -> str:
        from offset_ledger.steps.report import report

        with airflow_failures():
            return str(report(parse_pipeline(path), batch_id))

    return report_batch(batch_id)


def dead_letters_task(path: Path) -> Any:
    """Deliver what waits in the outbox."""

    @task(task_id="dead_letters")
    def deliver_dead_letters() -> None:
        from offset_ledger.steps.dead_letters import deliver

        with airflow_failures():
            print(deliver(parse_pipeline(path)))

    return deliver_dead_letters()
