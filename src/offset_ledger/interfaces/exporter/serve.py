"""The exposition of the metrics: as a text, or over HTTP until the process ends.

Not a route of Airflow's API server, which is silent when Airflow is down, and whose tokens expire after a day.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.base.extras import require
from offset_ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def exposition(folder: Path) -> str:
    """Return the result of a scrape in Prometheus' text format; it waits longer for a server than a scrape does.

    Raises:
        ConfigurationError: prometheus_client is not installed.
    """
    registry = _registry(folder, timeout=15.0)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


def parsed(text: str) -> list[dict[str, Any]]:
    """The samples of an exposition: name, labels and value of each."""
    from prometheus_client.parser import text_string_to_metric_families

    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def serve(folder: Path, host: str, port: int) -> tuple[str, int]:
    """Answer scrapes in a thread of its own from now on; returns the address and the port, chosen if it was 0.

    Raises:
        ConfigurationError: prometheus_client is not installed, or the address cannot be had.
    """
    registry = _registry(folder)
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({error.strerror}); give --listen a free address of this machine"
        ) from error
    return str(server.server_address[0]), int(server.server_address[1])


def _registry(folder: Path, **limits: float) -> CollectorRegistry:
    require("prometheus", "the exporter")
    from prometheus_client import CollectorRegistry

    from offset_ledger.interfaces.exporter.collector import LedgerCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(LedgerCollector(folder, **limits))
    return registry
