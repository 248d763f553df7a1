"""One contender on one workload, once: the table before, the process, its time, its CPU seconds, and the check."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.peers.bench_servers import PEERS, cpu_seconds, settle
from benchmarks.peers.contenders import Contender
from benchmarks.peers.results import Trial
from benchmarks.peers.task import RESULT, Task
from benchmarks.peers.workload import PARTITIONS, Width, Workload, difference, rows_before

from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger.database import Session, connect, transaction
from offset_ledger_kit.sandbox.postgres import DATA_DATABASE
from offset_ledger_kit.sandbox.stack import Stack

PEERS_PYTHON = PEERS / "bin" / "python"
_GRACE = 10.0


class TrialFailed(Exception):
    """Why there are no figures."""


@dataclass(frozen=True)
class Bench:
    """What every trial uses. ``timeout`` in seconds."""

    stack: Stack
    jars: dict[str, list[str]]
    timeout: float
    faucet: str
    numbers: Iterator[int]

    @classmethod
    def of(cls, stack: Stack, jars: dict[str, list[str]], timeout: float, faucet: str) -> Bench:
        """A bench whose tables have names that no earlier run has used."""
        return cls(stack, jars, timeout, faucet, count(int(time.time())))


def run(bench: Bench, contender: Contender, workload: Workload, turn: int, last: list[tuple[str, str]]) -> Trial:
    """The figures, or a trial with an error: nothing that a contender does ends the run."""
    trial = Trial(
        *(workload.records, workload.width, workload.target, contender.name, turn),
        at=datetime.now(UTC).isoformat(timespec="seconds"), load=round(os.getloadavg()[0], 2),
    )  # fmt: skip
    with _scratch() as scratch, connect(bench.stack.postgres.connection()) as session:
        task = _task(bench, contender, workload, last, scratch)
        try:
            return _measure(bench, contender, workload, task, session, trial)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            return replace(trial, error=" ".join(f"{type(error).__name__}: {error}".split())[-600:])
        finally:
            _drop_tables(session, task)


def _measure(
    bench: Bench, contender: Contender, workload: Workload, task: Task, session: Session, trial: Trial
) -> Trial:
    if contender.makes_table:
        _process(bench, contender, task, "make-table")
    _prepare(session, contender, workload, task)
    postgres, broker = [bench.stack.postgres.daemon.pid() or 0], [bench.stack.kafka.broker(1).daemon.pid() or 0]
    before = cpu_seconds(postgres), cpu_seconds(broker)
    found, wall, cpu = _process(bench, contender, task)
    took = cpu_seconds(postgres) - before[0], cpu_seconds(broker) - before[1]
    with transaction(session) as cursor:
        cursor.execute(difference(workload, task.table))
        missing, extra, wrong = cursor.one()
    return replace(
        trial, session=round(found["session"], 3), seconds=round(found["seconds"], 3), process=round(wall, 3),
        cpu=round(cpu, 2), cpu_postgres=round(took[0], 2), cpu_broker=round(took[1], 2),
        missing=missing, extra=extra, wrong=wrong, details=found["details"],
    )  # fmt: skip


def _task(bench: Bench, contender: Contender, workload: Workload, last: list[tuple[str, str]], scratch: Path) -> Task:
    kafka, postgres, _ = bench.stack.connections()
    return Task(
        bootstrap=kafka.extra["bootstrap.servers"], postgres=dict(postgres_arguments(postgres)), topic=workload.topic,
        superuser=dict(postgres_arguments(bench.stack.postgres.superuser(DATA_DATABASE))),
        partitions=PARTITIONS, records=workload.records, wide=workload.width is Width.WIDE,
        table=f"peer.t{next(bench.numbers)}", scratch=str(scratch), variant=contender.variant,
        java=str(bench.stack.java.home), jars=bench.jars, last=last, faucet=bench.faucet,
    )  # fmt: skip


@contextmanager
def _scratch() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="offset-ledger-peer-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _prepare(session: Session, contender: Contender, workload: Workload, task: Task) -> None:
    """The table with the rows that it has before, and a server without old work to do."""
    with transaction(session) as cursor:
        if not contender.makes_table:
            columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in task.columns.items())
            cursor.execute(f"CREATE TABLE {task.table} ({columns}, PRIMARY KEY (event_id))")
        if query := rows_before(workload):
            names = ", ".join([*task.columns, *contender.extra])
            values = ", ".join([*task.columns, *contender.extra.values()])
            cursor.execute(f"INSERT INTO {task.table} ({names}) SELECT {values} FROM ({query}) AS before")
    settle(task.superuser)


def _drop_tables(session: Session, task: Task) -> None:
    with transaction(session) as cursor:
        cursor.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables "
            "WHERE (schemaname = 'peer' OR schemaname LIKE 'peer\\_%%') AND tablename LIKE %s",
            [f"{task.name}%"],
        )
        for (table,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE IF EXISTS {table} CASCADE")


def _process(bench: Bench, contender: Contender, task: Task, *arguments: str) -> tuple[dict[str, Any], float, float]:
    """What the contender answered, its wall seconds until then, and the CPU seconds of it and its children."""
    file, out, err = (Path(task.scratch) / name for name in ("task.json", "out", "err"))
    task.write(file)
    python = sys.executable if contender.environment == "project" else str(PEERS_PYTHON)
    command = [python, "-m", f"benchmarks.peers.{contender.module}", str(file), *arguments]
    began = time.perf_counter()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            status, cpu = _wait(process, began + bench.timeout)
        finally:
            _end_group(process.pid)
    lines = out.read_text(errors="replace").splitlines()
    found = next((line for line in reversed(lines) if line.startswith(RESULT)), None)
    if found is None:
        tail = (err.read_text(errors="replace") or "\n".join(lines)).strip().splitlines()[-6:]
        raise TrialFailed(f"exit status {status}: {' '.join(tail)}")
    answered = json.loads(found.removeprefix(RESULT))
    # Tidying up does not count; both processes read the same monotonic clock.
    return answered, answered["done"] - began, cpu


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int, float]:
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.perf_counter() > deadline:
            _end_group(process.pid)
            os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
            raise TrialFailed("did not end in time")
        time.sleep(0.05)


def _end_group(group: int) -> None:
    """End what the contender has left behind in its own process group."""
    for how in signal.SIGTERM, signal.SIGKILL:
        try:
            os.killpg(group, how)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
