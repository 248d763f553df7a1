"""Which error a failed Spark job is."""

from __future__ import annotations

import pytest

from offset_ledger.errors import Fenced, OffsetLedgerError, SparkFailed, SparkUnavailable
from offset_ledger.steps.stage.readers import classify

TASK = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 3 times
Traceback (most recent call last):
psycopg2.errors.AdminShutdown: terminating connection due to administrator command
The above exception was the direct cause of the following exception:
offset_ledger.errors.{error}: batch 7 of orders: a newer one claimed it
"""


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (TASK.format(error="Fenced"), Fenced, "batch 7 of orders: a newer one claimed it"),
        (TASK.format(error="NoSuchError"), SparkFailed, "the Spark job failed: org.apache.spark.SparkException: Job"),
        ("status = StatusCode.UNAVAILABLE", SparkUnavailable, "the Spark Connect server went away"),
        ("a\nCaused by: java.lang.OutOfMemoryError: heap", SparkFailed, "Caused by: java.lang.OutOfMemoryError: heap"),
        ("", SparkFailed, "the Spark job failed: RuntimeError"),
    ],
)
def test_the_error_of_the_task_is_the_error_of_the_job(text: str, kind: type[OffsetLedgerError], line: str) -> None:
    error = classify(RuntimeError(text))
    assert type(error) is kind
    assert line in str(error)
    assert len(str(error).splitlines()) == 1
