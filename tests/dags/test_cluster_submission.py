"""What Spark itself understands of the command line with which the stage task submits to YARN and to Kubernetes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from offset_ledger.outside.connections import Connection
from offset_ledger_kit.sandbox.java import find_java
from tests.dags.fresh import answer_of
from tests.dags.test_airflow_parts import PIPELINE
from tests.paths import ROOT

pytestmark = pytest.mark.full

SECRET = "s3cr3t-of-the-test"
SPARK = """
spark:
  connection: spark_cluster
  deploy_mode: {mode}
  queue: etl
  resources: {{driver_memory: 2g, driver_cores: 2, executor_memory: 3g, executor_cores: 4, executors: 5}}
  conf: {{spark.pyspark.python: /opt/venv/bin/python, spark.kubernetes.container.image: "offset-ledger:1"}}
"""

# Spark's own handling of arguments, up to where it would ask the cluster.
_UNDERSTOOD = """
import json, logging, sys
from pathlib import Path
from airflow.providers.apache.spark.hooks import spark_submit as hooks
from offset_ledger.interfaces.airflow import operators
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

logging.getLogger("py4j").setLevel("WARNING")
hooks.kube_client = object()  # of a provider that submits nothing itself
understood = {}

def submit(self, application, env):
    from pyspark.java_gateway import launch_gateway

    command = self._build_spark_submit_command(application)
    jvm = launch_gateway().jvm
    deploy = jvm.org.apache.spark.deploy
    environment = getattr(deploy.SparkSubmitArguments, "$lessinit$greater$default$2")()
    toSeq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    arguments = deploy.SparkSubmitArguments(toSeq(command[1:]), environment)
    prepared = deploy.SparkSubmit().prepareSubmitEnvironment(arguments, jvm.scala.Option.empty())
    text = lambda sequence: [sequence.apply(n) for n in range(sequence.size())]
    conf = {each._1(): each._2() for each in prepared._3().getAll()}
    shipped = {name: Path(name).read_text() for name in self._files.split(",")}
    understood.update(
        command=command, main=prepared._4(), arguments=text(prepared._1()), conf=conf, shipped=shipped,
        environment=self._env_vars,
        modes={path: oct(Path(path).stat().st_mode & 0o777) for path in (*shipped, self._properties_file)},
    )

hooks.SparkSubmitHook.submit = submit
ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 1
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
spark = parse_pipeline(Path(sys.argv[1])).spark
operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1], spark=spark).execute({"ti": None})
print(json.dumps(understood))
"""


@pytest.fixture
def understood(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What Spark makes of it for the master of the test."""
    host, extra = request.param
    (tmp_path / "hadoop").mkdir()
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic="orders") + SPARK.format(mode="cluster"))
    secrets = {**extra, "spark.authenticate.secret": SECRET}
    connections = (
        Connection("spark_cluster", "spark", host, extra=secrets),
        Connection("kafka_default", "kafka", extra={"bootstrap.servers": "kafka:9092", "sasl.password": SECRET}),
        Connection("postgres_default", "postgres", "db", password=SECRET),
    )
    known = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "HADOOP_CONF_DIR": str(tmp_path / "hadoop"),
        **{f"AIRFLOW_CONN_{each.conn_id.upper()}": each.to_json() for each in connections},
    }
    found: dict[str, Any] = answer_of(_UNDERSTOOD, tmp_path, str(file), as_task=True, **known)
    return found


def check_secrets(understood: dict[str, Any]) -> None:
    """They are in files for their owner alone, and nowhere else."""
    (submission,) = (text for path, text in understood["shipped"].items() if path.endswith("/submission.json"))
    assert submission.count(SECRET) == 2
    assert SECRET not in "\n".join(understood["command"])
    assert not understood["environment"]
    assert {mode for path, mode in understood["modes"].items() if not path.endswith(".yaml")} == {"0o600"}
    assert understood["conf"]["spark.authenticate.secret"] == SECRET


def names(paths: str) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in paths.split(",")]


@pytest.mark.parametrize("understood", [("yarn", {"queue": "of the connection"})], indirect=True)
def test_yarn_starts_the_driver_on_the_cluster_with_files_queue_and_resources(understood: dict[str, Any]) -> None:
    conf = understood["conf"]
    assert understood["main"] == "org.apache.spark.deploy.yarn.YarnClusterApplication"
    assert (conf["spark.master"], conf["spark.submit.deployMode"], conf["spark.yarn.queue"]) == (
        "yarn",
        "cluster",
        "etl",
    )
    assert names(conf["spark.yarn.dist.files"]) == ["pipeline.yaml", "submission.json"]
    assert names(conf["spark.yarn.dist.pyFiles"]) == ["offset_ledger.zip"]
    assert "spark.yarn.dist.jars" not in conf
    arguments = understood["arguments"]
    assert arguments[arguments.index("--primary-py-file") + 1].endswith("/stage_batch.py")
    given = [arguments[n + 1] for n, name in enumerate(arguments) if name == "--arg"]
    assert given == ["pipeline.yaml", "1", "--submission", "submission.json"]
    check_resources(conf)
    assert conf["spark.yarn.maxAppAttempts"] == "1"
    check_secrets(understood)


@pytest.mark.parametrize("understood", [("k8s://https://api:6443", {"namespace": "etl"})], indirect=True)
def test_kubernetes_starts_the_driver_on_the_cluster_with_files_and_resources(understood: dict[str, Any]) -> None:
    conf, arguments = understood["conf"], understood["arguments"]
    assert understood["main"] == "org.apache.spark.deploy.k8s.submit.KubernetesClientApplication"
    assert (conf["spark.master"], conf["spark.submit.deployMode"]) == ("k8s://https://api:6443", "cluster")
    assert conf["spark.kubernetes.namespace"] == "etl"
    assert names(conf["spark.files"]) == ["pipeline.yaml", "submission.json"]
    assert names(conf["spark.submit.pyFiles"]) == ["offset_ledger.zip"]
    assert arguments[arguments.index("--primary-py-file") + 1].endswith("/stage_batch.py")
    given = [arguments[n + 1] for n, name in enumerate(arguments) if name == "--arg"]
    assert given == ["pipeline.yaml", "1", "--submission", "submission.json"]
    check_resources(conf)
    check_secrets(understood)


def check_resources(conf: dict[str, str]) -> None:
    asked = {
        "spark.driver.memory": "2g",
        "spark.driver.cores": "2",
        "spark.executor.memory": "3g",
        "spark.executor.cores": "4",
        "spark.executor.instances": "5",
        "spark.pyspark.python": "/opt/venv/bin/python",
    }
    assert {name: conf.get(name) for name in asked} == asked
    assert str(ROOT) not in conf["spark.driver.extraJavaOptions"]
    assert "-D" not in conf["spark.driver.extraJavaOptions"]  # no folder of the machine that submits
