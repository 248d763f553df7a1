"""Batches that several processes stage together, without Spark: the same staging, and what the end of one means."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pytest
from kafka import KafkaProducer
from msgspec import structs

from offset_ledger.errors import IncompleteStaging, UnreadableRecord
from offset_ledger.failpoints import VARIABLE, Failpoint
from offset_ledger.ledger.database import rows
from offset_ledger.operations.ingest import ingest
from offset_ledger.operations.verify import verify
from offset_ledger.stage import without_spark
from offset_ledger.stage.slice_process import slice_process
from offset_ledger.stage.step import stage
from tests.fixtures.servers import Servers
from tests.fixtures.stage_task import stage_task, wait_for_slices
from tests.fixtures.topic_bench import quiet
from tests.integration.operations.test_ingest import NotUtf8
from tests.integration.stage.test_without_spark import AT, ME, PIPELINE, Bench, odd_records, order, publish_transactions

STAGE = """
import sys
from pathlib import Path
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.model.batch import Origin
from offset_ledger.stage import without_spark
from offset_ledger.stage.step import stage

without_spark._OFFSETS_PER_PROCESS = 1
stage(None, parse_pipeline(Path(sys.argv[1])), int(sys.argv[2]), Origin("test"))
"""
USUAL = without_spark.slice_reader


class SmallSlices(Bench):
    """Slices of seven offsets, and three processes."""

    TEMPLATE = PIPELINE + "limits: {{processes: {processes}, records_per_slice: 7}}\n"
    DEFAULTS = MappingProxyType({**Bench.DEFAULTS, "processes": 3})


@pytest.fixture
def bench(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallSlices]:
    monkeypatch.setattr(without_spark, "_OFFSETS_PER_PROCESS", 1)
    configs = {"retention.ms": "-1", "message.timestamp.after.max.ms": f"{2**63 - 1}"}
    with SmallSlices.open(servers, topic_name(), tmp_path, 3, configs) as made:
        yield made


@pytest.fixture
def only_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process stages no slice itself."""
    monkeypatch.setattr(without_spark, "slice_reader", slice_process)


def staged_as(bench: Bench, name: str, **settings: Any) -> dict[str, list[tuple[Any, ...]]]:
    bench.settings |= {"name": name, **settings}
    batch_id = bench.planned()
    stage(None, bench.pipeline, batch_id, ME)
    return bench.staged(batch_id)


@pytest.mark.usefixtures("only_others")
def test_the_staging_is_that_of_one_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.publish(*odd_records())
    publish_transactions(bench)
    by_three, by_two = staged_as(bench, "three"), staged_as(bench, "two", processes=2)
    monkeypatch.setattr(without_spark, "slice_reader", USUAL)
    by_one = staged_as(bench, "one", processes=1)
    assert len(by_one["rows"]) > 80
    assert by_one == by_two == by_three
    query = "SELECT batch_id, array_agg(slice_no ORDER BY slice_no) FROM offset_ledger.slice GROUP BY 1"
    numbers = rows(bench.session, query)
    assert all(slices == list(range(len(slices))) and len(slices) > 20 for _, slices in numbers)


@pytest.mark.usefixtures("only_others")
def test_a_process_that_is_killed_leaves_nothing_and_the_next_attempt_stages_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(60)))
    batch_id = bench.planned()
    monkeypatch.setenv(VARIABLE, f"{Failpoint.SLICE_COPIED}=kill")
    with pytest.raises(IncompleteStaging, match="ended with signal SIGKILL; nothing was committed"):
        stage(None, bench.pipeline, batch_id, ME)
    monkeypatch.delenv(VARIABLE)
    assert rows(bench.session, "SELECT state, epoch FROM offset_ledger.batch") == [["staging", 1]]
    (done,) = ingest(bench.pipeline, ME, False, quiet)
    assert done.committed.batch.epoch == 2
    assert bench.table() == {(f"{n}", n % 3, n // 3) for n in range(60)}
    assert verify(bench.pipeline)[0] == []


@pytest.mark.usefixtures("only_others")
def test_an_error_of_a_process_is_raised_as_it_is(bench: Bench) -> None:
    bench.publish(*(structs.replace(order(f"{n}"), headers=(("trace", b"1"),)) for n in range(20)))
    with closing(KafkaProducer(bootstrap_servers=bench.servers.bootstrap)) as careless:
        careless.send(bench.topic, order("odd").value, b"k", [(NotUtf8("caf?"), b"1")], 0, AT).get(30)
    batch_id = bench.planned()
    with pytest.raises(UnreadableRecord, match="record 0:20 has a header whose name is not UTF-8"):
        stage(None, bench.pipeline, batch_id, ME)
    assert bench.table() == set()


def test_the_others_end_with_a_process_that_is_killed(bench: Bench, tmp_path: Path) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(60)))
    batch_id = bench.planned()
    environment = {**os.environ, VARIABLE: f"{Failpoint.SLICE_COPIED}=sleep:600"}
    command = [sys.executable, "-c", STAGE, str(bench.path), str(batch_id)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        deadline = time.monotonic() + 120
        query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name ~ %s"
        while rows(bench.session, query, [f" b{batch_id} e1 slice"]) != [[3]]:  # each of the three has copied a slice
            assert time.monotonic() < deadline
            time.sleep(0.05)
        others = psutil.Process(process.pid).children()
        process.kill()
    assert len(others) == 2
    assert psutil.wait_procs(others, timeout=60)[1] == []


def test_the_others_end_with_a_task_that_airflow_stops(bench: Bench, tmp_path: Path) -> None:
    """The task itself waits for its own slice: Airflow gives it five seconds."""
    bench.publish(*(order(f"{n}", n % 3) for n in range(60)))
    bench.settings |= {"min_offsets": 1_000}
    batch_id = bench.planned()
    with stage_task(bench.path, batch_id, tmp_path, **{VARIABLE: f"{Failpoint.SLICE_COPIED}=sleep:600"}) as task:
        wait_for_slices(bench.session, batch_id, 3)
        others = psutil.Process(task.pid).children()
        task.terminate()
        assert len(others) == 2
        assert psutil.wait_procs(others, timeout=60)[1] == []
    wait_for_slices(bench.session, batch_id, 0)
