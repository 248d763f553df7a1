"""The local stack, all on the loopback: Kafka, Postgres and, if wanted, a schema registry, Spark and Airflow.

``up`` starts what does not run yet, ``down`` stops it, ``status`` asks each server. State is under one folder
(``stack_home``).
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.local.java import find_java
from offset_ledger.local.kafka import make_kafka_archive
from offset_ledger.local.launch import Launch
from offset_ledger.local.layout import MAX_BROKERS, PortChoice, Ports, stack_home
from offset_ledger.local.process import Daemon, silent
from offset_ledger.local.servers import SparkKind, Stack, load

__all__ = ["PartStatus", "SparkKind", "Stack", "down", "load", "status", "up"]

Meanwhile = Callable[[Callable[[str], None]], object]


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One server process of the stack."""

    name: str
    running: bool
    pid: int | None
    address: str
    detail: str


def up(
    brokers: int | None = None,
    airflow: bool = False,
    ports: PortChoice | None = None,
    home: Path | None = None,
    project: Path | None = None,
    say: Callable[[str], None] = silent,
    meanwhile: Meanwhile | None = None,
    spark: SparkKind | None = None,
    registry: bool = False,
) -> Stack:
    """Start what does not run yet and return when all of it answers; a failure stops what this call started.

    ``brokers`` is 1 or 3 (default: as before, else 1); ``project`` has ``dags/`` and perhaps ``plugins/`` (default: the
    current directory); ``spark`` stages batches (default: what runs, else a Spark Connect server where there is
    Airflow); ``registry``: a schema registry. ``meanwhile`` is done while the servers start, unless a Spark Connect
    server is one of them: it prepares what only drivers of Spark need that start later; it gets ``say``, and what it
    raises is ignored.

    Raises:
        StackError: a part did not come up, or the stack exists with other brokers, ports or another Spark.
    """
    if brokers not in (None, 1, MAX_BROKERS):
        raise ConfigurationError(f"a stack has 1 or {MAX_BROKERS} brokers, found {brokers}; ask for one of these")
    root = stack_home(home)
    choice = (ports or PortChoice()).with_environment()
    with _locked(root, say):
        wanted = _Wanted(brokers, airflow, spark, registry, choice, (project or Path.cwd()).resolve())
        stack = _compose(root, load(root), wanted)
        say(f"using Java {stack.java.version} from {stack.java.source}")
        stack.save()
        _start(stack, Launch(say), meanwhile)
        stack.write_env()
    return stack


def down(home: Path | None = None, say: Callable[[str], None] = silent) -> bool:
    """Stop everything in reverse order, the data stay; False if nothing ran."""
    root = stack_home(home)
    stack = load(root)
    if stack is None:
        return False
    with _locked(root, say):
        stopped = {
            "Airflow": stack.airflow.down(),
            stack.spark.title: stack.spark.stop(),
            "the schema registry": stack.registry.stop(),
            "Kafka": stack.kafka.down(),
            "Postgres": stack.postgres.stop(),
        }
    for name, ran in stopped.items():
        if ran:
            say(f"{name} is stopped")
    return any(stopped.values())


def status(home: Path | None = None) -> tuple[PartStatus, ...]:
    """Every process of the stack; empty if there never was one here."""
    stack = load(stack_home(home))
    if stack is None:
        return ()
    answers = {"postgres": stack.postgres.ready, "registry": stack.registry.ready, "api-server": stack.airflow.ready}
    answers |= stack.spark.answers
    answers |= {broker.daemon.name: broker.ready for broker in stack.kafka.brokers}
    return tuple(_part_status(daemon, address, answers.get(daemon.name)) for daemon, address in stack.parts())


def _start(stack: Stack, launch: Launch, meanwhile: Meanwhile | None) -> None:
    stack.connections()  # makes the secrets that several of them read
    starts = [_start_kafka, _start_postgres_and_airflow]
    starts += [_start_spark] if stack.with_spark else []
    starts += [_start_registry] if stack.with_registry else []
    with ThreadPoolExecutor(len(starts) + 2) as pool:
        sides = [pool.submit(start, stack, launch) for start in starts]
        pool.submit(make_kafka_archive, stack.java, launch.say)
        if meanwhile and stack.spark_kind is not SparkKind.CONNECT:
            pool.submit(meanwhile, launch.say)
        try:
            wait(sides, return_when=FIRST_EXCEPTION)
            errors = [side.exception() for side in sides if side.done()]
            for error in filter(None, errors):
                raise error
        except BaseException:
            launch.undo()
            raise


def _start_kafka(stack: Stack, launch: Launch) -> None:
    stack.kafka.up(stack.java, launch)
    launch.say(f"Kafka is ready on {stack.kafka.bootstrap}")


def _start_registry(stack: Stack, launch: Launch) -> None:
    stack.registry.up(stack.java, launch)
    launch.say(f"the schema registry is ready on {stack.registry.address}")


def _start_spark(stack: Stack, launch: Launch) -> None:
    stack.spark.up(stack.connections_environment(), launch)
    launch.say(f"{stack.spark.title} is ready on {stack.spark.address}")


def _start_postgres_and_airflow(stack: Stack, launch: Launch) -> None:
    stack.postgres.up(launch)
    launch.say(f"Postgres is ready on {stack.postgres.address}")
    if stack.with_airflow:
        stack.airflow.up(stack.connections_environment(), launch)
        launch.say(f"Airflow is ready on {stack.airflow.address}; its logins are in {stack.airflow.passwords}")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What ``up`` was asked for."""

    brokers: int | None
    airflow: bool
    spark: SparkKind | None
    registry: bool
    ports: PortChoice
    project: Path


def _compose(home: Path, before: Stack | None, wanted: _Wanted) -> Stack:
    """The stack to start, given what it was."""
    count = wanted.brokers or (before.brokers if before else 1)
    new_spark = wanted.spark or (SparkKind.CONNECT if wanted.airflow else SparkKind.NONE)
    if before is None or not before.running():
        ports = Ports.choose(wanted.ports, before.ports if before else None)
        return Stack(home, wanted.project, count, wanted.airflow, ports, find_java(), new_spark, wanted.registry)
    if count != before.brokers:
        raise StackError(
            f"{count} brokers were asked for and the stack in {home} runs with {before.brokers}; "
            f"run `offset-ledger stack down`, remove {home / 'kafka'} and start again"
        )
    other = before.ports.contradicts(wanted.ports)
    if other:
        raise StackError(f"the stack in {home} runs with {other}; run `offset-ledger stack down` first")
    settled = before.with_spark or before.with_airflow  # Airflow's tasks keep the connection that it was started with
    if settled and wanted.spark not in (None, before.spark_kind):
        raise StackError(
            f"--spark {wanted.spark} was asked for and the stack in {home} runs with --spark {before.spark_kind}; "
            "run `offset-ledger stack down` first"
        )
    return replace(
        before,
        with_airflow=wanted.airflow or before.with_airflow,
        spark_kind=before.spark_kind if settled else new_spark,
        with_registry=wanted.registry or before.with_registry,
    )


def _part_status(daemon: Daemon, address: str, answers: Callable[[], bool] | None) -> PartStatus:
    pid = daemon.pid()
    if pid is None:
        return PartStatus(daemon.name, False, None, address, "stopped")
    megabytes = f"{daemon.memory_bytes() / 1e6:.0f} MB"
    if answers is None:
        return PartStatus(daemon.name, True, pid, address, megabytes)
    detail = f"ready, {megabytes}" if answers() else f"not ready, see {daemon.log}"
    return PartStatus(daemon.name, True, pid, address, detail)


@contextmanager
def _locked(home: Path, say: Callable[[str], None]) -> Iterator[None]:
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another `offset-ledger stack` command in {home}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
