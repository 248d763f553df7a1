"""What a local stack consists of: its servers, their connections, and the files that say so.

``stack.json`` in the folder of the stack keeps it; ``env`` there is for a shell (``. .local/env``).
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from offset_ledger.connections import Connection, environment_name
from offset_ledger.errors import StackError
from offset_ledger.local.airflow import Airflow
from offset_ledger.local.java import JavaRuntime
from offset_ledger.local.kafka import Kafka
from offset_ledger.local.layout import DEFAULT_PORTS, HOST, Ports
from offset_ledger.local.postgres import Postgres
from offset_ledger.local.private_file import write_private
from offset_ledger.local.process import Daemon
from offset_ledger.local.registry import Registry
from offset_ledger.local.spark_connect import SparkConnect
from offset_ledger.local.spark_standalone import SparkStandalone


class SparkKind(StrEnum):
    """What of Spark a stack has: a server that stays, a cluster, or neither."""

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
        """Whether it has a server or a cluster of Spark."""
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
        """What the CLI, Spark and Airflow's tasks need to use this stack; with Airflow, its configuration too."""
        return self.connections_environment() | (self.airflow.environment() if self.with_airflow else {})

    def parts(self) -> tuple[tuple[Daemon, str], ...]:
        """Every process of the stack and its address, in starting order."""
        brokers = [(broker.daemon, broker.address) for broker in self.kafka.brokers]
        airflow = [
            (daemon, self.airflow.address if daemon.name == "api-server" else "") for daemon in self.airflow.daemons
        ]
        spark = [(daemon, self.spark.address if not n else "") for n, daemon in enumerate(self.spark.daemons)]
        registry = [(self.registry.daemon, self.registry.address)]
        return (
            (self.postgres.daemon, self.postgres.address),
            *brokers,
            *(registry if self.with_registry else []),
            *(spark if self.with_spark else []),
            *(airflow if self.with_airflow else []),
        )

    def running(self) -> bool:
        """Whether any process of it runs."""
        return any(daemon.pid() for daemon, _ in self.parts())

    def connections_environment(self) -> dict[str, str]:
        """The part of :meth:`environment` that is the same without Airflow."""
        return {
            **{environment_name(each.conn_id): each.to_json() for each in self.connections()},
            "OFFSET_LEDGER_HOME": str(self.home),
            "JAVA_HOME": str(self.java.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "GX_ANALYTICS_ENABLED": "false",
        }

    def save(self) -> None:
        """Write ``stack.json``."""
        kept = {name: value for name, value in asdict(self).items() if name != "home"}
        write_private(self.home / "stack.json", json.dumps(kept, default=str, indent=2) + "\n")

    def write_env(self) -> None:
        """Write ``env``, secrets included."""
        exported = {**self.environment(), "PGPASSFILE": str(self.postgres.passfile)}
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in exported.items())
        write_private(self.home / "env", "".join(lines))


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
            ports=Ports(
                tuple(ports["kafka"]),
                ports["controller"],
                ports["postgres"],
                ports["airflow"],
                *(ports.get(part, DEFAULT_PORTS[part]) for part in ("spark", "registry")),
            ),
            java=JavaRuntime(Path(java["home"]), java["version"], java["source"]),
            spark_kind=SparkKind(kept.get("spark_kind") or SparkKind.NONE),
            with_registry=bool(kept.get("with_registry")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{path} cannot be read ({error!r}); end the servers by hand and remove {home}") from None
