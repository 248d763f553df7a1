"""Rules about what readers meet: sizes, keys, transactions, groups. Pure: facts in, verdict out."""

from __future__ import annotations

from datetime import timedelta

from offset_ledger.audit import remedies
from offset_ledger.audit.facts import MIRROR_PREFIX, TopicFacts
from offset_ledger.audit.finding import Rule, Severity, Verdict, ok
from offset_ledger.audit.rules_retention import USED_WARNING
from offset_ledger.topics.units import show_span

_LONG_OPEN = timedelta(minutes=5)


def message_size(facts: TopicFacts) -> Verdict:
    """Records that the topic takes and its followers or readers do not expect."""
    largest = int(facts.settings["max.message.bytes"])
    limits = {
        "the brokers' replica.fetch.max.bytes": facts.broker_number("replica.fetch.max.bytes", 1_048_576),
        "the readers' max.partition.fetch.bytes": int(facts.client.get("max.partition.fetch.bytes", "1048576")),
        "the readers' fetch.max.bytes": int(facts.client.get("fetch.max.bytes", "52428800")),
    }
    # A batch has 61 bytes before its records: the brokers' own default is 1 MiB and 12 bytes.
    small = {name: limit for name, limit in limits.items() if limit + 12 < largest}
    found = f"max.message.bytes {largest}"
    if small:
        told = ", ".join(f"{name} {limit}" for name, limit in small.items())
        least = min(small.values())
        remedy = remedies.set_topic(facts, f"max.message.bytes={least}")
        return Verdict(Severity.WARNING, f"{found} above {told}", f"{remedy}; or raise the fetch sizes")
    if facts.reader and facts.reader.value_bytes + 12 < largest:
        return Verdict(
            Severity.INFO,
            f"{found} above limits.value_bytes {facts.reader.value_bytes} of the pipeline",
            remedies.set_topic(facts, f"max.message.bytes={facts.reader.value_bytes}"),
            "a record between the two is accepted here and quarantined there",
        )
    return ok(f"{found} fits every fetch size")


def compaction(facts: TopicFacts) -> Verdict:
    """Compaction keeps the last record of a key; that is an event only where the key is the event id."""
    if not facts.compacts:
        return ok("not compacted")
    if facts.reader is None:
        told = "compacted, and no pipeline was named: whether the key is the event id is not known"
        return Verdict(Severity.INFO, told, "offset-ledger audit PIPELINE")
    if not facts.reader.event_id_is_key:
        remedy = remedies.set_topic(facts, "cleanup.policy=delete")
        return Verdict(Severity.ERROR, "compacted by key, and the event id is not the key", remedy)
    if facts.reader.newest_wins and not facts.reader.publish_at_is_timestamp:
        return Verdict(
            Severity.INFO,
            "compacted: of each event id the record written last stays, the pipeline wants the one published last",
            f"have producers write each key in the order of publish_at, or: "
            f"{remedies.set_topic(facts, 'cleanup.policy=delete')}",
            "a late record of an older state removes the newer one from the topic, for whoever reads it later",
        )
    return ok("compacted by key, which is the event id")


def hanging_transactions(facts: TopicFacts) -> Verdict:
    """Transactions that nobody will end, or that are open for long; readers of committed data wait behind them."""
    opened = [(p.partition, t) for p in facts.partitions for t in p.transactions]
    if not opened:
        return ok("no transaction is open")
    limit = timedelta(milliseconds=facts.broker_number("transaction.max.timeout.ms", 900_000))
    partition, oldest = min(opened, key=lambda each: (each[1].known, each[1].last_write))
    age = facts.taken_at - oldest.last_write
    told = (
        f"partition {partition}: producer {oldest.producer_id} is in a transaction since offset {oldest.start_offset}"
    )
    if not oldest.known or age > limit:
        why = "its coordinator does not know it" if not oldest.known else f"last written {show_span(age)} ago"
        remedy = remedies.transactions(facts, "abort", partition, oldest.start_offset)
        return Verdict(Severity.ERROR, f"{told}; {why}", remedy)
    if age > _LONG_OPEN:
        remedy = remedies.transactions(facts, "describe-producers", partition)
        return Verdict(Severity.WARNING, f"{told}; last written {show_span(age)} ago", remedy)
    return ok(f"{len(opened)} transactions are under way, the oldest written {show_span(age)} ago")


def group_offsets(facts: TopicFacts) -> Verdict:
    """Offsets of groups that no longer commit: brokers delete them after offsets.retention.minutes."""
    kept = timedelta(minutes=facts.broker_number("offsets.retention.minutes", 10_080))
    idle = sorted(group.group for group in facts.groups if group.state == "Empty")
    # Mirrors of cursors never have members; each is judged with its own pipeline.
    others = [group for group in idle if not group.startswith(MIRROR_PREFIX)]
    reader = facts.reader
    if reader and reader.group in idle and reader.last_commit:
        since = facts.taken_at - reader.last_commit
        if since > kept * USED_WARNING:
            left = show_span(max(timedelta(0), kept - since))
            found = f"{reader.group} was last written {show_span(since)} ago and expires in {left}"
            return Verdict(Severity.WARNING, found, f"offset-ledger ingest {reader.pipeline} (a commit renews it)")
    if others:
        named = ", ".join(others)
        found = f"groups without members: {named}; their offsets expire {show_span(kept)} after the last commit"
        tool = f"kafka-consumer-groups --bootstrap-server {facts.servers} --describe --group {others[0]}"
        return Verdict(Severity.INFO, found, f"{tool}; start its consumers, or delete the group")
    return ok("no group's offsets are about to expire")


RULES = (
    Rule(
        "message-size",
        "a record larger than what followers and readers fetch blocks older clients, and costs memory in others",
        message_size,
    ),
    Rule("compaction", "events that share a key with a later one are removed before anybody has read them", compaction),
    Rule(
        "hanging-transactions",
        "nothing behind its start is ever stable: ingest and every other reader of committed data stand still",
        hanging_transactions,
    ),
    Rule(
        "group-offsets",
        "when offsets expire, consumers start over by auto.offset.reset and monitors show no lag; "
        "the pipeline's own cursors are in the ledger and do not expire",
        group_offsets,
    ),
)
