"""What a failure of Kafka's client means for a publication."""

from __future__ import annotations

from kafka import errors as kafka_errors

from offset_ledger.errors import OffsetLedgerError, ProducerFenced, PublishFailed, one_line
from offset_ledger.reliability.publishing.limits import RecordTooLarge
from offset_ledger.reliability.publishing.outbox import Outbox

# Of the record itself, whatever the brokers do.
_REFUSED = (
    RecordTooLarge,
    ValueError,
    TypeError,
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTimestampError,
    kafka_errors.PolicyViolationError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
)


def fenced(transactional_id: str | None, error: BaseException) -> ProducerFenced | None:
    """The error for a producer that a newer one has replaced, if that is what ``error`` says.

    kafka-python wraps it: a later call fails with a plain KafkaError that has the first one in its text.
    """
    text = one_line(error)
    if transactional_id is None or not any(name in text for name in ("ProducerFenced", "InvalidProducerEpoch")):
        return None
    return ProducerFenced(
        f"a newer publisher with the transactional id {transactional_id!r} has begun, so this one can commit nothing "
        "more and readers of committed data see nothing of its transaction; let one of the two run, or give each an "
        "id of its own"
    )


def publish_failed(topic: str, outbox: Outbox, transactional_id: str | None, cause: BaseException) -> OffsetLedgerError:
    """The error for records that were not acknowledged because of ``cause``."""
    refused, transactional = isinstance(cause, _REFUSED), transactional_id is not None
    failed = PublishFailed(topic, outbox.acknowledged, outbox.failed, one_line(cause), transactional, refused)
    return fenced(transactional_id, cause) or failed
