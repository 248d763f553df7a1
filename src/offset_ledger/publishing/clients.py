"""The Kafka clients of this folder: their settings, their connection, and how a failure is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from offset_ledger.connections import Connection, kafka_python_arguments
from offset_ledger.errors import BrokerUnavailable
from offset_ledger.publishing.partitioner import KeyHash

BOOTSTRAP_SECONDS = 30.0
DELIVERY_SECONDS = 60
_SETTINGS: Mapping[str, object] = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": 50,
    "batch_size": 512 * 1024,
    "max_request_size": 4 * 1024 * 1024,
    "delivery_timeout_ms": DELIVERY_SECONDS * 1000,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}


def client_arguments(extra: Mapping[str, str]) -> dict[str, object]:
    """kafka-python's arguments from a connection's ``extra`` with its dotted names.

    Raises:
        ConfigurationError: no bootstrap.servers, or a security setting that kafka-python has no name for.
    """
    return kafka_python_arguments(Connection("publisher", "kafka", extra=extra))


def one_line(error: BaseException) -> str:
    """The error's class and text, without line breaks."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def unavailable(extra: Mapping[str, str], error: BaseException) -> BrokerUnavailable:
    """The error for a cluster that did not answer."""
    return BrokerUnavailable(
        f"Kafka at {extra.get('bootstrap.servers')} did not do as asked ({one_line(error)}); check that the "
        "brokers run and that bootstrap.servers is right"
    )


def connect_producer(extra: Mapping[str, str], transactional_id: str | None) -> KafkaProducer:
    """An idempotent producer; with a transactional id, one whose transaction has begun.

    Raises:
        BrokerUnavailable: no broker, or no transaction coordinator, answered.
    """
    own: dict[str, object] = {"partitioner": KeyHash(), "bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS * 1000)}
    if transactional_id is not None:
        own["transactional_id"] = transactional_id
    try:
        producer = KafkaProducer(**{**_SETTINGS, **own, **client_arguments(extra)})
    except kafka_errors.KafkaError as error:
        raise unavailable(extra, error) from error
    if transactional_id is not None:
        try:
            producer.init_transactions()
            producer.begin_transaction()
        except kafka_errors.KafkaError as error:
            producer.close(timeout=0)
            raise unavailable(extra, error) from error
    return producer


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
