"""Java archives of Kafka and of the schema registry, fetched once with the Ivy that pyspark ships.

A folder of the cache is complete or absent: it is filled under another name and renamed.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from offset_ledger.errors import ConfigurationError
from offset_ledger.local.checksums import known, pinned_name, unpinned_line
from offset_ledger.local.ivy import Artifact, retrieve
from offset_ledger.local.java import JavaRuntime, find_java
from offset_ledger.local.layout import cache_root, only_one
from offset_ledger.local.process import silent

__all__ = [
    "Artifact",
    "Bundle",
    "artifact_name",
    "broker_bundle",
    "fetch",
    "kafka_jars",
    "kafka_tools_jars",
    "kafka_version",
]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts resolved together into a cache folder that is named after the first."""

    artifacts: tuple[Artifact, ...]
    without: frozenset[str] = frozenset()  # names of artifacts that are there already

    @property
    def folder(self) -> Path:
        """Where the jars are, once they are."""
        first = self.artifacts[0]
        return cache_root() / "jars" / pinned_name(f"{first.name}-{first.version}", first.file)


KAFKA_VERSION = "4.2.0"
KAFKA_VERSION_VARIABLE = "OFFSET_LEDGER_KAFKA_VERSION"
_LOG4J = "2.25.3"


def kafka_version() -> str:
    """The version of the local brokers: OFFSET_LEDGER_KAFKA_VERSION, else that of the package.

    Raises:
        ConfigurationError: the variable names no version.
    """
    version = os.environ.get(KAFKA_VERSION_VARIABLE) or KAFKA_VERSION
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ConfigurationError(
            f"{KAFKA_VERSION_VARIABLE} should be a version of Kafka such as {KAFKA_VERSION}, found {version!r}"
        )
    return version


def kafka_jars(java: JavaRuntime, say: Callable[[str], None] = silent) -> tuple[Path, ...]:
    """The class path of a Kafka broker.

    Raises:
        ConfigurationError: as :func:`kafka_version`.
        StackError: they could not be fetched.
    """
    return fetch(broker_bundle(kafka_version()), java, say)


def broker_bundle(version: str) -> Bundle:
    """The jars of a broker of this version."""
    # The broker's artifact has no logging backend: without one, the reason of a failed start is lost. Brokers of 3.x do
    # not start without the classes of Log4j 1.
    logging = ["log4j-slf4j-impl", *(["log4j-1.2-api"] if version.startswith("3.") else [])]
    broker = Artifact("org.apache.kafka", "kafka_2.13", version)
    return Bundle((broker, *(Artifact("org.apache.logging.log4j", name, _LOG4J) for name in logging)))


def kafka_tools_jars(java: JavaRuntime, say: Callable[[str], None] = silent) -> tuple[Path, ...]:
    """The class path of Kafka's own command line tools and Java client.

    Raises:
        StackError: they could not be fetched.
    """
    broker = kafka_jars(java, say)
    # What the tools use of Kafka Connect, half of their dependencies, is not needed for producing and consuming.
    without = frozenset({"connect-api", "connect-json", "connect-runtime", *map(artifact_name, broker)})
    tools = Artifact("org.apache.kafka", "kafka-tools", kafka_version())
    return (*broker, *fetch(Bundle((tools,), without), java, say))


def fetch(bundle: Bundle, java: JavaRuntime | None, say: Callable[[str], None]) -> tuple[Path, ...]:
    """The jars of the bundle, from the cache or fetched into it.

    Raises:
        StackError: Ivy could not resolve them, and the message has its reason; or one has not our checksum.
    """
    if not bundle.folder.exists():
        with only_one("jars"):
            if not bundle.folder.exists():
                first = bundle.artifacts[0]
                say(f"fetching {first.name}-{first.version} (once)")
                if first.file not in known():
                    say(unpinned_line(first.file))
                _fill(bundle, java or find_java())
    return tuple(sorted(bundle.folder.glob("*.jar")))


def artifact_name(jar: Path) -> str:
    """``slf4j-api`` of ``slf4j-api-2.0.16.jar``."""
    return re.sub(r"-\d[^/]*$", "", jar.stem)


def _fill(bundle: Bundle, java: JavaRuntime) -> None:
    bundle.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=bundle.folder.parent) as name:
        jars = retrieve(bundle.artifacts, bundle.without, java, Path(name), cache_root() / "ivy")
        jars.rename(bundle.folder)
