"""The lag trigger: new records ring an ingest DAG awake, besides its schedule."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from offset_ledger.errors import OffsetLedgerError
from offset_ledger.pipeline.parse import parse_pipeline

log = logging.getLogger(__name__)


class NewRecords(BaseEventTrigger):
    """Fires when the last stable offsets have moved beyond the cursors, once for each time they move."""

    def __init__(self, pipeline_file: str, seconds: float = 30) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline_file = pipeline_file
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow keeps it."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "pipeline_file": self.pipeline_file,
            "seconds": self.seconds,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every ``seconds``; a server that is away is asked again the next time."""
        told: dict[str, int] = {}
        while True:
            ends = await asyncio.to_thread(self._ends)
            if ends and ends != told:
                told = ends
                yield TriggerEvent({"last_stable": ends})  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.seconds)

    def _ends(self) -> dict[str, int]:
        """The last stable offsets of the partitions that lag."""
        from offset_ledger.steps.look import look

        try:
            found = look(parse_pipeline(Path(self.pipeline_file)))
        except OffsetLedgerError as error:
            log.warning("%s", error)
            return {}
        return {str(p.partition): p.last_stable for p in found.partitions if p.lag > 0}
