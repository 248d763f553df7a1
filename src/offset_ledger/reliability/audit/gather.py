"""The one place that reads an audit's facts from the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.protocol.consumer import IsolationLevel

from offset_ledger.connections import Connection, bootstrap_servers
from offset_ledger.errors import AccessDenied
from offset_ledger.kafka import broker
from offset_ledger.kafka.broker import Broker
from offset_ledger.reliability.audit.facts import BrokerFacts, GroupFacts, PartitionFacts, ReaderFacts, TopicFacts
from offset_ledger.reliability.audit.samples import sample
from offset_ledger.reliability.audit.transactions import moment, open_transactions

_BROKER_SETTINGS = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "num.partitions",
    "offsets.retention.minutes",
    "replica.fetch.max.bytes",
    "replica.selector.class",
    "transaction.max.timeout.ms",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The pipeline that reads the topic, and where its cursors stand on the topic of that id, and how long at most."""

    reader: ReaderFacts
    topic_id: str = ""
    cursors: Mapping[int, int] = field(default_factory=dict)
    unread_since: Mapping[int, datetime] = field(default_factory=dict)


def read_facts(connection: Connection, topic: str, reading: Reading | None = None) -> TopicFacts:
    """Everything that the rules ask about the topic, at about one moment.

    Raises:
        UnknownTopic: the cluster has no such topic.
        AccessDenied: the connection's user may not see the topic, or not read its settings.
        BrokerUnavailable: no answer within the patience.
    """
    with broker.connect(connection) as kafka:
        # As one question: when a leader goes meanwhile, all of it is asked again.
        return kafka.ask(lambda client: _read(kafka, client, connection, topic, reading))


def _read(
    kafka: Broker, client: KafkaAdminClient, connection: Connection, topic: str, reading: Reading | None
) -> TopicFacts:
    described = kafka.describe(topic)
    settings, own = _topic_settings(client, topic)
    if not settings:
        raise AccessDenied(
            f"connection {connection.conn_id!r} may not read the settings of topic {topic!r}; "
            "grant its user DescribeConfigs on the topic and on the cluster"
        )
    topic_id = str(described["topic_id"])
    mine = reading if reading and reading.topic_id == topic_id else None
    cursors, since = (mine.cursors, mine.unread_since) if mine else ({}, {})
    partitions = _partitions(client, connection, topic, described["partitions"], cursors)
    return TopicFacts(
        topic=topic,
        topic_id=topic_id,
        taken_at=datetime.now(UTC),
        servers=bootstrap_servers(connection),
        brokers=_brokers(client),
        partitions=tuple(replace(p, unread_since=since.get(p.partition)) for p in partitions),
        settings=settings,
        own=own,
        groups=_groups(client, topic),
        client=connection.extra,
        reader=reading.reader if reading else None,
    )


def _topic_settings(client: KafkaAdminClient, topic: str) -> tuple[dict[str, str], frozenset[str]]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    (kinds,) = client.describe_configs([resource], config_filter="all").values()
    found = kinds[topic]
    own = frozenset(name for name, each in found.items() if each["config_source"] == "DYNAMIC_TOPIC_CONFIG")
    return {name: str(each["value"]) for name, each in found.items()}, own


def _brokers(client: KafkaAdminClient) -> tuple[BrokerFacts, ...]:
    up = [each for each in client.describe_cluster()["brokers"] if not each.get("is_fenced")]
    resources = [
        ConfigResource(ConfigResourceType.BROKER, str(each["broker_id"]), dict.fromkeys(_BROKER_SETTINGS))
        for each in up
    ]
    (found,) = client.describe_configs(resources, config_filter="all").values()
    return tuple(
        BrokerFacts(int(each["broker_id"]), each["rack"], _texts(found[str(each["broker_id"])]))
        for each in sorted(up, key=lambda each: int(each["broker_id"]))
    )


def _texts(found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: str(each["value"]) for name, each in found.items() if each["value"] is not None}


def _groups(client: KafkaAdminClient, topic: str) -> tuple[GroupFacts, ...]:
    """The consumer groups that have committed offsets of the topic."""
    states = {
        each["group_id"]: str(each.get("group_state") or "")
        for each in client.list_groups()
        if str(each.get("group_type") or "").lower() != "share"
    }
    if not states:
        return ()
    offsets = client.list_group_offsets(list(states))
    mine = [group for group, places in offsets.items() if any(place.topic == topic for place in places)]
    return tuple(GroupFacts(group, states[group]) for group in sorted(mine))


def _partitions(
    client: KafkaAdminClient,
    connection: Connection,
    topic: str,
    described: Iterable[Mapping[str, Any]],
    cursors: Mapping[int, int],
) -> tuple[PartitionFacts, ...]:
    bare = {
        TopicPartition(topic, p["partition_index"]): PartitionFacts(
            p["partition_index"],
            int(p["leader_id"]) if p["leader_id"] >= 0 else None,
            tuple(p["replica_nodes"]),
            tuple(p["isr_nodes"]),
            cursor=cursors.get(p["partition_index"]),
        )
        for p in described
    }
    led = {tp: p for tp, p in bare.items() if p.leader is not None}
    try:
        found = {**bare, **(_with_log(client, connection, led) if led else {})}
    except kafka_errors.UnknownBrokerIdError as error:
        raise kafka_errors.LeaderNotAvailableError(f"{topic}: a leader went away meanwhile") from error
    return tuple(found[tp] for tp in sorted(found))


def _with_log(
    client: KafkaAdminClient, connection: Connection, led: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, PartitionFacts]:
    """The same partitions with what their leaders' logs hold."""
    places = list(led)
    starts = _offsets(client, places, OffsetSpec.EARLIEST)
    stable = _offsets(client, places, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
    ends = _offsets(client, places, OffsetSpec.LATEST)
    newest = client.list_partition_offsets(dict.fromkeys(places, OffsetSpec.MAX_TIMESTAMP))
    sizes = _sizes(client, places[0].topic)
    transactions = open_transactions(client, places)
    at = sample(connection, starts, {tp: max(starts[tp], p.cursor or 0) for tp, p in led.items()}, stable, ends)
    return {
        tp: replace(
            p,
            log_start=starts[tp],
            last_stable=stable[tp],
            high_watermark=ends[tp],
            size_bytes=sizes.get((p.leader, tp.partition), 0),
            first_at=at.first.get(tp),
            last_at=at.last.get(tp),
            newest_at=moment(newest[tp].timestamp),
            unread_at=at.unread.get(tp),
            transactions=transactions.get(tp, ()),
        )
        for tp, p in led.items()
    }


def _offsets(
    client: KafkaAdminClient,
    places: list[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    found = client.list_partition_offsets(dict.fromkeys(places, spec), isolation_level=isolation)
    return {tp: int(answer.offset) for tp, answer in found.items()}


def _sizes(client: KafkaAdminClient, topic: str) -> dict[tuple[int | None, int], int]:
    """(broker, partition) -> bytes on disk."""
    return {
        (each["broker"], partition["partition_index"]): int(partition["partition_size"])
        for each in client.describe_log_dirs([topic])
        for folder in each["log_dirs"]
        for found in folder["topics"]
        for partition in found["partitions"]
    }
