"""A connection's configuration, translated for the Kafka clients: kafka-python and librdkafka.

These are values only; what a client calls while it runs, such as for a token, is added by
:mod:`offset_ledger.kafka.python_client` and :mod:`offset_ledger.kafka.tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.kafka import security
from offset_ledger.kafka.security import KEYTAB, PRINCIPAL, SERVICE, security_of

_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    security.USERNAME: "sasl_plain_username",
    security.PASSWORD: "sasl_plain_password",
    SERVICE: "sasl_kerberos_service_name",
    security.CA: "ssl_cafile",
    security.CERTIFICATE: "ssl_certfile",
    security.KEY: "ssl_keyfile",
    security.KEY_PASSWORD: "ssl_password",
}
_LIBRDKAFKA_NAMES = {
    **{name: name for name in _PYTHON_NAMES if name != SERVICE},
    "sasl.mechanism": "sasl.mechanisms",
}
_NUMBERS = ("request.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms", "reconnect.backoff.ms")
_FETCH_NUMBERS = ("max.partition.fetch.bytes", "fetch.max.bytes")  # of other readers: the audit compares with them
# Both log in to MSK with a token, as its brokers offer it for clients without AWS' own mechanism.
_TOKEN_MECHANISMS = {"AWS_MSK_IAM": "OAUTHBEARER"}


def kafka_python_settings(connection: Connection) -> dict[str, object]:
    """The arguments that kafka-python's clients have in common.

    Raises:
        ConfigurationError: no bootstrap.servers, a security setting that the clients have no name for, a value that
            none of them takes.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    arguments: dict[str, object] = {"bootstrap_servers": servers.split(","), **_common(connection)}
    arguments |= {_PYTHON_NAMES[key]: text for key, text in settings.items() if key in _PYTHON_NAMES}
    if mechanism := settings.get("sasl.mechanism"):
        arguments["sasl_mechanism"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    if security.CHECK_HOST in settings:
        arguments["ssl_check_hostname"] = _checks_host(settings)
    return arguments


def librdkafka_arguments(connection: Connection, *, has_kerberos: bool = False) -> dict[str, object]:
    """Return the same configuration as librdkafka takes it.

    Raises:
        ConfigurationError: as :func:`kafka_python_settings`; also for Kerberos, which its packages are built without.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    mechanism = settings.get("sasl.mechanism")
    if mechanism == "GSSAPI" and not has_kerberos:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: librdkafka, as confluent-kafka is installed, has no Kerberos "
            "(sasl.mechanism GSSAPI); use kafka-python"
        )
    named = {_LIBRDKAFKA_NAMES[key]: text for key, text in settings.items() if key in _LIBRDKAFKA_NAMES}
    if mechanism == "GSSAPI":
        named |= {key: settings[key] for key in (SERVICE, PRINCIPAL, KEYTAB) if key in settings}
    if mechanism:
        named["sasl.mechanisms"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    common = {key.replace("_", "."): value for key, value in _common(connection).items()}
    check = "https" if _checks_host(settings) else "none"
    return {**common, **named, "bootstrap.servers": servers, security.CHECK_HOST: check}


def reads_by_librdkafka(connection: Connection) -> bool:
    """Return whether librdkafka can log in so."""
    return security_of(connection).get("sasl.mechanism") != "GSSAPI"


def _checks_host(settings: Mapping[str, str]) -> bool:
    return settings.get(security.CHECK_HOST, "https").lower() == "https"


def _common(connection: Connection) -> dict[str, object]:
    """The settings that are no matter of security, under kafka-python's names."""
    extra = {key.replace("_", "."): text for key, text in connection.extra.items()}
    for key in (*_NUMBERS, *_FETCH_NUMBERS):
        if key in extra and not extra[key].isdecimal():
            raise ConfigurationError(
                f"connection {connection.conn_id!r}: {key} should be a whole number, found {extra[key]!r}"
            )
    numbers: dict[str, object] = {key.replace(".", "_"): int(extra[key]) for key in _NUMBERS if key in extra}
    return {**numbers, **({"client_id": extra["client.id"]} if "client.id" in extra else {})}


def bootstrap_servers(connection: Connection) -> str:
    """``host:port,host:port`` as the connection says.

    Raises:
        ConfigurationError: it says none.
    """
    servers = connection.extra.get("bootstrap.servers", "").strip()
    if not servers:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: its extra has no bootstrap.servers; "
            'write {"bootstrap.servers": "host:9092"}'
        )
    return servers
