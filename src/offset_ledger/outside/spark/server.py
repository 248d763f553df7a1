"""The command line of a Spark Connect server that stages batches: pyspark's own spark-submit, with our driver.

An archive of the driver's classes saves a third of the time in which it starts.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offset_ledger.base.local_files import write_private
from offset_ledger.outside.connections import without_secrets
from offset_ledger.outside.spark.class_archive import ClassArchive, class_archive
from offset_ledger.outside.spark.home import (
    CONNECT_HOST,
    CONNECT_PORT,
    CONNECT_TOKEN,
    JAVA_OPTIONS,
    LOCAL_SETTINGS,
    SETTINGS,
    check_spark,
    spark_home,
)
from offset_ledger.outside.spark.scratch import scratch, with_scratch

_DRIVER = Path(__file__).parent / "submitted" / "connect_server.py"
_SERVER_SETTINGS: Mapping[str, str] = {
    **SETTINGS,
    **LOCAL_SETTINGS,  # on other masters the package has to be installed too
    # It lives long: the optimising compiler pays.
    JAVA_OPTIONS: "-XX:+UseParallelGC",
    # A client that died leaves its session and its job; ours come back to both every two minutes.
    "spark.connect.session.manager.defaultSessionTimeout": "10m",
    "spark.connect.execute.manager.detachedTimeout": "1m",
}


@dataclass(frozen=True, slots=True)
class SparkServer:
    """What a server is started with; ``conf`` are Spark settings over those that staging needs."""

    host: str = CONNECT_HOST
    port: int = CONNECT_PORT
    master: str = "local[2,3]"
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)

    def command(self, folder: Path) -> list[str]:
        """The program and its arguments; it writes temporary files to ``folder`` only."""
        settings = {
            **with_scratch(with_archive(_SERVER_SETTINGS), folder),
            "spark.connect.grpc.binding.address": self.host,
            "spark.connect.grpc.binding.port": str(self.port),
            **self.conf,
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--name", "offset-ledger"]
        command += ["--master", self.master, "--driver-memory", self.memory]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        return [*command, str(_DRIVER)]

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """The environment of the server and its workers: each job brings the connections that it needs."""
        known = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if self.master.startswith("local"):  # executors elsewhere have to reach the driver
            known["SPARK_LOCAL_IP"] = "127.0.0.1"
        return {**known, **without_secrets(outer), "SPARK_HOME": str(spark_home())}


def become_server(server: SparkServer, folder: Path) -> None:
    """Replace this process by the server; does not return. The token of the environment goes there by a file."""
    check_spark()
    command = server.command(folder)
    if token := os.environ.get(CONNECT_TOKEN):
        write_private(folder / "token", token)
        command.append(str(folder / "token"))
    os.execve(command[0], command, server.environment(os.environ))


_JOB = Path(__file__).parent / "submitted" / "first_job.py"
_SECONDS = 180


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a driver on this machine, which uses the archive if it is there."""
    return {**settings, JAVA_OPTIONS: " ".join((settings[JAVA_OPTIONS], *archive_options()))}


def archive_options() -> tuple[str, ...]:
    """The options with which a JVM maps the archive; none where there is none."""
    archive = spark_archive()
    return archive.options if archive else ()


def make_archive(say: Callable[[str], None] = lambda _: None) -> bool:
    """Make the archive, unless it is there; False where this Java cannot, or the environment cannot be written.

    Takes as long as three short jobs, once for each Python environment.
    """
    archive = spark_archive()

    def record(option: str) -> None:
        say("archiving the classes of Spark's driver (once)")
        home = spark_home()
        archiving = {**SETTINGS, JAVA_OPTIONS: f"{SETTINGS[JAVA_OPTIONS]} {option} -Xlog:cds=off"}
        command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
        known = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with scratch() as folder:
            for name, value in with_scratch(archiving, folder).items():
                command += ["--conf", f"{name}={value}"]
            environment = {**without_secrets(os.environ), **known}
            subprocess.run([*command, str(_JOB)], env=environment, check=True, capture_output=True, timeout=_SECONDS)

    return archive is not None and archive.make(record)


def spark_archive() -> ClassArchive | None:
    """The archive for this Java, in the environment of the packages, so that it goes with them; None where it can have
    none. The class path has the folder of the packages in it.
    """
    import pyspark

    java, program = os.environ.get("JAVA_HOME"), shutil.which("java")
    home = Path(java) if java else Path(program).resolve().parents[1] if program else None
    version = f"{pyspark.__file__} {pyspark.__version__}"
    return class_archive(Path(sys.prefix) / "share" / "offset-ledger", "spark", home, version)
