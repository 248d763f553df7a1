"""The command line of a Spark Connect server that stages batches: pyspark's own spark-submit, with our driver."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offset_ledger.base.local_files import write_private
from offset_ledger.outside.connections import without_secrets
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
from offset_ledger.outside.spark.scratch import with_scratch

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
            **with_scratch(_SERVER_SETTINGS, folder),
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
