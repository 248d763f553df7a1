"""One or three real Kafka brokers (KRaft) on the loopback, each startable, stoppable and pausable by its number."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from offset_ledger.connections import Connection, without_secrets
from offset_ledger.errors import BrokerUnavailable
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.local.broker_jvm import kafka_archive, kafka_command
from offset_ledger.local.jars import kafka_jars
from offset_ledger.local.java import JavaRuntime, find_java
from offset_ledger.local.kafka_folder import LOGGING_FILE, SETTINGS_FILE, KafkaFolder
from offset_ledger.local.kafka_settings import broker_settings
from offset_ledger.local.launch import Launch
from offset_ledger.local.layout import HOST, PortChoice, Ports, accepts, require_free
from offset_ledger.local.process import Daemon, Server, silent

_READY_SECONDS = 120


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
        """Its process."""
        return Daemon(f"kafka-{self.node}", self.directory)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def start(self, java: JavaRuntime | None = None, launch: Launch | None = None) -> None:
        """Start it on the data it has; returns before it is ready."""
        launch = launch or Launch(silent)
        launch.start(self.daemon, self._command(java or find_java()), without_secrets(os.environ))

    def stop(self, grace: float = 15) -> bool:
        """SIGTERM, and SIGKILL after ``grace`` seconds; False if it did not run."""
        return self.daemon.stop(grace)

    def ready(self) -> bool:
        """Whether it answers."""
        return accepts(self.port) and _cluster_size(self.address) > 0

    def _command(self, java: JavaRuntime) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory.parent / LOGGING_FILE}"
        main = ["kafka.Kafka", str(self.directory / SETTINGS_FILE)]
        return kafka_command(java, main, (logging, *self.jvm))


@dataclass(frozen=True, slots=True)
class Kafka:
    """A cluster of one or three brokers under one folder."""

    directory: Path
    count: int
    ports: Ports
    settings: Mapping[str, str] = field(default_factory=dict)
    """Brokers' settings over those of kafka_settings.py."""
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
        folder = KafkaFolder(self.directory, [broker.directory for broker in self.brokers])
        folder.prepare([self._settings(broker) for broker in self.brokers], java)

    def _settings(self, broker: Broker) -> dict[str, str]:
        data = broker.directory / "data"
        own = broker_settings(broker.node, self.count, broker.address, self.ports.controller, data)
        return {**own, **self.settings}


def make_kafka_archive(java: JavaRuntime, say: Callable[[str], None]) -> bool:
    """Make the archive of a broker's classes, unless it is there; False where this Java cannot.

    Takes as long as one start of a broker, once for each machine.
    """
    archive = kafka_archive(java)
    return archive is not None and archive.make(partial(_record, java, say))


def _record(java: JavaRuntime, say: Callable[[str], None], option: str) -> None:
    say("archiving the classes of a Kafka broker (once)")
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as folder:
        kafka = Kafka(Path(folder), 1, Ports.choose(PortChoice.any_free()), jvm=(option,))
        launch = Launch(silent)
        try:
            kafka.up(java, launch)
        finally:
            kafka.broker(1).stop(_READY_SECONDS)  # it writes the archive when it ends


def _cluster_size(bootstrap: str) -> int:
    """How many brokers the cluster lists; 0 if none answers."""
    connection = Connection("local", "kafka", extra={"bootstrap.servers": bootstrap, "request.timeout.ms": "2000"})
    try:
        with connect_kafka(connection, timeout=0) as kafka:
            return kafka.count_brokers()
    except BrokerUnavailable:
        return 0
