"""The folder of a Kafka cluster: a settings file for each broker, and the formatted data."""

from __future__ import annotations

import base64
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from offset_ledger.connections import without_secrets
from offset_ledger.errors import StackError
from offset_ledger.local.broker_jvm import kafka_command
from offset_ledger.local.java import JavaRuntime
from offset_ledger.local.process import run

LOGGING_FILE = "log4j2.properties"
SETTINGS_FILE = "server.properties"
_LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, slots=True)
class KafkaFolder:
    """One folder for the cluster, and in it one for each broker."""

    directory: Path
    brokers: Sequence[Path]

    def prepare(self, settings: Sequence[Mapping[str, str]], java: JavaRuntime) -> None:
        """Write the settings of each broker, and format the data unless that was done before.

        Raises:
            StackError: the data are of another number of brokers, or Kafka's format tool failed.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / LOGGING_FILE).write_text(_LOGGING)
        for broker, own in zip(self.brokers, settings, strict=True):
            broker.mkdir(exist_ok=True)
            _write_properties(broker / SETTINGS_FILE, own)
        if not self._formatted():
            self._format(java)

    def _formatted(self) -> bool:
        cluster = self.directory / "cluster.json"
        if not cluster.exists():
            return False
        count = json.loads(cluster.read_text())["brokers"]
        if count != len(self.brokers):
            raise StackError(
                f"{len(self.brokers)} brokers were asked for and the data in {self.directory} are of {count}; "
                f"ask for {count}, or run `offset-ledger stack down` and remove {self.directory}"
            )
        return True

    def _format(self, java: JavaRuntime) -> None:
        """Format node 1 with Kafka's tool and copy that, changed, to the others: one JVM start instead of three."""
        first, *others = (broker / "data" for broker in self.brokers)
        for data in (first, *others):
            shutil.rmtree(data, ignore_errors=True)
        settings = str(first.parent / SETTINGS_FILE)
        tool = kafka_command(java, ["kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", settings])
        run(tool, without_secrets(os.environ), self.directory / "format.log", "formatting Kafka")
        meta = dict(_properties(first / "meta.properties"))
        for node, data in enumerate(others, start=2):
            shutil.copytree(first, data)
            _write_properties(data / "meta.properties", {**meta, "node.id": str(node), "directory.id": _new_id()})
        cluster = {"brokers": len(self.brokers), "cluster_id": meta["cluster.id"]}
        (self.directory / "cluster.json").write_text(json.dumps(cluster))


def _new_id() -> str:
    """A random Kafka id; one that begins with ``-`` would read as an option of the format tool."""
    while True:
        random_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not random_id.startswith("-"):
            return random_id


def _properties(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
