"""The same pipeline on a real Spark cluster: a master and two workers of the local stack, which lack the package."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.base.local_files import cache_root
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.runs import runs_of, shares_of
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.spark import WORKERS, SparkStandalone
from offset_ledger_kit.sandbox.stack import SparkKind, Stack
from tests.dags.fresh import answer_of
from tests.fixtures.servers import Servers, own_stack
from tests.fixtures.stacks import LOOPBACK, listeners
from tests.fixtures.stage_task import stage_task, wait_for_slices
from tests.fixtures.staged import ME
from tests.fixtures.topic_reader import read
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(2)]

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1}}
limits: {{records_per_slice: {per_slice}}}
stage: {{engine: spark}}
spark:
  resources: {{executor_memory: 512m}}
  conf:
    spark.eventLog.enabled: true
    spark.eventLog.compress: false
    spark.eventLog.dir: file://{folder}/events
    spark.executorEnv.OFFSET_LEDGER_FAILPOINTS: "@{folder}/failpoints"
    spark.executorEnv.OFFSET_LEDGER_FAILPOINTS_ONCE: {once}
"""
Found = set[tuple[int, int, str]]
ARCHIVES = r"-e '/pyspark\.zip$' -e '/spark-core_.*\.jar$'"
_SECONDS = 90


@dataclass
class Driver:
    """The process with the session on the cluster, and the files that its executors look at."""

    process: subprocess.Popen[str]
    folder: Path
    python: Path

    def ask(self, do: str, path: Path, environment: Mapping[str, str]) -> Any:
        """Its answer."""
        assert self.process.stdin
        assert self.process.stdout
        asked = {"do": do, "path": str(path), "environment": dict(environment), "python": str(self.python)}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        told = next(json.loads(line) for line in self.process.stdout if line.startswith('{"'))
        assert "answer" in told, told
        return told["answer"]

    def arm(self, failpoints: str) -> None:
        """Let slices act so from now on, each place once."""
        for acted in (self.folder / "once").iterdir():
            acted.unlink()
        (self.folder / "failpoints").write_text(failpoints)

    def tasks(self) -> list[dict[str, Any]]:
        """The tasks of the last stage that have ended well, as the event log of the latest application has them."""
        logs = (file for file in (self.folder / "events").rglob("events_*"))
        log = max(logs, key=lambda file: file.stat().st_mtime)
        events = [json.loads(line) for line in log.read_text().splitlines()]
        ended = [each for each in events if each["Event"] == "SparkListenerTaskEnd" and not each["Task Info"]["Failed"]]
        last = max(each["Stage ID"] for each in ended)
        return [each["Task Info"] for each in ended if each["Stage ID"] == last]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Servers of its own, beside which the cluster is a part of their stack."""
    with own_stack() as made:
        yield local.up(home=made.home, spark=SparkKind.STANDALONE)


@pytest.fixture(scope="module")
def cluster(stack: Stack) -> SparkStandalone:
    """The Spark cluster of the stack."""
    assert isinstance(stack.spark, SparkStandalone)
    return stack.spark


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's Python without site: it has the requirements, and not the editable install of the package."""
    libraries = Path(pyspark.__file__).parents[1]
    made = tmp_path_factory.mktemp("bare") / "python"
    # Spark's own archives hold what the libraries hold too, and each task of Spark would read through their contents.
    kept = f"$(printf %s \"$PYTHONPATH\" | tr : '\\n' | grep -v {ARCHIVES} | tr '\\n' :)"
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{kept}{libraries}" exec {sys.executable} -S "$@"\n')
    made.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def driver(cluster: SparkStandalone, python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "events").mkdir()
    (folder / "once").mkdir()
    known = {environment_name("spark_default"): cluster.connection().to_json(), "PYSPARK_PYTHON": str(python)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fixtures.cluster_driver"],
            cwd=ROOT,
            env={**os.environ, **known},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    made = Driver(process, folder, python)
    made.arm("")
    yield made
    assert process.stdin
    process.stdin.close()
    process.wait(60)


@dataclass
class Bench:
    """A topic, the pipeline that reads it, and the driver that runs it."""

    servers: Servers
    driver: Driver
    topic: str
    path: Path
    session: Session

    def publish(self, by_partition: Mapping[int, int]) -> None:
        """That many records to each partition, every tenth of them without the column that is required."""
        records = [
            Record(event.encode(), value(event, n % 10 != 9), (), None, partition)
            for partition, count in by_partition.items()
            for n, event in enumerate(f"{partition}-{n}" for n in range(count))
        ]
        publish(records, dict(self.servers.kafka.extra), self.topic)

    def ask(self, do: str) -> Any:
        connections = (self.servers.kafka, self.servers.postgres)
        return self.driver.ask(do, self.path, {environment_name(c.conn_id): c.to_json() for c in connections})

    @property
    def produced(self) -> Found:
        found = read(dict(self.servers.kafka.extra), self.topic).items()
        return {(partition, offset, str(record.key, "ascii")) for (partition, offset), record in found}

    def loaded(self) -> list[tuple[int, int, str]]:
        """Table and quarantine: no set, so that a record that is there twice shows."""
        table = rows(self.session, "SELECT _partition, _offset, event_id FROM public.orders")
        refused = rows(
            self.session, "SELECT partition, \"offset\", convert_from(key, 'utf8') FROM offset_ledger.quarantine"
        )
        return [tuple(row) for row in (*table, *refused)]

    def check(self, batches: list[int]) -> None:
        """Every record is there once, in one batch."""
        assert len(batches) == 1
        found = self.loaded()
        assert [row for row, times in Counter(found).items() if times > 1] == []
        assert set(found) == self.produced

    def wait_for_executors(self) -> None:
        """One that has just been started, or started again, takes part from now on."""
        deadline = time.monotonic() + _SECONDS
        while (found := self.ask("executors")) != WORKERS:
            assert time.monotonic() < deadline, f"{found} executors"
            time.sleep(0.2)

    def until(self, query: str) -> Any:
        """The first row that the query has."""
        deadline = time.monotonic() + _SECONDS
        while not (found := rows(self.session, query)):
            assert time.monotonic() < deadline, f"nothing came of {query}"
            time.sleep(0.05)
        return found[0]


def value(event: str, whole: bool) -> bytes:
    return json.dumps({"id": event, "at": "2026-01-01T12:00:00Z", **({"state": "new"} if whole else {})}).encode()


@pytest.fixture
def bench(
    driver: Driver, servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Callable[..., Bench]]:
    """Makes one with a topic of so many partitions, read by slices of so many records."""
    with connect(servers.postgres) as session:

        def make(partitions: int, per_slice: int) -> Bench:
            topic, path, once = topic_name(), tmp_path / "orders.yaml", driver.folder / "once"
            create_topic(dict(servers.kafka.extra), topic, partitions, 1)
            path.write_text(PIPELINE.format(topic=topic, per_slice=per_slice, folder=driver.folder, once=once))
            return Bench(servers, driver, topic, path, session)

        yield make
        driver.arm("")


Maker = Callable[..., Bench]


def test_the_stack_shows_the_cluster_and_all_of_it_is_on_the_loopback(cluster: SparkStandalone, stack: Stack) -> None:
    parts = {part.name: part for part in local.status(stack.home)}
    names = ["spark-master", "spark-worker-1", "spark-worker-2"]
    assert [parts[name].detail[:7] for name in names] == ["ready, "] * 3
    assert parts["spark-master"].address == cluster.address == cluster.connection().host
    assert set().union(*map(listeners, cluster.daemons)) <= LOOPBACK
    environments = [psutil.Process(daemon.pid()).environ() for daemon in cluster.daemons]
    assert [name for each in environments for name in each if name.startswith("AIRFLOW_CONN_")] == []


# So early, because the application that it starts in the end serves the tests after it.
def test_a_task_that_airflow_stops_leaves_no_driver_and_no_executor(
    bench: Maker, cluster: SparkStandalone, python: Path, tmp_path: Path
) -> None:
    one = bench(4, 5)
    one.ask("end")  # the cores are for the task now
    one.publish(dict.fromkeys(range(4), 20))
    one.driver.arm("slice_copied=sleep:600")
    batch = plan(parse_pipeline(one.path), ME).batch
    assert batch is not None
    known = {**environment(cluster.connection(), one), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    with stage_task(one.path, batch.batch_id, tmp_path / "home", **known) as task:
        wait_for_slices(one.session, batch.batch_id, 1)
        others = psutil.Process(task.pid).children(recursive=True)
        assert {each.name()[:6] for each in others} >= {"java", "python"}
        task.terminate()
        assert task.wait(60) != 0
        assert psutil.wait_procs(others, timeout=60)[1] == []
    wait_for_slices(one.session, batch.batch_id, 0)
    one.driver.arm("")
    one.check(one.ask("ingest"))


def environment(spark: Connection, one: Bench) -> dict[str, str]:
    """What a task needs to find its connections and spark-submit."""
    return {
        **{environment_name(c.conn_id): c.to_json() for c in (spark, one.servers.kafka, one.servers.postgres)},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": os.environ["JAVA_HOME"],
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "OFFSET_LEDGER_CACHE": str(cache_root()),
    }


def test_workers_load_the_package_from_what_was_shipped_and_have_no_other(bench: Maker, stack: Stack) -> None:
    one = bench(1, 10)
    one.publish({0: 20})
    one.check(one.ask("ingest"))
    for found in one.ask("loaded"):
        assert Path(found["folder"]).is_relative_to(stack.home)
        outside = [file for file in found["files"] if not file.startswith(f"{found['folder']}/offset_ledger.zip/")]
        assert outside == []
        assert "offset_ledger.steps.stage.slices" in found["sources"]
        assert {name: inspect.getsource(import_module(name)) for name in found["sources"]} == found["sources"]
        assert "ModuleNotFoundError: No module named 'offset_ledger'" in found["bare"]


def test_the_slices_of_a_skewed_partition_are_staged_by_both_executors(bench: Maker) -> None:
    one = bench(4, 20)
    one.publish({0: 400, 1: 20, 2: 20, 3: 20})
    one.wait_for_executors()
    one.check(one.ask("ingest"))
    large = {row[0] for row in rows(one.session, "SELECT slice_no FROM offset_ledger.slice WHERE partition = 0")}
    assert len(large) == 20
    by = {task["Index"]: task["Executor ID"] for task in one.driver.tasks()}
    ranges = [OffsetRange(0, 0, 400), *(OffsetRange(n, 0, 20) for n in (1, 2, 3))]
    shares = shares_of(runs_of(ranges, WORKERS, 20), WORKERS)
    assert sorted(by) == list(range(len(shares)))
    assert {by[n] for n, share in enumerate(shares) if large & {slice_no for slice_no, _ in share}} == set(by.values())
    assert len(set(by.values())) == 2


# Every slice is idle in its transaction for a moment; the one that sleeps stays so, until its executor is killed.
SLEEP = "slice_copied=sleep:60"
ASLEEP = (
    "SELECT client_port FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE '%% slices%%' AND state LIKE 'idle in%%'"
    " AND clock_timestamp() - state_change > interval '2 s'"
)


def executor_of(one: Bench, port: int) -> psutil.Process:
    """The executor whose Python worker has a connection to Postgres from that port, which others may have to others."""
    ends = [(each.laddr.port, each.raddr and each.raddr.port, each.pid) for each in psutil.net_connections("tcp")]
    owners = [pid for here, there, pid in ends if (here, there) == (port, one.session.info.port) and pid]
    (worker,) = (psutil.Process(pid) for pid in owners if "python" in psutil.Process(pid).name())
    return next(each for each in worker.parents() if each.name() == "java")


def test_an_executor_that_dies_in_a_slice_costs_no_record_and_repeats_none(bench: Maker) -> None:
    one = bench(4, 5)
    one.publish(dict.fromkeys(range(4), 20))
    one.driver.arm(SLEEP)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(one.ask, "ingest")
        (port,) = one.until(ASLEEP)
        executor_of(one, port).kill()
        one.check(done.result())
    assert (one.driver.folder / "once" / "slice_copied").exists()


def test_64_partitions_are_one_batch_of_512_slices(bench: Maker) -> None:
    one = bench(64, 2)
    one.publish(dict.fromkeys(range(64), 16))
    one.check(one.ask("ingest"))
    assert rows(one.session, "SELECT count(*), count(DISTINCT partition) FROM offset_ledger.slice") == [[512, 64]]


@pytest.fixture
def healed(cluster: SparkStandalone, stack: Stack) -> Iterator[SparkStandalone]:
    """The cluster; a worker that the test has killed is started again after it."""
    yield cluster
    local.up(home=stack.home, spark=SparkKind.STANDALONE)
    assert all(map(cluster.ready, cluster.daemons))


def test_a_worker_that_dies_takes_its_executor_with_it_and_the_other_stages_the_rest(
    bench: Maker, healed: SparkStandalone
) -> None:
    one = bench(4, 5)
    one.publish(dict.fromkeys(range(4), 40))
    one.driver.arm(SLEEP)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(one.ask, "ingest")
        (port,) = one.until(ASLEEP)
        worker_of(executor_of(one, port), healed).kill()
        one.check(done.result())


SUBMITTED = """
import os, subprocess, sys
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException
from offset_ledger.interfaces.airflow import operators

master, folder, python, *runs = sys.argv[1:]
elsewhere = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "SPARK_HOME")}

def as_on_a_cluster(self, application, env):
    command = self._build_spark_submit_command(application)
    command[command.index("--master") + 1] = master
    command[command.index("--deploy-mode") + 1] = "client"
    environment = {**elsewhere, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stderr[-2000:])
    if done.returncode:
        raise AirflowException(f"Error code is: {done.returncode}")

SparkSubmitHook.submit = as_on_a_cluster
said = []
for file, batch in zip(runs[::2], runs[1::2]):
    operators.batch_id_of = lambda ti: int(batch)
    operator = operators.StageOperator(task_id="stage", pipeline_file=file)
    try:
        said.append(operator.execute({"ti": None}))
    except AirflowException as error:
        said.append([type(error).__name__, str(error)])
import json
print(json.dumps(said))
"""
CLUSTER_MODE = "\n  connection: spark_yarn\n  deploy_mode: cluster\n  resources: {total_executor_cores: 1, "


def test_a_driver_elsewhere_has_the_shipped_files_alone_and_tells_the_task_of_its_error_through_the_ledger(
    bench: Maker, cluster: SparkStandalone, python: Path, tmp_path: Path
) -> None:
    """Its folder is empty and so is its environment, as those of a driver on YARN are; the cluster is this one."""
    good, bad = bench(1, 10), bench(1, 10)
    good.ask("end")  # the cores are for the others now
    for n, one in enumerate((good, bad)):
        one.path = tmp_path / f"{n}.yaml"
        text = PIPELINE.format(topic=one.topic, per_slice=10, folder=one.driver.folder, once=tmp_path)
        text = text.replace("orders", f"orders{n}").replace("\n  resources: {", CLUSTER_MODE)
        one.path.write_text(text)
        one.publish({0: 10})
    batches = [plan(parse_pipeline(one.path), ME).batch for one in (good, bad)]
    admin = KafkaAdminClient(bootstrap_servers=bad.servers.bootstrap)
    admin.delete_records({TopicPartition(bad.topic, 0): 3})
    admin.close()
    runs = [
        text for one, batch in zip((good, bad), batches, strict=True) for text in (str(one.path), str(batch.batch_id))
    ]
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    yarn = replace(cluster.connection(), conn_id="spark_yarn", host="yarn")
    task = {"AIRFLOW_CTX_DAG_ID": "ingest_orders", "AIRFLOW_CTX_TASK_ID": "stage"}
    known = {**environment(yarn, good), **task}
    said = answer_of(SUBMITTED, tmp_path / "home", str(cluster.address), str(folder), str(python), *runs, **known)
    assert said[0] is None
    assert said[1][0] == "AirflowFailException"
    assert said[1][1].startswith(f"OffsetExpired: topic {bad.topic} partition 0: range 0:[0, 10) was planned")
    states = "SELECT state, rows, refused FROM offset_ledger.batch ORDER BY batch_id"
    assert rows(good.session, states) == [["staged", 9, 1], ["planned", None, None]]
    who = rows(good.session, "SELECT DISTINCT who FROM offset_ledger.batch_event WHERE to_state = 'staged'")
    assert who == [["airflow:ingest_orders.stage"]]
    kept = rows(good.session, "SELECT batch_id, error, message FROM offset_ledger.stage_failure")
    assert kept == [[batches[1].batch_id, *said[1][1].split(": ", 1)]]
    assert {file.name for file in folder.iterdir()} <= {"artifacts"}  # Spark 4.0 makes that one


def worker_of(executor: psutil.Process, cluster: SparkStandalone) -> Any:
    above = {each.pid for each in executor.parents()}
    return next(daemon for daemon in cluster.workers if daemon.pid() in above)
