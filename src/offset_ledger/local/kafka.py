"""One or three real Kafka brokers (KRaft) on the loopback, each startable, stoppable and pausable by its number."""

from __future__ import annotations

import base64
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.errors import BrokerUnavailable, StackError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.local.jars import kafka_jars
from offset_ledger.local.java import JavaRuntime, find_java
from offset_ledger.local.layout import HOST, Ports, accepts, require_free
from offset_ledger.local.process import Daemon, Launch, run, silent

_READY_SECONDS = 120
_JVM = ("-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker process; node 1 is the controller too."""

    node: int
    port: int
    directory: Path

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        return Daemon(f"kafka-{self.node}", self.directory)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def start(self, java: JavaRuntime | None = None, launch: Launch | None = None) -> None:
        """Start it on the data it has; returns before it is ready."""
        launch = launch or Launch(silent)
        launch.start(self.daemon, self._command(java or find_java()), os.environ)

    def stop(self, grace: float = 15) -> bool:
        """SIGTERM, and SIGKILL after ``grace`` seconds; False if it did not run."""
        return self.daemon.stop(grace)

    def kill(self) -> None:
        """SIGKILL: no controlled shutdown, no flush."""
        self.daemon.kill()

    def pause(self) -> None:
        """SIGSTOP: its sockets stay open and nothing answers."""
        self.daemon.pause()

    def resume(self) -> None:
        """SIGCONT after ``pause``."""
        self.daemon.resume()

    def ready(self) -> bool:
        """Whether it answers."""
        return accepts(self.port) and _cluster_size(self.address) > 0

    def _command(self, java: JavaRuntime) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory.parent / 'log4j2.properties'}"
        main = ["kafka.Kafka", str(self.directory / "server.properties")]
        return [java.executable, *_JVM, logging, "-cp", class_path(java), *main]


@dataclass(frozen=True, slots=True)
class Kafka:
    """A cluster of one or three brokers under one folder."""

    directory: Path
    count: int
    ports: Ports
    settings: Mapping[str, str] = field(default_factory=dict)
    """Brokers' settings over those below."""

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers, node 1 first."""
        return tuple(
            Broker(node, self.ports.kafka[node - 1], self.directory / str(node)) for node in range(1, self.count + 1)
        )

    def broker(self, node: int) -> Broker:
        """The broker of that number, counted from 1."""
        return self.brokers[node - 1]

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, with commas."""
        return ",".join(broker.address for broker in self.brokers)

    def up(self, java: JavaRuntime, launch: Launch) -> None:
        """Start the brokers that do not run and return when the cluster has them all.

        Raises:
            StackError: a port is taken, the data are of another number of brokers, or a broker did not come up.
        """
        kafka_jars(java, launch.say)
        missing = [broker for broker in self.brokers if broker.daemon.pid() is None]
        for broker in missing:
            require_free(f"broker {broker.node}", broker.port)
        if self.brokers[0] in missing:
            require_free("the Kafka controller", self.ports.controller)
        self._prepare(java)
        for broker in missing:
            broker.start(java, launch)
        self.wait(launch)

    def wait(self, launch: Launch | None = None) -> None:
        """Return when the cluster has all its brokers.

        Raises:
            StackError: one ended, or they were not there in time.
        """
        daemons = [broker.daemon for broker in self.brokers]
        (launch or Launch(silent)).wait(daemons, self.ready, _READY_SECONDS)

    def down(self) -> bool:
        """Stop the brokers, the controller last; False if none ran."""
        return True in [broker.stop() for broker in reversed(self.brokers)]

    def ready(self) -> bool:
        """Whether the cluster answers and lists all its brokers."""
        return all(accepts(broker.port) for broker in self.brokers) and _cluster_size(self.bootstrap) == self.count

    def _prepare(self, java: JavaRuntime) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.properties").write_text(_LOGGING)
        for broker in self.brokers:
            broker.directory.mkdir(exist_ok=True)
            _write_properties(broker.directory / "server.properties", self._settings(broker))
        if not self._formatted():
            self._format(java)

    def _formatted(self) -> bool:
        cluster = self.directory / "cluster.json"
        if not cluster.exists():
            return False
        found = json.loads(cluster.read_text())["brokers"]
        if found != self.count:
            raise StackError(
                f"{self.count} brokers were asked for and the data in {self.directory} are of {found}; "
                f"ask for {found}, or run `offset-ledger stack down` and remove {self.directory}"
            )
        return True

    def _format(self, java: JavaRuntime) -> None:
        """Format node 1 with Kafka's tool and copy that, changed, to the others: one JVM start instead of three."""
        first, *others = (broker.directory / "data" for broker in self.brokers)
        for data in (first, *others):
            shutil.rmtree(data, ignore_errors=True)
        tool = [java.executable, *_JVM, "-cp", class_path(java), "kafka.tools.StorageTool", "format"]
        settings = str(first.parent / "server.properties")
        run([*tool, "-t", _new_id(), "-c", settings], os.environ, self.directory / "format.log", "formatting Kafka")
        meta = dict(_properties(first / "meta.properties"))
        for node, data in enumerate(others, start=2):
            shutil.copytree(first, data)
            _write_properties(data / "meta.properties", {**meta, "node.id": str(node), "directory.id": _new_id()})
        found = {"brokers": self.count, "cluster_id": meta["cluster.id"]}
        (self.directory / "cluster.json").write_text(json.dumps(found))

    def _settings(self, broker: Broker) -> dict[str, str]:
        replicas, quorum = str(self.count), str(min(2, self.count))
        controller = f"CONTROLLER://{HOST}:{self.ports.controller}"
        client = f"PLAINTEXT://{broker.address}"
        # Three controllers would lose their quorum with two brokers, and clients would see nothing but timeouts.
        both = broker.node == 1
        return {
            "node.id": str(broker.node),
            "process.roles": "broker,controller" if both else "broker",
            "listeners": f"{client},{controller}" if both else client,
            "advertised.listeners": client,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": f"1@{HOST}:{self.ports.controller}",
            "log.dirs": str(broker.directory / "data"),
            "default.replication.factor": replicas,
            "min.insync.replicas": quorum,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": quorum,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": quorum,
            **_SMALL_MACHINE,
            **self.settings,
        }


_SMALL_MACHINE = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # A killed broker may come back only after its session: 9 s by default.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Minutes by default: retention, compaction and abandoned transactions are to be seen within a test.
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def class_path(java: JavaRuntime) -> str:
    """The broker's class path."""
    return os.pathsep.join(map(str, kafka_jars(java)))


def _cluster_size(bootstrap: str) -> int:
    """How many brokers the cluster lists; 0 if none answers."""
    connection = Connection("local", "kafka", extra={"bootstrap.servers": bootstrap, "request.timeout.ms": "2000"})
    try:
        with connect_kafka(connection, timeout=0) as kafka:
            return kafka.count_brokers()
    except BrokerUnavailable:
        return 0


def _new_id() -> str:
    """A random Kafka id; one that begins with ``-`` would read as an option of the format tool."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def _properties(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
