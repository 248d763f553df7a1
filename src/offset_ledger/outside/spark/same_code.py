"""Whether the workers of a Spark Connect server run the same code as the client that sends them a job.

The package is installed where the server is, and not shipped with each session: what a session ships makes new Python
workers, which import everything again. So both sides say which code they have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.base.version import __version__
from offset_ledger.errors import SparkMismatch

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY = "spark.offset_ledger.code"
PACKAGE = Path(__file__).resolve().parents[2]
"""The folder of the package, whose code client and server compare, and which executors elsewhere are sent."""

Job = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@cache
def code_of_this_process() -> str:
    """The version and a digest of the package's files, as they were when this was first asked."""
    digest = hashlib.sha256()
    for file in sorted(each for suffix in ("py", "sql") for each in PACKAGE.rglob(f"*.{suffix}")):
        digest.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:12]}"


def check_code(client: str, server: str | None, where: str) -> None:
    """Return if both have the same code.

    Raises:
        SparkMismatch: they do not.
    """
    if client != server:
        raise SparkMismatch(
            f"{where} runs {server or 'no'} offset-ledger and this client {client}; nothing was staged; install the "
            "same release on both and restart the server (offset-ledger serve spark)"
        )


def for_same_code(job: Job) -> Job:
    """The job for workers that have the package installed; they check its code before they load anything of the job."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(job)  # type: ignore[no-untyped-call]
    client = code_of_this_process()

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from offset_ledger.outside.spark.same_code import checked

        return checked(pickled, client)(batches)

    return run


def checked(pickled: bytes, client: str) -> Job:
    """In a worker: the job of a client.

    Raises:
        SparkMismatch: the client has other code than this worker.
    """
    from pyspark import cloudpickle

    check_code(client, code_of_this_process(), "a worker of the Spark Connect server")
    job: Any = cloudpickle.loads(pickled)
    return job  # type: ignore[no-any-return]
