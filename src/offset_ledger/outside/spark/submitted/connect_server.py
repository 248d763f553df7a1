"""spark-submit entry point: a Spark Connect server, until its Spark context ends.

Argument: a file with the token that clients must send, which is removed; without it whoever reaches the port is let in.

Not Spark's own main class: that gives each session artifacts of its own, and so a Python daemon of its own, which stays
when the session has ended.
"""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from offset_ledger.outside.spark.same_code import PROPERTY, code_of_this_process
from offset_ledger.outside.spark.submitted import first_job

_TOKEN_SETTING = "spark.connect.authenticate.token"


def main() -> int:
    """Serve; the exit code says that a server that ended by itself has failed.

    First jobs before the port is open and, by a client, when it is: the first batch finds warm workers and a warm Java.
    That they failed does not matter.
    """
    session = SparkSession.builder.config(PROPERTY, code_of_this_process()).getOrCreate()
    tasks = session.sparkContext.defaultParallelism
    session.sparkContext.environment.clear()  # what clients have: workers of another environment are others
    port = str(session.conf.get("spark.connect.grpc.binding.port"))
    token = ""
    if sys.argv[1:]:
        file = Path(sys.argv[1])
        token = file.read_text()
        file.unlink()
    client = [sys.executable, str(first_job.__file__), port, str(tasks)]
    with subprocess.Popen(client, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as second:
        with suppress(Py4JError, PySparkException):
            first_job.run_first_jobs(session, tasks)
        serve(session, token)
        with suppress(subprocess.TimeoutExpired):
            second.communicate(f"{token}\n".encode(), timeout=60)
        second.kill()
    print("the Spark Connect server is ready", flush=True)
    with suppress(Py4JError, OSError):  # its Java is gone
        while not session.sparkContext._jsc.sc().isStopped():
            time.sleep(2)
    return 1


def serve(session: SparkSession, token: str) -> None:
    """Let the session's Spark answer clients, with sessions that share its Python workers."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(session._jsparkSession)
    settings = jvm.org.apache.spark.SparkEnv.get().conf()
    if token:  # a setting of the start alone: clients can read those that stay
        settings.set(_TOKEN_SETTING, token)
    jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(session.sparkContext._jsc.sc())
    if token:
        settings.remove(_TOKEN_SETTING)


if __name__ == "__main__":
    sys.exit(main())
