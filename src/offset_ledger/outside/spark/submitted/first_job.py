"""Jobs as short as can be that load what the staging of a batch loads.

As a program: by a client of the Spark Connect server at a port, once the token is a line at the standard input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from offset_ledger.outside.connections import Connection
from offset_ledger.outside.spark.remote_session import remote_session
from offset_ledger.outside.spark.same_code import for_same_code

if TYPE_CHECKING:
    import pyarrow as pa

_JOBS = 3  # Java compiles meanwhile


def run_first_jobs(session: SparkSession, tasks: int) -> None:
    """Let as many workers as there are tasks take part in a job that has the shape of a stage."""
    job = for_same_code(_same)
    for _ in range(_JOBS):
        session.range(0, tasks, 1, tasks).mapInArrow(job, "id bigint").collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _as_client(port: int, tasks: int) -> None:
    from pyspark.sql.connect import session  # noqa: F401 - before the server is there

    token = sys.stdin.readline().strip() or None
    connection = Connection("", "spark_connect", "sc://localhost", port, password=token)
    with remote_session(connection, wait=False) as remote:
        run_first_jobs(remote, tasks)


if __name__ == "__main__":
    _as_client(*map(int, sys.argv[1:]))
