"""Facts about Airflow for the doctor, found in a process of its own: importing Airflow takes seconds, and prints.

``python -m offset_ledger.interfaces.airflow.examination CONNECTION ...`` prints plugin, bundles and connections
as JSON, in its last line.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from offset_ledger.errors import ConfigurationError, error_line
from offset_ledger.outside.connections import installation_connection

_PACKAGE = b"offset_ledger"


def examine(conn_ids: Iterable[str]) -> dict[str, Any]:
    """Return what this Airflow knows of this package: errors as text, None if there are none."""
    plugin: str | None = None
    try:
        plugins = entry_points(group="airflow.plugins", name="offset_ledger")
        if plugins:
            next(iter(plugins)).load()
        else:
            plugin = (
                "the package is not installed: Airflow finds no entry point airflow.plugins of the name offset_ledger"
            )
    except Exception as error:  # noqa: BLE001 - whatever an import raises
        plugin = error_line(error)
    bundles = list(_local_bundles())
    connections: dict[str, str | None] = dict.fromkeys(conn_ids)
    for conn_id in connections:
        try:
            installation_connection(conn_id)
        except ConfigurationError as error:
            connections[conn_id] = str(error)
    return {"plugin": plugin, "bundles": bundles, "connections": connections}


def _local_bundles() -> Iterator[dict[str, Any]]:
    """The bundles whose folder is here, with their DAGs; of a remote one only its own process has a copy."""
    from airflow.dag_processing.bundles.local import LocalDagBundle
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag

    manager: Any = DagBundlesManager
    for bundle in (each for each in manager().get_all_dag_bundles() if isinstance(each, LocalDagBundle)):
        dags: set[str] = set()
        errors: dict[str, str] = {}
        for file in sorted(file for file in Path(bundle.path).rglob("*.py") if _PACKAGE in file.read_bytes()):
            bag = BundleDagBag(str(file), bundle_path=bundle.path, bundle_name=bundle.name, load_op_links=False)
            dags |= bag.dags.keys()
            errors |= {str(file): text.strip().splitlines()[-1] for text in bag.import_errors.values()}
        yield {"name": bundle.name, "path": str(bundle.path), "dags": sorted(dags), "errors": errors}


if __name__ == "__main__":
    examined = examine(sys.argv[1:])
    sys.stdout.write("\n" + json.dumps(examined) + "\n")
