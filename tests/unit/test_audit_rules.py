"""Each rule on facts made wrong for it, and every rule on facts that are right."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offset_ledger.audit.changes import changes
from offset_ledger.audit.facts import (
    BrokerFacts,
    GroupFacts,
    OpenTransaction,
    PartitionFacts,
    ReaderFacts,
    TopicFacts,
)
from offset_ledger.audit.finding import Finding, Severity
from offset_ledger.audit.rules import RULES, judge

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
ERROR, WARNING, INFO, OK = Severity
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)

SETTINGS = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
BROKER = {"auto.create.topics.enable": "false", "default.replication.factor": "3", "num.partitions": "1"}
PARTITION = PartitionFacts(0, 1, (1, 2, 3), (1, 2, 3), 0, 100, 100, 20_000, 90, NOW - 2 * DAY, NOW, NOW, NOW - HOUR)
READER = ReaderFacts("orders", True, True, True, 1_048_576, NOW - HOUR)
RIGHT = TopicFacts(
    topic="orders.events",
    topic_id="t",
    taken_at=NOW,
    servers="kafka:9092",
    brokers=tuple(BrokerFacts(node, None, BROKER) for node in (1, 2, 3)),
    partitions=(PARTITION, replace(PARTITION, partition=1, leader=2, replicas=(2, 3, 1))),
    settings=SETTINGS,
    own=frozenset({"retention.ms"}),
    groups=(GroupFacts("offset-ledger.orders", "Empty"), GroupFacts("billing", "Stable")),
    reader=READER,
)


def with_settings(**changed: str) -> TopicFacts:
    return replace(RIGHT, settings={**SETTINGS, **{name.replace("_", "."): value for name, value in changed.items()}})


def with_partition(**changed: Any) -> TopicFacts:
    return replace(RIGHT, partitions=(replace(PARTITION, **changed), RIGHT.partitions[1]))


def with_brokers(rack: str | None = None, count: int = 3, **changed: str) -> TopicFacts:
    settings = {**BROKER, **{name.replace("_", "."): value for name, value in changed.items()}}
    return replace(RIGHT, brokers=tuple(BrokerFacts(node, rack, settings) for node in range(1, count + 1)))


def with_reader(**changed: Any) -> TopicFacts:
    return replace(RIGHT, reader=replace(READER, **changed))


def with_copies(*nodes: int, facts: TopicFacts = RIGHT) -> TopicFacts:
    alike = tuple(replace(p, leader=nodes[0], replicas=nodes, in_sync=nodes) for p in facts.partitions)
    return replace(facts, partitions=alike)


def with_transaction(known: bool, age: timedelta) -> TopicFacts:
    return with_partition(transactions=(OpenTransaction(7, 42, NOW - age, known),))


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COMPACTED = with_settings(cleanup_policy="compact")

WRONG: list[tuple[str, Severity, TopicFacts, str, str]] = [
    ("replication-factor", ERROR, with_copies(2), "factor 1 on 3 brokers", '"partition":0,"replicas":[2,1,3]'),
    ("replication-factor", WARNING, with_copies(1, facts=with_brokers(count=1)), "1 on 1 broker", "add brokers"),
    ("replication-factor", ERROR, with_brokers(count=2), "factor 3 on 2 brokers", "start 1 more brokers"),
    ("min-insync-replicas", ERROR, with_settings(min_insync_replicas="1"), "1 of 3", "min.insync.replicas=2"),
    ("min-insync-replicas", WARNING, with_settings(min_insync_replicas="3"), "3 of 3", "min.insync.replicas=2"),
    ("min-insync-replicas", ERROR, with_settings(min_insync_replicas="4"), "4 of 3", "min.insync.replicas=2"),
    ("min-insync-replicas", WARNING, with_copies(1, 2), "2 of 2", '"replicas":[1,2,3]'),
    ("replicas-in-sync", WARNING, with_partition(in_sync=(1, 2)), "partitions 0 lack", "mend brokers 3"),
    ("replicas-in-sync", ERROR, with_partition(in_sync=(1,)), "fewer than min.insync.replicas in 0", "brokers 2, 3"),
    ("offline-partitions", ERROR, with_partition(leader=None, in_sync=(2,)), "partitions 0", "start brokers 2"),
    ("preferred-leaders", WARNING, with_partition(leader=3), "0 (by 3, not 1)", "offset-ledger audit orders --elect"),
    (
        "unclean-election",
        ERROR,
        with_settings(unclean_leader_election_enable="true"),
        "enable=true",
        "unclean.leader.election.enable=false",
    ),
    ("auto-created", WARNING, with_brokers(auto_create_topics_enable="true"), "whoever names one", "enable=false"),
    (
        "auto-created",
        WARNING,
        replace(with_brokers(auto_create_topics_enable="true", num_partitions="2"), own=frozenset()),
        "a topic made so would",
        "server.properties",
    ),
    ("closest-replica", WARNING, replace(RIGHT, client={"client.rack": "a"}), "lack broker.rack", "RackAwareReplica"),
    ("closest-replica", INFO, with_brokers("a", replica_selector_class=RACK_AWARE), "no client.rack", "client.rack"),
    (
        "closest-replica",
        WARNING,
        replace(with_brokers("a", replica_selector_class=RACK_AWARE), client={"client.rack": "z"}),
        "no broker's rack",
        "one of: a",
    ),
    ("both-retentions", WARNING, with_settings(retention_bytes="1000000"), "7 days and of 1 MB", "retention.bytes=-1"),
    ("retention-against-lag", ERROR, with_partition(log_start=95), "offsets 90 to 95", "offset-ledger skip orders"),
    (
        "retention-against-lag",
        ERROR,
        with_partition(unread_at=NOW - 6.5 * DAY),
        "6.5 days old, 12.0 hours are left",
        "offset-ledger ingest orders",
    ),
    (
        "retention-against-lag",
        WARNING,
        with_partition(unread_at=NOW - 5 * DAY),
        "48.0 hours",
        "retention.ms=1814400000",
    ),
    (
        "retention-against-lag",
        WARNING,
        replace(with_settings(retention_ms="-1", retention_bytes="25000"), partitions=(replace(PARTITION, cursor=10),)),
        "about 18 kB are unread of the 25 kB",
        "retention.bytes=75000",
    ),
    ("message-size", WARNING, with_settings(max_message_bytes="2000000"), "replica.fetch", "max.message.bytes=1048576"),
    (
        "message-size",
        WARNING,
        replace(RIGHT, client={"max.partition.fetch.bytes": "500000"}),
        "max.partition.fetch.bytes 500000",
        "max.message.bytes=500000",
    ),
    ("message-size", INFO, with_reader(value_bytes=1000), "limits.value_bytes 1000", "max.message.bytes=1000"),
    ("compaction", ERROR, replace(COMPACTED, reader=replace(READER, event_id_is_key=False)), "not the key", "=delete"),
    ("compaction", INFO, replace(COMPACTED, reader=None), "no pipeline", "offset-ledger audit PIPELINE"),
    ("compaction", INFO, replace(COMPACTED, reader=replace(READER, publish_at_is_timestamp=False)), "last", "=delete"),
    ("timestamp-type", ERROR, with_settings(message_timestamp_type="LogAppendTime"), "publish_at", "=CreateTime"),
    (
        "timestamp-type",
        WARNING,
        replace(with_settings(message_timestamp_type="LogAppendTime"), reader=None),
        "arrival",
        "=CreateTime",
    ),
    ("timestamp-range", WARNING, with_partition(newest_at=NOW + 3 * DAY), "3 days in the future", "after.max.ms"),
    ("timestamp-range", WARNING, with_partition(last_at=NOW - 400 * DAY), "400 days old", "retention.ms=-1"),
    ("timestamp-range", WARNING, with_partition(first_at=NOW - 15 * DAY), "15 days old, kept for 7 days", "=-1"),
    (
        "timestamp-range",
        INFO,
        with_settings(message_timestamp_before_max_ms="86400000"),
        "older than 24 hours are refused",
        "--delete-config message.timestamp.before.max.ms",
    ),
    ("hanging-transactions", ERROR, with_transaction(False, MINUTE), "does not know it", "abort --topic orders.events"),
    ("hanging-transactions", ERROR, with_transaction(True, HOUR), "written 1 hours ago", "--start-offset 42"),
    ("hanging-transactions", WARNING, with_transaction(True, 6 * MINUTE), "6 minutes ago", "describe-producers"),
    ("group-offsets", WARNING, with_reader(last_commit=NOW - 6 * DAY), "expires in 24 hours", "offset-ledger ingest"),
    (
        "group-offsets",
        INFO,
        replace(RIGHT, groups=(GroupFacts("old", "Empty"),)),
        "without members: old",
        "--group old",
    ),
]


def finding(facts: TopicFacts, rule: str) -> Finding:
    (found,) = (each for each in judge(facts) if each.rule == rule)
    return found


@pytest.mark.parametrize(("rule", "severity", "facts", "found", "remedy"), WRONG)
def test_a_rule_finds_what_was_made_wrong_for_it_and_no_other_rule_does(
    rule: str, severity: Severity, facts: TopicFacts, found: str, remedy: str
) -> None:
    result = finding(facts, rule)
    assert (result.severity, found in result.found, remedy in (result.remedy or "")) == (severity, True, True), result
    assert result.risk
    assert {each.rule for each in judge(facts) if each.severity is not OK} == {rule}


def test_a_right_topic_has_no_finding_and_says_what_was_seen() -> None:
    found = judge(RIGHT)
    assert {each.rule: each.severity for each in found} == {rule.name: OK for rule in RULES}
    assert all(each.found and each.remedy is None for each in found)


def test_every_rule_is_made_wrong_here() -> None:
    assert {rule for rule, *_ in WRONG} == {rule.name for rule in RULES}


RIGHT_ALL_THE_SAME = {
    "retention by size alone": with_settings(retention_ms="-1", retention_bytes="1000000"),
    "kept for ever": with_settings(retention_ms="-1"),
    "racks on both sides": replace(with_brokers("a", replica_selector_class=RACK_AWARE), client={"client.rack": "a"}),
    "compacted by event id in the order of the log": COMPACTED,
    "old records, and time deletes none": replace(
        with_settings(retention_ms="-1"), partitions=(replace(PARTITION, first_at=NOW - 400 * DAY),)
    ),
    "everything committed, and the last record long ago": with_partition(cursor=100, unread_at=None),
    "a transaction under way": with_transaction(True, MINUTE),
    "a partition that was never written": with_partition(
        last_stable=0, high_watermark=0, cursor=None, first_at=None, last_at=None, newest_at=None, unread_at=None
    ),
    "no pipeline, and the mirror of one": replace(RIGHT, reader=None),
}


@pytest.mark.parametrize("facts", RIGHT_ALL_THE_SAME.values(), ids=RIGHT_ALL_THE_SAME)
def test_what_looks_odd_and_is_right_is_no_finding(facts: TopicFacts) -> None:
    assert [each for each in judge(facts) if each.severity is not OK] == []


def test_the_worst_finding_comes_first() -> None:
    facts = replace(with_settings(min_insync_replicas="1", retention_bytes="9999999"), client={"client.rack": "a"})
    ranks = [each.severity.rank for each in judge(facts)]
    assert (ranks[0], ranks) == (0, sorted(ranks))


def test_changes_are_told_by_severity() -> None:
    before = {"a": OK, "b": ERROR, "c": WARNING, "d": ERROR, "e": INFO}
    now = [
        Finding(rule, severity, "", "", None)
        for rule, severity in zip("abcde", (ERROR, OK, ERROR, INFO, INFO), strict=True)
    ]
    assert [str(change) for change in changes(before, now)] == [
        "new: a (ok -> error)",
        "gone: b (error -> ok)",
        "worse: c (warning -> error)",
        "better: d (error -> info)",
    ]
    assert changes({}, now) == ()
