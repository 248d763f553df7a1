"""What spark-submit is given for a batch: settings, and files from a private folder.

No secret stands on the command line or in the environment of Java: connections travel in a file that the driver reads,
and settings of the Spark connection's extra in a file of properties. A failure is a file too, or in cluster mode a row
of the ledger: spark-submit knows only an exit code, and the class of the error decides whether Airflow retries.
"""

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from offset_ledger.base.local_files import write_private
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.spark.home import LOCAL_SETTINGS, SETTINGS, spark_home
from offset_ledger.outside.spark.same_code import PACKAGE
from offset_ledger.outside.spark.scratch import with_scratch
from offset_ledger.pipeline_file.pipeline import DeployMode, Pipeline, Spark

PIPELINE_FILE, SUBMISSION_FILE, FAILURE_FILE = "pipeline.yaml", "submission.json", "failure.json"
_PROPERTIES_FILE = "spark.conf"
# A driver that failed has said why; the retry of the task is another application.
_CLUSTER_SETTINGS = {"spark.yarn.maxAppAttempts": "1"}


@dataclass(frozen=True, slots=True)
class Submission:
    """What a driver reads besides the pipeline file: for whom it stages, why by Spark, and by which connections."""

    submission_id: str
    origin: Origin
    reason: str
    connections: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, submission_id: str, origin: Origin, reason: str, *connections: Connection) -> Self:
        """Return a submission with these connections."""
        texts = {environment_name(each.conn_id): each.to_json() for each in connections}
        return cls(submission_id, origin, reason, texts)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what :func:`submit_arguments` has written."""
        written = json.loads(path.read_text())
        return cls(written["submission_id"], Origin(**written["origin"]), written["reason"], written["connections"])

    def enter(self) -> None:
        """Let this process, and none that it starts in another environment, find the connections."""
        os.environ.update(self.connections)


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """Arguments of spark-submit, and of the job after those that name the pipeline file and the batch."""

    conf: dict[str, str]
    pipeline_file: str
    job_arguments: tuple[str, ...]
    files: str | None = None
    py_files: str | None = None
    properties_file: str | None = None


def submit_arguments(folder: Path, at: Connection, pipeline: Pipeline, submission: Submission) -> SubmitArguments:
    """What submits the pipeline's batch to that master; the files of it are written to ``folder``.

    A driver in cluster mode starts elsewhere, with copies of the files in its working directory.

    Raises:
        ConfigurationError: the master starts no Python drivers on its cluster.
    """
    write_private(folder / SUBMISSION_FILE, json.dumps(asdict(submission)))
    topic = ("--topic", pipeline.source.topic) if pipeline.record.topic_names else ()
    properties = properties_file(folder, at)
    if pipeline.spark.deploy_mode is not DeployMode.CLUSTER:
        files = ("--submission", str(folder / SUBMISSION_FILE), "--failure", str(folder / FAILURE_FILE))
        return SubmitArguments(
            driver_settings(folder, at, pipeline.spark),
            str(pipeline.path),
            (*files, *topic),
            py_files=None if is_local(at) else str(package_zip(folder)),
            properties_file=properties,
        )
    if is_local(at) or is_standalone(at):
        raise ConfigurationError(
            f"spark.deploy_mode is cluster, and {master_of(at)} starts no Python drivers on its cluster; write "
            "deploy_mode: client, or name a connection to YARN or Kubernetes"
        )
    (folder / PIPELINE_FILE).write_bytes(pipeline.text)
    shipped = [folder / PIPELINE_FILE, folder / SUBMISSION_FILE]
    if schema := pipeline.source.schema:
        shipped.append(folder / schema.name)
        shipped[-1].write_text(schema.text)
    return SubmitArguments(
        {**SETTINGS, **_CLUSTER_SETTINGS, **_conf(pipeline.spark)},
        PIPELINE_FILE,
        ("--submission", SUBMISSION_FILE, *topic),
        files=",".join(map(str, shipped)),
        py_files=str(package_zip(folder)),
        properties_file=properties,
    )


def package_zip(folder: Path) -> Path:
    """Make ``offset_ledger.zip`` in ``folder``, which nobody else may write: executors run what is in it.

    It is for spark-submit's --py-files, which takes no wheels.
    """
    made = folder / "offset_ledger.zip"
    with zipfile.ZipFile(made, "x") as archive:
        for file in sorted(p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            archive.write(file, Path("offset_ledger") / file.relative_to(PACKAGE))
    return made


def is_local(connection: Connection) -> bool:
    """Return whether the workers are of this machine, where the package is installed."""
    return master_of(connection).startswith("local")


def is_standalone(connection: Connection) -> bool:
    """Return whether the master is of Spark's standalone mode."""
    return master_of(connection).startswith("spark://")


def master_of(connection: Connection) -> str:
    """The master as Airflow's Spark hook reads the connection."""
    host, port = connection.host or "", connection.port
    whole = connection.conn_type == "spark" and host and ("://" in host or not port)
    return (host if whole else f"{connection.conn_type}://{host}") + (f":{port}" if port else "")


def driver_settings(folder: Path, at: Connection, spark: Spark) -> dict[str, str]:
    """The settings of a driver on this machine that writes to ``folder`` alone."""
    places = LOCAL_SETTINGS if is_local(at) else {}
    return with_scratch({**SETTINGS, **places, **_conf(spark)}, folder)


def cluster_settings(folder: Path, at: Connection, spark: Spark) -> dict[str, str]:
    """Return the settings of a driver that asks a standalone cluster for executors without spark-submit's arguments."""
    asked = {
        "spark.driver.memory": spark.resources.driver_memory,
        "spark.executor.memory": spark.resources.executor_memory,
        "spark.executor.cores": spark.resources.executor_cores,
        "spark.cores.max": spark.resources.total_executor_cores,
    }
    return {**driver_settings(folder, at, spark), **{name: str(value) for name, value in asked.items() if value}}


def properties_file(folder: Path, at: Connection) -> str | None:
    """A file of the settings in the connection's extra, if there are any, after those that Spark would read itself."""
    settings = {name: value for name, value in at.extra.items() if name.startswith("spark.")}
    if not settings:
        return None
    home = os.environ.get("SPARK_HOME") or spark_home()
    path = Path(os.environ.get("SPARK_CONF_DIR") or f"{home}/conf") / "spark-defaults.conf"
    defaults = path.read_text() if path.is_file() else ""
    escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in settings.items()}
    lines = [f"{name}={value}\n" for name, value in escaped.items()]
    write_private(folder / _PROPERTIES_FILE, defaults + "\n" + "".join(lines))
    return str(folder / _PROPERTIES_FILE)


def _conf(spark: Spark) -> dict[str, str]:
    cores = spark.resources.driver_cores  # the one that Airflow's operator has no argument for
    return {**({"spark.driver.cores": str(cores)} if cores else {}), **spark.conf}
