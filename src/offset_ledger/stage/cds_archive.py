"""The archive of the classes of Spark's driver: a third of the time in which a session starts goes into classes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from offset_ledger.connections import without_secrets
from offset_ledger.local.class_archive import ClassArchive, class_archive
from offset_ledger.local.spark_home import spark_home
from offset_ledger.stage.scratch import scratch, with_scratch
from offset_ledger.stage.spark_settings import JAVA_OPTIONS, SETTINGS

_JOB = Path(__file__).parent / "submitted" / "first_job.py"
_SECONDS = 180


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a driver on this machine, which uses the archive if it is there."""
    archive = spark_archive()
    options = archive.options if archive else ()
    return {**settings, JAVA_OPTIONS: " ".join((settings[JAVA_OPTIONS], *options))}


def make_archive(say: Callable[[str], None] = lambda _: None) -> bool:
    """Make the archive, unless it is there; False where this Java cannot, or the environment cannot be written.

    Takes as long as three short jobs, once for each Python environment.
    """
    archive = spark_archive()
    return archive is not None and archive.make(partial(_record, say))


def _record(say: Callable[[str], None], option: str) -> None:
    say("archiving the classes of Spark's driver (once)")
    home = spark_home()
    archiving = {**SETTINGS, JAVA_OPTIONS: f"{SETTINGS[JAVA_OPTIONS]} {option} -Xlog:cds=off"}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    known = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with scratch() as folder:
        for name, value in with_scratch(archiving, folder).items():
            command += ["--conf", f"{name}={value}"]
        subprocess.run(
            [*command, str(_JOB)],
            env={**without_secrets(os.environ), **known},
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )


def spark_archive() -> ClassArchive | None:
    """The archive for this Java, in the environment of the packages, so that it goes with them; None where it can have
    none. The class path has the folder of the packages in it.
    """
    import pyspark

    java = os.environ.get("JAVA_HOME")
    home = Path(java) if java else _home_of(shutil.which("java"))
    program = f"{pyspark.__file__} {pyspark.__version__}"
    return class_archive(Path(sys.prefix) / "share" / "offset-ledger", "spark", home, program)


def _home_of(java: str | None) -> Path | None:
    return Path(java).resolve().parents[1] if java else None
