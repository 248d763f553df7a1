"""A real Spark Connect server on the loopback: the command ``spark-server`` as a process of the stack.

Whoever may talk to it runs code as the user of the stack, so it asks for a token.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from offset_ledger.connections import Connection, without_secrets
from offset_ledger.local.launch import Launch
from offset_ledger.local.layout import HOST, accepts, require_free
from offset_ledger.local.private_file import kept_secret
from offset_ledger.local.process import Daemon, Server

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_READY_SECONDS = 300


@dataclass(frozen=True, slots=True)
class SparkConnect(Server):
    """One server, with two cores and its driver in the same process."""

    directory: Path
    port: int
    title = "Spark Connect"

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        return Daemon("spark-connect", self.directory)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """The same as a tuple, like those of a cluster."""
        return (self.daemon,)

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"sc://{HOST}:{self.port}"

    def connection(self) -> Connection:
        """The same as an Airflow connection, ``spark_default``."""
        return Connection("spark_default", "spark_connect", self.address, password=self._token())

    def up(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start the server if it does not run, and return when it answers.

        Raises:
            StackError: the port is taken, or the server did not come up.
        """
        if self.daemon.pid() is None:
            require_free("Spark Connect", self.port)
            self.start(environment, launch)
        launch.wait(self.daemons, self.ready, _READY_SECONDS)

    def start(self, environment: Mapping[str, str], launch: Launch) -> None:
        """Start it; returns before it is ready."""
        temporary = self.directory / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        command = [sys.executable, "-m", "offset_ledger.cli", "spark-server", "--host", HOST, "--port", str(self.port)]
        known = {**without_secrets({**os.environ, **environment}), TOKEN: self._token(), "TMPDIR": str(temporary)}
        launch.start(self.daemon, command, known)

    def stop(self) -> bool:
        """Stop it; False if it did not run."""
        return self.daemon.stop()

    def ready(self) -> bool:
        """Whether it accepts clients."""
        return accepts(self.port)

    @property
    def answers(self) -> dict[str, Callable[[], bool]]:
        """By the name of its process, what asks whether it is ready."""
        return {self.daemon.name: self.ready}

    def _token(self) -> str:
        return kept_secret(self.directory / "token")
