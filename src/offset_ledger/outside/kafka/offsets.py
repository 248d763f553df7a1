"""Offsets of a topic's partitions: where the log starts and ends, by timestamp, and by leader epoch."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec
from kafka.protocol.consumer import IsolationLevel, OffsetForLeaderEpochRequest

from offset_ledger.model.moments import FirstAt, moment
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.outside.kafka.topics import describe_available_topic, partition_numbers

_Epoch = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition


class ListedOffset(NamedTuple):
    """The answer of a partition's leader: an offset, the timestamp of its record, the leader's epoch; -1: none."""

    offset: int
    timestamp: int
    leader_epoch: int


def log_starts(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The first offset that each log still has."""
    return _offsets(_list(admin, topic, dict.fromkeys(partitions, OffsetSpec.EARLIEST)))


def high_watermarks(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the end of each log up to which it is replicated."""
    return _offsets(_list(admin, topic, dict.fromkeys(partitions, OffsetSpec.LATEST)))


def last_stable(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, ListedOffset]:
    """The end of what belongs to no open transaction, with the leader's epoch."""
    return _list(admin, topic, dict.fromkeys(partitions, OffsetSpec.LATEST), IsolationLevel.READ_COMMITTED)


def newest_records(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, ListedOffset]:
    """The record with the greatest timestamp of each partition."""
    return _list(admin, topic, dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP))


def oldest_records(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[int, ListedOffset]:
    """The first record of each partition that has a timestamp."""
    return _list(admin, topic, dict.fromkeys(partitions, 0))


def record_times(admin: Admin, topic: str) -> tuple[datetime, datetime] | None:
    """The timestamps of the record that the topic begins with, and of its newest one; None where it has none."""
    partitions = partition_numbers(describe_available_topic(admin, topic))
    listed = (find(admin, topic, partitions).values() for find in (oldest_records, newest_records))
    times = [each.timestamp for of_all in listed for each in of_all if each.timestamp >= 0]
    return (moment(min(times)), moment(max(times))) if times else None


def first_records_at(admin: Admin, topic: str, since: datetime) -> dict[int, FirstAt | None]:
    """Return per partition the first record whose timestamp is at or after ``since``; None if there is none."""
    millis = max(0, ceil(since.timestamp() * 1000))  # negative ones have a meaning of their own
    partitions = partition_numbers(describe_available_topic(admin, topic))
    listed = _list(admin, topic, dict.fromkeys(partitions, millis))
    return {
        partition: FirstAt(answer.offset, moment(answer.timestamp)) if answer.offset >= 0 else None
        for partition, answer in listed.items()
    }


def epoch_ends(admin: Admin, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
    """Return per partition where the log of this leader epoch and earlier ones ends; absent if it is gone."""
    leaders: dict[int, list[int]] = {}
    for partition in describe_available_topic(admin, topic)["partitions"]:
        if partition["partition_index"] in epochs:
            leaders.setdefault(partition["leader_id"], []).append(partition["partition_index"])
    ends: dict[int, int] = {}
    for leader, partitions in leaders.items():
        asked = [_Epoch(partition=p, current_leader_epoch=-1, leader_epoch=epochs[p]) for p in partitions]
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[(topic, asked)])
        for answer in admin.send(request, leader).topics[0].partitions:
            if answer.error_code:
                raise kafka_errors.for_code(answer.error_code)(f"{topic} {answer.partition}")
            if answer.end_offset < 0:  # a former leader: it was unavailable when this epoch began
                raise kafka_errors.UnknownLeaderEpochError(f"{topic} {answer.partition}")
            ends[answer.partition] = int(answer.end_offset)
    return ends


def _list(
    admin: Admin, topic: str, specs: Mapping[int, Any], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
) -> dict[int, ListedOffset]:
    places = {TopicPartition(topic, partition): spec for partition, spec in specs.items()}
    answers = admin.client.list_partition_offsets(places, isolation_level=isolation)
    return {
        tp.partition: ListedOffset(
            int(answer.offset),
            int(answer.timestamp),
            -1 if answer.leader_epoch is None else int(answer.leader_epoch),
        )
        for tp, answer in answers.items()
    }


def _offsets(listed: Mapping[int, ListedOffset]) -> dict[int, int]:
    return {partition: answer.offset for partition, answer in listed.items()}
