"""The client of one Kafka cluster: connects, asks, and retries what is transient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import inf
from typing import Any, TypeVar

from kafka import errors as kafka_errors

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.kafka import brokers, groups, offsets
from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.connection import bootstrap_servers
from offset_ledger.kafka.errors import is_transient, unavailable
from offset_ledger.kafka.log_sizes import sized_logs
from offset_ledger.kafka.python_client import kafka_python_arguments
from offset_ledger.kafka.settings import topic_settings
from offset_ledger.kafka.snapshot import take_snapshot
from offset_ledger.kafka.topics import allowed_operations, describe_topic, user_topics
from offset_ledger.model.moments import FirstAt
from offset_ledger.model.retention import SizedLog
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.retry import retrying

T = TypeVar("T")

_STALE_SECONDS = 3.0


class KafkaClient:
    """Questions to one Kafka cluster.

    Every method retries transient errors, for :func:`~offset_ledger.retry.retry_seconds` and the client's timeout at
    most, and then raises BrokerUnavailable. It raises AccessDenied where this login may not ask.
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
            raise unavailable(servers, error) from error

    def count_brokers(self) -> int:
        """How many brokers the cluster lists."""
        return self.ask(brokers.count_brokers)

    def version(self) -> tuple[int, ...]:
        """The release of Kafka whose protocol the brokers speak."""
        return self.ask(brokers.protocol_version)

    def check_version(self) -> None:
        """Check that the brokers are new enough.

        Raises:
            ConfigurationError: they are not.
        """
        self.ask(brokers.check_version)

    def topics(self) -> tuple[str, ...]:
        """The names of the topics that this login may see, without Kafka's internal ones."""
        return self.ask(user_topics)

    def describe(self, topic: str) -> Mapping[str, Any]:
        """The topic's metadata; a partition may be without a leader, its error code says so.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """
        return self.ask(lambda admin: describe_topic(admin, topic))

    def allowed_operations(self, topic: str) -> frozenset[str]:
        """What the login may do with the topic, such as READ.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """
        return self.ask(lambda admin: allowed_operations(admin, topic))

    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self.ask(brokers.cluster_id)

    def snapshot(self, topic: str, read_before: bool = False) -> TopicSnapshot:
        """One snapshot of the topic, its ends being last stable offsets.

        Brokers that do not know a topic that was ``read_before`` are asked again for some seconds: one that has just
        started may not know all topics yet.

        Raises:
            UnknownTopic: the cluster has no such topic.
        """

        def ask() -> TopicSnapshot:
            return self.ask(lambda admin: take_snapshot(admin, topic))

        if not read_before:
            return ask()
        seconds = min(_STALE_SECONDS, self._timeout)
        retries = retrying(_is_unknown, f"the brokers to know topic {topic}", max_seconds=seconds)
        snapshot: TopicSnapshot = retries(ask)
        return snapshot

    def settings(self, topic: str, *names: str) -> dict[str, str]:
        """Settings of the topic, defaults included."""

        def ask(admin: Admin) -> dict[str, str]:
            settings = topic_settings(admin, topic)
            return {name: settings[name] for name in names}

        return self.ask(ask)

    def sized_logs(self, topic: str) -> dict[int, SizedLog]:
        """The logs of the topic's partitions that have a leader."""
        return self.ask(lambda admin: sized_logs(admin, topic))

    def offsets_at(self, topic: str, since: datetime) -> dict[int, int | None]:
        """Per partition the first offset whose record timestamp is at or after ``since``; None where none is."""
        return {p: first.offset if first else None for p, first in self.first_at(topic, since).items()}

    def first_at(self, topic: str, since: datetime) -> dict[int, FirstAt | None]:
        """Per partition the first record at or after ``since``, with its timestamp; None where none is."""
        return self.ask(lambda admin: offsets.first_records_at(admin, topic, since))

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Per partition where the log of this leader epoch and of earlier ones ends; absent where there is none.

        An end below an offset that was committed means that an unclean election truncated the log (KIP-101, KIP-320).
        A leader that does not know the epoch yet is asked again.
        """
        return self.ask(lambda admin: offsets.epoch_ends(admin, topic, epochs)) if epochs else {}

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a consumer group has committed for the topic, by partition."""
        return self.ask(lambda admin: groups.group_offsets(admin, group, topic))

    def set_group_offsets(self, group: str, topic: str, wanted: Mapping[int, int]) -> None:
        """Commit offsets in the name of a consumer group without members.

        Raises:
            BrokerUnavailable: also where the group has members, or the coordinator refused.
        """
        self.ask(lambda admin: groups.alter_group_offsets(admin, group, topic, wanted))


def _is_unknown(error: BaseException) -> bool:
    return isinstance(error, UnknownTopic)


@contextmanager
def connect_kafka(connection: Connection, timeout: float = inf) -> Iterator[KafkaClient]:
    """A client of the cluster, closed afterwards; while no broker answers it retries, for ``timeout`` seconds at most.

    Raises:
        ConfigurationError: the connection has a value that no client takes.
        BrokerUnavailable: none of bootstrap.servers answered in that time.
        AccessDenied: the cluster refuses the login.
    """
    admin = _connect(connection, timeout)
    try:
        yield KafkaClient(admin, timeout)
    finally:
        admin.close()


def _connect(connection: Connection, timeout: float) -> Admin:
    servers, arguments = bootstrap_servers(connection), kafka_python_arguments(connection)
    try:
        return retrying(is_transient, f"Kafka at {servers}", max_seconds=timeout)(Admin, servers, arguments)
    except (kafka_errors.KafkaError, OSError) as error:
        raise unavailable(servers, error) from error
    except ValueError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: bootstrap.servers should be host:port,host:port, found {servers!r} "
            f"({error})"
        ) from error
