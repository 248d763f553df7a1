"""The settings of a topic explained in plain words: what each gives. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.topics.settings import TopicSettings
from offset_ledger.units import show_size, show_span


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting, its value, and what it gives or costs."""

    setting: str
    value: str
    gives: str


def explain(topic: TopicSettings) -> tuple[Explained, ...]:
    """Every setting in the order of the questions people ask: what survives, how long it stays, how large it may be."""
    configs = topic.configs()
    return (
        Explained("partitions", str(topic.partitions), "equal keys keep their order within one of them"),
        Explained("replication.factor", str(topic.replication_factor), _copies(topic)),
        Explained("min.insync.replicas", configs["min.insync.replicas"], _writing(topic)),
        Explained("retention.ms", configs["retention.ms"], _time(topic)),
        Explained("retention.bytes", configs["retention.bytes"], _size(topic)),
        Explained("segment.bytes", configs["segment.bytes"], _segments(topic)),
        Explained("segment.ms", configs["segment.ms"], f"a segment is closed after {show_span(topic.segment_time)}"),
        Explained("max.message.bytes", configs["max.message.bytes"], _message(topic)),
        Explained("cleanup.policy", topic.cleanup_policy, _cleanup(topic)),
    )


def _copies(topic: TopicSettings) -> str:
    if topic.replication_factor == 1:
        return "the only copy: its disk lost is its records lost; good for development"
    text = (
        f"{_count(topic.copies_to_lose, 'copy', 'copies')} can be lost without losing a record, while all are in sync"
    )
    missing = topic.replication_factor - topic.brokers
    return text if missing <= 0 else f"{text}, had the cluster {missing} more brokers"


def _writing(topic: TopicSettings) -> str:
    away = topic.away_for_writing
    reading = f"below the high watermark, reading goes on while one of {topic.replication_factor} copies lives"
    if away < 0:
        return (
            f"more than there are copies, so taken for {topic.replication_factor}: one broker away stops writing with "
            f"acks=all (NotEnoughReplicas), and before Kafka 3.7 it never goes; {reading}"
        )
    if away == 0 and topic.replication_factor > 1:
        return f"one broker away stops writing with acks=all (NotEnoughReplicas); {reading}"
    if topic.min_insync == 1 and topic.replication_factor > 1:
        return f"with the others away acks=all means the leader alone, and its loss loses records; {reading}"
    acknowledged = f"what acks=all acknowledged is on {_count(topic.min_insync, 'copy', 'copies')} or more"
    return f"{acknowledged}, and {_count(away, 'broker', 'brokers')} may be away for writing; {reading}"


def _time(topic: TopicSettings) -> str:
    if topic.retention is None:
        return "time deletes nothing"
    stay = topic.longest_stay
    assert stay is not None
    return (
        f"a record stays at least {show_span(topic.retention)} and up to {show_span(stay)}: its segment takes records "
        f"for {show_span(topic.segment_open)} and goes when the newest of them is past the retention"
    )


def _size(topic: TopicSettings) -> str:
    if topic.retention_bytes is None:
        disk = f"; all copies take up to {show_size(topic.disk_bytes)}" if topic.disk_bytes else ""
        return f"size deletes nothing{disk}"
    text = f"each partition keeps {show_size(topic.retention_bytes)} and the open segment"
    if topic.retention is not None:
        return f"{text}; with retention.ms too, whichever is reached first deletes: a busy day cuts the time short"
    return text


def _segments(topic: TopicSettings) -> str:
    text = f"retention deletes whole segments of {show_size(topic.segment_bytes)}"
    if topic.bytes_a_day:
        return f"{text}; at {show_size(topic.bytes_a_day)} a day one is open for {show_span(topic.segment_open)}"
    return f"{text}; the open one goes last"


def _message(topic: TopicSettings) -> str:
    return f"larger batches are refused (MessageSizeTooLarge above {show_size(topic.max_message_bytes)}, compressed)"


def _cleanup(topic: TopicSettings) -> str:
    if "compact" not in topic.cleanup_policy:
        return "segments past the retention are deleted"
    both = ", and segments past the retention are deleted" if "delete" in topic.cleanup_policy else ""
    return f"of each key the record written last stays: the key has to be the event id{both}"


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
