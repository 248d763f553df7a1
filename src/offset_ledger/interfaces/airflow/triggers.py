"""The lag trigger: new records start an ingest DAG, besides its schedule."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from offset_ledger.errors import OffsetLedgerError, UnknownTopic
from offset_ledger.pipeline_file.outline import from_outline
from offset_ledger.pipeline_file.pipeline import Pipeline

log = logging.getLogger(__name__)

Waiting = dict[str, tuple[int | None, int]]  # by partition, of several topics by topic-partition
_REPEAT_SECONDS = 600.0


class NewRecords(BaseEventTrigger):
    """A trigger that fires if there is lag and no run works on it: once each time log ends or cursors have moved.

    It fires again after ten minutes if the lag is still the same, because the run failed or the event was lost. Ends of
    the log alone would not do: records that arrive during a run would start one that skips, and later none at all.
    ``pipeline`` is the outline of the pipeline file, which the triggerer does not have.
    """

    def __init__(self, pipeline: Mapping[str, Any], seconds: float = 30) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the form in which Airflow keeps it."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "pipeline": dict(self.pipeline),
            "seconds": self.seconds,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check every ``seconds``; a server that does not answer is asked again the next time."""
        fired_for, fired_at = Waiting(), time.monotonic()
        while True:
            waiting = await asyncio.to_thread(self.waiting)
            if waiting and (waiting != fired_for or time.monotonic() - fired_at > _REPEAT_SECONDS):
                fired_for, fired_at = waiting, time.monotonic()
                ends = {partition: last_stable for partition, (_, last_stable) in waiting.items()}
                yield TriggerEvent({"last_stable": ends})  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.seconds)

    def waiting(self) -> Waiting:
        """Cursor and last stable offset of each partition that lags; empty while a run would find nothing to do.

        A log that ends below its cursor is not lag but a loss, which only a run reports.
        """
        from airflow.sdk.exceptions import AirflowRuntimeError
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        from offset_ledger.interfaces.airflow.concurrent_runs import nothing_to_wake_for
        from offset_ledger.steps.decide.tombstones import record_stable_offsets
        from offset_ledger.steps.plan.topics import find_pipelines

        try:
            waiting = Waiting()
            for pipeline in find_pipelines(from_outline(self.pipeline), record=False):
                try:
                    lagging = _lagging(pipeline)
                except UnknownTopic as error:
                    log.warning("%s", error)
                    continue
                if not lagging:
                    record_stable_offsets(pipeline)  # no run plans while nothing is new
                elif not nothing_to_wake_for(pipeline, RuntimeTaskInstance):
                    waiting |= lagging
            return waiting
        except (OffsetLedgerError, AirflowRuntimeError) as error:
            log.warning("%s", error)
            return {}


def _lagging(pipeline: Pipeline) -> Waiting:
    """The partitions with lag; of a topic that is gone, about which only a run asks, its name.

    Raises:
        UnknownTopic: the topic does not exist, and there is nothing to ask.
    """
    from offset_ledger.operations.status.status import status
    from offset_ledger.steps.decide.answers import loss_question

    prefix = f"{pipeline.source.topic}-" if pipeline.record.topic_names else ""
    try:
        partitions = status(pipeline).partitions
    except UnknownTopic:
        return {pipeline.source.topic: (None, 0)} if loss_question(pipeline) else {}
    return {f"{prefix}{p.partition}": (p.cursor, p.last_stable) for p in partitions if p.lag > 0 or p.cut_off}
