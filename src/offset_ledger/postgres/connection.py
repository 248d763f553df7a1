"""A connection, translated for Postgres: psycopg2 (libpq) and SQLAlchemy."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.outside.connections import Connection

# A dead network is noticed within two minutes, whether we wait for an answer or send.
KEEPALIVE: Mapping[str, str | int] = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}

# Parameters that Airflow's hook reads itself and libpq does not know.
_OF_THE_HOOK = {
    "iam",
    "redshift",
    "redshift-serverless",
    "cursor",
    "cluster-identifier",
    "workgroup-name",
    "aws_conn_id",
    "sqlalchemy_scheme",
    "sqlalchemy_query",
    "azure_conn_id",
}


def takes_token(connection: Connection) -> bool:
    """Return whether sessions log in with a token that Airflow's hook asks the cloud for (``iam`` in ``extra``)."""
    return connection.extra.get("iam", "false").lower() == "true"


def with_token(connection: Connection) -> Connection:
    """The connection with a token for a password, good for logins within the next minutes; it asks for no other one.

    Raises:
        ConfigurationError: Airflow's provider for that cloud is not installed, or has no credentials.
    """
    from airflow.providers.postgres.hooks.postgres import PostgresHook
    from airflow.sdk import Connection as AirflowConnection

    known = AirflowConnection(
        conn_id=connection.conn_id,
        conn_type="postgres",
        host=connection.host,
        login=connection.login,
        port=connection.port,
        extra=json.dumps({**connection.extra, "iam": True}),
    )
    try:
        login, token, port = PostgresHook(postgres_conn_id=connection.conn_id).get_iam_token(known)
    except Exception as error:  # noqa: BLE001 - Airflow's errors, and those of the library of each cloud
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: Airflow's Postgres hook gave no token for iam "
            f"({one_line(error, 300)}); install the provider of that cloud, and give it credentials and a region"
        ) from None
    extra = {name: value for name, value in connection.extra.items() if name != "iam"}
    return replace(connection, login=login, password=token, port=int(port), extra=extra)


def postgres_arguments(connection: Connection) -> dict[str, Any]:
    """Keyword arguments of ``psycopg2.connect``; ``extra`` may add or change libpq's own (sslmode, keepalives ...)."""
    arguments = {
        "host": connection.host,
        "port": connection.port,
        "dbname": connection.schema,
        "user": connection.login,
        "password": connection.password,
    }
    return {**{k: v for k, v in arguments.items() if v is not None}, **_of_libpq(connection)}


def _of_libpq(connection: Connection) -> dict[str, str]:
    return {name: value for name, value in connection.extra.items() if name not in _OF_THE_HOOK}


def postgres_url(connection: Connection) -> str:
    """The SQLAlchemy URL of the same database, password included."""
    user = quote(connection.login or "", safe="")
    secret = f":{quote(connection.password, safe='')}" if connection.password else ""
    query = _of_libpq(connection)
    host = connection.host or "localhost"
    if host.startswith("/"):
        query["host"], host = host, "localhost"  # SQLAlchemy needs a host as well as a socket folder
    port = f":{connection.port}" if connection.port else ""
    at = f"{user}{secret}@" if user else ""
    return f"postgresql+psycopg2://{at}{host}{port}/{connection.schema or ''}" + (
        f"?{urlencode(query)}" if query else ""
    )
