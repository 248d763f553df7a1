"""kafka-python's admin client, with the two things that it has no public call for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from offset_ledger.errors import OffsetLedgerError

if (_client_log := logging.getLogger("kafka")).level == logging.NOTSET:
    # It logs twenty lines for each connection, which would bury ours; what fails is raised, and logged by us.
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

    def send(self, request: Any, node: int | None = None) -> Any:
        """The answer of one broker, or of any, to one request of the protocol."""

        async def send() -> Any:
            return await self.client._manager.send(request, node_id=node)

        return self.client._manager.run(send)

    def close(self) -> None:
        """End the connection."""
        self.client.close()
