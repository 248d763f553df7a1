"""A connection's configuration, translated for the Kafka clients: kafka-python, librdkafka, and Spark's (Java)."""

from __future__ import annotations

from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError

# librdkafka's names, which the apache-kafka provider's connections use, and kafka-python's.
_PYTHON_NAMES = {
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_LIBRDKAFKA_NAMES = {python: dotted for dotted, python in _PYTHON_NAMES.items()}
_PYTHON_SECURITY = {
    "security_protocol",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
}
_PYTHON_FILES = {"ssl_cafile", "ssl_certfile", "ssl_keyfile"}
_PYTHON_NUMBERS = {"request_timeout_ms", "metadata_max_age_ms", "retry_backoff_ms", "reconnect_backoff_ms"}
_FETCH_NUMBERS = {"max_partition_fetch_bytes", "fetch_max_bytes"}  # of other readers: the audit compares with them
_PYTHON_TEXT = {"bootstrap_servers", "client_id"}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def kafka_python_arguments(connection: Connection) -> dict[str, object]:
    """What kafka-python's clients take in common.

    Raises:
        ConfigurationError: no bootstrap.servers, a security setting kafka-python has no name for, a value that is none.
    """
    bootstrap_servers(connection)
    _check_kafka(connection)
    arguments: dict[str, object] = {}
    for dotted, value in connection.extra.items():
        name = _PYTHON_NAMES.get(dotted, dotted.replace(".", "_"))
        if dotted == "ssl.endpoint.identification.algorithm":
            arguments["ssl_check_hostname"] = value.lower() == "https"
        elif name in _PYTHON_NUMBERS:
            arguments[name] = int(value)
        elif name in _PYTHON_TEXT | _PYTHON_SECURITY:
            arguments[name] = value.split(",") if name == "bootstrap_servers" else value
            if name == "security_protocol":
                arguments[name] = value.upper()
        elif dotted.split(".")[0] in ("security", "sasl", "ssl"):
            known = sorted({*_PYTHON_NAMES, "security.protocol", "ssl.endpoint.identification.algorithm"})
            raise ConfigurationError(
                f"connection {connection.conn_id!r}: {dotted} is not supported; use {', '.join(known)}"
            )
    return arguments


def librdkafka_arguments(connection: Connection) -> dict[str, object]:
    """The same configuration as librdkafka takes it.

    Raises:
        ConfigurationError: as :func:`kafka_python_arguments`, so that both clients take the same connections.
    """
    named = {_LIBRDKAFKA_NAMES.get(n, n.replace("_", ".")): v for n, v in kafka_python_arguments(connection).items()}
    hostname = "https" if named.pop("ssl.check.hostname", True) else "none"
    own = {"bootstrap.servers": bootstrap_servers(connection), "ssl.endpoint.identification.algorithm": hostname}
    return {**named, **own}


def _check_kafka(connection: Connection) -> None:
    """What kafka-python itself does not refuse: it takes a protocol that it does not know for PLAINTEXT."""
    for dotted, value in connection.extra.items():
        name = _PYTHON_NAMES.get(dotted, dotted.replace(".", "_"))
        wrong = None
        if name == "security_protocol" and value.upper() not in _PROTOCOLS:
            wrong = f"one of {', '.join(_PROTOCOLS)}"
        elif name in _PYTHON_NUMBERS | _FETCH_NUMBERS and not value.isdecimal():
            wrong = "a whole number"
        elif name in _PYTHON_FILES and not Path(value).is_file():
            wrong = "a file that is there"
        if wrong:
            raise ConfigurationError(f"connection {connection.conn_id!r}: {dotted} should be {wrong}, found {value!r}")


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


def spark_kafka_options(connection: Connection) -> dict[str, str]:
    """The same configuration as Spark's Kafka source takes it: Java client names, each behind ``kafka.``."""
    bootstrap_servers(connection)
    extra = dict(connection.extra)
    java: dict[str, str] = {}
    user, secret = extra.pop("sasl.username", None), extra.pop("sasl.password", None)
    mechanism = extra.pop("sasl.mechanisms", None) or extra.pop("sasl.mechanism", None)
    if mechanism:
        java["sasl.mechanism"] = mechanism
    if user is not None:
        java["sasl.jaas.config"] = _jaas(mechanism or "PLAIN", user, secret or "")
    if "ssl.ca.location" in extra:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": extra.pop("ssl.ca.location")}
    if "ssl.certificate.location" in extra:
        java |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(extra.pop("ssl.certificate.location")).read_text(),
            "ssl.keystore.key": Path(extra.pop("ssl.key.location")).read_text(),
        }
    # Spark sets these itself and refuses them as options.
    for name in ("group.id", "auto.offset.reset", "enable.auto.commit", "key.deserializer", "value.deserializer"):
        extra.pop(name, None)
    return {f"kafka.{name}": value for name, value in {**extra, **java}.items()}


def _jaas(mechanism: str, user: str, secret: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    user, secret = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, secret))
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{secret}";'
