"""Which batches are for Spark, and how many processes stage the others."""

from __future__ import annotations

import os

import pytest

from offset_ledger.config.spark_application import Spark
from offset_ledger.stage.without_spark import _is_for_spark, process_count


@pytest.mark.parametrize(
    ("connection", "elsewhere"),
    [
        (None, False),
        ('{"conn_type": "spark", "host": "local[2]"}', False),
        ('{"conn_type": "spark", "host": "spark://master", "port": 7077}', True),
        ('{"conn_type": "spark", "host": "yarn"}', True),
        ('{"conn_type": "spark_connect", "host": "spark", "port": 15002}', True),
        ('{"conn_type": "spark", "host": "sc://spark:15002"}', True),
    ],
)
def test_a_large_batch_is_for_a_spark_that_has_other_machines(
    connection: str | None, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    assert _is_for_spark(Spark(), 1_000_000) == elsewhere
    assert not _is_for_spark(Spark(), 999_999)
    assert _is_for_spark(Spark(min_offsets=5), 5)
    assert not _is_for_spark(Spark(min_offsets=5), 4)


def test_one_process_for_each_core_that_has_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert [process_count(n, None) for n in (1, 199_999, 200_000, 399_999, 10**9)] == [1, 1, 2, 3, 4]
    assert [process_count(10**9, n) for n in (1, 8)] == [1, 8]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert process_count(10**9, None) == 1
