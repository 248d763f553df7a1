"""The local stack, all on the loopback: Kafka, Postgres and, if wanted, a schema registry, Spark and Airflow.

``up`` starts what does not run yet, ``down`` stops it, ``status`` asks each server. State is under one folder
(``stack_home``).
"""

import fcntl
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from offset_ledger.base.local_files import write_private
from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import HOST, MAX_BROKERS, PortChoice, Ports, stack_home
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Daemon, Launch, silent
from offset_ledger_kit.sandbox.registry import Registry
from offset_ledger_kit.sandbox.spark import SparkConnect, SparkStandalone


class SparkKind(StrEnum):
    """The kind of Spark that a stack has: a server that stays, a cluster, or neither."""

    CONNECT = "connect"
    STANDALONE = "standalone"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack, running or not."""

    home: Path
    project: Path
    brokers: int
    with_airflow: bool
    ports: Ports
    java: JavaRuntime
    spark_kind: SparkKind = SparkKind.NONE
    with_registry: bool = False

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

    @property
    def spark(self) -> SparkConnect | SparkStandalone:
        """The Spark Connect server or the Spark cluster; a server, if the stack has neither."""
        if self.spark_kind is SparkKind.STANDALONE:
            return SparkStandalone(self.home / "spark-cluster", self.ports.spark)
        return SparkConnect(self.home / "spark", self.ports.spark)

    @property
    def with_spark(self) -> bool:
        """Return whether it has a server or a cluster of Spark."""
        return self.spark_kind is not SparkKind.NONE

    @property
    def registry(self) -> Registry:
        """The schema registry, whether the stack has it or not."""
        return Registry(self.home / "registry", self.ports.registry)

    def connections(self) -> tuple[Connection, ...]:
        """``kafka_default``, ``postgres_default``, ``spark_default`` and, where there is one, ``registry_default``."""
        kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": self.kafka.bootstrap})
        spark = self.spark.connection() if self.with_spark else Connection("spark_default", "spark", "local[2]")
        return kafka, self.postgres.connection(), spark, *([self.registry.connection()] if self.with_registry else [])

    def environment(self) -> dict[str, str]:
        """The environment of the CLI, Spark and Airflow's tasks for this stack; with Airflow, its configuration too."""
        return self.servers_environment() | (self.airflow.environment() if self.with_airflow else {})

    def parts(self) -> tuple[tuple[Daemon, str], ...]:
        """Every process of the stack and its address, in starting order."""
        parts = [(self.postgres.daemon, self.postgres.address)]
        parts += [(broker.daemon, broker.address) for broker in self.kafka.brokers]
        if self.with_registry:
            parts.append((self.registry.daemon, self.registry.address))
        if self.with_spark:
            parts += [(daemon, self.spark.address if not n else "") for n, daemon in enumerate(self.spark.daemons)]
        if self.with_airflow:
            address = self.airflow.address
            parts += [(each, address if each.name == "api-server" else "") for each in self.airflow.daemons]
        return tuple(parts)

    def running(self) -> bool:
        """Return whether any process of it runs."""
        return any(daemon.pid() for daemon, _ in self.parts())

    def connections_environment(self) -> dict[str, str]:
        """The connections, and the folder of this stack."""
        connections = {environment_name(each.conn_id): each.to_json() for each in self.connections()}
        return {**connections, "OFFSET_LEDGER_HOME": str(self.home)}

    def servers_environment(self) -> dict[str, str]:
        """The part of :meth:`environment` that is the same without Airflow: what Spark needs beside the connections."""
        return {**self.connections_environment(), **self._spark_environment()}

    def _spark_environment(self) -> dict[str, str]:
        return {"JAVA_HOME": str(self.java.home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}

    def save(self) -> None:
        """Write ``stack.json``."""
        kept = {name: value for name, value in asdict(self).items() if name != "home"}
        write_private(self.home / "stack.json", json.dumps(kept, default=str, indent=2) + "\n")

    def write_env(self) -> None:
        """Write ``env`` with the connections, and ``airflow.env`` with Airflow's configuration, secrets included."""
        files = {"env": {**self.connections_environment(), "PGPASSFILE": str(self.postgres.passfile)}}
        if self.with_airflow:
            files["airflow.env"] = {**self._spark_environment(), **self.airflow.environment()}
        for name, exported in files.items():
            lines = (f"export {variable}={shlex.quote(value)}\n" for variable, value in exported.items())
            write_private(self.home / name, "".join(lines))


def load(home: Path) -> Stack | None:
    """The stack that ``stack.json`` of that folder describes, or None.

    Raises:
        StackError: the file cannot be read.
    """
    path = home / "stack.json"
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text())
        ports, java = kept["ports"], kept["java"]
        return Stack(
            home=home,
            project=Path(kept["project"]),
            brokers=int(kept["brokers"]),
            with_airflow=bool(kept["with_airflow"]),
            ports=Ports(**{**ports, "kafka": tuple(ports["kafka"])}),
            java=JavaRuntime(Path(java["home"]), java["version"], java["source"]),
            spark_kind=SparkKind(kept.get("spark_kind") or SparkKind.NONE),
            with_registry=bool(kept.get("with_registry")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{path} cannot be read ({error!r}); end the servers by hand and remove {home}") from None


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
    spark: SparkKind | None = None,
    registry: bool = False,
) -> Stack:
    """Start what does not run yet and return when all of it answers; a failure stops what this call started.

    ``brokers`` is 1 or 3 (default: as before, else 1); ``project`` has ``dags/`` and perhaps ``plugins/`` (default: the
    current directory); ``spark`` stages batches (default: what runs, else a Spark Connect server where there is
    Airflow); ``registry``: a schema registry.

    Raises:
        StackError: a part did not come up, or the stack exists with other brokers, ports or another Spark.
    """
    if brokers not in (None, 1, MAX_BROKERS):
        raise ConfigurationError(f"a stack has 1 or {MAX_BROKERS} brokers, found {brokers}; ask for one of these")
    root = stack_home(home)
    choice = (ports or PortChoice()).with_environment()
    with _locked(root, say):
        stack = _compose(root, (project or Path.cwd()).resolve(), brokers, airflow, choice, spark, registry)
        say(f"using Java {stack.java.version} from {stack.java.source}")
        stack.save()
        _start(stack, Launch(say))
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
    parts = []
    for daemon, address in stack.parts():
        pid, ready = daemon.pid(), answers.get(daemon.name)
        detail = "stopped" if pid is None else f"{daemon.memory_bytes() / 1e6:.0f} MB"
        if pid is not None and ready is not None:
            detail = f"ready, {detail}" if ready() else f"not ready, see {daemon.log}"
        parts.append(PartStatus(daemon.name, pid is not None, pid, address, detail))
    return tuple(parts)


def _start(stack: Stack, launch: Launch) -> None:
    stack.connections()  # makes the secrets that several of them read

    def start_postgres_and_airflow() -> None:
        stack.postgres.up(launch)
        launch.say(f"Postgres is ready on {stack.postgres.address}")
        if stack.with_airflow:
            stack.airflow.up(stack.servers_environment(), launch)
            launch.say(f"Airflow is ready on {stack.airflow.address}; its logins are in {stack.airflow.passwords}")

    def start(up: Callable[..., None], what: object, ready: str) -> None:
        up(what, launch)
        launch.say(ready)

    with ThreadPoolExecutor(4) as pool:
        ready = f"Kafka is ready on {stack.kafka.bootstrap}"
        sides = [pool.submit(start_postgres_and_airflow), pool.submit(start, stack.kafka.up, stack.java, ready)]
        if stack.with_spark:
            ready = f"{stack.spark.title} is ready on {stack.spark.address}"
            sides.append(pool.submit(start, stack.spark.up, stack.servers_environment(), ready))
        if stack.with_registry:
            ready = f"the schema registry is ready on {stack.registry.address}"
            sides.append(pool.submit(start, stack.registry.up, stack.java, ready))
        try:
            wait(sides, return_when=FIRST_EXCEPTION)
            for error in filter(None, [side.exception() for side in sides if side.done()]):
                raise error
        except BaseException:
            launch.undo()
            raise


def _compose(
    home: Path,
    project: Path,
    brokers: int | None,
    airflow: bool,
    ports: PortChoice,
    spark: SparkKind | None,
    registry: bool,
) -> Stack:
    """The stack to start, given what it was."""
    before = load(home)
    count = brokers or (before.brokers if before else 1)
    new_spark = spark or (SparkKind.CONNECT if airflow else SparkKind.NONE)
    if before is None or not before.running():
        chosen = Ports.choose(ports, before.ports if before else None)
        return Stack(home, project, count, airflow, chosen, find_java(), new_spark, registry)
    if count != before.brokers:
        raise StackError(
            f"{count} brokers were asked for and the stack in {home} runs with {before.brokers}; "
            f"run `offset-ledger stack down`, remove {home / 'kafka'} and start again"
        )
    parts = {"registry": (before.registry.daemon,), "airflow": before.airflow.daemons, "spark": before.spark.daemons}
    idle = {part: getattr(ports, part) for part, of in parts.items() if not any(daemon.pid() for daemon in of)}
    chosen = Ports.choose(PortChoice(**idle), before.ports)
    if other := chosen.contradicts(ports):
        raise StackError(f"the stack in {home} runs with {other}; run `offset-ledger stack down` first")
    settled = before.with_spark or before.with_airflow  # Airflow's tasks keep the connection that it was started with
    if settled and spark not in (None, before.spark_kind):
        raise StackError(
            f"--spark {spark} was asked for and the stack in {home} runs with --spark {before.spark_kind}; "
            "run `offset-ledger stack down` first"
        )
    return replace(
        before,
        ports=chosen,
        with_airflow=airflow or before.with_airflow,
        spark_kind=before.spark_kind if settled else new_spark,
        with_registry=registry or before.with_registry,
    )


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
