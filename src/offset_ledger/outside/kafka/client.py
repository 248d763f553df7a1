"""The client of one Kafka cluster: connects, asks, and retries what is transient.

What it asks: a topic at one moment, the sizes of its logs, and the offsets of consumer groups.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import inf
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from offset_ledger.base.retry import retrying
from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.model.moments import FirstAt, moment_or_none
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.retention import SizedLog
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka import offsets, topics, transactions
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.outside.kafka.errors import does_not_answer, is_transient, unavailable
from offset_ledger.outside.kafka.offsets import high_watermarks, last_stable, log_starts, oldest_records
from offset_ledger.outside.kafka.python_client import Admin, kafka_python_arguments

T = TypeVar("T")

_STALE_SECONDS = 3.0


class KafkaClient:
    """Questions to one Kafka cluster.

    Every method retries transient errors, for :func:`~offset_ledger.base.retry.retry_seconds` and the client's timeout
    at most, and then raises BrokerUnavailable. It raises AccessDenied where this login may not ask.
    """

    def __init__(self, admin: Admin, timeout: float = inf) -> None:
        self._admin = admin
        self._timeout = timeout

    def ask(self, question: Callable[[Admin], T]) -> T:
        """The answer to any other question; all of it is asked again after a transient error."""
        servers = self._admin.servers
        try:
            return retrying(is_transient, f"Kafka at {servers}", max_seconds=self._timeout)(question, self._admin)
        except kafka_errors.KafkaError as error:
            raise self._unanswered(error) or unavailable(servers, error) from error

    def _unanswered(self, error: kafka_errors.KafkaError) -> ConfigurationError | None:
        """The error of brokers that end the connection where they do not know a question; None if that is another."""
        if not isinstance(error, kafka_errors.KafkaConnectionError) or not (asked := self._admin.asked):
            return None
        try:
            self._admin.client.describe_topics([])
        except kafka_errors.KafkaError:
            return None
        return does_not_answer(self._admin.servers, f"{asked}: it closes the connection")

    def count_brokers(self) -> int:
        """Return how many brokers the cluster lists."""
        return self.ask(lambda admin: len(topics.describe_cluster(admin)["brokers"]))

    def version(self) -> tuple[int, ...]:
        """The release of Kafka whose protocol the brokers speak, such as (4, 2)."""
        return self.ask(lambda admin: tuple(admin.client._manager.broker_version_data.broker_version))

    def check_version(self) -> None:
        """Check that the brokers are new enough.

        Raises:
            ConfigurationError: they are not.
        """
        version = self.version()
        if version[:2] < topics.OLDEST:
            oldest, theirs = (".".join(map(str, each)) for each in (topics.OLDEST, version))
            raise ConfigurationError(
                f"Kafka {oldest} or newer is needed, found brokers at {self._admin.servers} that speak the protocol of "
                f"{theirs}; upgrade the brokers, or use others"
            )

    def topics(self) -> tuple[str, ...]:
        """The names of the topics that this login may see, without Kafka's internal ones."""
        return tuple(self.ask(topics.user_topics))

    def describe(self, topic: str) -> Mapping[str, Any]:
        """The topic's metadata; a partition may be without a leader, its error code says so.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """
        return self.ask(lambda admin: topics.describe_topic(admin, topic))

    def allowed_operations(self, topic: str) -> frozenset[str] | None:
        """The operations of Kafka's ACLs that the login may do with the topic, such as READ; all without an authorizer.

        None if the brokers do not say them.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """
        allowed = self.describe(topic).get("authorized_operations")
        return None if allowed is None else frozenset(map(str, allowed))

    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self.ask(lambda admin: str(topics.describe_cluster(admin)["cluster_id"]))

    def snapshot(self, topic: str, read_before: bool = False) -> TopicSnapshot:
        """Return one snapshot of the topic; its ends are last stable offsets.

        A topic that was ``read_before`` and is unknown now is asked for again for some seconds: a broker that has just
        started may not know all topics yet.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """
        if not read_before:
            return self.ask(lambda admin: take_snapshot(admin, topic))
        seconds = min(_STALE_SECONDS, self._timeout)
        waiting_for = f"the brokers to know topic {topic}"
        retries = retrying(lambda error: isinstance(error, UnknownTopic), waiting_for, max_seconds=seconds)
        snapshot: TopicSnapshot = retries(self.snapshot, topic)
        return snapshot

    def settings(self, topic: str, *names: str) -> dict[str, str]:
        """Settings of the topic, defaults included."""
        settings = self.ask(lambda admin: topics.topic_settings(admin, topic, *names))
        return {name: settings[name] for name in names}

    def sized_logs(self, topic: str) -> dict[int, SizedLog]:
        """The logs of the topic's partitions that have a leader."""
        return self.ask(lambda admin: sized_logs(admin, topic))

    def offsets_at(self, topic: str, since: datetime) -> dict[int, int | None]:
        """Return per partition the first offset whose record timestamp is at or after ``since``; None if none is."""
        return {p: first.offset if first else None for p, first in self.first_at(topic, since).items()}

    def first_at(self, topic: str, since: datetime) -> dict[int, FirstAt | None]:
        """Return per partition the first record at or after ``since``, with its timestamp; None if there is none."""
        return self.ask(lambda admin: offsets.first_records_at(admin, topic, since))

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Return per partition where the log of this leader epoch and of earlier ones ends; absent if there is none.

        An end below an offset that was committed means that an unclean election truncated the log (KIP-101, KIP-320).
        A leader that does not know the epoch yet is asked again.
        """
        return self.ask(lambda admin: offsets.epoch_ends(admin, topic, epochs)) if epochs else {}

    def has_transaction(self, topic: str, offsets: OffsetRange) -> bool:
        """Return whether these offsets have a record batch of a transaction, or its marker."""
        return self.ask(lambda admin: transactions.has_transaction(admin, topic, offsets))

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a consumer group has committed for the topic, by partition."""
        committed = self.ask(lambda admin: admin.client.list_group_offsets({group: None}))[group]
        return {tp.partition: int(at.offset) for tp, at in committed.items() if tp.topic == topic and at.offset >= 0}

    def set_group_offsets(self, group: str, topic: str, wanted: Mapping[int, int]) -> None:
        """Commit offsets in the name of a consumer group without members.

        Raises:
            BrokerUnavailable: also where the group has members, or the coordinator refused.
        """
        offsets = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in wanted.items()}

        def alter(admin: Admin) -> None:
            for tp, error in admin.client.alter_group_offsets(group, offsets).items():
                if error is not kafka_errors.NoError:
                    raise error(f"{group} {tp.topic} {tp.partition}")

        self.ask(alter)


@contextmanager
def connect_kafka(connection: Connection, timeout: float = inf) -> Iterator[KafkaClient]:
    """A client of the cluster, closed afterwards; while no broker answers it retries, for ``timeout`` seconds at most.

    Raises:
        ConfigurationError: the connection has a value that no client takes.
        BrokerUnavailable: none of bootstrap.servers answered in that time.
        AccessDenied: the cluster refuses the login.
    """
    servers, arguments = bootstrap_servers(connection), kafka_python_arguments(connection)
    try:
        admin: Admin = retrying(is_transient, f"Kafka at {servers}", max_seconds=timeout)(Admin, servers, arguments)
    except (kafka_errors.KafkaError, OSError) as error:
        raise unavailable(servers, error) from error
    except ValueError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: bootstrap.servers should be host:port,host:port, found {servers!r} "
            f"({error})"
        ) from error
    try:
        yield KafkaClient(admin, timeout)
    finally:
        admin.close()


def take_snapshot(admin: Admin, topic: str) -> TopicSnapshot:
    """Return one snapshot of the topic; its ends are last stable offsets."""
    described = topics.describe_available_topic(admin, topic)
    partitions = topics.partition_numbers(described)
    # Starts before ends: a start that moves between the two answers is caught by the read, not hidden by it.
    starts = log_starts(admin, topic, partitions)
    # The leader answers with its epoch: that of the description may be older than the records below this offset.
    stable = last_stable(admin, topic, partitions)
    ends = high_watermarks(admin, topic, partitions)
    settings = topics.topic_settings(admin, topic, "cleanup.policy", "delete.retention.ms")
    return TopicSnapshot(
        cluster_id=str(topics.describe_cluster(admin)["cluster_id"]),
        topic=topic,
        topic_id=topics.topic_id(described, admin.servers),
        compacted="compact" in settings["cleanup.policy"],
        partitions=tuple(
            PartitionSnapshot(p, starts[p], stable[p].offset, ends[p], stable[p].leader_epoch) for p in partitions
        ),
        delete_retention_ms=int(settings["delete.retention.ms"]),
    )


def groups_with_offsets(admin: Admin, topic: str) -> dict[str, str]:
    """The consumer groups that have committed offsets of the topic, by name, each with its state."""
    states = {
        str(group["group_id"]): str(group.get("group_state") or "")
        for group in admin.client.list_groups()
        if str(group.get("group_type") or "").lower() != "share"
    }
    if not states:
        return {}
    offsets = admin.client.list_group_offsets(list(states))
    with_offsets = sorted(group for group, places in offsets.items() if any(tp.topic == topic for tp in places))
    return {group: states[group] for group in with_offsets}


def sized_logs(admin: Admin, topic: str) -> dict[int, SizedLog]:
    """The log of each partition that has a leader."""
    led = topics.leaders(topics.describe_topic(admin, topic))
    sizes, oldest = log_sizes(admin, topic, led), oldest_records(admin, topic, led)
    return {p: SizedLog(sizes.get(p), moment_or_none(oldest[p].timestamp)) for p in led}


def log_sizes(admin: Admin, topic: str, led: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes on the leader's disk by partition.

    Absent is unknown: without Describe on the cluster a broker answers with an error code, which kafka-python drops,
    and with no log; a folder that failed is answered the same way.
    """
    answers = admin.client.describe_log_dirs([topic], brokers=sorted(set(led.values()))) if led else []
    return {
        int(partition["partition_index"]): int(partition["partition_size"])
        for answer in answers
        for folder in answer["log_dirs"]
        for described in folder["topics"]
        for partition in described["partitions"]
        if led.get(int(partition["partition_index"])) == int(answer["broker"]) and not partition["is_future_key"]
    }
