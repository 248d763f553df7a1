"""Java archives of the broker and of Spark's Kafka connector, fetched once with the Ivy that pyspark ships.

A folder of the cache is complete or absent: it is filled under another name and renamed.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

from offset_ledger.errors import StackError
from offset_ledger.local.java import JavaRuntime, find_java
from offset_ledger.local.layout import cache_root, only_one
from offset_ledger.local.process import silent
from offset_ledger.local.spark_home import spark_home

_PYSPARK_JARS = spark_home() / "jars"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One Maven artifact."""

    organisation: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts resolved together into the cache folder ``<name>-<version>`` of the first."""

    artifacts: tuple[Artifact, ...]
    without: frozenset[str] = frozenset()  # names of artifacts that are there already

    @property
    def folder(self) -> Path:
        """Where the jars are, once they are."""
        first = self.artifacts[0]
        return cache_root() / "jars" / f"{first.name}-{first.version}"


KAFKA_VERSION = "4.2.0"


def kafka_jars(java: JavaRuntime, say: Callable[[str], None] = silent) -> tuple[Path, ...]:
    """The class path of a Kafka broker.

    Raises:
        StackError: they could not be fetched.
    """
    broker = Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION)
    # The broker's artifact has no logging backend: without one, the reason of a failed start is lost.
    logging = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3")
    return fetch(Bundle((broker, logging)), java, say)


def kafka_tools_jars(java: JavaRuntime, say: Callable[[str], None] = silent) -> tuple[Path, ...]:
    """The class path of Kafka's own command line tools and Java client.

    Raises:
        StackError: they could not be fetched.
    """
    broker = kafka_jars(java, say)
    # What the tools use of Kafka Connect, half of their dependencies, is not needed for producing and consuming.
    without = frozenset({"connect-api", "connect-json", "connect-runtime", *map(artifact_name, broker)})
    tools = Artifact("org.apache.kafka", "kafka-tools", KAFKA_VERSION)
    return (*broker, *fetch(Bundle((tools,), without), java, say))


def spark_kafka_jars(java: JavaRuntime | None = None, say: Callable[[str], None] = silent) -> tuple[Path, ...]:
    """The jars that Spark's Kafka source needs and pyspark does not have, of pyspark's own version.

    Raises:
        StackError: they could not be fetched.
    """
    connector = Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", pyspark.__version__)
    shipped = frozenset(artifact_name(jar) for jar in _PYSPARK_JARS.glob("*.jar"))
    return fetch(Bundle((connector,), without=shipped), java, say)


def fetch(bundle: Bundle, java: JavaRuntime | None, say: Callable[[str], None]) -> tuple[Path, ...]:
    """The jars of the bundle, from the cache or fetched into it.

    Raises:
        StackError: Ivy could not resolve them; the message has its reason.
    """
    if not bundle.folder.exists():
        with only_one("jars"):
            if not bundle.folder.exists():
                say(f"fetching {bundle.folder.name} (once)")
                _fill(bundle, java or find_java())
    return tuple(sorted(bundle.folder.glob("*.jar")))


def artifact_name(jar: Path) -> str:
    """``slf4j-api`` of ``slf4j-api-2.0.16.jar``."""
    return re.sub(r"-\d[^/]*$", "", jar.stem)


def _fill(bundle: Bundle, java: JavaRuntime) -> None:
    bundle.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=bundle.folder.parent) as name:
        draft = Path(name)
        (draft / "ivy.xml").write_text(_ivy_file(bundle))
        _ivy(bundle, java, draft)
        (draft / "jars").rename(bundle.folder)


def _ivy(bundle: Bundle, java: JavaRuntime, draft: Path) -> None:
    pattern = f"{draft}/jars/[artifact]-[revision](-[classifier]).[ext]"
    wanted = ["-confs", "default", "-retrieve", pattern]
    settings = os.environ.get("OFFSET_LEDGER_IVY_SETTINGS")
    program = [java.executable, "-jar", str(_ivy_jar()), "-warn", *(["-settings", settings] if settings else [])]
    done = subprocess.run(
        [*program, "-cache", str(cache_root() / "ivy"), "-ivy", str(draft / "ivy.xml"), *wanted],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode or not (draft / "jars").exists():
        raise StackError(
            f"could not fetch {bundle.folder.name}: {_last_line(done.stdout)}; check the network, "
            "or name your repository in a settings file of Ivy with OFFSET_LEDGER_IVY_SETTINGS"
        )


def _ivy_jar() -> Path:
    jars = sorted(_PYSPARK_JARS.glob("ivy-*.jar"))
    if not jars:
        raise StackError(f"expected pyspark's own Ivy, found no ivy-*.jar in {_PYSPARK_JARS}; install pyspark again")
    return jars[-1]


def _ivy_file(bundle: Bundle) -> str:
    excluded = "".join(f"<exclude module={quoteattr(name)}/>" for name in sorted(bundle.without))
    wanted = "".join(
        f"<dependency org={quoteattr(each.organisation)} name={quoteattr(each.name)} rev={quoteattr(each.version)} "
        f'conf="default">{excluded}</dependency>'
        for each in bundle.artifacts
    )
    info = '<info organisation="offset-ledger" module="jars"/>'
    return f'<ivy-module version="2.0">{info}<dependencies>{wanted}</dependencies></ivy-module>'


def _last_line(output: str) -> str:
    lines = [line.strip().strip(":").strip() for line in output.splitlines()]
    return next((line for line in reversed(lines) if line), "Ivy said nothing")
