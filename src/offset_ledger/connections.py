"""Connections by id, and their translation for every client, in one place.

A connection comes from ``AIRFLOW_CONN_<ID>`` (Airflow's JSON or URI form), or from Airflow itself when this runs
inside one of its tasks. For Kafka, ``extra`` holds the client configuration with dotted names, as the apache-kafka
provider keeps it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from offset_ledger.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Connection:
    """One Airflow connection."""

    conn_id: str
    conn_type: str
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_json(self) -> str:
        """Airflow's JSON form, secrets included: for the environment of a child process, never for a log."""
        return json.dumps(
            {
                "conn_type": self.conn_type,
                "host": self.host,
                "port": self.port,
                "schema": self.schema,
                "login": self.login,
                "password": self.password,
                "extra": dict(self.extra),
            }
        )


def environment_name(conn_id: str) -> str:
    """``AIRFLOW_CONN_<ID>``, the variable a connection is kept in."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def get_connection(conn_id: str) -> Connection:
    """The connection with that id.

    Raises:
        ConfigurationError: it is defined nowhere, or cannot be read.
    """
    raw = os.environ.get(environment_name(conn_id))
    if raw is not None:
        return parse_connection(conn_id, raw)
    if "airflow.sdk" in sys.modules:
        return _from_airflow(conn_id)
    raise ConfigurationError(
        f"connection {conn_id!r} is not defined; set {environment_name(conn_id)}{_from_the_local_stack(conn_id)}"
    )


def _from_the_local_stack(conn_id: str) -> str:
    """How a shell gets the connection, where a local stack has written it down."""
    written = Path(os.environ.get("OFFSET_LEDGER_HOME") or ".local") / "env"
    has_it = written.is_file() and f"export {environment_name(conn_id)}=" in written.read_text()
    return f", as `. {written}` does for the local stack" if has_it else ""


def parse_connection(conn_id: str, raw: str) -> Connection:
    """Read Airflow's JSON or URI form."""
    name = environment_name(conn_id)
    try:
        return _from_json(conn_id, json.loads(raw)) if raw.lstrip().startswith("{") else _from_uri(conn_id, raw)
    except (ValueError, TypeError, AttributeError) as error:
        reason = type(error).__name__
        raise ConfigurationError(f"{name} is neither Airflow's JSON form nor a connection URI ({reason})") from None


def _from_json(conn_id: str, fields: Mapping[str, object]) -> Connection:
    extra = fields.get("extra") or {}
    if isinstance(extra, str):
        extra = json.loads(extra)
    port = fields.get("port")
    text = {key: str(fields[key]) if fields.get(key) is not None else None for key in ("host", "login", "password")}
    return Connection(
        conn_id,
        str(fields["conn_type"]) if "conn_type" in fields else "",
        port=int(str(port)) if port is not None else None,
        schema=str(fields["schema"]) if fields.get("schema") else None,
        extra={str(k): v if isinstance(v, str) else json.dumps(v) for k, v in dict(extra).items()},  # type: ignore[call-overload]
        **text,
    )


def _from_uri(conn_id: str, uri: str) -> Connection:
    parts = urlsplit(uri)
    if not parts.scheme:
        raise ValueError("no scheme")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra = json.loads(query.pop("__extra__")) if "__extra__" in query else query
    return Connection(
        conn_id,
        parts.scheme,
        host=unquote(parts.hostname) if parts.hostname else None,
        port=parts.port,
        schema=unquote(parts.path.lstrip("/")) or None,
        login=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        extra={k: v if isinstance(v, str) else json.dumps(v) for k, v in extra.items()},
    )


def _from_airflow(conn_id: str) -> Connection:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        known = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError):
        raise ConfigurationError(
            f"connection {conn_id!r} is not defined; add it to Airflow's connections or set {environment_name(conn_id)}"
        ) from None
    return Connection(
        conn_id,
        known.conn_type or "",
        known.host,
        known.port,
        known.schema,
        known.login,
        known.password,
        {k: v if isinstance(v, str) else json.dumps(v) for k, v in known.extra_dejson.items()},
    )


# -- Postgres --------------------------------------------------------------------------------------------------


# A dead network is noticed within two minutes, whether we wait for an answer or send.
KEEPALIVE: Mapping[str, str | int] = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}


def postgres_arguments(connection: Connection) -> dict[str, str | int]:
    """Keyword arguments of ``psycopg2.connect``; ``extra`` may add or change libpq's own (sslmode, keepalives ...)."""
    arguments = {
        "host": connection.host,
        "port": connection.port,
        "dbname": connection.schema,
        "user": connection.login,
        "password": connection.password,
    }
    return {**{k: v for k, v in arguments.items() if v is not None}, **connection.extra}


def postgres_url(connection: Connection) -> str:
    """The SQLAlchemy URL of the same database, password included."""
    user = quote(connection.login or "", safe="")
    secret = f":{quote(connection.password, safe='')}" if connection.password else ""
    query = dict(connection.extra)
    host = connection.host or "localhost"
    if host.startswith("/"):
        query["host"], host = host, "localhost"  # SQLAlchemy needs a host as well as a socket folder
    port = f":{connection.port}" if connection.port else ""
    at = f"{user}{secret}@" if user else ""
    return f"postgresql+psycopg2://{at}{host}{port}/{connection.schema or ''}" + (
        f"?{urlencode(query)}" if query else ""
    )


# -- Kafka -----------------------------------------------------------------------------------------------------

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
