"""Snapshots of topics, cached for seconds, so that a page does not wait for a broker and many pages ask it once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError, UnknownTopic
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.model.retention import SETTINGS, Retention
from offset_ledger.page.snapshots import BrokerAnswer, BrokerSnapshot

log = logging.getLogger(__name__)

Topic = tuple[str, str]  # connection id, topic


def ask_broker(pipeline: Pipeline, timeout: float = 2.0) -> BrokerSnapshot:
    """A snapshot of the topic of the pipeline.

    Raises:
        OffsetLedgerError: the broker is unavailable, the topic is unknown, or the connection is wrong.
    """
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection), timeout) as kafka:
        snapshot = kafka.snapshot(topic)
        retention = Retention.from_settings(kafka.settings(topic, *SETTINGS))
        logs = kafka.sized_logs(topic) if retention.bytes is not None else {}
    return BrokerSnapshot(snapshot, retention, datetime.now(UTC), logs)


class BrokerCache:
    """Asks brokers in threads of its own; an answer is used for all requests of ``max_age`` seconds."""

    def __init__(
        self,
        ask: Callable[[Pipeline], BrokerSnapshot] = ask_broker,
        max_age: float = 10.0,
        timeout: float = 3.0,
        threads: int = 4,
    ) -> None:
        self._ask = ask
        self._asked: CachedAnswers[Topic, BrokerAnswer] = CachedAnswers("ledger-page", max_age, timeout, threads)

    def answers(self, pipelines: Iterable[Pipeline]) -> dict[str, BrokerAnswer]:
        """What is known of each pipeline's topic, after ``timeout`` seconds at the latest."""
        topics = {pipeline.name: pipeline for pipeline in pipelines}
        answers = self._asked.get({_topic(each): partial(self._ask_safely, each) for each in topics.values()})
        return {name: answers.get(_topic(each), _NOT_YET) for name, each in topics.items()}

    def _ask_safely(self, pipeline: Pipeline) -> BrokerAnswer:
        try:
            return BrokerAnswer(self._ask(pipeline))
        except OffsetLedgerError as error:
            return BrokerAnswer(problem=str(error), gone=isinstance(error, UnknownTopic))
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the page shows what the ledger knows
            # Not its message: clients put their settings into it, and those contain secrets.
            log.warning("asking about topic %s failed: %s", pipeline.source.topic, type(error).__name__)
            return BrokerAnswer(problem=f"asking about topic {pipeline.source.topic} failed: {type(error).__name__}")


_NOT_YET = BrokerAnswer(problem="the broker has not answered yet")


def _topic(pipeline: Pipeline) -> Topic:
    return pipeline.source.connection, pipeline.source.topic


Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Request(Generic[Answer]):
    answer: Future[Answer]
    sent_at: float


class CachedAnswers(Generic[Key, Answer]):
    """Asks in ``threads`` of its own; an answer is used for all requests of ``max_age`` seconds."""

    def __init__(self, name: str, max_age: float, timeout: float, threads: int) -> None:
        self._max_age = max_age
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._requests: dict[Key, _Request[Answer]] = {}
        self._lock = Lock()

    def get(self, asks: Mapping[Key, Callable[[], Answer]]) -> dict[Key, Answer]:
        """The answers that there are after ``timeout`` seconds at the latest; the functions must not raise."""
        requests = {key: self._request(key, ask) for key, ask in asks.items()}
        left = max((self._timeout - (time.monotonic() - each.sent_at) for each in requests.values()), default=0.0)
        wait_for([each.answer for each in requests.values()], timeout=max(0.0, left))
        return {key: each.answer.result() for key, each in requests.items() if each.answer.done()}

    def _request(self, key: Key, ask: Callable[[], Answer]) -> _Request[Answer]:
        with self._lock:
            last = self._requests.get(key)
            if last is None or (last.answer.done() and time.monotonic() - last.sent_at > self._max_age):
                last = self._requests[key] = _Request(self._pool.submit(ask), time.monotonic())
            return last
