"""Which client publishes in bulk: librdkafka where it is installed and able, else kafka-python; both mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafka.partitioner import Partitioner

from offset_ledger.errors import ConfigurationError
from offset_ledger.reliability.publishing.outbox import Summary
from offset_ledger.reliability.publishing.partitioner import Custom, KeyHash
from offset_ledger.reliability.publishing.producer import Publisher
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings import Client

if TYPE_CHECKING:
    from offset_ledger.reliability.publishing.librdkafka import BulkPublisher


def bulk_publisher(
    extra: Mapping[str, str],
    topic: str,
    *,
    client: Client | None = None,
    partitioner: Partitioner | None = None,
    **options: Any,
) -> Publisher | BulkPublisher:
    """A publisher for many records; the other options are those of :class:`Publisher`.

    Raises:
        ConfigurationError: librdkafka was asked for by name, and cannot do this.
    """
    callbacks = any(options.get(name) for name in ("on_ack", "on_error"))
    obstacle = "it answers for no single record" if callbacks else _obstacle(extra, partitioner)
    if client is Client.LIBRDKAFKA and obstacle:
        raise ConfigurationError(f"librdkafka cannot publish this: {obstacle}; leave the client to be chosen")
    if client is Client.KAFKA_PYTHON or obstacle:
        return Publisher(extra, topic, partitioner=partitioner, **options)
    from offset_ledger.reliability.publishing.librdkafka import BulkPublisher

    custom = partitioner if isinstance(partitioner, Custom) else None
    return BulkPublisher(extra, topic, partitioner=custom, **options)


def publish_in_bulk(records: Iterable[Record], extra: Mapping[str, str], topic: str, **options: Any) -> Summary:
    """Publish all records; returns when each is acknowledged. The options are those of :func:`bulk_publisher`.

    Raises:
        PublishFailed, BrokerUnavailable, UnsafeSettings: as :func:`producer.publish`.
    """
    with bulk_publisher(extra, topic, **options) as publisher:
        send = publisher.send
        for record in records:
            send(record)
        publisher.finish()
    return publisher.summary


def _obstacle(extra: Mapping[str, str], partitioner: Partitioner | None) -> str | None:
    """Why librdkafka cannot take this over; None if it can."""
    if not (partitioner is None or isinstance(partitioner, KeyHash | Custom)):
        return "it has no such partitioner"
    if "GSSAPI" in (extra.get("sasl.mechanism"), extra.get("sasl.mechanisms")):
        return "its packages have no Kerberos"
    return None
