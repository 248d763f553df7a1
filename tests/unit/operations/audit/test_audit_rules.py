"""Each rule on facts made wrong for it, and every rule on facts that are right."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offset_ledger.base.units import counted
from offset_ledger.operations.audit.facts import (
    BrokerFacts,
    OpenTransaction,
    Owner,
    PartitionFacts,
    ReaderFacts,
    TopicFacts,
)
from offset_ledger.operations.audit.finding import AuditFinding, Severity, changes, numbered
from offset_ledger.operations.audit.rules import RULES, check_topic

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
ERROR, WARNING, INFO, OK = Severity
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)

SETTINGS = {
    "cleanup.policy": "delete", "max.message.bytes": "1048588",
    "message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2", "delete.retention.ms": "86400000", "retention.bytes": "-1", "retention.ms": "604800000",
    "segment.ms": "604800000", "unclean.leader.election.enable": "false",
}  # fmt: skip
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
    groups={"offset-ledger.orders": "Empty", "billing": "Stable"},
    reader=READER,
)


def with_settings(**changed: str) -> TopicFacts:
    return replace(RIGHT, settings={**SETTINGS, **{name.replace("_", "."): value for name, value in changed.items()}})


def with_racks(rack: str, *racks: str | None) -> TopicFacts:
    """A reader in that rack, and a broker in each of those."""
    brokers = (
        BrokerFacts(n, each, {**BROKER, "replica.selector.class": RACK_AWARE}) for n, each in enumerate(racks, 1)
    )
    return replace(RIGHT, brokers=tuple(brokers), client={"client.rack": rack})


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


def with_one_away(facts: TopicFacts) -> TopicFacts:
    """The second copy of partition 0 is not in sync."""
    first, *others = facts.partitions
    return replace(facts, partitions=(replace(first, in_sync=first.replicas[:1]), *others))


def with_transaction(age: timedelta, timeout: timedelta = MINUTE) -> TopicFacts:
    """Open for so long, by its coordinator; its record says that it is from last year."""
    return with_open(OpenTransaction(7, 42, NOW - 365 * DAY, Owner("billing-1", "Ongoing", NOW - age, timeout)))


def with_open(*transactions: OpenTransaction) -> TopicFacts:
    return with_partition(transactions=transactions)


def with_reader_of(facts: TopicFacts) -> TopicFacts:
    """The same with the reader that deletes by nothing."""
    return replace(facts, reader=READER)


HANGING = OpenTransaction(7, 42, NOW, hanging=True)
UNHEARD = OpenTransaction(7, 42, NOW - HOUR)


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COMPACTED = with_settings(cleanup_policy="compact")


def with_tombstones(unread: timedelta | None = None, every: timedelta | None = None) -> TopicFacts:
    """A compacted topic whose pipeline deletes by tombstones: unread for so long, and run so often."""
    reader = replace(READER, deletes_by_tombstone=True, runs_every=every)
    first = replace(PARTITION, unread_since=NOW - unread if unread else None)
    return replace(COMPACTED, reader=reader, partitions=(first, RIGHT.partitions[1]))


WRONG: list[tuple[str, Severity, TopicFacts, str, str]] = [
    ("replication-factor", ERROR, with_copies(2), "replication factor 1, and 3 brokers up",
        '"partition":0,"replicas":[2,1,3]'),
    ("replication-factor", WARNING, with_copies(1, facts=with_brokers(count=1)),
        "replication factor 1, and 1 broker up", "add brokers"),
    ("replication-factor", ERROR, with_brokers(count=2), "replication factor 3, and 2 brokers up",
        "start 1 more broker, or settle for 2 copies:\n"),
    ("min-insync-replicas", ERROR, with_settings(min_insync_replicas="1"), "min.insync.replicas 1 of 3 copies", "=2"),
    ("min-insync-replicas", WARNING, with_settings(min_insync_replicas="3"), "min.insync.replicas 3 of 3 copies", "=2"),
    ("min-insync-replicas", WARNING, with_settings(min_insync_replicas="4"), "min.insync.replicas 4 of 3 copies", "=2"),
    ("min-insync-replicas", WARNING, with_copies(1, 2), "min.insync.replicas 2 of 2 copies", '"replicas":[1,2,3]'),
    ("min-insync-replicas", WARNING, with_copies(1, 2, facts=with_brokers(count=2)),
        "min.insync.replicas 2 of 2 copies", "start a third broker"),
    ("min-insync-replicas", WARNING, with_copies(1, 2, facts=with_settings(min_insync_replicas="3")),
        "min.insync.replicas 3 of 2 copies", "=2\nand add a third copy:\necho "),
    ("min-insync-replicas", ERROR, with_copies(1, 2, facts=with_settings(min_insync_replicas="1")),
        "min.insync.replicas 1 of 2 copies", "=2\nand add a third copy:\necho "),
    ("replicas-in-sync", WARNING, with_partition(in_sync=(1, 2)), "not in sync: the copies of partition 0 on broker 3",
        "start or repair broker 3, then check that nothing is listed here:\n"),
    ("replicas-in-sync", ERROR, with_partition(in_sync=(1,)),
        "not in sync: the copies of partition 0 on brokers 2, 3; partition 0 below min.insync.replicas (2)",
        "start or repair brokers 2, 3,"),
    ("offline-partitions", ERROR, with_partition(leader=None, in_sync=(2,)), "no leader: partition 0",
        "start broker 2, then check that nothing is listed here:\n"),
    ("preferred-leaders", WARNING, with_partition(leader=3),
        "not led by the preferred broker: partition 0 (by broker 3, not 1)",
        "offset-ledger kafka audit orders --elect"),
    ("unclean-election", ERROR, with_settings(unclean_leader_election_enable="true"),
        "a copy that is not in sync may become the leader (unclean.leader.election.enable=true)",
        "unclean.leader.election.enable=false"),
    ("auto-created", INFO, replace(RIGHT, brokers=tuple(BrokerFacts(node, None, {}) for node in (1, 2, 3))),
        "not known: brokers 1, 2, 3 showed no settings to this login", "the right DescribeConfigs on the cluster"),
    ("auto-created", WARNING, with_brokers(auto_create_topics_enable="true"),
        "whoever names a topic creates it (auto.create.topics.enable=true on brokers 1, 2, 3)",
        "write auto.create.topics.enable=false into server.properties of brokers 1, 2, 3 and restart one broker at a"),
    ("auto-created", WARNING,
        replace(with_brokers(auto_create_topics_enable="true", num_partitions="2"), own=frozenset()),
        "whoever names a topic creates it (auto.create.topics.enable=true on brokers 1, 2, 3); this one has the "
        "brokers' defaults in everything, as a topic created so would", "server.properties"),
    ("closest-replica", WARNING, replace(RIGHT, client={"client.rack": "a"}),
        "client.rack is a, but broker.rack is missing on brokers 1, 2, 3 and the RackAwareReplicaSelector is missing "
        "on brokers 1, 2, 3",
        "write replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector into server.properties"),
    ("closest-replica", WARNING, with_racks("a", "a", "b", None),
        "client.rack is a, but broker.rack is missing on broker 3",
        "write broker.rack=RACK, each its own, into server.properties of broker 3"),
    ("closest-replica", INFO, with_brokers("a", replica_selector_class=RACK_AWARE),
        "the brokers offer the closest copy (racks a), and the connection has no client.rack",
        "set client.rack in the extra of the Kafka connection to the reader's rack: a"),
    ("closest-replica", WARNING, with_racks("z", "a", "b", "a"), "client.rack is z, and no broker is there (a, b)",
        "to a or b"),
    ("closest-replica", WARNING, with_racks("d", "a", "b", "c", "d"),
        "client.rack is d, and partitions 0, 1 have no copy there", '"replicas":[1,2,4]'),
    ("both-retentions", WARNING, with_settings(retention_bytes="1000000"),
        "both delete: retention.ms (7 days) and retention.bytes (1 MB a partition)",
        "--add-config retention.bytes=-1\nor by size alone:\n"),
    ("retention-against-lag", ERROR, with_partition(log_start=95),
        "deleted before they were committed: 5 offsets, 90 to 94 of partition 0",
        "where it is fail (the default), and approve the loss (OffsetExpired in docs/runbook.md):\n"
        "offset-ledger accept loss orders --why 'retention deleted them'"),
    ("retention-against-lag", ERROR, with_partition(unread_at=NOW - 6.5 * DAY),
        "partition 0: the oldest unread record is 6.5 days old and is deleted in 12 hours",
        "catch up:\noffset-ledger ingest orders --until-drained\n"),
    ("retention-against-lag", WARNING, with_partition(unread_at=NOW - 5 * DAY),
        "partition 0: the oldest unread record is 5 days old and is deleted in 2 days", "retention.ms=1814400000"),
    ("retention-against-lag", WARNING,
        replace(with_settings(retention_ms="-1", retention_bytes="25000"), partitions=(replace(PARTITION, cursor=10),)),
        "partition 0: about 18 kB unread, of 25 kB kept", "retention.bytes=75000"),
    ("retention-against-lag", INFO, replace(with_settings(retention_ms="-1", retention_bytes="25000"),
        partitions=(replace(PARTITION, size_bytes=None),)),
        "not known by retention.bytes: this login is not shown the size of partition 0",
        "give the login of the audit the right Describe on the cluster"),
    ("tombstones-against-lag", ERROR, with_tombstones(unread=25 * HOUR),
        "partition 0: records may have waited unread for 25 hours, and tombstones are kept for 24 hours",
        "delete.retention.ms=270000000\ncatch up:\noffset-ledger ingest orders --until-drained"),
    ("tombstones-against-lag", WARNING, with_tombstones(unread=17 * HOUR, every=HOUR),
        "partition 0: records may have waited unread for 17 hours, and tombstones are kept for 24 hours",
        "delete.retention.ms=259200000"),
    ("tombstones-against-lag", ERROR, with_tombstones(every=DAY),
        "up to 24 hours pass between two runs, and tombstones are kept for 24 hours", "delete.retention.ms=259200000"),
    ("message-size", WARNING, with_settings(max_message_bytes="2000000"),
        "records of up to 2,000,000 bytes are taken (max.message.bytes), and the brokers' replica.fetch.max.bytes is "
        "1,048,576, the readers' max.partition.fetch.bytes is 1,048,576",
        "refuse larger records:\nkafka-configs.sh --bootstrap-server kafka:9092 --alter --entity-type topics "
        "--entity-name orders.events --add-config max.message.bytes=1048576\nor write replica.fetch.max.bytes=2000000 "
    ),
    ("message-size", WARNING, replace(RIGHT, client={"max.partition.fetch.bytes": "500000"}),
        "records of up to 1,048,588 bytes are taken (max.message.bytes), and the readers' max.partition.fetch.bytes is "
        "500,000", "max.message.bytes=500000\nor set max.partition.fetch.bytes=1048588 in the extra"),
    ("message-size", INFO, with_reader(value_bytes=1000),
        "records of up to 1,048,588 bytes are taken (max.message.bytes), and the pipeline's limits.value_bytes is "
        "1,000", "max.message.bytes=1000"),
    ("compaction", ERROR, replace(COMPACTED, reader=replace(READER, event_id_is_key=False)),
        "compacted by key, and the event id is not the key", "delete by age instead (after 7 days):\n"),
    ("compaction", INFO, replace(COMPACTED, reader=None),
        "compacted, and no pipeline was named: whether the key is the event id is not known",
        "offset-ledger kafka audit PIPELINE"),
    ("compaction", INFO, replace(COMPACTED, reader=replace(READER, publish_at_is_timestamp=False)),
        "compacted: of each event id the record written last stays, the pipeline wants the one published last",
        "=delete"),
    ("timestamp-type", ERROR, with_settings(message_timestamp_type="LogAppendTime"),
        "a record's timestamp is when it arrived (message.timestamp.type=LogAppendTime), and the pipeline takes "
        "publish_at from the record's timestamp", "=CreateTime"),
    ("timestamp-type", WARNING, replace(with_settings(message_timestamp_type="LogAppendTime"), reader=None),
        "a record's timestamp is when it arrived (message.timestamp.type=LogAppendTime)", "=CreateTime"),
    ("timestamp-range", WARNING, with_partition(newest_at=NOW + 3 * DAY),
        "partition 0: a record is 3 days in the future", "after.max.ms=3600000"),
    ("timestamp-range", WARNING, with_partition(last_at=NOW - 400 * DAY),
        "partition 0: a record is 400 days old, and 7 days are kept", "retention.ms=-1\nthen as before:\n"),
    ("timestamp-range", WARNING, with_partition(first_at=NOW - 15 * DAY),
        "partition 0: a record is 15 days old, and 7 days are kept", "=604800000"),
    ("timestamp-range", INFO, with_settings(message_timestamp_before_max_ms="86400000"),
        "records older than 24 hours are refused (message.timestamp.before.max.ms=86400000)",
        "--delete-config message.timestamp.before.max.ms"),
    ("hanging-transactions", ERROR, with_open(HANGING),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open, and no coordinator knows "
        "of it: nobody will end it",
        "kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders.events --partition 0 "
        "--start-offset 42"),
    ("hanging-transactions", ERROR, with_open(HANGING, replace(HANGING, producer_id=8, start_offset=50)),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open, and no coordinator knows "
        "of it: nobody will end it; 1 more like it",
        "--start-offset 42\nkafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders.events "
        "--partition 0 --start-offset 50"),
    ("hanging-transactions", ERROR, replace(with_open(HANGING), client={"security.protocol": "SASL_SSL"}),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open, and no coordinator knows "
        "of it: nobody will end it",
        "like this):\nkafka-transactions.sh --bootstrap-server kafka:9092 --command-config client.properties find-"),
    ("hanging-transactions", ERROR, with_transaction(HOUR),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open for 1 hour "
        "(transactional id billing-1, Ongoing, timeout 1 minute): its coordinator should have aborted it",
        "forceTerminateTransaction --transactionalId billing-1"),
    ("hanging-transactions", WARNING, with_transaction(1.5 * MINUTE),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open for 1.5 minutes "
        "(transactional id billing-1, Ongoing, timeout 1 minute): its coordinator should have aborted it",
        "forceTerminateTransaction --transactionalId billing-1"),
    ("hanging-transactions", WARNING, with_transaction(6 * MINUTE, 15 * MINUTE),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open for 6 minutes "
        "(transactional id billing-1, Ongoing, timeout 15 minutes)", "or wait: it is aborted in 9 minutes"),
    ("hanging-transactions", WARNING, with_open(UNHEARD),
        "partition 0: the transaction of producer 7 from offset 42 on (58 offsets) is open, its last record is 1 hour "
        "old, and not every coordinator can be asked",
        "find-hanging --topic orders.events --max-transaction-timeout 0"),
    ("group-offsets", WARNING, with_reader(last_commit=NOW - 6 * DAY),
        "offset-ledger.orders was last set 6 days ago; its offsets expire in 24 hours",
        "kafka-consumer-groups.sh --bootstrap-server kafka:9092 --reset-offsets --group offset-ledger.orders --topic "
        "orders.events --to-current --execute"),
    ("group-offsets", WARNING, replace(RIGHT, groups={}),
        "offset-ledger.orders has no offsets here, although orders committed 1 hour ago",
        "the next commit sets it again:\noffset-ledger ingest orders"),
    ("group-offsets", INFO, replace(RIGHT, groups={**RIGHT.groups, "old": "Empty", "o'ld": "Empty"}),
        "no consumer runs in o'ld, old, which have offsets here; they expire 7 days after the last one left",
        "--delete --group 'o'\"'\"'ld' --group old"),
]  # fmt: skip


def finding(facts: TopicFacts, rule: str) -> AuditFinding:
    (found,) = (each for each in check_topic(facts) if each.rule == rule)
    return found


@pytest.mark.parametrize(("rule", "severity", "facts", "found", "remedy"), WRONG)
def test_a_rule_finds_what_was_made_wrong_for_it_and_no_other_rule_does(
    rule: str, severity: Severity, facts: TopicFacts, found: str, remedy: str
) -> None:
    result = finding(facts, rule)
    assert (result.severity, result.found) == (severity, found)
    assert remedy in (result.remedy or ""), result.remedy
    assert result.risk
    assert {each.rule for each in check_topic(facts) if each.severity is not OK} == {rule}


@pytest.mark.parametrize(("rule", "facts"), [(rule, facts) for rule, _, facts, *_ in WRONG])
def test_a_remedy_is_commands_to_paste_and_words_that_lead_to_them(rule: str, facts: TopicFacts) -> None:
    lines = (finding(facts, rule).remedy or "").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("kafka-", "offset-ledger ", "echo ")):
            assert shlex.split(line)
            assert not set("<>|;") & set(line.replace("' > copies.json && ", "")), line
        else:
            assert line.endswith(":") == following.startswith(("kafka-", "offset-ledger ", "echo ")), line


def test_a_right_topic_has_only_ok_findings_with_their_values() -> None:
    found = check_topic(RIGHT)
    assert {each.rule: each.severity for each in found} == {rule.name: OK for rule in RULES}
    assert all(each.found and each.remedy is None for each in found)


def test_every_rule_is_made_wrong_here() -> None:
    assert {rule for rule, *_ in WRONG} == {rule.name for rule in RULES}


RIGHT_ALL_THE_SAME = {
    "retention by size alone": with_settings(retention_ms="-1", retention_bytes="1000000"),
    "kept for ever": with_settings(retention_ms="-1"),
    "kept for ever, in the largest numbers of Kafka, and by size": with_settings(retention_ms=str(2**63 - 1),
        segment_ms=str(2**63 - 1), retention_bytes="1000000"),
    "kept for centuries": with_settings(retention_ms=str(900 * 365 * 86_400_000)),
    "racks on both sides": with_racks("a", "a", "b", "c"),
    "racks on the brokers, and none selects": with_brokers("a"),
    "compacted by event id in the order of the log": COMPACTED,
    "compacted, and read within the time that tombstones are kept for": with_tombstones(15 * HOUR, 15 * MINUTE),
    "compacted, read late, and tombstones delete nothing": with_reader_of(with_tombstones(25 * HOUR, DAY)),
    "old records, and time deletes none": replace(with_settings(retention_ms="-1"),
        partitions=(replace(PARTITION, first_at=NOW - 400 * DAY),)),
    "everything committed, and the last record long ago": with_partition(cursor=100, unread_at=None),
    "a transaction under way with old records": with_transaction(MINUTE),
    "a transaction whose coordinator is away": with_open(replace(UNHEARD, last_write=NOW)),
    "a mirror that no commit has set yet": replace(with_reader(last_commit=None), groups={}),
    "a mirror that all topics of a file share": with_reader(pipeline="orders@orders.events"),
    "a partition that was never written": with_partition(last_stable=0, high_watermark=0, cursor=None, first_at=None,
        last_at=None, newest_at=None, unread_at=None),
    "no pipeline, and the mirror of one": replace(RIGHT, reader=None),
}  # fmt: skip


@pytest.mark.parametrize("facts", RIGHT_ALL_THE_SAME.values(), ids=RIGHT_ALL_THE_SAME)
def test_what_is_odd_and_right_is_no_finding(facts: TopicFacts) -> None:
    assert [each for each in check_topic(facts) if each.severity is not OK] == []


def test_min_insync_replicas_above_the_factor_count_as_the_factor() -> None:
    two = with_copies(1, 2, facts=with_settings(min_insync_replicas="3"))
    (found,) = (each for each in check_topic(two) if each.rule == "replicas-in-sync")
    assert found.severity is OK
    (found,) = (each for each in check_topic(with_one_away(two)) if each.rule == "replicas-in-sync")
    assert (found.severity, "partition 0 below min.insync.replicas (3)" in found.found) == (ERROR, True)


def test_addresses_are_quoted_for_the_shell() -> None:
    facts = replace(with_settings(retention_bytes="1"), servers="[::1]:9092, b:9092", reader=None)
    (found,) = (each for each in check_topic(facts) if each.rule == "both-retentions")
    command = (found.remedy or "").splitlines()[1]
    assert shlex.split(command)[:3] == ["kafka-configs.sh", "--bootstrap-server", "[::1]:9092, b:9092"]


def test_the_worst_finding_comes_first() -> None:
    facts = replace(with_settings(min_insync_replicas="1", retention_bytes="9999999"), client={"client.rack": "a"})
    ranks = [each.severity.rank for each in check_topic(facts)]
    assert (ranks[0], ranks) == (0, sorted(ranks))


def test_changes_are_named_by_severity() -> None:
    before = {"a": OK, "b": ERROR, "c": WARNING, "d": ERROR, "e": INFO, "f": OK}
    now = dict(zip("abcdef", (ERROR, OK, ERROR, INFO, INFO, OK), strict=True))
    assert [str(change) for change in changes(before, now)] == [
        "new: a (ok -> error)", "gone: b (error -> ok)", "worse: c (warning -> error)", "better: d (error -> info)",
        "still: e (info)",
    ]  # fmt: skip
    assert changes(None, now) == ()


def test_a_long_list_is_shortened() -> None:
    assert numbered("partition", range(100)) == "partitions 0, 1, 2, 3, 4 and 95 more"
    assert (numbered("broker", {2}), numbered("broker", (3, 1))) == ("broker 2", "brokers 1, 3")
    assert (counted(1, "offset"), counted(1200, "offset")) == ("1 offset", "1,200 offsets")
