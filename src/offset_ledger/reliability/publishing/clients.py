"""The Kafka producers of this folder: their arguments, their connection and their end.

Publishing has kafka-python clients of its own because it writes; what only asks Kafka is offset_ledger.kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.metrics.stats import Total
from kafka.partitioner import Partitioner

from offset_ledger.connections import Connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.kafka.errors import unavailable
from offset_ledger.kafka.python_client import kafka_python_arguments
from offset_ledger.reliability.publishing.failures import fenced
from offset_ledger.reliability.publishing.partitioner import KeyHash
from offset_ledger.reliability.publishing.settings import ProducerSettings

BOOTSTRAP_SECONDS = 30.0


def client_arguments(extra: Mapping[str, str]) -> dict[str, object]:
    """kafka-python's arguments from a connection's ``extra`` with its dotted names.

    Raises:
        ConfigurationError: no bootstrap.servers, or a security setting that kafka-python has no name for.
    """
    return kafka_python_arguments(Connection("publisher", "kafka", extra=extra))


def producer_arguments(settings: ProducerSettings) -> dict[str, object]:
    """The settings as kafka-python takes them."""
    acks = settings.acks if settings.acks == "all" else int(settings.acks)
    compression = None if settings.compression_type == "none" else settings.compression_type
    return {
        **{name: getattr(settings, name) for name in ProducerSettings.__dataclass_fields__},
        "acks": acks,
        "compression_type": compression,
    }


def connect_producer(
    extra: Mapping[str, str],
    settings: ProducerSettings,
    transactional_id: str | None = None,
    partitioner: Partitioner | None = None,
) -> KafkaProducer:
    """A producer; with a transactional id, one whose transaction has begun and which has fenced those before it.

    Raises:
        BrokerUnavailable: no broker, or no transaction coordinator, answered.
    """
    own: dict[str, object] = {
        "partitioner": partitioner or KeyHash(),
        "bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS * 1000),
        "allow_auto_create_topics": False,
    }
    if transactional_id is not None:
        own["transactional_id"] = transactional_id
    try:
        producer = KafkaProducer(**{**client_arguments(extra), **producer_arguments(settings), **own})
    except kafka_errors.KafkaError as error:
        raise unavailable(extra["bootstrap.servers"], error) from error
    _count_retries(producer)
    if transactional_id is not None:
        try:
            producer.init_transactions()
            producer.begin_transaction()
        except kafka_errors.KafkaError as error:
            producer.close(timeout=0)
            away: OffsetLedgerError = unavailable(extra["bootstrap.servers"], error)
            raise fenced(transactional_id, error) or away from error
    return producer


def close_producer(producer: KafkaProducer, seconds: float) -> kafka_errors.KafkaError | None:
    """Close it, and give up what was not answered in time; the error says what that was.

    kafka-python itself leaves the producer open then, with its thread.
    """
    try:
        producer.close(timeout=seconds)
    except kafka_errors.KafkaError as late:  # UnknownError behind a batch that was split
        producer._sender.force_close()
        producer._sender.join(seconds)
        with suppress(kafka_errors.KafkaError):
            producer.close(timeout=seconds)
        return late
    return None


_RETRIED = "record-retry-total"
_GROUP = "producer-metrics"


def _count_retries(producer: KafkaProducer) -> None:
    """kafka-python keeps a rate of retries only; its sensor takes a total as well."""
    metrics = producer._metrics
    metrics.sensor("record-retries").add(metrics.metric_name(_RETRIED, _GROUP), Total())


def retried(producer: KafkaProducer) -> int:
    """How many times a record was sent again."""
    return sum(int(each.value()) for name, each in producer.metrics(raw=True).items() if name.name == _RETRIED)


def within(seconds: float, act: Callable[[], None]) -> None:
    """Call ``act``, and raise TimeoutError if it has not returned in time: kafka-python's own wait has no end."""
    answer: Future[None] = Future()

    def run() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - handed to the caller whatever it is
            answer.set_exception(error)
        else:
            answer.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    answer.result(seconds)
