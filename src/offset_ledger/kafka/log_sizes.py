"""How large the logs of a topic are on the brokers' disks, and since when they have grown."""

from __future__ import annotations

from collections.abc import Mapping

from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.offsets import oldest_records
from offset_ledger.kafka.topics import describe_topic, leaders
from offset_ledger.model.moments import moment_or_none
from offset_ledger.model.retention import SizedLog


def sized_logs(admin: Admin, topic: str) -> dict[int, SizedLog]:
    """The log of each partition that has a leader."""
    led = leaders(describe_topic(admin, topic))
    sizes, oldest = log_sizes(admin, topic, led), oldest_records(admin, topic, led)
    return {p: SizedLog(sizes.get(p), moment_or_none(oldest[p].timestamp)) for p in led}


def log_sizes(admin: Admin, topic: str, led: Mapping[int, int]) -> dict[int, int]:
    """By partition the bytes on its leader's disk.

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
