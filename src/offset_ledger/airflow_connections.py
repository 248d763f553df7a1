"""Connections that Airflow keeps: what a task is given, and what an installation of Airflow on this machine has."""

from __future__ import annotations

import json
import warnings
from typing import Any

from offset_ledger.connections import Connection, environment_name
from offset_ledger.errors import ConfigurationError, one_line


def of_task(conn_id: str) -> Connection:
    """The connection as Airflow gives it to the task that runs here.

    Raises:
        ConfigurationError: Airflow has none with that id.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        return _converted(conn_id, BaseHook.get_connection(conn_id))
    except (AirflowNotFoundException, AirflowRuntimeError):
        raise ConfigurationError(
            f"connection {conn_id!r} is not defined; add it to Airflow's connections or set {environment_name(conn_id)}"
        ) from None


def of_installation(conn_id: str) -> Connection:
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
                return _converted(conn_id, connection)
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


def _converted(conn_id: str, known: Any) -> Connection:
    return Connection(
        conn_id,
        known.conn_type or "",
        known.host,
        known.port,
        known.schema,
        known.login,
        known.password,
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in known.extra_dejson.items()},
    )
