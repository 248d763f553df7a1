"""Connections by id; ``postgres.connection`` and ``outside.kafka.connection`` translate them.

A connection comes from ``AIRFLOW_CONN_<ID>`` (Airflow's JSON or URI form), else from Airflow where this runs inside one
of its tasks or :data:`FROM_AIRFLOW` asks for it. For Kafka, ``extra`` holds the client configuration with dotted names,
as the apache-kafka provider keeps it.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from offset_ledger.errors import ConfigurationError, one_line

FROM_AIRFLOW = "OFFSET_LEDGER_CONNECTIONS_FROM_AIRFLOW"
"""The variable that says whether a process that is no task of Airflow looks connections up as one would."""
# Variables of clouds stay: the file systems of Spark and Hadoop look there for their credentials.
_SECRET_NAME = re.compile(
    r"AIRFLOW_(CONN_|VAR_|_)|(?!AWS_|AZURE_|GOOGLE_).*(PASSW|SECRET|TOKEN|CREDENTIAL|PRIVATE_?KEY|API_?KEY)",
    re.IGNORECASE,
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


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
        names = ("conn_type", "host", "port", "schema", "login", "password")
        return json.dumps({**{name: getattr(self, name) for name in names}, "extra": dict(self.extra)})


def environment_name(conn_id: str) -> str:
    """``AIRFLOW_CONN_<ID>``, the variable a connection is kept in."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a server or for Spark: without connections, passwords, tokens and the settings of Airflow."""
    return {
        name: value
        for name, value in environment.items()
        if not _SECRET_NAME.match(name) and not _URL_WITH_PASSWORD.search(value)
    }


def get_connection(conn_id: str) -> Connection:
    """The connection with that id.

    Raises:
        ConfigurationError: it is defined nowhere, or cannot be read.
    """
    raw = os.environ.get(environment_name(conn_id))
    if raw is not None:
        return parse_connection(conn_id, raw)
    if asks_airflow():
        return installation_connection(conn_id)
    if "airflow.sdk" in sys.modules:
        return task_connection(conn_id)
    written = Path(os.environ.get("OFFSET_LEDGER_HOME") or ".local") / "env"  # by a local stack
    has_it = written.is_file() and f"export {environment_name(conn_id)}=" in written.read_text()
    raise ConfigurationError(
        f"connection {conn_id!r} is not defined; look it up in Airflow with --connections-from-airflow, or set "
        f"{environment_name(conn_id)}{f', as `. {written}` does for the local stack' if has_it else ''}"
    )


def asks_airflow() -> bool:
    """Return whether :data:`FROM_AIRFLOW` is set.

    Raises:
        ConfigurationError: to something else than true or false.
    """
    value = os.environ.get(FROM_AIRFLOW, "false").strip().lower()
    if value not in ("true", "1", "false", "0", ""):
        raise ConfigurationError(f"{FROM_AIRFLOW} should be true or false, found {value!r}")
    return value in ("true", "1")


def parse_connection(conn_id: str, raw: str) -> Connection:
    """Read Airflow's JSON or URI form.

    Raises:
        ConfigurationError: it is neither.
    """
    try:
        return _from_json(conn_id, json.loads(raw)) if raw.lstrip().startswith("{") else _from_uri(conn_id, raw)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{environment_name(conn_id)} is neither Airflow's JSON form nor a connection URI ({type(error).__name__})"
        ) from None


def _from_json(conn_id: str, fields: Mapping[str, Any]) -> Connection:
    extra = fields.get("extra") or {}
    port = fields.get("port")
    text = {key: str(fields[key]) if fields.get(key) is not None else None for key in ("host", "login", "password")}
    return Connection(
        conn_id,
        str(fields["conn_type"]) if "conn_type" in fields else "",
        port=int(str(port)) if port is not None else None,
        schema=str(fields["schema"]) if fields.get("schema") else None,
        extra=_texts(json.loads(extra) if isinstance(extra, str) else extra),
        **text,
    )


def _from_uri(conn_id: str, uri: str) -> Connection:
    parts = urlsplit(uri)
    if not parts.scheme:
        raise ValueError("no scheme")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Connection(
        conn_id,
        parts.scheme,
        host=unquote(parts.hostname) if parts.hostname else None,
        port=parts.port,
        schema=unquote(parts.path.lstrip("/")) or None,
        login=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        extra=_texts(json.loads(query.pop("__extra__")) if "__extra__" in query else query),
    )


def _texts(extra: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in dict(extra).items()}


def task_connection(conn_id: str) -> Connection:
    """Return the connection as Airflow gives it to the task that runs here.

    Raises:
        ConfigurationError: Airflow has none with that id.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        return _from_airflow(conn_id, BaseHook.get_connection(conn_id))
    except (AirflowNotFoundException, AirflowRuntimeError):
        raise ConfigurationError(
            f"connection {conn_id!r} is not defined; add it to Airflow's connections or set {environment_name(conn_id)}"
        ) from None


def installation_connection(conn_id: str) -> Connection:
    """The connection as ``airflow connections get`` finds it: in the secrets backends, then in the metadata database.

    Raises:
        ConfigurationError: Airflow is not installed here or not configured, or has none with that id.
    """
    backends = _backends()
    trouble = None
    for backend in backends:
        try:
            connection = backend.get_connection(conn_id=conn_id)
        except Exception as error:  # noqa: BLE001 - each backend has errors of its own; the next may have it
            trouble = f"{type(backend).__name__}: {one_line(error, 200)}"
        else:
            if connection is not None:
                return _from_airflow(conn_id, connection)
    names = ", ".join(type(backend).__name__ for backend in backends)
    if trouble:
        raise ConfigurationError(
            f"connection {conn_id!r} was not found in Airflow's {names}, and one of them failed ({trouble}); give this "
            "shell the AIRFLOW_HOME and the AIRFLOW__ variables of the scheduler"
        )
    raise ConfigurationError(
        f"connection {conn_id!r} is not defined in Airflow ({names}); add it with `airflow connections add`, or give "
        "this shell the AIRFLOW_HOME and the AIRFLOW__ variables of the scheduler"
    )


def _backends() -> list[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from airflow.configuration import ensure_secrets_loaded
            from airflow.sdk.exceptions import AirflowException
    except ImportError as error:
        raise ConfigurationError(
            f"connections from Airflow need Airflow in this Python ({one_line(error, 100)}); run offset-ledger in the "
            "environment of Airflow, or set AIRFLOW_CONN_ variables"
        ) from None
    try:
        return list(ensure_secrets_loaded())
    except (AirflowException, ImportError, ValueError, TypeError, OSError) as error:
        raise ConfigurationError(
            f"Airflow's secrets backends cannot be loaded ({one_line(error, 200)}); correct [secrets] of its "
            "configuration"
        ) from None


def _from_airflow(conn_id: str, known: Any) -> Connection:
    return Connection(
        conn_id,
        known.conn_type or "",
        known.host,
        known.port,
        known.schema,
        known.login,
        known.password,
        _texts(known.extra_dejson),
    )
