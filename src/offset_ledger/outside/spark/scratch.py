"""A private folder for all that Spark writes on the machine of its driver: blocks, native libraries, artifacts.

Each process that uses a folder has a shared lock on it, which ends with the process however that ends. So it is known
whose process has died, also in another container, and no process id that was given again is taken for it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from offset_ledger.outside.spark.home import JAVA_OPTIONS

PREFIX = "offset-ledger-spark-"
_LOGGING = Path(__file__).with_name("log4j2.properties")


@contextmanager
def scratch(inherited: bool = False) -> Iterator[Path]:
    """A folder of this process, which nobody else may enter; removed in the end, with those of processes that died.

    ``inherited``: it is also that of the program that this process becomes by exec.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_dead(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with in_use(folder, inherited):
            if not folder.exists():  # taken for one of a dead process before it was locked
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def in_use(folder: Path, inherited: bool = False) -> Iterator[None]:
    """Lock the folder while this process lives, as one of several that use it."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    os.set_inheritable(held, inherited)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)


def with_scratch(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings of a driver on this machine that writes there and nowhere else, and logs what has to be read.

    Blocks and native libraries go to Java's temporary folder; Spark 4.0 makes its artifacts in the working directory.
    """
    places = f"-Djava.io.tmpdir={folder} -Duser.dir={folder} -Dlog4j2.configurationFile={_LOGGING}"
    return {**settings, JAVA_OPTIONS: f"{settings[JAVA_OPTIONS]} {places}"}


def _remove_dead(folder: Path) -> None:
    """Remove a folder of this user that no process uses any more."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(held).st_uid == os.getuid():
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)
