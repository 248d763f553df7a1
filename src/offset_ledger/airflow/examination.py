"""Facts about Airflow for the doctor, found in a process of its own: importing Airflow takes seconds, and prints.

``python -m offset_ledger.airflow.examination CONNECTION ...`` prints plugin, bundles and connections as JSON, in its
last line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from offset_ledger.connections import installation_connection
from offset_ledger.errors import ConfigurationError, error_line

_PACKAGE = b"offset_ledger"


def examine(conn_ids: Iterable[str]) -> dict[str, Any]:
    """Return what this Airflow knows of this package: errors as text, None where there is none."""
    return {
        "plugin": _plugin_error(),
        "bundles": [_bundle(each) for each in _local_bundles()],
        "connections": {conn_id: _connection_error(conn_id) for conn_id in conn_ids},
    }


def _plugin_error() -> str | None:
    try:
        for plugin in entry_points(group="airflow.plugins", name="offset_ledger"):
            plugin.load()
            return None
    except Exception as error:  # noqa: BLE001 - whatever an import raises
        return error_line(error)
    return "the package is not installed: Airflow finds no entry point airflow.plugins of the name offset_ledger"


def _local_bundles() -> list[Any]:
    """The bundles whose folder is here; of a remote one only its own process has a copy."""
    from airflow.dag_processing.bundles.local import LocalDagBundle
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    manager: Any = DagBundlesManager
    return [each for each in manager().get_all_dag_bundles() if isinstance(each, LocalDagBundle)]


def _bundle(bundle: Any) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import BundleDagBag

    dags: set[str] = set()
    errors: dict[str, str] = {}
    for file in sorted(file for file in Path(bundle.path).rglob("*.py") if _PACKAGE in file.read_bytes()):
        bag = BundleDagBag(str(file), bundle_path=bundle.path, bundle_name=bundle.name, load_op_links=False)
        dags |= bag.dags.keys()
        errors |= {str(file): text.strip().splitlines()[-1] for text in bag.import_errors.values()}
    return {"name": bundle.name, "path": str(bundle.path), "dags": sorted(dags), "errors": errors}


def _connection_error(conn_id: str) -> str | None:
    try:
        installation_connection(conn_id)
    except ConfigurationError as error:
        return str(error)
    return None


if __name__ == "__main__":
    examined = examine(sys.argv[1:])
    sys.stdout.write("\n" + json.dumps(examined) + "\n")
