"""An archive of the classes of Spark's driver, which its JVM maps instead of reading them from jars.

Java's class data sharing (JEP 350). A third of the time in which a session starts goes into classes. An archive that
does not fit, for another Java or class path, is left aside by the JVM; one that is cut short would crash it, so it is
made under another name and renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from offset_ledger.stage.scratch import scratch, with_scratch
from offset_ledger.stage.spark_settings import JAVA_OPTIONS, SETTINGS, spark_jars

_JOB = Path(__file__).parent / "submitted" / "first_job.py"
_SECONDS = 180


def archive() -> Path | None:
    """Where the archive of this Python environment and this Java is; None where there is none yet."""
    place = _place()
    return place if place and place.exists() else None


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a driver on this machine, which uses the archive if it is there."""
    made = archive()
    if made is None:
        return dict(settings)
    # Unless it is silenced, a JVM that does not use the archive says so in the middle of the driver's output.
    options = f"{settings[JAVA_OPTIONS]} -XX:SharedArchiveFile={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
    return {**settings, JAVA_OPTIONS: options}


def make_archive(say: Callable[[str], None] = lambda _: None) -> Path | None:
    """Make the archive, unless it is there; None where this Java cannot, or the environment cannot be written.

    Takes as long as three short jobs, once for each Python environment.
    """
    from offset_ledger.local.layout import only_one

    place = _place()
    if place is None or place.exists():
        return place
    with only_one("classes"):
        return place if place.exists() else _make(place, say)


def _make(place: Path, say: Callable[[str], None]) -> Path | None:
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        say("archiving the classes of Spark's driver (once)")
        _record(draft)
        draft.rename(place)
    except (OSError, subprocess.SubprocessError):
        draft.unlink(missing_ok=True)
        return None
    return place


def _record(draft: Path) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    archiving = {**SETTINGS, JAVA_OPTIONS: f"{SETTINGS[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off"}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--jars", spark_jars()]
    known = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with scratch() as folder:
        for name, value in with_scratch(archiving, folder).items():
            command += ["--conf", f"{name}={value}"]
        subprocess.run(
            [*command, str(_JOB)], env={**os.environ, **known}, check=True, capture_output=True, timeout=_SECONDS
        )


def _place() -> Path | None:
    """In the environment of the packages, so that it goes with them: the class path has their folder in it."""
    java = os.environ.get("JAVA_HOME")
    home = Path(java) if java else _home_of(shutil.which("java"))
    base = home / "lib" / "server" / "classes.jsa" if home else None
    if base is None or not base.exists():  # a Java without an archive of its own classes cannot add to it
        return None
    import pyspark

    identity = f"{base.resolve()} {base.stat().st_mtime_ns} {pyspark.__file__} {pyspark.__version__}"
    return (
        Path(sys.prefix) / "share" / "offset-ledger" / f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    )


def _home_of(java: str | None) -> Path | None:
    return Path(java).resolve().parents[1] if java else None
