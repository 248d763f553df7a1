"""Artifacts of Maven repositories, retrieved with the Ivy that pyspark ships."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from offset_ledger.errors import StackError
from offset_ledger.local.checksums import check_fetched
from offset_ledger.local.java import JavaRuntime
from offset_ledger.local.spark_home import spark_home

PYSPARK_JARS = spark_home() / "jars"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One Maven artifact: a jar with what it needs, or a single file that a classifier and an extension name."""

    organisation: str
    name: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.version}{self.classifier and '-'}{self.classifier}.{self.extension}"


def retrieve(
    artifacts: Sequence[Artifact], without: Collection[str], java: JavaRuntime, draft: Path, cache: Path
) -> Path:
    """The folder, below ``draft``, of these artifacts and of what they need but those ``without``.

    Raises:
        StackError: Ivy could not resolve them, and the message has its reason; or one has not our checksum.
    """
    (draft / "ivy.xml").write_text(_ivy_file(artifacts, without))
    pattern = f"{draft}/files/[artifact]-[revision](-[classifier]).[ext]"
    wanted = ["-confs", "default", "-retrieve", pattern]
    settings = os.environ.get("OFFSET_LEDGER_IVY_SETTINGS")
    program = [java.executable, "-jar", str(_ivy_jar()), "-warn", *(["-settings", settings] if settings else [])]
    done = subprocess.run(
        [*program, "-cache", str(cache), "-ivy", str(draft / "ivy.xml"), *wanted],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode or not (draft / "files").exists():
        first = artifacts[0]
        raise StackError(
            f"could not fetch {first.name}-{first.version}: {_last_line(done.stdout)}; check the network, "
            "or name your repository in a settings file of Ivy with OFFSET_LEDGER_IVY_SETTINGS"
        )
    check_fetched((draft / "files").iterdir(), artifacts[0].file)
    return draft / "files"


def _ivy_jar() -> Path:
    jars = sorted(PYSPARK_JARS.glob("ivy-*.jar"))
    if not jars:
        raise StackError(f"expected pyspark's own Ivy, found no ivy-*.jar in {PYSPARK_JARS}; install pyspark again")
    return jars[-1]


def _ivy_file(artifacts: Sequence[Artifact], without: Collection[str]) -> str:
    excluded = "".join(f"<exclude module={quoteattr(name)}/>" for name in sorted(without))
    wanted = "".join(_dependency(each, excluded) for each in artifacts)
    info = '<info organisation="offset-ledger" module="jars"/>'
    names = 'version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"'
    return f"<ivy-module {names}>{info}<dependencies>{wanted}</dependencies></ivy-module>"


def _dependency(artifact: Artifact, excluded: str) -> str:
    named = f"org={quoteattr(artifact.organisation)} name={quoteattr(artifact.name)} rev={quoteattr(artifact.version)}"
    if not artifact.classifier:
        return f'<dependency {named} conf="default">{excluded}</dependency>'
    extension = quoteattr(artifact.extension)
    file = f"name={quoteattr(artifact.name)} type={extension} ext={extension}"
    classified = f"<artifact {file} m:classifier={quoteattr(artifact.classifier)}/>"
    return f'<dependency {named} conf="default" transitive="false">{classified}</dependency>'


def _last_line(output: str) -> str:
    lines = [line.strip().strip(":").strip() for line in output.splitlines()]
    return next((line for line in reversed(lines) if line), "Ivy said nothing")
