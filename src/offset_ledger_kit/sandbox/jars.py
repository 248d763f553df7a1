"""Java archives of Kafka and of the schema registry, fetched once with the Ivy that pyspark ships.

``fetched.sha256`` has our own checksum of every file of the versions that the package names, as ``sha256sum`` writes
them in their folders of the cache, beside those that the repository publishes. Other versions may
be missing.

A folder of the cache is complete or absent: it is filled under another name and renamed.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

from offset_ledger.base.local_files import cache_root, only_one
from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.outside.spark.home import JavaRuntime, spark_home
from offset_ledger_kit.sandbox.java import LIGHT, find_java
from offset_ledger_kit.sandbox.process import silent


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


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts resolved together into a cache folder that is named after the first."""

    artifacts: tuple[Artifact, ...]
    without: frozenset[str] = frozenset()  # names of artifacts that are there already

    @property
    def folder(self) -> Path:
        """The folder of the jars, once they are there."""
        first = self.artifacts[0]
        return cache_root() / "jars" / pinned_name(f"{first.name}-{first.version}", first.file)


KAFKA_VERSION = "4.2.0"
KAFKA_VERSION_VARIABLE = "OFFSET_LEDGER_KAFKA_VERSION"
_LOG4J = "2.25.3"
_LIST = Path(__file__).with_name("fetched.sha256")
PYSPARK_JARS = spark_home() / "jars"


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
                bundle.folder.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(prefix=".fetch-", dir=bundle.folder.parent) as name:
                    cache, draft = cache_root() / "ivy", Path(name)
                    retrieve(bundle.artifacts, bundle.without, java or find_java(), draft, cache).rename(bundle.folder)
    return tuple(sorted(bundle.folder.glob("*.jar")))


def artifact_name(jar: Path) -> str:
    """``slf4j-api`` of ``slf4j-api-2.0.16.jar``."""
    return re.sub(r"-\d[^/]*$", "", jar.stem)


@cache
def known() -> Mapping[str, str]:
    """File name to SHA-256."""
    lines = (line.split() for line in _LIST.read_text().splitlines())
    return {name: digest for digest, name in lines}


def pinned_name(folder: str, file: str) -> str:
    """The name of the cache folder for what comes with that file; one filled without our checksums has another."""
    return f"{folder}-{known()[file][:8]}" if file in known() else folder


def unpinned_line(file: str) -> str:
    """The line before a file is fetched that has no checksum of ours."""
    return f"the package has no checksum of this version: the one that the repository publishes for {file} is trusted"


def check_fetched(files: Iterable[Path], first: str) -> None:
    """Return if each file has our checksum; where the ``first`` has none, the others may have none either.

    Raises:
        StackError: a file has another content, or nobody expected it.
    """
    for file in files:
        expected = known().get(file.name)
        if expected is None and first not in known():
            continue
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != expected:
            raise StackError(
                f"{file.name} should have the SHA-256 {expected or 'of no file: it is not needed'}, found {digest}; it "
                "was not used; ask whoever runs the repository that it came from"
            )


def retrieve(
    artifacts: Sequence[Artifact], without: Collection[str], java: JavaRuntime, draft: Path, cache: Path
) -> Path:
    """The folder, below ``draft``, of these artifacts and of what they need but those ``without``.

    Raises:
        StackError: Ivy could not resolve them, and the message has its reason; or one has not our checksum.
    """
    excluded = "".join(f"<exclude module={quoteattr(name)}/>" for name in sorted(without))
    wanted = "".join(_dependency(each, excluded) for each in artifacts)
    module = '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
    info = '<info organisation="offset-ledger" module="jars"/>'
    (draft / "ivy.xml").write_text(f"{module}{info}<dependencies>{wanted}</dependencies></ivy-module>")
    ivy = sorted(PYSPARK_JARS.glob("ivy-*.jar"))
    if not ivy:
        raise StackError(f"expected pyspark's own Ivy, found no ivy-*.jar in {PYSPARK_JARS}; install pyspark again")
    pattern = f"{draft}/files/[artifact]-[revision](-[classifier]).[ext]"
    settings = os.environ.get("OFFSET_LEDGER_IVY_SETTINGS")
    program = [java.executable, *LIGHT, "-jar", str(ivy[-1]), "-warn", *(["-settings", settings] if settings else [])]
    done = subprocess.run(
        [*program, "-cache", str(cache), "-ivy", str(draft / "ivy.xml"), "-confs", "default", "-retrieve", pattern],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode or not (draft / "files").exists():
        first, lines = artifacts[0], [line.strip().strip(":").strip() for line in done.stdout.splitlines()]
        last = next(filter(None, reversed(lines)), "Ivy said nothing")
        raise StackError(
            f"could not fetch {first.name}-{first.version}: {last}; check the network, "
            "or name your repository in a settings file of Ivy with OFFSET_LEDGER_IVY_SETTINGS"
        )
    check_fetched((draft / "files").iterdir(), artifacts[0].file)
    return draft / "files"


def _dependency(artifact: Artifact, excluded: str) -> str:
    named = f"org={quoteattr(artifact.organisation)} name={quoteattr(artifact.name)} rev={quoteattr(artifact.version)}"
    if not artifact.classifier:
        return f'<dependency {named} conf="default">{excluded}</dependency>'
    extension = quoteattr(artifact.extension)
    file = f"name={quoteattr(artifact.name)} type={extension} ext={extension}"
    classified = f"<artifact {file} m:classifier={quoteattr(artifact.classifier)}/>"
    return f'<dependency {named} conf="default" transitive="false">{classified}</dependency>'
