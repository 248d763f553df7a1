"""What servers say of topics, cached for seconds: a page does not wait for them, and many pages ask them once."""

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError, TransientError, UnknownTopic
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.model.retention import SETTINGS, Retention
from offset_ledger.schema_registry.client import connect_registry
from offset_ledger.standing.pipeline import BrokerAnswer
from offset_ledger.standing.positions import BrokerSnapshot

log = logging.getLogger(__name__)

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


def ask_topic(kafka: KafkaClient, topic: str) -> BrokerSnapshot:
    """Return a snapshot of the topic, with what deletes from it."""
    snapshot = kafka.snapshot(topic)
    retention = Retention.from_settings(kafka.settings(topic, *SETTINGS))
    logs = kafka.sized_logs(topic) if retention.bytes is not None else {}
    return BrokerSnapshot(snapshot, retention, datetime.now(UTC), logs)


def ask_broker(pipeline: Pipeline, timeout: float = 2.0) -> BrokerSnapshot:
    """Return a snapshot of the topic of the pipeline.

    Raises:
        OffsetLedgerError: the broker is unavailable, the topic is unknown, or the connection is wrong.
    """
    with connect_kafka(get_connection(pipeline.source.connection), timeout) as kafka:
        if pipeline.source.several:
            raise UnknownTopic(f"no run has found one of the {pipeline.source.topic_names} yet")
        return ask_topic(kafka, pipeline.source.topic)


class BrokerCache:
    """Asks brokers and registries in threads of its own; an answer is used for all requests of ``max_age`` seconds."""

    def __init__(
        self,
        ask: Callable[[Pipeline], BrokerSnapshot] = ask_broker,
        max_age: float = 10.0,
        timeout: float = 3.0,
        threads: int = 6,
    ) -> None:
        self._ask = ask
        self._asked: CachedAnswers[tuple[str, str], BrokerAnswer] = CachedAnswers(
            "ledger-page", max_age, timeout, threads
        )

    def answers(self, pipelines: Iterable[Pipeline]) -> dict[str, BrokerAnswer]:
        """What is known of each pipeline's topic, after ``timeout`` seconds at the latest."""
        known = {pipeline.name: pipeline for pipeline in pipelines}
        topics = {_topic(each): partial(self._topic_answer, each) for each in known.values()}
        registries = {
            (each.source.registry, ""): partial(_registry_answer, each)
            for each in known.values()
            if each.source.registry
        }
        answers = self._asked.get({**topics, **registries})
        return {name: self._of(each, answers) for name, each in known.items()}

    def _of(self, pipeline: Pipeline, answers: Mapping[tuple[str, str], BrokerAnswer]) -> BrokerAnswer:
        answer = answers.get(_topic(pipeline), BrokerAnswer(problem="the broker has not answered yet"))
        if not pipeline.source.registry:
            return answer
        silent = BrokerAnswer(registry_problem="the schema registry has not answered yet")
        registry = answers.get((pipeline.source.registry, ""), silent)
        return replace(answer, registry_problem=registry.registry_problem)

    def _topic_answer(self, pipeline: Pipeline) -> BrokerAnswer:
        try:
            return BrokerAnswer(self._ask(pipeline))
        except OffsetLedgerError as error:
            gone = isinstance(error, UnknownTopic)
            refused = not gone and not isinstance(error, TransientError)
            return BrokerAnswer(problem=str(error), gone=gone, refused=refused)
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the page shows what the ledger knows
            # Not its message: clients put their settings into it, and those contain secrets.
            log.warning("asking about topic %s failed: %s", pipeline.source.topic, type(error).__name__)
            return BrokerAnswer(problem=f"asking about topic {pipeline.source.topic} failed: {type(error).__name__}")


def _topic(pipeline: Pipeline) -> tuple[str, str]:
    return pipeline.source.connection, pipeline.source.topic_names


def _registry_answer(pipeline: Pipeline) -> BrokerAnswer:
    """Whatever the registry answers to a question that is cheap for it, it does answer."""
    try:
        connect_registry(get_connection(pipeline.source.registry or "")).versions(f"{pipeline.source.topic}-value")
    except TransientError as error:
        return BrokerAnswer(registry_problem=str(error))
    except OffsetLedgerError as error:
        log.info("the schema registry of %s answers: %s", pipeline.name, error)
    except Exception as error:  # noqa: BLE001 - as with a broker
        log.warning("asking the registry of %s failed: %s", pipeline.name, type(error).__name__)
        return BrokerAnswer(registry_problem=f"asking the schema registry failed: {type(error).__name__}")
    return BrokerAnswer()
