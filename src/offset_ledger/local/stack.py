"""The local stack as one thing: Kafka, Postgres and, if wanted, Airflow, all real, all on the loopback.

``up`` starts what does not run yet, ``down`` stops it, ``status`` looks. State is under one folder (``stack_home``):
``stack.json`` says what the stack consists of, ``env`` is for a shell (``. .local/env``).
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from offset_ledger.connections import Connection, environment_name
from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.local.airflow import Airflow
from offset_ledger.local.java import JavaRuntime, find_java
from offset_ledger.local.kafka import Kafka
from offset_ledger.local.layout import HOST, MAX_BROKERS, PortChoice, Ports, stack_home
from offset_ledger.local.postgres import Postgres
from offset_ledger.local.process import Daemon, Launch, silent

Meanwhile = Callable[[Callable[[str], None]], object]


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One server process of the stack."""

    name: str
    running: bool
    pid: int | None
    address: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stack:
    """What a stack consists of, running or not."""

    home: Path
    project: Path
    brokers: int
    with_airflow: bool
    ports: Ports
    java: JavaRuntime

    @property
    def kafka(self) -> Kafka:
        """The brokers."""
        return Kafka(self.home / "kafka", self.brokers, self.ports)

    @property
    def postgres(self) -> Postgres:
        """The database server."""
        return Postgres(self.home / "postgres", self.ports.postgres)

    @property
    def airflow(self) -> Airflow:
        """Airflow, whether the stack has it or not."""
        return Airflow(self.home / "airflow", self.project, self.ports.airflow, self.postgres)

    def connections(self) -> tuple[Connection, ...]:
        """``kafka_default``, ``postgres_default`` and ``spark_default``."""
        kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": self.kafka.bootstrap})
        return kafka, self.postgres.connection(), Connection("spark_default", "spark", "local[2]")

    def environment(self) -> dict[str, str]:
        """What the CLI, Spark and Airflow's tasks need to use this stack; with Airflow, its configuration too."""
        return self._connections_environment() | (self.airflow.environment() if self.with_airflow else {})

    def parts(self) -> tuple[tuple[Daemon, str], ...]:
        """Every process of the stack and its address, in starting order."""
        brokers = [(broker.daemon, broker.address) for broker in self.kafka.brokers]
        airflow = [
            (daemon, self.airflow.address if daemon.name == "api-server" else "") for daemon in self.airflow.daemons
        ]
        return (self.postgres.daemon, self.postgres.address), *brokers, *(airflow if self.with_airflow else [])

    def running(self) -> bool:
        """Whether any process of it runs."""
        return any(daemon.pid() for daemon, _ in self.parts())

    def _connections_environment(self) -> dict[str, str]:
        return {
            **{environment_name(each.conn_id): each.to_json() for each in self.connections()},
            "OFFSET_LEDGER_HOME": str(self.home),
            "JAVA_HOME": str(self.java.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "GX_ANALYTICS_ENABLED": "false",
        }

    def _start(self, launch: Launch, meanwhile: Meanwhile | None) -> None:
        with ThreadPoolExecutor(3) as pool:
            sides = [pool.submit(self._start_kafka, launch), pool.submit(self._start_postgres_and_airflow, launch)]
            if meanwhile:
                pool.submit(meanwhile, launch.say)
            try:
                wait(sides, return_when=FIRST_EXCEPTION)
                errors = [side.exception() for side in sides if side.done()]
                for error in filter(None, errors):
                    raise error
            except BaseException:
                launch.undo()
                raise

    def _start_kafka(self, launch: Launch) -> None:
        self.kafka.up(self.java, launch)
        launch.say(f"Kafka is ready on {self.kafka.bootstrap}")

    def _start_postgres_and_airflow(self, launch: Launch) -> None:
        self.postgres.up(launch)
        launch.say(f"Postgres is ready on {self.postgres.address}")
        if self.with_airflow:
            self.airflow.up(self._connections_environment(), launch)
            launch.say(f"Airflow is ready on {self.airflow.address}; its logins are in {self.airflow.passwords}")


def up(
    brokers: int | None = None,
    airflow: bool = False,
    ports: PortChoice | None = None,
    home: Path | None = None,
    project: Path | None = None,
    say: Callable[[str], None] = silent,
    meanwhile: Meanwhile | None = None,
) -> Stack:
    """Start what does not run yet and return when all of it answers; a failure stops what this call started.

    ``brokers`` is 1 or 3 (default: as before, else 1); ``project`` has ``dags/`` and ``plugins/`` (default: here);
    ``meanwhile`` is work to do while the servers start, told how to say what it does: what it raises is ignored.

    Raises:
        StackError: a part did not come up, or the stack exists with other brokers or ports.
    """
    if brokers not in (None, 1, MAX_BROKERS):
        raise ConfigurationError(f"a stack has 1 or {MAX_BROKERS} brokers, found {brokers}; ask for one of these")
    root = stack_home(home)
    choice = (ports or PortChoice()).with_environment()
    with _locked(root, say):
        stack = _compose(root, load(root), brokers, airflow, choice, (project or Path.cwd()).resolve())
        say(f"using Java {stack.java.version} from {stack.java.source}")
        _save(stack)
        stack._start(Launch(say), meanwhile)
        _write_env(stack)
    return stack


def down(home: Path | None = None, say: Callable[[str], None] = silent) -> bool:
    """Stop everything in reverse order, the data stay; False if nothing ran."""
    root = stack_home(home)
    stack = load(root)
    if stack is None:
        return False
    with _locked(root, say):
        stopped = [stack.airflow.down(), stack.kafka.down(), stack.postgres.stop()]
    for name, ran in zip(("Airflow", "Kafka", "Postgres"), stopped, strict=True):
        if ran:
            say(f"{name} is stopped")
    return any(stopped)


def status(home: Path | None = None) -> tuple[PartStatus, ...]:
    """Every process of the stack; empty if there never was one here."""
    stack = load(stack_home(home))
    if stack is None:
        return ()
    answers = {"postgres": stack.postgres.ready, "api-server": stack.airflow.ready}
    answers |= {broker.daemon.name: broker.ready for broker in stack.kafka.brokers}
    return tuple(_part_status(daemon, address, answers.get(daemon.name)) for daemon, address in stack.parts())


def load(home: Path) -> Stack | None:
    """The stack that ``stack.json`` of that folder describes, or None.

    Raises:
        StackError: the file cannot be read.
    """
    path = home / "stack.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        ports, java = found.pop("ports"), found.pop("java")
        return Stack(
            home=home,
            project=Path(found["project"]),
            brokers=int(found["brokers"]),
            with_airflow=bool(found["with_airflow"]),
            ports=Ports(tuple(ports["kafka"]), ports["controller"], ports["postgres"], ports["airflow"]),
            java=JavaRuntime(Path(java["home"]), java["version"], java["source"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{path} cannot be read ({error!r}); end the servers by hand and remove {home}") from None


def _compose(
    home: Path, before: Stack | None, brokers: int | None, airflow: bool, choice: PortChoice, project: Path
) -> Stack:
    """What the stack shall be, given what it was."""
    count = brokers or (before.brokers if before else 1)
    if before is None or not before.running():
        return Stack(home, project, count, airflow, Ports.choose(choice, before.ports if before else None), find_java())
    if count != before.brokers:
        raise StackError(
            f"{count} brokers were asked for and the stack in {home} runs with {before.brokers}; "
            f"run `offset-ledger stack down`, remove {home / 'kafka'} and start again"
        )
    other = before.ports.contradicts(choice)
    if other:
        raise StackError(f"the stack in {home} runs with {other}; run `offset-ledger stack down` first")
    return Stack(home, before.project, count, airflow or before.with_airflow, before.ports, before.java)


def _part_status(daemon: Daemon, address: str, answers: Callable[[], bool] | None) -> PartStatus:
    pid = daemon.pid()
    if pid is None:
        return PartStatus(daemon.name, False, None, address, "stopped")
    megabytes = f"{daemon.memory_bytes() / 1e6:.0f} MB"
    if answers is None:
        return PartStatus(daemon.name, True, pid, address, megabytes)
    detail = f"ready, {megabytes}" if answers() else f"not ready, see {daemon.log}"
    return PartStatus(daemon.name, True, pid, address, detail)


def _save(stack: Stack) -> None:
    kept = {name: value for name, value in asdict(stack).items() if name != "home"}
    _replace(stack.home / "stack.json", json.dumps(kept, default=str, indent=2) + "\n")


def _write_env(stack: Stack) -> None:
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in stack.environment().items())
    _replace(stack.home / "env", "".join(lines))


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(path)


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
