"""A Spark cluster on the loopback, of Spark's own standalone mode: a master and two workers with one core each.

Whoever may talk to it runs code as the user of the stack, so it asks for a secret, which the connection has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from offset_ledger.connections import Connection, without_secrets
from offset_ledger.local.launch import Launch
from offset_ledger.local.layout import HOST, accepts, require_free
from offset_ledger.local.private_file import kept_secret, write_private
from offset_ledger.local.process import Daemon
from offset_ledger.local.spark_home import spark_home

WORKERS = 2
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_WORKER_MEMORY = "2g"
_READY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class SparkStandalone:
    """The cluster; its executors write below ``directory`` only."""

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
        """The same as an Airflow connection, ``spark_default``."""
        return Connection("spark_default", "spark", self.address, extra=self._settings())

    def up(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start what does not run, and return when every worker is connected to the master.

        Raises:
            StackError: the port is taken, or a part did not come up.
        """
        known = self._environment(environment)
        if self.master.pid() is None:
            require_free("the Spark master", self.port)
            launch.start(self.master, self._command(_MASTER, "--host", HOST, "--port", str(self.port)), known)
        # A worker that cannot reach the master waits ten seconds before it tries again.
        launch.wait([self.master], lambda: accepts(self.port), _READY_SECONDS)
        for worker in self.workers:
            if worker.pid() is None:
                self.start_worker(worker, known, launch)
        launch.wait(self.daemons, lambda: all(map(self.ready, self.daemons)), _READY_SECONDS)

    def start_worker(self, worker: Daemon, environment: Mapping[str, str], launch: Launch) -> None:
        """Start a worker without what earlier applications have left; returns before it is ready."""
        work = self.directory / worker.name
        shutil.rmtree(work, ignore_errors=True)
        offered = "--cores", "1", "--memory", _WORKER_MEMORY, "--work-dir", str(work)
        launch.start(worker, self._command(_WORKER, "--host", HOST, *offered, self.address), environment)

    def stop(self) -> bool:
        """Stop it; False if nothing ran."""
        stopped = [daemon.stop() for daemon in reversed(self.daemons)]
        return any(stopped)

    def ready(self, daemon: Daemon) -> bool:
        """Whether the master accepts drivers, or a worker is connected to it."""
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
        program = f"{spark_home()}/bin/spark-class"
        return [program, main, "--properties-file", str(self._properties()), "--webui-port", "0", *arguments]

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the processes and of the executors: each job brings the connections that it needs."""
        temporary = self.directory / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        kept = without_secrets({**os.environ, **environment})
        own = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_DIRS": str(temporary)}
        return {**kept, **own, "SPARK_DAEMON_MEMORY": "256m", "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}"}

    def _settings(self) -> dict[str, str]:
        return {"spark.authenticate": "true", "spark.authenticate.secret": kept_secret(self.directory / "secret")}

    def _properties(self) -> Path:
        path = self.directory / "spark.conf"
        settings = {**self._settings(), "spark.worker.cleanup.enabled": "true"}
        write_private(path, "".join(f"{name} {value}\n" for name, value in settings.items()))
        return path
