"""Worker processes that run steps and may be killed or stopped, and the laboratory that holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from offset_ledger.base.failpoints import ONCE, VARIABLE
from offset_ledger_kit.labs.lossy import Proxy
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.registry import Registry
from offset_ledger_kit.sandbox.spark import SparkConnect
from offset_ledger_kit.sandbox.stack import Stack
from tests.paths import ROOT


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker said, or that it died (``error`` is then ``Died``) or kept silent (``Silent``)."""

    found: dict[str, Any]

    @property
    def error(self) -> str | None:
        """The class of the error, or None."""
        return self.found.get("error")

    def __str__(self) -> str:
        return f"{self.error}: {self.found.get('message', '')}" if self.error else str(self.found)


class Worker:
    """A worker process; started when first asked, and again when asked after its death."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._ids = count()
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def submit(self, do: str, **more: Any) -> Future[Answer]:
        """Ask, and come back for the answer later."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process is not None
            assert self.process.stdin is not None
            number, answer = next(self._ids), Future[Answer]()
            self._waiting[number] = answer
            try:
                self.process.stdin.write(json.dumps({"id": number, "do": do, **more}) + "\n")
                self.process.stdin.flush()
            except (BrokenPipeError, OSError):
                self._waiting.pop(number, None)
                if not answer.done():
                    answer.set_result(Answer({"error": "Died", "message": "before it was asked"}))
            return answer

    def said(self) -> str:
        """Its log."""
        return self._log.read_text()

    def end(self) -> None:
        """SIGKILL it and what it started."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        with suppress(psutil.NoSuchProcess):
            family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
        process.wait(10)

    def stopped(self) -> list[psutil.Process]:
        """Members of its family that are in SIGSTOP."""
        return _stopped(self.process.pid) if self.process is not None and self.process.poll() is None else []

    def _start(self) -> None:
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._waiting = {}  # the dead process's listener answers what was asked of it
        threading.Thread(target=self._listen, args=(self.process, self._waiting), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str], waiting: dict[int, Future[Answer]]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            waiting.pop(found["id"]).set_result(Answer(found))
        code = process.wait()
        for number in list(waiting):
            answer = waiting.pop(number)
            if not answer.done():
                answer.set_result(Answer({"error": "Died", "message": f"exit code {code}"}))


def _stopped(pid: int) -> list[psutil.Process]:
    found = []
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        for member in [leader, *leader.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                if member.status() == psutil.STATUS_STOPPED:
                    found.append(member)
    return found


class Lab:
    """Servers and workers that several benches use one after another.

    ``light`` and ``second`` never stage, ``heavy`` has the Spark session. Workers reach Postgres through the proxy.
    ``connect``: the session is of a Spark Connect server, whose own workers come to the failpoints of a slice;
    ``registry``: records name schemas of a registry; ``postgres``: the port of a pooler, behind the proxy.
    """

    def __init__(
        self,
        stack: Stack,
        folder: Path,
        connect: bool = False,
        registry: bool = False,
        postgres: int | None = None,
    ) -> None:
        self.stack = stack
        self.folder = folder
        (folder / "once").mkdir(parents=True)
        self.proxy = Proxy(postgres or stack.ports.postgres)
        environment = {
            **os.environ,
            **stack.environment(),
            "OFFSET_LEDGER_REPORTS": str(folder / "reports"),
            "OFFSET_LEDGER_RETRY_SECONDS": "20",
            VARIABLE: f"@{folder / 'failpoints'}",
            ONCE: str(folder / "once"),
        }
        self.registry = Registry(folder / "registry", free_ports(1)[0]) if registry else None
        if self.registry:
            self.start_registry()
            environment["AIRFLOW_CONN_REGISTRY_DEFAULT"] = self.registry.connection().to_json()
        self.spark = SparkConnect(folder / "spark", free_ports(1)[0]) if connect else None
        if self.spark:
            self.spark.up(environment, Launch(silent))
            environment["AIRFLOW_CONN_SPARK_DEFAULT"] = self.spark.connection().to_json()
        self.heavy, self.light, self.second = (
            Worker(environment, folder / f"{name}.log") for name in ("heavy", "light", "second")
        )

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All of them."""
        return self.heavy, self.light, self.second

    def start_registry(self) -> None:
        """Start the registry on the schemas that it had, and return when it answers."""
        assert self.registry is not None
        self.registry.up(self.stack.java, Launch(silent))

    def arm(self, *failpoints: str) -> None:
        """Let each of these ``place=action`` happen once, in whatever process comes there first."""
        for mark in (self.folder / "once").iterdir():
            mark.unlink()
        draft = self.folder / "failpoints.new"
        draft.write_text(";".join(failpoints))
        draft.replace(self.folder / "failpoints")

    def disarm(self) -> None:
        """No failpoint acts any more."""
        (self.folder / "failpoints").unlink(missing_ok=True)

    def reached(self) -> set[str]:
        """The armed places that were reached."""
        return {mark.name for mark in (self.folder / "once").iterdir()}

    def resume(self) -> int:
        """SIGCONT to everything of ours that is stopped; how many that were."""
        stopped = [each for worker in self.workers for each in worker.stopped()]
        if self.spark and (server := self.spark.daemon.pid()):
            stopped += _stopped(server)
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()
        return len(stopped)

    def close(self) -> None:
        """End the workers and the proxy."""
        for worker in self.workers:
            worker.end()
        if self.spark:
            self.spark.stop()
        if self.registry:
            self.registry.stop()
        self.proxy.close()
