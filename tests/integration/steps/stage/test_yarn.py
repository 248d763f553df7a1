"""Spark on YARN: the driver on the machine of the task or on the cluster, and a cluster without a free node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pyspark
import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.base.local_files import cache_root
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME
from tests.fixtures.yarn import SPARK_JARS, Yarn, a_yarn
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(2)]

PIPELINE = """
pipeline: orders
source: {{topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{table: public.orders}}
quality: {{max_quarantined_share: 1}}
limits: {{records_per_slice: 2000}}
stage: {{engine: spark}}
spark:
  connection: spark_yarn
  deploy_mode: {mode}
  queue: etl
  resources: {{driver_memory: 512m, executor_memory: 512m, executor_cores: 1, executors: 2}}
  conf:
    spark.pyspark.python: {python}
    spark.yarn.jars: "{jars}"
    spark.yarn.stagingDir: file://{folder}/staging
    spark.yarn.am.memory: 512m
"""
RECORDS, PARTITIONS = 30_000, 3


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with a_yarn(tmp_path_factory.mktemp("yarn")) as made:
        yield made


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's Python without site: it has the requirements, and not the editable install of the package."""
    made = tmp_path_factory.mktemp("bare") / "python"
    libraries = Path(pyspark.__file__).parents[1]
    made.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    made.chmod(0o755)
    return made


@dataclass
class Bench:
    """A topic, the pipeline that reads it, and its stage task."""

    servers: Servers
    yarn: Yarn
    path: Path
    session: Session

    @contextmanager
    def task(self, batch_id: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """The task that stages the batch, and its log."""
        spark = Connection("spark_yarn", "spark", "yarn", extra={"queue": "default"})
        known = {environment_name(c.conn_id): c.to_json() for c in (spark, self.servers.kafka, self.servers.postgres)}
        known |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HADOOP_CONF_DIR": str(self.yarn.conf),
            "JAVA_HOME": str(self.yarn.java.home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "OFFSET_LEDGER_CACHE": str(cache_root()),
            "AIRFLOW_HOME": str(self.path.parent / "home"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        log = self.path.parent / "task.log"
        command = [sys.executable, "-m", "tests.fixtures.stage_task", str(self.path), str(batch_id)]
        with log.open("w") as output:
            task = subprocess.Popen(command, cwd=ROOT, env=os.environ | known, stdout=output, stderr=subprocess.STDOUT)
            try:
                yield task, log
            finally:
                for each in [] if task.poll() is not None else psutil.Process(task.pid).children(recursive=True):
                    each.kill()
                task.kill()
                task.wait()


@pytest.fixture
def bench(
    yarn: Yarn, python: Path, servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Callable[[str, int], Bench]]:
    with connect(servers.postgres) as session:

        def make(mode: str, records: int) -> Bench:
            topic, path = topic_name(), tmp_path / "orders.yaml"
            create_topic(dict(servers.kafka.extra), topic, PARTITIONS, 1)
            made = (
                Record(
                    b"k",
                    json.dumps({"id": n, "at": "2026-01-01T12:00:00Z"} | ({"state": "new"} if n % 10 else {})).encode(),
                    (),
                    None,
                    n % PARTITIONS,
                )
                for n in range(records)
            )
            publish(made, dict(servers.kafka.extra), topic)
            path.write_text(PIPELINE.format(topic=topic, mode=mode, python=python, jars=SPARK_JARS, folder=tmp_path))
            return Bench(servers, yarn, path, session)

        yield make


MODES = pytest.mark.parametrize("mode", ["client", "cluster"])


@MODES
def test_yarn_stages_a_topic_and_each_offset_is_committed_once(
    bench: Callable[[str, int], Bench], yarn: Yarn, mode: str
) -> None:
    one = bench(mode, RECORDS)
    pipeline = parse_pipeline(one.path)
    batch = plan(pipeline, ME).batch
    assert batch is not None
    with one.task(batch.batch_id) as (task, log):
        assert task.wait(400) == 0, (log.read_text()[-3000:], yarn.logs()[-3000:])
    application = yarn.applications()[-1]
    assert (application["state"], application["finalStatus"], application["queue"]) == (
        "FINISHED",
        "SUCCEEDED",
        "root.etl",
    )
    assert list((one.path.parent / "staging").rglob("submission.json")) == []  # it has the passwords
    validate_or_raise(pipeline, batch.batch_id, ME, one.session)
    done = commit(pipeline, batch.batch_id, ME, one.session)
    assert (done.batch.engine, done.total.inserted, done.total.quarantined) == (
        "spark",
        RECORDS * 9 // 10,
        RECORDS // 10,
    )
    assert compare_with_topic(pipeline).violations == ()
    loaded = rows(one.session, "SELECT event_id FROM public.orders")
    assert sorted(int(row[0]) for row in loaded) == [n for n in range(RECORDS) if n % 10]


def test_a_driver_that_fails_on_the_cluster_tells_the_task_why(bench: Callable[[str, int], Bench], yarn: Yarn) -> None:
    one = bench("cluster", 30)
    pipeline = parse_pipeline(one.path)
    batch = plan(pipeline, ME).batch
    assert batch is not None
    admin = KafkaAdminClient(bootstrap_servers=one.servers.bootstrap)
    admin.delete_records({TopicPartition(pipeline.source.topic, 0): 3})
    admin.close()
    with one.task(batch.batch_id) as (task, log):
        assert task.wait(240) != 0
    assert f"OffsetExpired: topic {pipeline.source.topic} partition 0: range 0:[0, 10) was planned" in log.read_text()
    assert yarn.applications()[-1]["finalStatus"] == "FAILED"
    assert list((one.path.parent / "staging").rglob("submission.json")) == []


REPORT = re.compile(r"^(\S+) .*Application report for (application_\d+_\d+) \(state: ACCEPTED\)", re.MULTILINE)


@MODES
def test_a_cluster_without_a_free_node_is_named_each_minute_while_the_job_waits(
    bench: Callable[[str, int], Bench], yarn: Yarn, mode: str
) -> None:
    one = bench(mode, 30)
    batch = plan(parse_pipeline(one.path), ME).batch
    assert batch is not None
    yarn.stop_node()
    with one.task(batch.batch_id) as (task, log):
        deadline = time.monotonic() + 150
        while len(reports := REPORT.findall(log.read_text())) < 2:
            assert task.poll() is None
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        (first, application), (second, same), *_ = reports
        assert same == application == yarn.applications()[-1]["id"]
        assert datetime.fromisoformat(second) - datetime.fromisoformat(first) < timedelta(minutes=1)
        assert "diagnostics: " in log.read_text()
        assert "cluster resource is empty" in log.read_text()
        assert rows(one.session, "SELECT state FROM offset_ledger.batch") == [["planned"]]
        yarn.start_node()
        assert task.wait(240) == 0, (log.read_text()[-3000:], yarn.logs()[-3000:])
    assert rows(one.session, "SELECT state, rows, refused FROM offset_ledger.batch") == [["staged", 27, 3]]
