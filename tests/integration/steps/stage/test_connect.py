"""Stage by a Spark Connect server: the same rows and the same errors as by spark-submit, from a server that stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyspark
import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import PySparkException

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.errors import AccessDenied, LostRange, SparkMismatch, SparkUnavailable
from offset_ledger.model.batch import Attempt
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name, get_connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.spark import remote_session as remote
from offset_ledger.outside.spark import same_code, session
from offset_ledger.outside.spark.remote_session import remote_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import stage
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.layout import HOST, free_ports
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.spark import SparkConnect
from offset_ledger_kit.sandbox.stack import Stack
from tests.dags.fresh import answer_of
from tests.fixtures.engines import by_spark
from tests.fixtures.servers import Servers
from tests.fixtures.spark import LIGHT_JVM
from tests.fixtures.stage_task import stage_task, wait_for_slices
from tests.fixtures.staged import ME

pytestmark = pytest.mark.minutes(2)

SECRET = "s3cr3t-of-the-test"
SECRETS = ("AIRFLOW_CONN_ELSEWHERE", "AIRFLOW__CORE__FERNET_KEY", "PGPASSWORD", "SHOP_API_TOKEN")
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: spark}}
"""


@pytest.fixture(scope="module")
def failpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the workers of the server read at every place where they may act."""
    return tmp_path_factory.mktemp("failpoints") / "failpoints"


@pytest.fixture(scope="module")
def server(stack: Stack, failpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    """A Spark Connect server beside the stack, whose events go to a file."""
    made = SparkConnect(tmp_path_factory.mktemp("server"), free_ports(1)[0])
    events, settings = tmp_path_factory.mktemp("events"), tmp_path_factory.mktemp("settings")
    (settings / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{events}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(settings))
        for name in SECRETS:
            patch.setenv(name, SECRET)
        patch.setenv("SHOP_URL", f"https://me:{SECRET}@shop.example.com")
        patch.setenv(VARIABLE, f"@{failpoints}")
        made.up({**stack.servers_environment(), **LIGHT_JVM}, Launch(silent))
    yield made
    made.stop()


@dataclass
class Bench:
    """A topic of two partitions, a pipeline that reads it, and the connection to the Spark Connect server."""

    servers: Servers
    spark: Connection
    topic: str
    path: Path
    session: Session

    @property
    def pipeline(self) -> Pipeline:
        return parse_pipeline(self.path)

    def publish(self, *ids: str) -> None:
        values = {each: json.dumps({"id": each, "at": "2026-01-01T12:00:00Z", "state": f"of {each}"}) for each in ids}
        records = [Record(k.encode(), v.encode(), (), None, n % 2) for n, (k, v) in enumerate(values.items())]
        publish(records, dict(self.servers.kafka.extra), self.topic)

    def planned(self) -> int:
        batch = plan(self.pipeline, ME).batch
        assert batch is not None
        return batch.batch_id

    def task(self) -> SliceTask:
        """What the slices of a batch that nobody has claimed would get."""
        return SliceTask.of(self.session, self.pipeline, StagingTables(Attempt(1, 1)))

    def stage(self, batch_id: int) -> None:
        with remote_session(self.spark) as spark:
            stage(by_spark(spark), self.pipeline, batch_id, ME)

    def staged(self, batch_id: int) -> set[tuple[str, str, int, int]]:
        found = rows(self.session, "SELECT epoch FROM offset_ledger.batch WHERE batch_id = %s", [batch_id])
        table = f"offset_ledger_staging.b{batch_id}_e{found[0][0]}"
        return {tuple(r) for r in rows(self.session, f"SELECT event_id, state, _partition, _offset FROM {table}")}


@pytest.fixture
def bench(
    server: SparkConnect,
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """Its connections have passwords, of which Kafka asks for none here."""
    topic, path = topic_name(), tmp_path / "orders.yaml"
    create_topic(dict(servers.kafka.extra), topic, 2, 1, {"message.timestamp.after.max.ms": f"{2**63 - 1}"})
    path.write_text(PIPELINE.format(topic=topic))
    kafka = replace(servers.kafka, extra={**servers.kafka.extra, "ssl.key.password": SECRET})
    spark = server.connection()
    for connection in (servers.postgres, kafka, spark):
        monkeypatch.setenv(environment_name(connection.conn_id), connection.to_json())
    with connect(servers.postgres) as opened:
        yield Bench(servers, spark, topic, path, opened)


def family(server: SparkConnect) -> Iterator[dict[str, Any]]:
    """The server and what it has started, as far as it lives: a process that has ended may not be collected yet."""
    process = psutil.Process(server.daemon.pid())
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # a zombie, too
            yield {"pid": each.pid, "ppid": each.ppid(), "cmdline": each.cmdline(), "environ": each.environ()}


def daemons(server: SparkConnect) -> list[int]:
    """What workers are forked from: children of the server's Java."""
    found = [each for each in family(server) if "offset_ledger.outside.spark.worker_daemon" in each["cmdline"]]
    pids = {each["pid"] for each in found}
    return [each["pid"] for each in found if each["ppid"] not in pids]


def test_ingest_commits_through_it(bench: Bench) -> None:
    bench.publish("a", "b", "c")
    command = [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(bench.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rows(bench.session, "SELECT event_id, state, _partition, _offset FROM public.orders ORDER BY 1") == [
        ["a", "of a", 0, 0],
        ["b", "of b", 1, 0],
        ["c", "of c", 0, 1],
    ]


def test_a_failed_job_says_what_it_would_elsewhere_and_the_server_stages_the_next(
    bench: Bench, server: SparkConnect
) -> None:
    bench.publish("a", "b", "c")
    before = server.daemon.pid(), daemons(server)
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.delete_records({TopicPartition(bench.topic, 0): 1})
    admin.close()
    gone: Any = SimpleNamespace(ranges=(OffsetRange(0, 0, 1),))
    with (
        remote_session(bench.spark) as spark,
        pytest.raises(LostRange, match=r"the log does not have range 0:\[0, 1\) any more"),
    ):
        by_spark(spark).read(bench.servers.kafka, gone, bench.pipeline, bench.task())
    batch_id = bench.planned()
    bench.stage(batch_id)
    assert bench.staged(batch_id) == {("c", "of c", 0, 1), ("b", "of b", 1, 0)}
    assert (server.daemon.pid(), daemons(server)) == before


@pytest.mark.full
def test_stages_leave_no_session_and_no_process_behind(bench: Bench, server: SparkConnect) -> None:
    from pyspark.sql.connect.session import SparkSession

    ended = []
    for n in range(3):
        bench.publish(f"a{n}")
        with remote_session(bench.spark) as spark:
            ended.append(spark._session_id)  # type: ignore[attr-defined]
            assert len(spark.range(1).collect()) == 1
    bench.stage(bench.planned())
    assert len(daemons(server)) == 1
    for each in ended:
        url = f"sc://localhost:{server.port}/;token={bench.spark.password};session_id={each}"
        again = SparkSession(connection=url)
        with pytest.raises(PySparkException, match=r"INVALID_HANDLE\.SESSION_CLOSED"):
            again.range(1).collect()
        again.client.close()


@pytest.mark.full
def test_no_secret_stays_with_the_server(
    bench: Bench, server: SparkConnect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench.publish("a")
    batch_id = bench.planned()
    with remote_session(bench.spark) as spark:
        stage(by_spark(spark), bench.pipeline, batch_id, ME)
        properties = spark.conf.getAll
    assert bench.staged(batch_id) == {("a", "of a", 0, 0)}
    secrets = (SECRET, str(bench.servers.postgres.password), str(bench.spark.password))
    places = (server.directory, tmp_path_factory.getbasetemp())
    files = {file: file.read_bytes() for place in places for file in place.rglob("*") if file.is_file()}
    token = files.pop(server.directory / "token")
    assert token.decode() == bench.spark.password
    assert b"SparkListenerConnectOperationStarted" in b"".join(files.values())  # so the events are among them
    having = [file for file, content in files.items() for secret in secrets if secret.encode() in content]
    assert having == []
    assert [name for name, value in properties.items() for secret in secrets if secret in value] == []
    members = list(family(server))
    kinds = [each for each in members if "offset_ledger.outside.spark.worker_daemon" in each["cmdline"]]
    assert len(kinds) > 1  # the daemon and its workers
    assert any(each["cmdline"][0].endswith("java") for each in members)
    assert [each for each in members for secret in secrets if secret in json.dumps(each)] == []


@pytest.mark.full
def test_a_token_that_is_not_the_servers_is_refused(bench: Bench) -> None:
    wrong = replace(bench.spark, password="another")
    with pytest.raises(AccessDenied, match=rf"^sc://{HOST}:\d+ refuses the token"), remote_session(wrong):
        pass


@pytest.mark.full
def test_a_server_with_other_code_or_another_spark_is_named_before_anything_is_claimed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(remote, "code_of_this_process", lambda: "0.0.9+other")
        with pytest.raises(SparkMismatch, match=r"runs \d.* offset-ledger and this client 0\.0\.9\+other"):
            bench.stage(0)
    with monkeypatch.context() as patch:
        patch.setattr(pyspark, "__version__", "3.9.9")
        with pytest.raises(SparkMismatch, match=r"runs Spark 4\.\S+ and this client 3\.9\.9"):
            bench.stage(0)


@pytest.mark.full
def test_a_worker_refuses_the_job_of_other_code(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.publish("a")
    batch_id = bench.planned()
    with remote_session(bench.spark) as spark:
        monkeypatch.setattr(same_code, "code_of_this_process", lambda: "0.0.9+other")
        with pytest.raises(SparkMismatch, match=r"^a worker of the Spark Connect server runs .* client 0\.0\.9\+other"):
            stage(by_spark(spark), bench.pipeline, batch_id, ME)


def dead(bench: Bench, **extra: str) -> Connection:
    """A connection where no server is."""
    return replace(bench.spark, host=f"sc://{HOST}:{free_ports(1)[0]}", extra=extra)


@pytest.mark.full
def test_where_no_server_answers_one_line_says_so_and_a_fallback_is_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    gone = dead(bench)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", gone.to_json())
    with pytest.raises(
        SparkUnavailable, match=rf"^no Spark Connect server answers at {gone.host}; nothing was staged;"
    ):
        session.staging_session()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", dead(bench, fallback="spark_submit").to_json())
    monkeypatch.setattr(session, "local_session", lambda **_: "a local session")
    assert session.staging_session() == "a local session"


OPERATOR = """
import json, os, sys
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from offset_ledger.interfaces.airflow import operators

submitted = []
SparkSubmitHook.submit = lambda self, application, env: submitted.append(self._conn_id)
operators.batch_id_of = lambda ti: int(sys.argv[2])
for server in sys.argv[3:]:
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = server
    operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
print(json.dumps(submitted))
"""


def test_the_task_stage_is_a_client_of_it_and_submits_where_its_fallback_says(bench: Bench, tmp_path: Path) -> None:
    bench.publish("a", "b")
    batch_id = bench.planned()
    known = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": get_connection("kafka_default").to_json(),
        "AIRFLOW_CONN_POSTGRES_DEFAULT": get_connection("postgres_default").to_json(),
        "AIRFLOW_CONN_SPARK_SUBMIT": Connection("spark_submit", "spark", "local[2]").to_json(),
        "JAVA_HOME": os.environ["JAVA_HOME"],
    }
    servers = dead(bench, fallback="spark_submit").to_json(), bench.spark.to_json()
    arguments = str(bench.path), str(batch_id), *servers
    assert answer_of(OPERATOR, tmp_path / "home", *arguments, **known) == ["spark_submit"]
    assert bench.staged(batch_id) == {("a", "of a", 0, 0), ("b", "of b", 1, 0)}


WRONG_JAVA = """
import json, sys
from airflow.sdk.exceptions import AirflowException
from offset_ledger.interfaces.airflow import operators

operators.batch_id_of = lambda ti: int(sys.argv[2])
try:
    operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
except AirflowException as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def test_a_java_home_without_java_fails_the_task_stage_in_one_line_before_it_submits(
    bench: Bench, tmp_path: Path
) -> None:
    bench.publish("a", "b")
    batch_id, missing = bench.planned(), tmp_path / "missing"
    known = {environment_name(c): get_connection(c).to_json() for c in ("kafka_default", "postgres_default")}
    local = Connection("spark_default", "spark", "local[2]").to_json()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    known |= {"AIRFLOW_CONN_SPARK_DEFAULT": local, "PATH": path, "JAVA_HOME": str(missing)}
    assert answer_of(WRONG_JAVA, tmp_path / "home", str(bench.path), str(batch_id), **known) == [
        "AirflowFailException",
        f"ConfigurationError: Spark needs Java 17 or 21, and JAVA_HOME has no working Java ({missing}/bin/java); set "
        "JAVA_HOME to the folder of one",
    ]
    claims = "SELECT state, epoch FROM offset_ledger.batch WHERE batch_id = %s"
    assert rows(bench.session, claims, (batch_id,)) == [["planned", 0]]


@pytest.mark.full
def test_a_task_that_airflow_stops_ends_its_job_and_the_server_stages_the_next(
    bench: Bench, failpoints: Path, tmp_path: Path
) -> None:
    bench.publish("a", "b")
    batch_id = bench.planned()
    failpoints.write_text("slice_copied=sleep:600")
    with stage_task(bench.path, batch_id, tmp_path) as task:
        wait_for_slices(bench.session, batch_id, 2)
        failpoints.write_text("")
        task.terminate()
        assert task.wait(60) != 0
    wait_for_slices(bench.session, batch_id, 0)
    bench.stage(batch_id)
    assert bench.staged(batch_id) == {("a", "of a", 0, 0), ("b", "of b", 1, 0)}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.RETRIES_EXCEEDED")
def test_a_server_that_dies_while_it_stages_is_told_from_a_failed_job(
    bench: Bench, server: SparkConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of this file: the server is gone afterwards."""
    monkeypatch.setattr(remote, "_RETRIES", 1)
    bench.publish("a")
    batch_id = bench.planned()
    with remote_session(bench.spark) as spark:
        server.pause()
        dying = threading.Timer(2, server.kill)
        dying.start()
        with pytest.raises(SparkUnavailable, match="went away, or was started again, while it staged"):
            stage(by_spark(spark), bench.pipeline, batch_id, ME)
        dying.join()
    assert rows(bench.session, "SELECT state FROM offset_ledger.batch") == [["staging"]]
