"""Answers of servers about topics, cached for seconds: pages do not wait for servers, and ask them once together."""

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from offset_ledger.base.retry import retrying_for
from offset_ledger.errors import OffsetLedgerError, TransientError, UnknownTopic
from offset_ledger.model.retention import SETTINGS, UNSIZED, Deadline, Retention, UnreadLog, earliest
from offset_ledger.model.snapshot import Cursors
from offset_ledger.operations.status.pipeline import BrokerAnswer, BrokerSnapshot
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka, sized_logs
from offset_ledger.outside.kafka.offsets import high_watermarks, last_stable, log_starts
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.outside.kafka.records import first_timestamps
from offset_ledger.outside.kafka.topics import describe_available_topic, leaders, topic_settings
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import open_ledger, transaction

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class CachedAnswers(Generic[Key, Answer]):
    """A cache of answers, asked in ``threads`` of its own; one serves all requests of ``max_age`` seconds."""

    def __init__(self, name: str, max_age: float, timeout: float, threads: int) -> None:
        self._max_age = max_age
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._requests: dict[Key, tuple[Future[Answer], float]] = {}  # each with the time when it was sent
        self._lock = Lock()

    def get(self, asks: Mapping[Key, Callable[[], Answer]]) -> dict[Key, Answer]:
        """The answers that there are after ``timeout`` seconds at the latest; the functions must not raise."""
        with self._lock:
            for key, ask in asks.items():
                answer, sent_at = self._requests.get(key, (None, 0.0))
                if answer is None or (answer.done() and time.monotonic() - sent_at > self._max_age):
                    self._requests[key] = self._pool.submit(ask), time.monotonic()
            requests = {key: self._requests[key] for key in asks}
        left = max((self._timeout - (time.monotonic() - sent_at) for _, sent_at in requests.values()), default=0.0)
        wait_for([answer for answer, _ in requests.values()], timeout=max(0.0, left))
        return {key: answer.result() for key, (answer, _) in requests.items() if answer.done()}


def ask_topic(kafka: KafkaClient, topic: str) -> BrokerSnapshot:
    """Return a snapshot of the topic, with the settings that delete from it."""
    snapshot = kafka.snapshot(topic)
    retention = Retention.from_settings(kafka.settings(topic, *SETTINGS))
    logs = kafka.sized_logs(topic) if retention.bytes is not None else {}
    return BrokerSnapshot(snapshot, retention, datetime.now(UTC), logs)


def ask_broker(pipeline: Pipeline, timeout: float = 2.0) -> BrokerSnapshot:
    """Return a snapshot of the topic of the pipeline; raises OffsetLedgerError where there is none."""
    with connect_kafka(get_connection(pipeline.source.connection), timeout) as kafka:
        if pipeline.source.several:
            raise UnknownTopic(f"no run has found one of the {pipeline.source.topic_names} yet")
        return ask_topic(kafka, pipeline.source.topic)


class BrokerCache:
    """A cache of answers of brokers and registries, asked in threads of its own; see :class:`CachedAnswers`."""

    def __init__(
        self,
        ask: Callable[[Pipeline], BrokerSnapshot] = ask_broker,
        max_age: float = 10.0,
        timeout: float = 3.0,
        threads: int = 6,
    ) -> None:
        self._ask = ask
        self._asked = CachedAnswers[tuple[str, str], BrokerAnswer]("ledger-page", max_age, timeout, threads)

    def answers(self, shown: Iterable[Pipeline]) -> dict[str, BrokerAnswer]:
        """Return the state of each pipeline's topic, after ``timeout`` seconds at the latest."""
        known = {pipeline.name: pipeline for pipeline in shown}
        topics = {_topic(each): partial(self._topic_answer, each) for each in known.values()}
        registries = {
            (each.source.registry, ""): partial(ask_registry, each) for each in known.values() if each.source.registry
        }
        answers = self._asked.get({**topics, **registries})
        unasked = BrokerAnswer(problem="the broker has not answered yet")
        silent = BrokerAnswer(registry_problem="the schema registry has not answered yet")
        answered = {name: answers.get(_topic(each), unasked) for name, each in known.items()}
        for name, each in known.items():
            if each.source.registry:
                problem = answers.get((each.source.registry, ""), silent).registry_problem
                answered[name] = replace(answered[name], registry_problem=problem)
        return answered

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


def ask_registry(pipeline: Pipeline) -> BrokerAnswer:
    """Return why the registry of the pipeline, if it has one, is silent; to a cheap question any answer is one."""
    if pipeline.source.registry is None:
        return BrokerAnswer()
    try:
        with retrying_for(0):
            connect_registry(get_connection(pipeline.source.registry)).versions(f"{pipeline.source.topic}-value")
    except TransientError as error:
        return BrokerAnswer(registry_problem=str(error))
    except OffsetLedgerError as error:
        log.info("the schema registry of %s answers: %s", pipeline.name, error)
    except Exception as error:  # noqa: BLE001 - as with a broker
        log.warning("asking the registry of %s failed: %s", pipeline.name, type(error).__name__)
        return BrokerAnswer(registry_problem=f"asking the schema registry failed: {type(error).__name__}")
    return BrokerAnswer()


def unread_deadline(pipeline: Pipeline) -> Deadline | None:
    """Return when retention lets the oldest unread record go; None if nothing is unread, or nothing is deleted.

    By ``retention.bytes`` it is an estimate, made where the login may see the sizes of logs (Describe on the cluster).

    Raises:
        OffsetLedgerError: a server or the leader of a partition is unavailable, or the login may not see the topic.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
    if cursors is None:
        return None
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka:
        return kafka.ask(lambda admin: _deadline(admin, connection, pipeline.source.topic, cursors))


def _deadline(admin: Admin, connection: Connection, topic: str, cursors: Cursors) -> Deadline | None:
    kept = Retention.from_settings(topic_settings(admin, topic, *SETTINGS))
    described = describe_available_topic(admin, topic)  # a partition without a leader may have unread records
    if not kept.deletes or str(described["topic_id"]) != cursors.topic_id:
        return None
    led = leaders(described)
    starts, stable = log_starts(admin, topic, led), last_stable(admin, topic, led)
    unread = {p: (max(starts[p], cursors.next_offsets.get(p, 0)), stable[p].offset) for p in led}
    behind = {p: each for p, each in unread.items() if each[0] < each[1]}
    unread_at = first_timestamps(connection, topic, behind)
    logs, ends = sized_logs(admin, topic) if kept.bytes is not None else {}, high_watermarks(admin, topic, behind)
    return earliest(
        (
            UnreadLog(unread_at.get(p), logs.get(p, UNSIZED), (end - first) / (ends[p] - starts[p]))
            for p, (first, end) in behind.items()
        ),
        kept,
        datetime.now(UTC),
    )
