"""One audit: facts from the brokers and the ledger, open transactions among them, the rules, and what changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.extras import execute_values
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from offset_ledger.model.batch import Origin, current_origin
from offset_ledger.model.moments import moment_or_none
from offset_ledger.operations.audit.facts import (
    BrokerFacts,
    OpenTransaction,
    Owner,
    PartitionFacts,
    ReaderFacts,
    TopicFacts,
)
from offset_ledger.operations.audit.finding import AuditFinding, Change, Severity, changes
from offset_ledger.operations.audit.rules import check_topic
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka, groups_with_offsets, log_sizes
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.outside.kafka.errors import leader_changes_are_transient
from offset_ledger.outside.kafka.offsets import high_watermarks, last_stable, log_starts, newest_records
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.outside.kafka.records import first_timestamps, last_timestamps
from offset_ledger.outside.kafka.topics import (
    broker_settings,
    describe_topic,
    elect_preferred_leaders,
    live_brokers,
    topic_configs,
    unanswered,
)
from offset_ledger.outside.kafka.transactions import coordinated_transactions, open_writes
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline, Tombstone
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Session, named_sql, open_ledger, open_ledger_at, transaction
from offset_ledger.postgres.ledger.row_order import KAFKA_TIMESTAMP, ordered_by

_ELECTION_SECONDS = 10.0
_TOPIC_SETTINGS = (
    *("cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "max.message.bytes"),
    *("message.timestamp.type", "min.insync.replicas", "unclean.leader.election.enable"),
)
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
class Audit:
    """The findings of one audit of one topic, the worst first, and the changes since the one before, if any."""

    pipeline: str | None
    topic: str
    audited_at: datetime
    findings: tuple[AuditFinding, ...]
    changes: tuple[Change, ...] = ()
    previous_at: datetime | None = None

    def failing(self, threshold: Severity) -> tuple[AuditFinding, ...]:
        """The findings at that severity or worse."""
        return tuple(finding for finding in self.findings if finding.severity.rank <= threshold.rank)


def audit_pipeline(pipeline: Pipeline, elect: bool = False, write: bool = True) -> Audit:
    """Audit the pipeline's topic, and keep the result in its ledger unless ``write`` is False.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            known = pipelines.read_cursors(cursor, pipeline.name)
            topic_id = known.topic_id if known else None
            cursor.run("audit/last_cursor_move", pipeline=pipeline.name, topic_id=topic_id)
            last_commit = cursor.one()[0]
            cursor.run("audit/unread_since", pipeline=pipeline.name)
            since = {row["partition"]: row["since"] for row in cursor.fetchall()}
        reader = ReaderFacts(
            pipeline=pipeline.name,
            event_id_is_key=not pipeline.record.append
            and all(each.key is not None for each in pipeline.record.key_columns),
            publish_at_is_timestamp=ordered_by(pipeline.record) == KAFKA_TIMESTAMP,
            # Where the log orders, the record written last is the newest.
            newest_wins=pipeline.target.merge is Merge.NEWEST_WINS and not pipeline.record.log_orders,
            value_bytes=pipeline.limits.value_bytes,
            last_commit=last_commit,
            deletes_by_tombstone=pipeline.record.tombstone is Tombstone.DELETE,
            runs_every=None if pipeline.wake_on_data else pipeline.runs_every,
            topic_id=known.topic_id if known else "",
            cursors=known.next_offsets if known else {},
            unread_since=since,
        )
        audit = _audit(get_connection(pipeline.source.connection), pipeline.source.topic, reader, elect)
        return keep(session, audit, current_origin()) if write else audit


def audit_topic(connection: Connection, topic: str, ledger: Connection | None = None, elect: bool = False) -> Audit:
    """Audit a topic that no pipeline needs to read; the result is kept if a ledger is given.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    audit = _audit(connection, topic, None, elect)
    if ledger is None:
        return audit
    with open_ledger_at(ledger) as session:
        return keep(session, audit, current_origin())


def _audit(connection: Connection, topic: str, reader: ReaderFacts | None, elect: bool) -> Audit:
    if elect:
        with connect_kafka(connection) as kafka:
            elect_preferred(kafka, topic)
    facts = read_facts(connection, topic, reader)
    return Audit(facts.reader.pipeline if facts.reader else None, facts.topic, facts.taken_at, check_topic(facts))


def keep(session: Session, audit: Audit, origin: Origin) -> Audit:
    """Record an audit with who ran it; return it with what changed since the one before."""
    with transaction(session) as cursor:
        cursor.run("audit/last", pipeline=audit.pipeline, topic=audit.topic)
        previous = cursor.fetchall()
        which, whose = (audit.audited_at, audit.pipeline, audit.topic), (origin.who, origin.dag_id, origin.run_id)
        rows: list[tuple[Any, ...]] = [
            (*which, f.rule, f.severity.value, f.found, f.risk, f.remedy, *whose) for f in audit.findings
        ]
        execute_values(cursor, named_sql("audit/insert"), rows)
    before = {row["rule"]: Severity(row["severity"]) for row in previous}
    changed = changes(before or None, {f.rule: f.severity for f in audit.findings})
    return replace(audit, changes=changed, previous_at=previous[0]["audited_at"] if previous else None)


def elect_preferred(kafka: KafkaClient, topic: str) -> None:
    """Bring leaders back to their preferred brokers; one that is unavailable or not in sync is not elected.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable: no answer in time.
    """
    moved = _moved(kafka, topic)
    electable = sorted(partition for partition, p in moved.items() if p["replica_nodes"][0] in p["isr_nodes"])
    if not electable:
        return
    kafka.ask(lambda admin: elect_preferred_leaders(admin, topic, electable))
    Retrying(
        retry=retry_if_result(lambda left: not left.keys().isdisjoint(electable)),
        stop=stop_after_delay(_ELECTION_SECONDS),
        wait=wait_fixed(0.1),
        retry_error_callback=lambda _: None,  # the audit shows which leaders are still others
    )(_moved, kafka, topic)


def _moved(kafka: KafkaClient, topic: str) -> dict[int, Mapping[str, Any]]:
    described = kafka.describe(topic)
    return {
        p["partition_index"]: p
        for p in described["partitions"]
        if p["leader_id"] >= 0 and p["leader_id"] != p["replica_nodes"][0]
    }


def read_facts(connection: Connection, topic: str, reader: ReaderFacts | None = None) -> TopicFacts:
    """Read everything that the rules ask about the topic, at about one moment.

    Raises:
        UnknownTopic: the cluster has no such topic.
        AccessDenied: the connection's user may not see the topic, or not read its settings.
        BrokerUnavailable: no answer in time.
    """
    with connect_kafka(connection) as kafka:
        # As one question: when a leader changes meanwhile, all of it is asked again.
        return kafka.ask(lambda admin: _read(admin, connection, topic, reader))


def _read(admin: Admin, connection: Connection, topic: str, reader: ReaderFacts | None) -> TopicFacts:
    described = describe_topic(admin, topic)
    configs = topic_configs(admin, topic)
    if missing := [name for name in _TOPIC_SETTINGS if name not in configs.values]:
        raise unanswered(admin, topic, missing)
    topic_id = str(described["topic_id"])
    cursors, since = (reader.cursors, reader.unread_since) if reader and reader.topic_id == topic_id else ({}, {})
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
        reader=reader,
    )


def _with_log(
    admin: Admin, connection: Connection, topic: str, led: Mapping[int, PartitionFacts]
) -> dict[int, PartitionFacts]:
    """Return the partitions with the contents of their leaders' logs."""
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
