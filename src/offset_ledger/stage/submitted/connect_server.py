"""spark-submit entry point: a Spark Connect server, until its Spark context ends.

Not Spark's own main class: that gives each session artifacts of its own, and so a Python daemon of its own, which stays
when the session has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from offset_ledger.stage.same_code import PROPERTY, code_of_this_process

FIRST_JOB = Path(__file__).with_name("first_job.py")


def serve() -> SparkSession:
    """The session of a server that answers."""
    session = SparkSession.builder.config(PROPERTY, code_of_this_process()).getOrCreate()
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(session._jsparkSession)
    jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(session.sparkContext._jsc.sc())
    return session


def warm_up(session: SparkSession) -> None:
    """Run a first job as a client does, so that the first batch finds warm workers; that it failed does not matter."""
    port = session.conf.get("spark.connect.grpc.binding.port")
    environment = {**os.environ, "SPARK_REMOTE": f"sc://localhost:{port}"}
    subprocess.run([sys.executable, str(FIRST_JOB)], env=environment, check=False, capture_output=True, timeout=120)


def main() -> int:
    """Serve; the exit code says that a server that ended by itself has failed."""
    session = serve()
    print("the Spark Connect server is ready", flush=True)
    warm_up(session)
    try:
        while not session.sparkContext._jsc.sc().isStopped():
            time.sleep(2)
    except (Py4JError, OSError):  # its Java is gone
        pass
    return 1


if __name__ == "__main__":
    sys.exit(main())
