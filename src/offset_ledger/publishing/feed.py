"""The flights of 2013, disturbances included, published to a topic of their own."""

from collections.abc import Mapping

from offset_ledger.cycles import rare_collections
from offset_ledger.progress import OnProgress
from offset_ledger.publishing.disturbances import ABORTED_TRANSACTION, Disturbance, plan_events
from offset_ledger.publishing.producer import Publisher, Summary, publish_aborted
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic

PARTITIONS = 8
# Timestamps are those of 2013: by default retention would delete every segment, and each week would begin a new one.
TOPIC_CONFIGS: Mapping[str, str] = {"retention.ms": "-1", "segment.ms": str(100 * 365 * 24 * 3600 * 1000)}


def publish_flights(
    extra: Mapping[str, str],
    topic: str,
    seed: int,
    limit: int | None = None,
    *,
    replication_factor: int,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Create the topic and publish ``plan_events(seed, limit)`` to it, in that order.

    The summary leaves the aborted records out.

    Raises:
        TopicMismatch: the topic exists with another number of partitions.
        PublishFailed, TransactionOutcomeUnknown, BrokerUnavailable: as :func:`producer.publish`.
    """
    durable = {**TOPIC_CONFIGS, "min.insync.replicas": str(min(2, replication_factor))}
    create_topic(extra, topic, PARTITIONS, replication_factor, durable)
    aborted: list[Record] = []
    with rare_collections(), Publisher(extra, topic, on_progress=on_progress) as publisher:
        for planned in plan_events(seed, limit):
            if planned.kind is not Disturbance.ABORTED:
                publisher.send(planned.record)
                continue
            aborted.append(planned.record)
            if len(aborted) == ABORTED_TRANSACTION:
                _abort(aborted, extra, topic)
        publisher.finish()
    if aborted:
        _abort(aborted, extra, topic)
    return publisher.summary


def _abort(records: list[Record], extra: Mapping[str, str], topic: str) -> None:
    publish_aborted(records, extra, topic, transactional_id=f"{topic}-aborted")
    records.clear()
