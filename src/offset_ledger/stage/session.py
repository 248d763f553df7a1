"""A Spark session as staging needs it."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from offset_ledger.connections import Connection, environment_name, get_connection
from offset_ledger.errors import SparkUnavailable
from offset_ledger.stage.remote_session import answers, is_remote, remote_session
from offset_ledger.stage.spark_settings import LOCAL_SETTINGS, SETTINGS, spark_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK = "spark_default"
FALLBACK = "fallback"  # in extra of a connection to a Spark Connect server: the connection to use if it does not answer
log = logging.getLogger(__name__)

_made: list[ExitStack] = []
_remote: list[tuple[SparkSession, ExitStack]] = []
_making = threading.Lock()


def staging_session() -> SparkSession:
    """The session of this process: of the Spark Connect server that ``spark_default`` names, else a local one.

    Raises:
        SparkUnavailable, SparkMismatch, AccessDenied: the server gives none, and the connection has no fallback.
    """
    if environment_name(SPARK) not in os.environ or not is_remote(connection := get_connection(SPARK)):
        return local_session()
    try:
        with _making:
            return _session_of(connection)
    except SparkUnavailable as error:
        if FALLBACK not in connection.extra:
            raise
        log.warning("%s; its fallback is a session of this process", error)
    return local_session()


def _session_of(connection: Connection) -> SparkSession:
    if _remote and answers(_remote[0][0]):
        return _remote[0][0]
    _end_remote()
    with ExitStack() as stack:
        session = stack.enter_context(remote_session(connection, wait=FALLBACK not in connection.extra))
        _remote.append((session, stack.pop_all()))
    return session


def _end_remote() -> None:
    while _remote:
        _remote.pop()[1].close()


def local_session(cores: int = 2, memory: str = "1g") -> SparkSession:
    """The session of this process, on ``cores`` cores, made at the first call, whichever thread makes it."""
    from pyspark.sql import SparkSession

    with _making:
        if _made and _is_alive():
            return SparkSession.builder.getOrCreate()
        end_session()
        return _make(cores, memory)


def _is_alive() -> bool:
    """Whether the context of this process runs; which session is active differs from thread to thread."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    with suppress(Exception):  # its Java may be gone
        return context is not None and not context._jsc.sc().isStopped()
    return False


def _make(cores: int, memory: str) -> SparkSession:
    from pyspark.sql import SparkSession

    from offset_ledger.stage.cds_archive import with_archive
    from offset_ledger.stage.scratch import scratch, with_scratch

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(f"local[{cores},3]").appName("offset-ledger").config("spark.jars", spark_jars())
    )
    builder = builder.config("spark.driver.memory", memory)
    with ExitStack() as stack:
        settings = with_archive({**SETTINGS, **LOCAL_SETTINGS})
        for key, value in with_scratch(settings, stack.enter_context(scratch())).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        stack.callback(_stop, session)
        _made.append(stack.pop_all())
    return session


def end_session() -> None:
    """End the session that this process has made, if there is one, and remove what it wrote."""
    _end_remote()
    while _made:
        _made.pop().close()


@contextmanager
def session_ended() -> Iterator[None]:
    """End the session that is made meanwhile; one that was there before stays."""
    before = bool(_made or _remote)
    try:
        yield
    finally:
        if not before:
            end_session()


def _stop(session: SparkSession) -> None:
    """Stop the session and wait for its Java to end, so that it writes nothing any more."""
    from pyspark import SparkContext

    with suppress(Exception):  # it may have been stopped already, or its Java may be gone
        session.stop()
    context: Any = SparkContext
    if (gateway := context._gateway) is None:
        return
    context._gateway = context._jvm = None
    gateway.shutdown()
    with suppress(OSError, subprocess.TimeoutExpired):
        gateway.proc.stdin.close()
        gateway.proc.wait(10)


atexit.register(end_session)
