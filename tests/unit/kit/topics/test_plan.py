"""From requirements to settings, and what the settings are said to give."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from offset_ledger.base.units import parse_size, parse_span, show_size, show_span
from offset_ledger.errors import ConfigurationError
from offset_ledger_kit.topics.settings import Durability, TopicRequirements, TopicSettings, explain, plan

DAY = timedelta(days=1)
MB, GB, MIB = 10**6, 10**9, 2**20


@pytest.mark.parametrize(
    ("brokers", "durability", "factor", "min_insync", "away"),
    [
        (1, Durability.USUAL, 1, 1, 0), (2, Durability.USUAL, 2, 2, 0), (3, Durability.USUAL, 3, 2, 1),
        (9, Durability.USUAL, 3, 2, 1), (9, Durability.STRICT, 3, 3, 0), (9, Durability.DEVELOPMENT, 1, 1, 0),
    ],
)  # fmt: skip
def test_copies_follow_the_brokers_and_the_durability(
    brokers: int, durability: Durability, factor: int, min_insync: int, away: int
) -> None:
    topic_settings = plan(TopicRequirements(brokers, durability=durability))
    assert (topic_settings.replication_factor, topic_settings.min_insync, topic_settings.away_for_writing) == (
        factor,
        min_insync,
        away,
    )
    assert topic_settings.copies_to_lose == factor - 1


@pytest.mark.parametrize(
    ("bytes_a_day", "partitions", "retention", "segment", "open_for"),
    [
        (100 * MB, 1, 7 * DAY, 66 * MIB, 0.69 * DAY),
        (10 * GB, 1, 7 * DAY, 1024 * MIB, 0.107 * DAY),
        (1 * MB, 6, 7 * DAY, 16 * MIB, 0.7 * DAY),
        (100 * MB, 1, None, 1024 * MIB, 7 * DAY),
        (100 * MB, 1, timedelta(hours=2), 16 * MIB, DAY / 24),
    ],
)
def test_segments_are_about_a_tenth_of_what_is_kept(
    bytes_a_day: int, partitions: int, retention: timedelta | None, segment: int, open_for: timedelta
) -> None:
    topic_settings = plan(TopicRequirements(3, partitions, bytes_a_day=bytes_a_day, retention=retention))
    assert topic_settings.segment_bytes == segment
    assert topic_settings.segment_open / open_for == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("record", "largest"), [(200, 1_048_588), (1_048_576, 2 * MIB), (5 * MIB, 6 * MIB)])
def test_the_largest_record_fits(record: int, largest: int) -> None:
    assert plan(TopicRequirements(3, record_bytes=record)).max_message_bytes == largest


CLASSIC = TopicSettings(
    brokers=3,
    partitions=1,
    replication_factor=3,
    min_insync=2,
    retention=7 * DAY,
    retention_bytes=None,
    segment_bytes=GB,
    segment_time=365 * DAY,
    max_message_bytes=1_048_588,
    bytes_a_day=100 * MB,
)


@pytest.mark.parametrize(
    ("topic", "days"),
    [
        (CLASSIC, 17),  # 10 days until 1 GB is full, and 7 after its last record
        (replace(CLASSIC, segment_time=7 * DAY), 14),  # Kafka's default closes a segment after a week
        (replace(CLASSIC, segment_bytes=100 * MB), 8),
        (replace(CLASSIC, partitions=4), 47),  # each partition has a segment of its own to fill
        (replace(CLASSIC, bytes_a_day=None, segment_time=7 * DAY), 14),
    ],
)
def test_how_long_a_record_really_stays(topic: TopicSettings, days: int) -> None:
    assert topic.longest_stay == days * DAY


def test_disk_counts_every_copy_and_the_longest_stay() -> None:
    assert CLASSIC.disk_bytes == 17 * 100 * MB * 3
    assert replace(CLASSIC, retention_bytes=200 * MB).disk_bytes == (200 * MB + GB) * 3
    assert replace(CLASSIC, retention=None).disk_bytes is None


@pytest.mark.parametrize(
    ("topic", "setting", "text"),
    [
        (CLASSIC, "replication.factor", "2 copies can be lost"),
        (replace(CLASSIC, replication_factor=1, min_insync=1), "replication.factor", "the only copy"),
        (replace(CLASSIC, brokers=2), "replication.factor", "had the cluster 1 more brokers"),
        (CLASSIC, "min.insync.replicas", "is on 2 copies or more, and 1 broker may be away for writing"),
        (CLASSIC, "min.insync.replicas", "reading goes on while one of 3 copies lives"),
        (replace(CLASSIC, min_insync=3), "min.insync.replicas", "one broker away stops writing"),
        (replace(CLASSIC, min_insync=1), "min.insync.replicas", "the leader alone"),
        (replace(CLASSIC, min_insync=4), "min.insync.replicas",
            "taken for 3: one broker away stops writing with acks=all"),
        (CLASSIC, "retention.ms", "at least 7 days and up to 17 days: its segment takes records for 10 days"),
        (CLASSIC, "retention.bytes", "all copies take up to 5.1 GB"),
        (replace(CLASSIC, retention_bytes=GB), "retention.bytes", "whichever is reached first deletes"),
        (replace(CLASSIC, retention=None), "retention.ms", "time deletes nothing"),
        (replace(CLASSIC, cleanup_policy="compact"), "cleanup.policy", "the key has to be the event id"),
    ],
)  # fmt: skip
def test_what_a_setting_gives(topic: TopicSettings, setting: str, text: str) -> None:
    (gives,) = (gives for name, _, gives in explain(topic) if name == setting)
    assert text in gives


def test_the_largest_number_of_kafka_is_for_ever() -> None:
    largest = str(2**63 - 1)
    topic_settings = TopicSettings.read(
        3, 1, 3, {**CLASSIC.configs(), "retention.ms": largest, "segment.ms": largest}, 100 * MB
    )
    assert (topic_settings.retention, topic_settings.longest_stay, topic_settings.segment_open) == (
        None,
        None,
        10 * DAY,
    )
    assert ("retention.ms", "-1", "time deletes nothing") in explain(topic_settings)


def test_the_settings_are_what_kafka_takes() -> None:
    assert CLASSIC.configs() == {
        "cleanup.policy": "delete", "max.message.bytes": "1048588", "min.insync.replicas": "2", "retention.bytes": "-1",
        "retention.ms": "604800000", "segment.bytes": "1000000000", "segment.ms": "31536000000",
        "unclean.leader.election.enable": "false",
    }  # fmt: skip


def test_sizes_and_spans_are_read_and_shown() -> None:
    assert [parse_size(text) for text in ("200", "100MB", "1 GiB", "1.5kb")] == [200, 100 * MB, 2**30, 1500]
    assert [parse_span(text) for text in ("90s", "36h", "7d")] == [timedelta(seconds=90), 1.5 * DAY, 7 * DAY]
    assert [show_size(size) for size in (999, 1_500, 999_900, 10**12)] == ["999 bytes", "1.5 kB", "1,000 kB", "1 TB"]
    spans = (timedelta(seconds=3), timedelta(minutes=12), 1.5 * DAY, 17.7 * DAY, 20_000 * DAY)
    assert [show_span(span) for span in spans] == ["3 seconds", "12 minutes", "36 hours", "17.7 days", "20,000 days"]
    assert [show_span(timedelta(seconds=seconds)) for seconds in (1, 60, 3600)] == ["1 second", "1 minute", "1 hour"]
    for wrong in ("", "7 weeks", "-1d"):
        with pytest.raises(ConfigurationError, match=r"expected a span such as 90s, 36h or 7d, found"):
            parse_span(wrong)
    with pytest.raises(ConfigurationError, match="at most 365,000 days, found '999999999999d'"):
        parse_span("999999999999d")
    with pytest.raises(ConfigurationError, match="at most 9223372036854775807 bytes"):
        parse_size("9" * 400)
