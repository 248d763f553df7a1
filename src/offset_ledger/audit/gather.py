"""Reads an audit's facts from the brokers, through the client of offset_ledger.kafka; open transactions among them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from offset_ledger.audit.facts import BrokerFacts, OpenTransaction, Owner, PartitionFacts, ReaderFacts, TopicFacts
from offset_ledger.connections import Connection
from offset_ledger.errors import AccessDenied
from offset_ledger.kafka.brokers import broker_settings, live_brokers
from offset_ledger.kafka.client import connect_kafka, groups_with_offsets, log_sizes
from offset_ledger.kafka.connection import bootstrap_servers
from offset_ledger.kafka.errors import leader_changes_are_transient
from offset_ledger.kafka.offsets import high_watermarks, last_stable, log_starts, newest_records
from offset_ledger.kafka.python_client import Admin
from offset_ledger.kafka.timestamps import first_timestamps, last_timestamps
from offset_ledger.kafka.topics import describe_topic, topic_configs
from offset_ledger.kafka.transactions import coordinated_transactions, open_writes
from offset_ledger.model.moments import moment_or_none

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
        BrokerUnavailable: no answer in time.
    """
    with connect_kafka(connection) as kafka:
        # As one question: when a leader changes meanwhile, all of it is asked again.
        return kafka.ask(lambda admin: _read(admin, connection, topic, reading))


def _read(admin: Admin, connection: Connection, topic: str, reading: Reading | None) -> TopicFacts:
    described = describe_topic(admin, topic)
    configs = topic_configs(admin, topic)
    if not configs.values:
        raise AccessDenied(
            f"connection {connection.conn_id!r} may not read the settings of topic {topic!r}; "
            "grant its user DescribeConfigs on the topic and on the cluster"
        )
    topic_id = str(described["topic_id"])
    cursors, since = (reading.cursors, reading.unread_since) if reading and reading.topic_id == topic_id else ({}, {})
    partitions = {
        p["partition_index"]: PartitionFacts(
            p["partition_index"],
            int(p["leader_id"]) if p["leader_id"] >= 0 else None,
            tuple(p["replica_nodes"]),
            tuple(p["isr_nodes"]),
            cursor=cursors.get(p["partition_index"]),
            unread_since=since.get(p["partition_index"]),
        )
        for p in described["partitions"]
    }
    if led := {number: p for number, p in partitions.items() if p.leader is not None}:
        with leader_changes_are_transient(topic):
            partitions |= _with_log(admin, connection, topic, led)
    brokers = live_brokers(admin)
    settings = broker_settings(admin, [broker.node for broker in brokers], _BROKER_SETTINGS)
    return TopicFacts(
        topic=topic,
        topic_id=topic_id,
        taken_at=datetime.now(UTC),
        servers=bootstrap_servers(connection),
        brokers=tuple(BrokerFacts(each.node, each.rack, settings[each.node]) for each in brokers),
        partitions=tuple(partitions[number] for number in sorted(partitions)),
        settings=configs.values,
        own=configs.own,
        groups=groups_with_offsets(admin, topic),
        client=connection.extra,
        reader=reading.reader if reading else None,
    )


def _with_log(
    admin: Admin, connection: Connection, topic: str, led: Mapping[int, PartitionFacts]
) -> dict[int, PartitionFacts]:
    """Return the partitions with what their leaders' logs hold."""
    starts = log_starts(admin, topic, led)
    stable = {number: end.offset for number, end in last_stable(admin, topic, led).items()}
    ends = high_watermarks(admin, topic, led)
    newest = newest_records(admin, topic, led)
    sizes = log_sizes(admin, topic, {p: facts.leader for p, facts in led.items() if facts.leader is not None})
    transactions = find_open_transactions(admin, topic, led)
    first = first_timestamps(connection, topic, {p: (starts[p], ends[p]) for p in led})
    unread = {p: (max(starts[p], facts.cursor or 0), stable[p]) for p, facts in led.items()}
    first_unread = first_timestamps(connection, topic, unread)
    # The last offset of a transaction is a control record: the one before it is a record.
    last = last_timestamps(connection, topic, {p: (max(starts[p], ends[p] - 2), ends[p]) for p in led})
    return {
        p: replace(
            facts,
            log_start=starts[p],
            last_stable=stable[p],
            high_watermark=ends[p],
            size_bytes=sizes.get(p),
            first_at=first.get(p),
            last_at=last.get(p),
            newest_at=moment_or_none(newest[p].timestamp),
            unread_at=first_unread.get(p),
            transactions=transactions.get(p, ()),
        )
        for p, facts in led.items()
    }


def find_open_transactions(
    admin: Admin, topic: str, partitions: Iterable[int]
) -> dict[int, tuple[OpenTransaction, ...]]:
    """Open transactions by partition; one is hanging if every coordinator answered and none has that partition in it.

    A partition is known to its coordinator before it is written and until its marker is there. So one that is open
    before and after the coordinators were asked, and unknown to them, belongs to a transaction that is long over.
    """
    partitions = list(partitions)
    before = open_writes(admin, topic, partitions)
    if not before:
        return {}
    coordinated = coordinated_transactions(admin, topic, sorted({write.producer_id for write in before}))
    still = {write: last_ms for write, last_ms in open_writes(admin, topic, partitions).items() if write in before}
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    for write, last_ms in sorted(still.items()):
        known = coordinated.get((write.partition, write.producer_id)) if coordinated is not None else None
        owner = None
        if known:
            begun_at, timeout = _moment_or_now(known.start_ms), timedelta(milliseconds=known.timeout_ms)
            owner = Owner(known.transactional_id, known.state, begun_at, timeout)
        transaction = OpenTransaction(
            write.producer_id,
            write.start_offset,
            _moment_or_now(last_ms),
            owner,
            hanging=coordinated is not None and known is None,
        )
        transactions[write.partition] = (*transactions.get(write.partition, ()), transaction)
    return transactions


def _moment_or_now(milliseconds: int) -> datetime:
    return moment_or_none(milliseconds) or datetime.now(UTC)
