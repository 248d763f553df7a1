"""A session of a Spark Connect server: opened, compared with this process, and released in the end."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offset_ledger.base.retry import retrying
from offset_ledger.errors import AccessDenied, SparkFailed, SparkMismatch, SparkUnavailable, one_line
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.spark.home import check_spark
from offset_ledger.outside.spark.same_code import PROPERTY, check_code, code_of_this_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

log = logging.getLogger(__name__)

# Where a server is away, the error says so.
warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)

# A network that is lost for some seconds is waited for; a server that was started again has forgotten the session.
_RETRIES = 5
_CHANNEL = [
    # A peer that vanished without a word is noticed; a server takes more than one ping in five minutes for abuse.
    ("grpc.keepalive_time_ms", 360_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_LOOPBACK = ("localhost", "127.0.0.1")


def is_remote(connection: Connection) -> bool:
    """Return whether it names a Spark Connect server: Airflow's type spark_connect, or a host sc://..."""
    return connection.conn_type.replace("-", "_") == "spark_connect" or (connection.host or "").startswith("sc://")


def address(connection: Connection) -> str:
    """``sc://host:port``, without what is secret."""
    host = (connection.host or "localhost").removeprefix("sc://").rstrip("/")
    return f"sc://{host}:{connection.port}" if connection.port else f"sc://{host}"


@contextmanager
def remote_session(connection: Connection, wait: bool = True) -> Iterator[SparkSession]:
    """A session of that server, released in the end; ``wait``: for a while, if the server does not answer.

    Raises:
        SparkUnavailable: the server does not answer.
        SparkFailed: it answers with an error.
        SparkMismatch: it runs another version of Spark or of this package.
        AccessDenied: it refuses the token of the connection.
    """
    check_spark()
    from pyspark.sql.connect import session as connect
    from pyspark.sql.connect.client.retries import DefaultPolicy

    where = address(connection)
    waiting_for, timeout = f"the Spark Connect server at {where}", inf if wait else 0
    retries = retrying(lambda error: isinstance(error, SparkUnavailable), waiting_for, max_seconds=timeout)
    session: Any = connect.SparkSession(connection=_channel(connection))
    try:
        retries(lambda: _check(session, where))
        session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
        yield session
    finally:
        session.client.set_retry_policies([])  # a server that is gone is not waited for
        session.stop()


def answers(session: SparkSession) -> bool:
    """Return whether the server still knows the session."""
    from pyspark.errors import PySparkException

    try:
        return bool(session.conf.get(PROPERTY, ""))
    except PySparkException:
        return False


def _check(session: Any, where: str) -> None:
    """One question to the server, asked once."""
    from pyspark import __version__
    from pyspark.errors import PySparkException

    session.client.set_retry_policies([])
    try:
        spark, code = session.version, session.conf.get(PROPERTY, "")
    except PySparkException as error:
        grpc: Any = error.__cause__ or error.__context__  # its text has all of this twice
        text = f"{grpc.code().name}: {one_line(grpc.details())}" if hasattr(grpc, "details") else one_line(error)
        if "UNAUTHENTICATED" in text:
            raise AccessDenied(
                f"{where} refuses the token (the password of the connection); it should be the server's "
                "SPARK_CONNECT_AUTHENTICATE_TOKEN"
            ) from error
        if not any(status in text for status in _NO_ANSWER):
            raise SparkFailed(
                f"the Spark Connect server at {where} answers with an error: {text}; nothing was staged; look into its "
                "log, or correct the connection"
            ) from error
        raise SparkUnavailable(
            f"no Spark Connect server answers at {where}; nothing was staged; start it (offset-ledger serve spark), "
            f"or correct the connection ({text})"
        ) from error
    if spark != __version__:
        raise SparkMismatch(
            f"{where} runs Spark {spark} and this client {__version__}; nothing was staged; install the same pyspark "
            "on both and restart the server (offset-ledger serve spark)"
        )
    check_code(code_of_this_process(), code or None, where)


def _channel(connection: Connection) -> DefaultChannelBuilder:
    """The channel that pyspark builds of the connection, but that a token may go to 127.0.0.1 without TLS too."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    class Channel(DefaultChannelBuilder):
        def toChannel(self) -> grpc.Channel:  # noqa: N802 - its name in pyspark
            if self.host not in _LOOPBACK:
                return super().toChannel()
            self.setChannelOption("grpc.enable_http_proxy", 0)
            if self.token is None or self.use_ssl:
                return super().toChannel()
            token = grpc.access_token_call_credentials(self.token)
            return self._secure_channel(
                self.endpoint, grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
            )

    given = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": connection.extra.get("use_ssl", "").lower() or None,
    }
    parameters = ";".join(f"{name}={quote(value, safe='')}" for name, value in given.items() if value)
    return Channel(f"{address(connection)}/;{parameters}" if parameters else address(connection), _CHANNEL)
