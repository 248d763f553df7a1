"""kafka-python's consumer and admin client, with what they lack, and their arguments to log in.

kafka-python itself tries again until its time is over, and then reports a timeout.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest
from kafka.record.default_records import DefaultRecordBatch

from offset_ledger.base.extras import require
from offset_ledger.base.listeners import TLS, listener_at
from offset_ledger.base.retry import retry_seconds
from offset_ledger.errors import AccessDenied, ConfigurationError, OffsetLedgerError, UnknownHost
from offset_ledger.model.header_name import HeaderName
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.http.exchange import tls_failure
from offset_ledger.outside.kafka.connection import (
    KEYTAB,
    bootstrap_servers,
    extensions,
    kafka_python_settings,
    login_of,
    security_of,
)
from offset_ledger.outside.kafka.tokens import CurrentToken, current_token

_WITHOUT_TLS = "write another security.protocol, or the port that has TLS"


def kafka_python_arguments(connection: Connection) -> dict[str, object]:
    """Return the arguments of every kafka-python client; it raises what :func:`refused` says.

    Raises:
        ConfigurationError: the connection has a value that no client takes, or needs a package that is not installed.
    """
    arguments = {**kafka_python_settings(connection), "kafka_client": partial(_client, connection)}
    if arguments.get("sasl_mechanism") == "GSSAPI":
        require("kerberos", f"connection {connection.conn_id!r}: sasl.mechanism GSSAPI")
        if keytab := security_of(connection).get(KEYTAB):
            os.environ["KRB5_CLIENT_KTNAME"] = keytab  # kafka-python has no setting for it
    if current := current_token(connection):
        arguments["sasl_oauth_token_provider"] = _Tokens(current, extensions(connection, security_of(connection)))
    return arguments


def refused(connection: Connection, error: BaseException) -> OffsetLedgerError | None:
    """The error for a login or a certificate that one of both sides refuses; None if trying again may help."""
    where = f"Kafka at {bootstrap_servers(connection)}"
    login = login_of(security_of(connection))
    if isinstance(error, OffsetLedgerError):
        return error
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return AccessDenied(f"{where} refuses {login} ({_reason(error)}); correct the login of the connection")
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return AccessDenied(f"{where} does not take {login} ({_reason(error)}); correct sasl.mechanism")
    wrapped = next((each for each in error.args if isinstance(each, BaseException)), error)
    return tls_failure(where, wrapped, _WITHOUT_TLS)


def wrong_listener(connection: Connection, host: str, port: int) -> OffsetLedgerError | None:
    """The error if another listener is there than the connection describes; None if trying again may help."""
    where = f"Kafka at {host}:{port}"
    try:
        there = listener_at(where, host, port)
    except UnknownHost as error:
        return error
    expected = security_of(connection).get("security.protocol", "PLAINTEXT")
    fits = "SSL or SASL_SSL" if there is TLS else there.protocol if there else None
    if there is None or expected in (fits or "").split(" or "):
        return None
    remedy = f"set security.protocol {fits}" if fits else "write the port of a broker"
    return ConfigurationError(
        f"{where}: security.protocol of the connection is {expected}, and {there.name} is there; {remedy}, or correct "
        "bootstrap.servers"
    )


def _reason(error: kafka_errors.KafkaError) -> str:
    return " ".join(str(each) for each in error.args) or type(error).__name__


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, current: CurrentToken, named: dict[str, str]) -> None:
        self._current, self._named = current, named

    def token(self) -> str:
        return self._current().text

    def extensions(self) -> dict[str, str]:
        return self._named


def _client(connection: Connection, **settings: Any) -> KafkaNetClient:
    net = NetworkSelector(**settings)
    return KafkaNetClient(net=net, manager=_Manager(connection, net, **settings), **settings)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Connections; none is tried again with a login or a certificate that was refused."""

    def __init__(self, connection: Connection, net: NetworkSelector, **settings: Any) -> None:
        super().__init__(net, **settings)
        self._connection = connection
        self._refused: dict[Any, OffsetLedgerError] = {}
        self._looked = False
        self.asked = ""

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        """Send as the base class does; ``asked`` is the last request's name but for the cluster's own metadata."""
        if not isinstance(request, MetadataRequest):
            self.asked = type(request).__name__.removesuffix("Request")
        return super().send(request, *arguments, **options)

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        if node_id in self._refused:
            raise self._refused[node_id]
        known = self._conns.get(node_id)
        connection = super().get_connection(node_id, *arguments, **options)
        if connection is not known:
            connection.close_future.add_errback(partial(self._note, node_id))
        return connection

    def _note(self, node_id: Any, error: BaseException) -> None:
        if meant := refused(self._connection, error) or self._wrong_listener(node_id):
            self._refused[node_id] = meant

    def _wrong_listener(self, node_id: Any) -> OffsetLedgerError | None:
        """Return an error if every address of bootstrap.servers is the wrong listener; they are looked at once."""
        if self._looked or self.bootstrapped or not self.cluster.is_bootstrap(node_id):
            return None
        self._looked, brokers = True, self.cluster.bootstrap_brokers()
        looks = (wrong_listener(self._connection, each.host, each.port) for each in brokers)
        wrong = list(takewhile(bool, looks))
        return wrong[0] if len(wrong) == len(brokers) else None

    async def _build_transport(self, *arguments: Any, **options: Any) -> Any:
        transport = await super()._build_transport(*arguments, **options)
        receive = transport._sock_recv

        def receive_all() -> tuple[bytes, Exception | None]:
            """Return what came before the broker closed: kafka-python would lose why it refuses the login."""
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = receive_all
        return transport


def connect_consumer(connection: Connection, **settings: object) -> KafkaConsumer:
    """A consumer without a group; a header name that is not UTF-8 is a :class:`HeaderName` in its records.

    kafka-python itself gives neither such a record nor those behind it. It raises kafka-python's errors.
    """
    ours = {"group_id": None, "enable_auto_commit": False, "bootstrap_timeout_ms": int(1000 * max(retry_seconds(), 4))}
    consumer = KafkaConsumer(**kafka_python_arguments(connection), **ours, **settings)
    consumer._fetcher.PartitionRecords = _Records
    return consumer


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]
    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Iterator[Any]:
        return super()._unpack_records(tp, _Batches(records), *deserializers)  # type: ignore[no-any-return]


class _Batches:
    def __init__(self, records: Any) -> None:
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        return _Batch(batch._buffer) if isinstance(batch, DefaultRecordBatch) else batch


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch that is read on from a buffer that decodes any bytes, from the first name on that is not UTF-8."""

    _buffer: bytearray

    def _read_msg(self) -> Any:
        try:
            return super()._read_msg()
        except UnicodeDecodeError:
            self._buffer = _Buffer(self._buffer)
            return super()._read_msg()


class _Buffer(bytearray):
    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Part(part) if isinstance(place, slice) else part


class _Part(bytes):
    def decode(self, *_: str) -> str:
        return HeaderName.of(self)


if (_client_log := logging.getLogger("kafka")).level == logging.NOTSET:
    # It logs twenty lines for each connection, which would bury ours; errors are raised, and logged by us.
    _client_log.setLevel(logging.ERROR)


class _Client(KafkaAdminClient):  # type: ignore[misc]
    """An admin client that leaves no thread and no socket behind when no broker answers."""

    def __init__(self, **arguments: object) -> None:
        try:
            super().__init__(**arguments)
        except (kafka_errors.KafkaError, OffsetLedgerError):
            self._closed = False  # the base class sets it only at the end, and close() needs it
            self.close()
            raise


class Admin:
    """The connection to one cluster; every call asks once and raises kafka-python's errors."""

    def __init__(self, servers: str, arguments: Mapping[str, object]) -> None:
        self.servers = servers
        self.client: KafkaAdminClient = _Client(
            **{"bootstrap_timeout_ms": 4000, "request_timeout_ms": 10_000, **arguments}
        )

    @property
    def asked(self) -> str:
        """The name of the last question, such as ListOffsets."""
        return str(self.client._manager.asked)

    def send(self, request: Any, node: int | None = None) -> Any:
        """The answer of one broker, or of any, to one request of the protocol."""

        async def send() -> Any:
            return await self.client._manager.send(request, node_id=node)

        return self.client._manager.run(send)

    def close(self) -> None:
        """End the connection."""
        self.client.close()
