"""librdkafka's clients of this folder: how they log in, and their errors under Kafka's names."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import errors as kafka_errors

from offset_ledger.errors import ConfigurationError, OffsetLedgerError, one_line
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.connection import librdkafka_arguments, rdkafka_log, reads_by_librdkafka
from offset_ledger.outside.kafka.tokens import oauth_callback

# The broker's reason is more precise than librdkafka's.
_INVALID_RECORD = "; such as: Compacted topic cannot accept message without key"
_KINDS = {
    KafkaError._MSG_TIMED_OUT: kafka_errors.KafkaTimeoutError,
    KafkaError._TIMED_OUT: kafka_errors.KafkaTimeoutError,
    KafkaError._UNKNOWN_TOPIC: kafka_errors.UnknownTopicOrPartitionError,
    KafkaError._FENCED: kafka_errors.ProducerFencedError,
    # For a group's offsets: its members have changed since the records were read.
    KafkaError.ILLEGAL_GENERATION: kafka_errors.CommitFailedError,
    KafkaError.UNKNOWN_MEMBER_ID: kafka_errors.CommitFailedError,
}


def login(connection: Connection, on_error: Callable[[OffsetLedgerError], None]) -> dict[str, Any]:
    """Return the login settings of a librdkafka client; ``on_error`` is given why there is no new token later.

    Raises:
        ConfigurationError: librdkafka cannot log in so.
    """
    kerberos = not reads_by_librdkafka(connection)
    if kerberos and not _has_kerberos():
        raise ConfigurationError(
            "librdkafka publishes, and as confluent-kafka is installed it has no Kerberos (sasl.mechanism GSSAPI): "
            "publish with another login, such as SCRAM-SHA-512, or build confluent-kafka against a librdkafka with it"
        )
    return {**librdkafka_arguments(connection, has_kerberos=kerberos), **oauth_callback(connection, on_error)}


@cache
def _has_kerberos() -> bool:
    try:
        Producer({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "GSSAPI"}, logger=rdkafka_log)
    except KafkaException:
        return False
    return True


def group_consumer(extra: Mapping[str, str], group: str, **more: Any) -> Consumer:
    """Return a consumer of the group that reads committed records and commits nothing by itself."""
    settings = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
    known = login(Connection("publisher", "kafka", extra=extra), lambda _: None)
    return Consumer({**known, **settings, **more}, logger=rdkafka_log)


def as_kafka_error(error: KafkaException, trouble: KafkaError | str | None = None) -> Exception:
    """Return librdkafka's error as Kafka's own of that name; ``trouble`` is what the client reported before."""
    cause: KafkaError = error.args[0]
    code = cause.code()
    kind: type[Exception] = _KINDS.get(code, kafka_errors.for_code(code) if code > 0 else kafka_errors.KafkaError)
    if code > 0:
        return kind(cause.str() + (_INVALID_RECORD if code == KafkaError.INVALID_RECORD else ""))
    after = _text(trouble) if isinstance(trouble, KafkaError) else trouble
    return kind(f"{_text(cause)}{f' after {after}' if after else ''}")


def _text(error: KafkaError) -> str:
    return f"{error.name()}: {one_line(error.str())}"
