"""A Spark session as staging needs it."""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import SparkUnavailable
from offset_ledger.outside.connections import Connection, environment_name, get_connection, without_secrets
from offset_ledger.outside.spark.home import check_java, check_spark
from offset_ledger.outside.spark.remote_session import answers, is_remote, remote_session
from offset_ledger.outside.spark.submission import is_standalone
from offset_ledger.pipeline_file.pipeline import Pipeline, Spark, StageEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FALLBACK = "fallback"  # in extra of a connection to a Spark Connect server: the connection to use if it does not answer
log = logging.getLogger(__name__)

_DEFAULT = Spark()
_NONE: Mapping[str, str] = MappingProxyType({})
_THIS_MACHINE = ("local", "127.0.0.1")
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

_made: list[ExitStack] = []
_remote: list[tuple[SparkSession, ExitStack]] = []
_making = threading.Lock()


def staging_session(spark: Spark = _DEFAULT) -> SparkSession:
    """Return the session of this process: of the Spark Connect server or standalone cluster that the connection names.

    Else it is a local one, which is also made where the environment has no such connection.

    The first one that a process makes is that of all its pipelines, a server's apart.

    Raises:
        SparkUnavailable, SparkMismatch, AccessDenied: the server gives none, and the connection has no fallback.
    """
    connection = _connection(spark)
    if connection and is_remote(connection):
        try:
            with _making:
                if not (_remote and answers(_remote[0][0])):
                    _end_remote()
                    with ExitStack() as stack:
                        made = stack.enter_context(remote_session(connection, wait=FALLBACK not in connection.extra))
                        _remote.append((made, stack.pop_all()))
                return _remote[0][0]
        except SparkUnavailable as error:
            if FALLBACK not in connection.extra:
                raise
            log.warning("%s; its fallback is a session of this process", error)
    if connection and is_standalone(connection):
        return _own_session(connection, spark)
    return local_session(memory=spark.resources.driver_memory or "1g", conf=spark.conf)


def check_session(pipeline: Pipeline) -> None:
    """Check, before a batch is planned, that Spark can start here if it has to stage every one."""
    if pipeline.stage.engine is StageEngine.SPARK:
        check_spark()
        if not ((connection := _connection(pipeline.spark)) and is_remote(connection)):
            check_java()


def _connection(spark: Spark) -> Connection | None:
    return get_connection(spark.connection) if environment_name(spark.connection) in os.environ else None


def _end_remote() -> None:
    while _remote:
        _remote.pop()[1].close()


def local_session(cores: int = 2, memory: str = "1g", conf: Mapping[str, str] = _NONE) -> SparkSession:
    """Return the session of this process, on ``cores`` cores, made at the first call, whichever thread makes it."""
    settings = {"spark.driver.memory": memory, **conf}
    return _own_session(Connection("", "spark", f"local[{cores},3]"), Spark(conf=settings))


def _own_session(connection: Connection, spark: Spark) -> SparkSession:
    """Return the session of this process, made if there is none; executors elsewhere get the package with the job."""
    check_spark()
    from pyspark.sql import SparkSession

    from offset_ledger.outside.spark.scratch import scratch
    from offset_ledger.outside.spark.submission import (
        cluster_settings,
        is_local,
        master_of,
        package_zip,
        properties_file,
    )

    with _making:
        if _made and _is_alive():
            return SparkSession.builder.getOrCreate()
        end_session()
        check_java()
        with ExitStack() as stack:
            folder = stack.enter_context(scratch())
            settings = cluster_settings(folder, connection, spark)
            session = _start(master_of(connection), settings, properties_file(folder, connection))
            stack.callback(_stop, session)
            if not is_local(connection):
                session.sparkContext.addPyFile(str(package_zip(folder)))
            _made.append(stack.pop_all())
        return session


def _is_alive() -> bool:
    """Return whether the context of this process runs; which session is active differs from thread to thread."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    with suppress(Exception):  # its Java may be gone
        return context is not None and not context._jsc.sc().isStopped()
    return False


def _start(master: str, settings: Mapping[str, str], properties: str | None = None) -> SparkSession:
    from pyspark import java_gateway
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if any(name in master for name in _THIS_MACHINE):  # executors elsewhere have to reach the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("offset-ledger")
    for key, value in settings.items():
        builder = builder.config(key, value)
    before = os.environ.get(_SUBMIT_ARGUMENTS)
    if properties:  # a file, for settings of the builder are on Java's command line
        os.environ[_SUBMIT_ARGUMENTS] = f"--properties-file {shlex.quote(properties)} pyspark-shell"
    gateway: Any = java_gateway
    popen = gateway.Popen
    # pyspark gives Java and its workers this environment, whose secrets other threads need, and takes no other one.
    gateway.Popen = lambda command, **given: popen(command, **{**given, "env": without_secrets(given["env"])})
    try:
        return builder.getOrCreate()
    finally:
        gateway.Popen = popen
        if properties:
            os.environ.pop(_SUBMIT_ARGUMENTS)
            os.environ.update({_SUBMIT_ARGUMENTS: before} if before is not None else {})


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
