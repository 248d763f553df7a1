"""The one place that asks Kafka: what a topic is, and which offsets it holds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from math import ceil, inf
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.protocol.consumer import IsolationLevel, OffsetForLeaderEpochRequest
from kafka.structs import OffsetAndMetadata

from offset_ledger.connections import Connection, bootstrap_servers, kafka_python_arguments
from offset_ledger.errors import (
    AccessDenied,
    BrokerUnavailable,
    ConfigurationError,
    OffsetLedgerError,
    UnknownTopic,
    UnreadableRecord,
    error_line,
)
from offset_ledger.model.moments import FirstAt, moment
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.retry import retry_seconds, retrying

if (_client_log := logging.getLogger("kafka")).level == logging.NOTSET:
    # It tells each connection in twenty lines, between which the log of a task would hide ours; what fails we tell.
    _client_log.setLevel(logging.ERROR)

T = TypeVar("T")
_DEFAULTS = {"delete.retention.ms": "86400000"}  # not every broker that speaks the protocol tells it
_Epoch = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition


def _passes(error: BaseException) -> bool:
    """Whether asking again may help; kafka-python itself retries only NotLeaderForPartition."""
    return isinstance(error, kafka_errors.KafkaError) and bool(error.retriable)


class Broker:
    """Questions to one Kafka cluster; each waits out what passes, within the patience."""

    def __init__(self, client: KafkaAdminClient, servers: str, timeout: float = inf) -> None:
        self._client = client
        self._servers = servers
        self._timeout = timeout

    def ask(self, question: Callable[[KafkaAdminClient], T]) -> T:
        """The answer to any other question, asked again while it fails for what passes.

        Raises:
            BrokerUnavailable: no answer within the patience.
        """
        return self._waiting(lambda: question(self._client))

    def snapshot(self, topic: str) -> TopicSnapshot:
        """One snapshot of the topic, its ends being last stable offsets.

        Raises:
            UnknownTopic: the cluster has no such topic.
            BrokerUnavailable: no answer within the patience.
        """
        return self._waiting(lambda: self._snapshot(topic))

    def _snapshot(self, topic: str) -> TopicSnapshot:
        described = self._describe(topic)
        partitions = sorted(described["partitions"], key=lambda p: p["partition_index"])
        places = [TopicPartition(topic, p["partition_index"]) for p in partitions]
        # Starts before ends: a start that moves between the two answers is caught by the read, not hidden by it.
        starts = self._offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        # The leader answers with its epoch: that of the description may be older than the records below this offset.
        stable = self._answers(dict.fromkeys(places, OffsetSpec.LATEST), IsolationLevel.READ_COMMITTED)
        ends = self._offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        settings = self._topic_settings(topic)
        return TopicSnapshot(
            cluster_id=self._client.describe_cluster()["cluster_id"],
            topic=topic,
            topic_id=str(described["topic_id"]),
            compacted="compact" in settings["cleanup.policy"],
            partitions=tuple(
                PartitionSnapshot(
                    tp.partition, starts[tp], int(stable[tp].offset), ends[tp], int(stable[tp].leader_epoch)
                )
                for tp in places
            ),
            delete_retention_ms=int(settings["delete.retention.ms"]),
        )

    def settings(self, topic: str, *names: str) -> dict[str, str]:
        """Settings of the topic, defaults included."""

        def ask() -> dict[str, str]:
            settings = self._topic_settings(topic)
            return {name: settings[name] for name in names}

        return self._waiting(ask)

    def offsets_at(self, topic: str, moment: datetime) -> dict[int, int | None]:
        """Per partition the first offset whose record timestamp is at or after ``moment``; None where none is."""
        return {p: found.offset if found else None for p, found in self.first_at(topic, moment).items()}

    def first_at(self, topic: str, moment: datetime) -> dict[int, FirstAt | None]:
        """Per partition the first record at or after ``moment``, with its timestamp; None where none is."""

        def ask() -> dict[int, FirstAt | None]:
            described = self._describe(topic)
            millis = max(0, ceil(moment.timestamp() * 1000))  # negative ones have a meaning of their own
            places = {TopicPartition(topic, p["partition_index"]): millis for p in described["partitions"]}
            found = self._client.list_partition_offsets(places)
            return {tp.partition: _first(answer) for tp, answer in found.items()}

        return self._waiting(ask)

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a consumer group has committed for the topic, by partition."""
        found = self._waiting(lambda: self._client.list_group_offsets({group: None}))[group]
        return {tp.partition: int(at.offset) for tp, at in found.items() if tp.topic == topic and at.offset >= 0}

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets in the name of a consumer group without members.

        Raises:
            BrokerUnavailable: the group has members, or the coordinator refused.
        """
        wanted = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}

        def commit() -> None:
            for tp, error in self._client.alter_group_offsets(group, wanted).items():
                if error is not kafka_errors.NoError:
                    raise error(f"{group} {tp.topic} {tp.partition}")

        self._waiting(commit)

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Per partition where the log of this leader epoch and of earlier ones ends; absent where there is none.

        An end below an offset that was committed means that an unclean election cut the log off (KIP-101, KIP-320).

        Raises:
            BrokerUnavailable: no answer within the patience, or only from a leader that does not know the epoch yet.
        """
        return self._waiting(lambda: self._epoch_ends(topic, epochs)) if epochs else {}

    def _epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        leaders: dict[int, list[int]] = {}
        for partition in self._describe(topic)["partitions"]:
            if partition["partition_index"] in epochs:
                leaders.setdefault(partition["leader_id"], []).append(partition["partition_index"])
        found = {}
        for leader, partitions in leaders.items():
            asked = [_Epoch(partition=p, current_leader_epoch=-1, leader_epoch=epochs[p]) for p in partitions]
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[(topic, asked)])
            for answer in self._send(request, leader).topics[0].partitions:
                if answer.error_code:
                    raise kafka_errors.for_code(answer.error_code)(f"{topic} {answer.partition}")
                if answer.end_offset < 0:  # a leader of before: it was away while this epoch began
                    raise kafka_errors.UnknownLeaderEpochError(f"{topic} {answer.partition}")
                found[answer.partition] = int(answer.end_offset)
        return found

    def _send(self, request: Any, node: int) -> Any:
        """One request to one broker; the admin client has no public call for it."""

        async def send() -> Any:
            return await self._client._manager.send(request, node_id=node)

        return self._client._manager.run(send)

    def describe(self, topic: str) -> Mapping[str, Any]:
        """The topic's metadata; a partition may be without a leader, its error code says so.

        Raises:
            UnknownTopic: the cluster has no such topic.
            BrokerUnavailable: no answer within the patience.
        """
        return self._waiting(lambda: self._described(topic))

    def _describe(self, topic: str) -> Mapping[str, Any]:
        described = self._described(topic)
        for partition in described["partitions"]:
            if partition["error_code"]:
                raise kafka_errors.for_code(partition["error_code"])(f"{topic} {partition['partition_index']}")
        return described

    def _described(self, topic: str) -> Mapping[str, Any]:
        (described,) = self._client.describe_topics([topic])
        error = kafka_errors.for_code(described["error_code"])
        if error in (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.InvalidTopicError):
            raise UnknownTopic(
                f"topic {topic!r} does not exist on {self._servers}; create it, or correct its name "
                "(source.topic in a pipeline file)"
            )
        if error is not kafka_errors.NoError:
            raise error(f"topic {topic}")
        return dict(described)

    def _offsets(self, specs: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        return {tp: int(answer.offset) for tp, answer in self._answers(specs).items()}

    def _answers(
        self, specs: Mapping[TopicPartition, Any], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, Any]:
        return dict(self._client.list_partition_offsets(dict(specs), isolation_level=isolation))

    def _topic_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (kinds,) = self._client.describe_configs([resource], config_filter="all").values()
        return _DEFAULTS | {name: str(each["value"]) for name, each in kinds[topic].items()}

    def _waiting(self, ask: Callable[[], T]) -> T:
        try:
            return retrying(_passes, f"Kafka at {self._servers}", max_seconds=self._timeout)(ask)
        except kafka_errors.KafkaError as error:
            raise unavailable(self._servers, error) from error


def _first(answer: Any) -> FirstAt | None:
    if answer.offset < 0:
        return None
    return FirstAt(int(answer.offset), moment(answer.timestamp))


_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)


def unavailable(servers: str, error: BaseException) -> OffsetLedgerError:
    """The error for a cluster that did not answer as it was asked to, or does not let this login ask.

    A wrong password is a timeout to kafka-python, and so it is here.
    """
    if isinstance(error, _DENIED):
        return AccessDenied(
            f"Kafka at {servers} does not let this login do it ({error_line(error)}); correct the login of the "
            "connection or give it the rights of docs/production.md"
        )
    return BrokerUnavailable(
        f"Kafka at {servers} did not answer ({error_line(error)}); check that the brokers run and that bootstrap.servers "
        "and login of the connection are right"
    )


@contextmanager
def connect(connection: Connection, timeout: float = inf) -> Iterator[Broker]:
    """A broker to ask, closed afterwards; what is away is waited for within the patience and ``timeout`` seconds.

    Raises:
        ConfigurationError: the connection has a value that no client takes.
        BrokerUnavailable: none of bootstrap.servers answered in that time.
    """
    servers = bootstrap_servers(connection)
    arguments = kafka_python_arguments(connection)

    def bootstrap() -> KafkaAdminClient:
        return KafkaAdminClient(**{"bootstrap_timeout_ms": 4000, "request_timeout_ms": 10_000, **arguments})

    try:
        client = retrying(_passes, f"Kafka at {servers}", max_seconds=timeout)(bootstrap)
    except (kafka_errors.KafkaError, OSError) as error:
        raise unavailable(servers, error) from error
    except ValueError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: bootstrap.servers should be host:port,host:port, found {servers!r} "
            f"({error})"
        ) from error
    try:
        yield Broker(client, servers, timeout)
    finally:
        client.close()


def record_offsets(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[int]:
    """The offsets in the range that hold a record for a reader of this isolation level, in order.

    Raises:
        BrokerUnavailable: as :func:`records`.
    """
    return (record.offset for record in records(connection, topic, wanted, isolation))


def records(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Any]:
    """The records in the range for a reader of this isolation level, in order.

    ``read_committed`` leaves out aborted records; no reader sees control records.

    Raises:
        BrokerUnavailable: the range did not come to its end within the patience.
        UnreadableRecord: the name of a header is not UTF-8.
    """
    place = TopicPartition(topic, wanted.partition)
    settings = {
        "isolation_level": isolation,
        "enable_auto_commit": False,
        "group_id": None,
        "auto_offset_reset": "none",
    }
    try:
        with closing(KafkaConsumer(**kafka_python_arguments(connection), **settings)) as consumer:
            consumer.assign([place])
            consumer.seek(place, wanted.from_offset)
            deadline = time.monotonic() + retry_seconds()
            while consumer.position(place) < wanted.until_offset:
                for record in consumer.poll(timeout_ms=500).get(place, ()):
                    deadline = time.monotonic() + retry_seconds()
                    if record.offset < wanted.until_offset:
                        yield record
                if time.monotonic() > deadline:
                    at = consumer.position(place)
                    raise BrokerUnavailable(
                        f"topic {topic}: range {wanted} was read up to {at} and no further within {retry_seconds():.0f} s; "
                        "check that the brokers run"
                    )
    except kafka_errors.KafkaError as error:
        if isinstance(error, kafka_errors.CorruptRecordError) and "UnicodeDecodeError" in str(error):
            raise UnreadableRecord(
                f"topic {topic}: a record of {wanted} has a header whose name is not UTF-8, and this client reads none "
                "behind it; nothing was changed; wait until retention has deleted it, or read a range without it"
            ) from error
        raise unavailable(bootstrap_servers(connection), error) from error
