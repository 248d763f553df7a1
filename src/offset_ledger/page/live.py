"""Looks at topics, kept for a few seconds, so that a page never waits long for a broker and many pages ask it once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.page.snapshots import BrokerSnapshot, Retention

log = logging.getLogger(__name__)

_SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")

Topic = tuple[str, str]  # connection id, topic


def ask_broker(pipeline: Pipeline, timeout: float = 2.0) -> BrokerSnapshot:
    """One look at the topic of the pipeline.

    Raises:
        OffsetLedgerError: the broker is away, the topic is unknown, or the connection is wrong.
    """
    with connect_kafka(get_connection(pipeline.source.connection), timeout) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
        settings = kafka.settings(pipeline.source.topic, *_SETTINGS)
    return BrokerSnapshot(snapshot, Retention.from_settings(settings), datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What is known of a topic now: a look, or why there is none."""

    look: BrokerSnapshot | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    answer: Future[BrokerAnswer]
    at: float


class Watch:
    """Asks about topics in threads of its own; an answer serves everybody for ``fresh`` seconds."""

    def __init__(
        self,
        ask: Callable[[Pipeline], BrokerSnapshot] = ask_broker,
        fresh: float = 10.0,
        most: float = 3.0,
        threads: int = 4,
    ) -> None:
        self._ask = ask
        self._fresh = fresh
        self._most = most
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ledger-page")
        self._asked: dict[Topic, _Asked] = {}
        self._lock = Lock()

    def looks(self, pipelines: Iterable[Pipeline]) -> dict[str, BrokerAnswer]:
        """What is known of each pipeline's topic, after ``most`` seconds at the latest."""
        asked = {pipeline.name: self._asked_for(pipeline) for pipeline in pipelines}
        left = max((self._most - (time.monotonic() - each.at) for each in asked.values()), default=0.0)
        wait_for([each.answer for each in asked.values()], timeout=max(0.0, left))
        return {name: _seen(each.answer) for name, each in asked.items()}

    def _asked_for(self, pipeline: Pipeline) -> _Asked:
        topic = (pipeline.source.connection, pipeline.source.topic)
        with self._lock:
            last = self._asked.get(topic)
            if last is None or (last.answer.done() and time.monotonic() - last.at > self._fresh):
                last = self._asked[topic] = _Asked(self._pool.submit(self._look, pipeline), time.monotonic())
            return last

    def _look(self, pipeline: Pipeline) -> BrokerAnswer:
        try:
            return BrokerAnswer(self._ask(pipeline))
        except OffsetLedgerError as error:
            return BrokerAnswer(problem=str(error))
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the page goes on with what the ledger knows
            # Not its text: clients put their settings into it, and those hold secrets.
            log.warning("looking at topic %s failed: %s", pipeline.source.topic, type(error).__name__)
            return BrokerAnswer(problem=f"looking at topic {pipeline.source.topic} failed: {type(error).__name__}")


def _seen(answer: Future[BrokerAnswer]) -> BrokerAnswer:
    return answer.result() if answer.done() else BrokerAnswer(problem="the broker has not answered yet")
