"""One or three real Kafka brokers (KRaft) on the loopback, each started, stopped and paused by its number."""

import base64
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offset_ledger.base.local_files import cache_root
from offset_ledger.errors import BrokerUnavailable, ConfigurationError, StackError
from offset_ledger.outside.connections import Connection, without_secrets
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.sandbox.jars import kafka_jars, kafka_version
from offset_ledger_kit.sandbox.java import LIGHT, find_java
from offset_ledger_kit.sandbox.layout import HOST, Ports, accepts, require_free
from offset_ledger_kit.sandbox.process import Daemon, Launch, Server, run

_READY_SECONDS = 120
LOGGING_FILE = "log4j2.properties"
SETTINGS_FILE = "server.properties"


@dataclass(frozen=True, slots=True)
class Broker(Server):
    """One broker process; node 1 is the controller too."""

    node: int
    port: int
    directory: Path
    jvm: tuple[str, ...] = ()
    """More options of its JVM."""

    @property
    def daemon(self) -> Daemon:
        """The process and its state, in the folder of the server."""
        return Daemon(f"kafka-{self.node}", self.directory)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def start(self, java: JavaRuntime | None = None, launch: Launch | None = None) -> None:
        """Start it on the data it has; returns before it is ready."""
        launch = launch or Launch()
        logging = f"-Dlog4j2.configurationFile={self.directory.parent / LOGGING_FILE}"
        main = ["kafka.Kafka", str(self.directory / SETTINGS_FILE)]
        command = kafka_command(java or find_java(), main, (logging, *self.jvm))
        launch.start(self.daemon, command, without_secrets(os.environ))

    def ready(self) -> bool:
        """Return whether it answers."""
        return accepts(self.port) and _cluster_size(self.address) > 0


META_FILE = "meta.properties"
_LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A cluster of one or three brokers under one folder."""

    directory: Path
    count: int
    ports: Ports
    settings: Mapping[str, str] = field(default_factory=dict)
    """Brokers' settings over those of :func:`broker_settings`."""
    jvm: tuple[str, ...] = ()
    """More options of each broker's JVM."""

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers, node 1 first."""
        return tuple(
            Broker(node, self.ports.kafka[node - 1], self.directory / str(node), self.jvm)
            for node in range(1, self.count + 1)
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
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / LOGGING_FILE).write_text(_LOGGING)
        for broker in self.brokers:
            broker.directory.mkdir(exist_ok=True)
            data = broker.directory / "data"
            own = broker_settings(broker.node, self.count, broker.address, self.ports.controller, data)
            _write_properties(broker.directory / SETTINGS_FILE, {**own, **self.settings})
        cluster = self.directory / "cluster.json"
        if not cluster.exists():
            cluster.write_text(json.dumps({"brokers": self.count, "cluster_id": self._format(java)}))
        elif (count := json.loads(cluster.read_text())["brokers"]) != self.count:
            raise StackError(
                f"{self.count} brokers were asked for and the data in {self.directory} are of {count}; "
                f"ask for {count}, or run `offset-ledger stack down` and remove {self.directory}"
            )
        for broker in missing:
            broker.start(java, launch)
        self.wait(launch)

    def wait(self, launch: Launch | None = None) -> None:
        """Return when the cluster has all its brokers.

        Raises:
            StackError: one ended, or they were not there in time.
        """
        daemons = [broker.daemon for broker in self.brokers]
        (launch or Launch()).wait(daemons, self.ready, _READY_SECONDS)

    def down(self) -> bool:
        """Stop the brokers, the controller last; False if none ran."""
        return True in [broker.stop() for broker in reversed(self.brokers)]

    def kill(self) -> None:
        """End the brokers at once, where their data are not needed again."""
        for broker in reversed(self.brokers):
            broker.kill()

    def ready(self) -> bool:
        """Return whether the cluster answers and lists all its brokers."""
        return all(accepts(broker.port) for broker in self.brokers) and _cluster_size(self.bootstrap) == self.count

    def _format(self, java: JavaRuntime) -> str:
        """Copy a formatted folder, with ids of its own, to each broker, and return the id of the cluster.

        Kafka's tool makes one for each version of Kafka, once for this machine: it is a JVM that does no more.
        """
        folders = [broker.directory / "data" for broker in self.brokers]
        for data in folders:
            shutil.rmtree(data, ignore_errors=True)
        formatted = cache_root() / "formatted" / kafka_version()
        if not formatted.exists():
            settings = str(self.brokers[0].directory / SETTINGS_FILE)
            tool = kafka_command(java, ["kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", settings])
            run(tool, without_secrets(os.environ), self.directory / "format.log", "formatting Kafka")
            formatted = _keep(folders[0], formatted)
        lines = (formatted / META_FILE).read_text().splitlines()
        meta = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        cluster_id = _new_id()
        for node, data in enumerate(folders, start=1):
            if data != formatted:
                shutil.copytree(formatted, data, dirs_exist_ok=True)
            ids = {"cluster.id": cluster_id, "node.id": str(node), "directory.id": _new_id()}
            _write_properties(data / META_FILE, {**meta, **ids})
        return cluster_id


def _keep(folder: Path, place: Path) -> Path:
    """Keep a copy of the folder, and return its place; the folder itself where it cannot be kept."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as draft:
            shutil.copytree(folder, Path(draft) / place.name).rename(place)
    except OSError:  # another process has kept one, or nobody may write there
        return folder
    return place


def _local(bootstrap: str, **settings: str) -> Connection:
    return Connection("local", "kafka", extra={"bootstrap.servers": bootstrap, **settings})


def _cluster_size(bootstrap: str) -> int:
    """How many brokers the cluster lists; 0 if none answers."""
    connection = _local(bootstrap, **{"request.timeout.ms": "2000"})
    try:
        with connect_kafka(connection, timeout=0) as kafka:
            return kafka.count_brokers()
    except (BrokerUnavailable, ConfigurationError):  # another server has the port
        return 0


def _new_id() -> str:
    """A random Kafka id; one that begins with ``-`` would read as an option of the format tool."""
    while True:
        random_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not random_id.startswith("-"):
            return random_id


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


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
    # Past its fetch timeout, 2 s by default, a broker without its controller asks for it in a busy loop (Kafka 4.2).
    "controller.quorum.fetch.timeout.ms": "3600000",
    # Every 0.5 s by default, which is a third of what an idle broker does.
    "metadata.max.idle.interval.ms": "5000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Minutes by default: retention, compaction and abandoned transactions are to be seen within a test.
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def broker_settings(node: int, brokers: int, address: str, controller_port: int, data: Path) -> dict[str, str]:
    """The settings of one broker, under Kafka's names; node 1 is the controller too."""
    controller, client = f"CONTROLLER://{HOST}:{controller_port}", f"PLAINTEXT://{address}"
    # Three controllers would lose their quorum with two brokers, and clients would see nothing but timeouts.
    both = node == 1
    replicas, in_sync = str(brokers), str(min(2, brokers))
    return {
        "node.id": str(node),
        "process.roles": "broker,controller" if both else "broker",
        "listeners": f"{client},{controller}" if both else client,
        "advertised.listeners": client,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(data),
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        **_SMALL_MACHINE,
    }


_OPTIONS = ("-Xms64m", "-Xmx256m", *LIGHT, "-Djava.awt.headless=true")


def kafka_command(java: JavaRuntime, program: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka with its arguments; ``options`` are more options of the JVM."""
    return [java.executable, *_OPTIONS, *options, "-cp", os.pathsep.join(map(str, kafka_jars(java))), *program]
