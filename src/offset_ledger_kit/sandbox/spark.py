"""Spark on the loopback: a Spark Connect server, or a cluster of Spark's own standalone mode.

Whoever may talk to either runs code as the user of the stack, so the server asks for a token and the cluster for a
secret, which the connection has.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from offset_ledger.base.local_files import kept_secret, write_private
from offset_ledger.outside.connections import Connection, without_secrets
from offset_ledger.outside.spark.home import CONNECT_TOKEN, spark_home
from offset_ledger_kit.sandbox.layout import HOST, accepts, require_free
from offset_ledger_kit.sandbox.process import Daemon, Launch, Server

_SERVER_READY_SECONDS = 300


@dataclass(frozen=True, slots=True)
class SparkConnect(Server):
    """One server, with two cores and its driver in the same process: the command ``serve spark``."""

    directory: Path
    port: int
    title = "Spark Connect"

    @property
    def daemon(self) -> Daemon:
        """The process and its state, in the folder of the server."""
        return Daemon("spark-connect", self.directory)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """The process as a tuple, like those of a cluster."""
        return (self.daemon,)

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"sc://{HOST}:{self.port}"

    def connection(self) -> Connection:
        """The Airflow connection ``spark_default`` that leads here."""
        return Connection(
            "spark_default", "spark_connect", self.address, password=kept_secret(self.directory / "token")
        )

    def up(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start the server if it does not run, and return when it answers.

        Raises:
            StackError: the port is taken, or the server did not come up.
        """
        if self.daemon.pid() is None:
            require_free("Spark Connect", self.port)
            self.start(environment, launch)
        launch.wait(self.daemons, self.ready, _SERVER_READY_SECONDS)

    def start(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start it; returns before it is ready."""
        temporary = self.directory / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        place = "--host", HOST, "--port", str(self.port)
        command = [sys.executable, "-m", "offset_ledger_kit.cli", "serve", "spark", *place]
        own = {CONNECT_TOKEN: kept_secret(self.directory / "token"), "TMPDIR": str(temporary)}
        launch.start(self.daemon, command, without_secrets({**os.environ, **environment}) | own)

    def ready(self) -> bool:
        """Return whether it accepts clients."""
        return accepts(self.port)

    @property
    def answers(self) -> dict[str, Callable[[], bool]]:
        """By the name of its process, what asks whether it is ready."""
        return {self.daemon.name: self.ready}


WORKERS = 2
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_WORKER_MEMORY = "2g"
_CLUSTER_READY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class SparkStandalone:
    """A master and two workers with one core each; their executors write below ``directory`` only."""

    directory: Path
    port: int
    title = "the Spark cluster"

    @property
    def master(self) -> Daemon:
        """The process that drivers connect to."""
        return Daemon("spark-master", self.directory)

    @property
    def workers(self) -> tuple[Daemon, ...]:
        """The processes that start executors."""
        return tuple(Daemon(f"spark-worker-{number}", self.directory) for number in range(1, WORKERS + 1))

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """Every process, in starting order."""
        return self.master, *self.workers

    @property
    def address(self) -> str:
        """The master as drivers name it."""
        return f"spark://{HOST}:{self.port}"

    def connection(self) -> Connection:
        """The Airflow connection ``spark_default`` that leads here."""
        return Connection("spark_default", "spark", self.address, extra=self._settings())

    def up(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start what does not run, and return when every worker is connected to the master.

        Raises:
            StackError: the port is taken, or a part did not come up.
        """
        # The environment of the processes and of the executors: each job brings the connections that it needs.
        temporary = self.directory / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        own = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_DIRS": str(temporary)}
        # The executors have it too; a collector would contradict the one that a pipeline file asks for.
        options = f"-Djava.io.tmpdir={temporary} -XX:TieredStopAtLevel=1"
        java = {"SPARK_DAEMON_MEMORY": "256m", "JAVA_TOOL_OPTIONS": options}
        known = {**without_secrets({**os.environ, **environment}), **own, **java}
        if self.master.pid() is None:
            require_free("the Spark master", self.port)
            launch.start(self.master, self._command(_MASTER, "--host", HOST, "--port", str(self.port)), known)
        # A worker that cannot reach the master waits ten seconds before it tries again.
        launch.wait([self.master], lambda: accepts(self.port), _CLUSTER_READY_SECONDS)
        for worker in self.workers:
            if worker.pid() is None:
                work = self.directory / worker.name
                shutil.rmtree(work, ignore_errors=True)  # earlier applications have left something there
                offered = "--cores", "1", "--memory", _WORKER_MEMORY, "--work-dir", str(work)
                launch.start(worker, self._command(_WORKER, "--host", HOST, *offered, self.address), known)
        launch.wait(self.daemons, lambda: all(map(self.ready, self.daemons)), _CLUSTER_READY_SECONDS)

    def stop(self) -> bool:
        """Stop it; False if nothing ran."""
        return True in [daemon.stop() for daemon in reversed(self.daemons)]

    def ready(self, daemon: Daemon) -> bool:
        """Return whether the master accepts drivers, or a worker is connected to it."""
        if daemon == self.master:
            return accepts(self.port)
        with suppress(psutil.NoSuchProcess):
            opened = psutil.Process(daemon.pid()).net_connections("tcp")
            return any(each.raddr and each.raddr.port == self.port for each in opened)
        return False

    @property
    def answers(self) -> dict[str, Callable[[], bool]]:
        """By the name of each process, what asks whether it is ready."""
        return {daemon.name: partial(self.ready, daemon) for daemon in self.daemons}

    def _command(self, main: str, *arguments: str) -> list[str]:
        properties = self.directory / "spark.conf"
        settings = {**self._settings(), "spark.worker.cleanup.enabled": "true"}
        write_private(properties, "".join(f"{name} {value}\n" for name, value in settings.items()))
        program = f"{spark_home()}/bin/spark-class"
        return [program, main, "--properties-file", str(properties), "--webui-port", "0", *arguments]

    def _settings(self) -> dict[str, str]:
        return {"spark.authenticate": "true", "spark.authenticate.secret": kept_secret(self.directory / "secret")}
