"""Rules for readers: retention, timestamps, sizes, keys, transactions, groups; and all rules in order.

Pure: facts in, result out.
"""

from datetime import timedelta

from offset_ledger.base.ids import GROUPS, consumer_group
from offset_ledger.base.units import counted, kafka_span, kept_for, show_size, show_span
from offset_ledger.operations.audit import remedies, rules_copies
from offset_ledger.operations.audit.facts import OpenTransaction, Owner, PartitionFacts, ReaderFacts, TopicFacts
from offset_ledger.operations.audit.finding import AuditFinding, RuleResult, Severity, listed, numbered, ok, rule

_USED_ERROR, _USED_WARNING = 0.9, 2 / 3
"""Shares of the retention that unread records, or a group's silence, may use."""

_FUTURE = timedelta(hours=1)
_MILLISECOND = timedelta(milliseconds=1)
_LONG_OPEN = timedelta(minutes=5)
_GRACE = timedelta(minutes=1)
"""The time a coordinator may take to end a transaction that is past its timeout; it checks every ten seconds."""
_MAX_ABORTS = 5


@rule("both-retentions", "whichever limit is reached first deletes: a busy day removes records long before their time")
def both_retentions(facts: TopicFacts) -> RuleResult:
    """retention.ms and retention.bytes at once: whichever is reached first deletes."""
    time, size = facts.retention.age, facts.retention.bytes
    if time is None or size is None:
        kept = show_span(time) if time is not None else f"{show_size(size)} a partition" if size is not None else ""
        return ok(f"one retention: {kept}" if kept else "no retention deletes records")
    ways = ("keep by time alone:", "retention.bytes=-1"), ("or by size alone:", "retention.ms=-1")
    remedy = remedies.lines(*(line for label, way in ways for line in (label, remedies.set_topic(facts, way))))
    finding = f"both delete: retention.ms ({show_span(time)}) and retention.bytes ({show_size(size)} a partition)"
    return RuleResult(Severity.WARNING, finding, remedy)


@rule("retention-against-lag", "records are deleted before they are ingested (OffsetExpired)")
def retention_against_lag(facts: TopicFacts) -> RuleResult:
    """Records that the pipeline has not committed yet have used much of the retention."""
    reader = facts.reader
    if reader is None:
        return ok("no pipeline was named, so no cursor is known")
    if lost := [p for p in facts.partitions if p.cursor is not None and p.cursor < p.log_start]:
        gone = [(p.partition, p.cursor or 0, p.log_start) for p in lost]
        text = listed(f"{first} to {after - 1} of partition {partition}" for partition, first, after in gone)
        count = counted(sum(after - first for _, first, after in gone), "offset")
        search = "look for the records elsewhere; if they are gone, set source.on_expired: earliest_after_approval"
        approve = "where it is fail (the default), and approve the loss (OffsetExpired in docs/runbook.md):"
        remedy = remedies.lines(
            search, approve, f"offset-ledger accept loss {reader.pipeline} --why 'retention deleted them'"
        )
        risk = "records were deleted before they were ingested, and ingestion stops until the loss is approved"
        return RuleResult(Severity.ERROR, f"deleted before they were committed: {count}, {text}", remedy, risk)
    worst = max(((_used(facts, p), p.partition) for p in facts.partitions), default=((0.0, ""), 0))
    (share, text), partition = worst
    severity = Severity.ERROR if share >= _USED_ERROR else Severity.WARNING if share >= _USED_WARNING else Severity.OK
    if severity is Severity.OK:
        unsized = [p.partition for p in facts.partitions if p.unread and p.size_bytes is None]
        if facts.retention.bytes is not None and unsized:
            which = numbered("partition", unsized)
            finding = f"not known by retention.bytes: this login is not shown the size of {which}"
            return RuleResult(Severity.INFO, finding, "give the login of the audit the right Describe on the cluster")
        return ok(f"partition {partition}: {text}" if text else "every record is committed, or retention deletes none")
    kept = facts.retention
    longer = [f"retention.ms={3 * int(kept.age.total_seconds() * 1000)}"] if kept.age else []
    longer += [f"retention.bytes={3 * kept.bytes}"] if kept.bytes else []
    catch_up = "catch up:", f"offset-ledger ingest {reader.pipeline} --until-drained"
    keep = "or keep records three times as long:", remedies.set_topic(facts, *longer)
    return RuleResult(severity, f"partition {partition}: {text}", remedies.lines(*catch_up, *keep))


def _used(facts: TopicFacts, p: PartitionFacts) -> tuple[float, str]:
    """The share of the retention that the unread records have used, and that in words; the worse of time and size."""
    uses, kept = [(0.0, "")], facts.retention
    if not p.unread:
        return uses[0]
    if kept.age and p.unread_at:
        age = facts.taken_at - p.unread_at
        left = max(timedelta(0), kept.age - age)
        text = f"the oldest unread record is {show_span(age)} old and is deleted in {show_span(left)}"
        uses.append((age / kept.age, text))
    if kept.bytes and p.size_bytes is not None and p.high_watermark > p.log_start:
        unread = p.size_bytes * p.unread / (p.high_watermark - p.log_start)
        text = f"about {show_size(unread)} unread, of {show_size(kept.bytes)} kept"
        uses.append((unread / kept.bytes, text))
    return max(uses)


@rule(
    "tombstones-against-lag",
    "tombstones are removed before they are read, and the rows that they delete stay (TombstonesMayBeGone)",
)
def tombstones_against_lag(facts: TopicFacts) -> RuleResult:
    """The pipeline takes much of the time for which compaction keeps tombstones to read them."""
    reader = facts.reader
    if reader is None or not reader.deletes_by_tombstone:
        return ok("no pipeline was named" if reader is None else "the pipeline does not delete by tombstones")
    if not facts.compacts:
        return ok("not compacted")
    kept = kafka_span(facts.settings.get("delete.retention.ms", "86400000"))
    waits = list[tuple[timedelta, str]]()
    for p in facts.partitions:
        if p.unread and p.unread_since:
            since = facts.taken_at - p.unread_since
            waits.append((since, f"partition {p.partition}: records may have waited unread for {show_span(since)}"))
    if reader.runs_every:
        waits.append((reader.runs_every, f"up to {show_span(reader.runs_every)} pass between two runs"))
    longest, words = max(waits, default=(timedelta(0), "no record is known to wait unread"))
    finding = f"{words}, and tombstones are kept for {show_span(kept)}"
    used = longest / kept if kept else float(bool(longest))
    if used < _USED_WARNING:
        return ok(finding)
    longer = remedies.set_topic(facts, f"delete.retention.ms={max(int(longest / _MILLISECOND), 86_400_000) * 3}")
    catch_up = "catch up:", f"offset-ledger ingest {reader.pipeline} --until-drained"
    remedy = remedies.lines("keep tombstones for longer than the pipeline takes or may stand still:", longer, *catch_up)
    return RuleResult(Severity.ERROR if used >= _USED_ERROR else Severity.WARNING, finding, remedy)


@rule("timestamp-type", "windows of time (replay --since) and retention follow the arrival, not the event")
def timestamp_type(facts: TopicFacts) -> RuleResult:
    """LogAppendTime puts the broker's clock over the producer's."""
    if facts.settings["message.timestamp.type"] != "LogAppendTime":
        return ok("timestamps are the producers' (CreateTime)")
    remedy = remedies.set_topic(facts, "message.timestamp.type=CreateTime")
    finding = "a record's timestamp is when it arrived (message.timestamp.type=LogAppendTime)"
    if facts.reader and facts.reader.publish_at_is_timestamp:
        finding = f"{finding}, and the pipeline takes publish_at from the record's timestamp"
        return RuleResult(
            Severity.ERROR, finding, remedy, "a late record counts as the newest and replaces newer states"
        )
    return RuleResult(Severity.WARNING, finding, remedy)


@rule("timestamp-range", "retention and windows of time miss records")
def timestamp_range(facts: TopicFacts) -> RuleResult:
    """Timestamps from the future, older than retention keeps, or refused when records are published again."""
    latest = max(((p.newest_at, p.partition) for p in facts.partitions if p.newest_at), default=None)
    if latest is not None and latest[0] > facts.taken_at + _FUTURE:
        newest, partition = latest
        ahead = show_span(newest - facts.taken_at)
        refuse = remedies.set_topic(facts, "message.timestamp.after.max.ms=3600000")
        remedy = remedies.lines("correct the producer's clock, and refuse what is over an hour ahead:", refuse)
        risk = (
            "retention counts from then, so the segment stays until then, and windows of time (replay --since) miss it"
        )
        return RuleResult(Severity.WARNING, f"partition {partition}: a record is {ahead} in the future", remedy, risk)
    return _old(facts) or _refused(facts) or ok("timestamps are within what retention expects")


def _old(facts: TopicFacts) -> RuleResult | None:
    age = facts.retention.age
    if age is None:
        return None
    # A record may be older by the time that its segment stays open.
    bound = facts.taken_at - age - kafka_span(facts.settings["segment.ms"])
    old = [(at, p.partition) for p in facts.partitions for at in (p.first_at, p.last_at) if at and at < bound]
    if not old:
        return None
    oldest, partition = min(old)
    shown, kept = show_span(facts.taken_at - oldest), show_span(age)
    back = remedies.set_topic(facts, f"retention.ms={facts.settings['retention.ms']}")
    keep = remedies.set_topic(facts, "retention.ms=-1")
    remedy = remedies.lines("keep them until they are ingested:", keep, "then as before:", back)
    risk = "retention counts from the records' timestamps: such records are deleted with the next check, unread or not"
    return RuleResult(
        Severity.WARNING, f"partition {partition}: a record is {shown} old, and {kept} are kept", remedy, risk
    )


def _refused(facts: TopicFacts) -> RuleResult | None:
    before = int(facts.settings.get("message.timestamp.before.max.ms", str(2**63 - 1)))
    if before >= 2**62:
        return None
    past = show_span(kafka_span(str(before)))
    remedy = remedies.unset_topic(facts, "message.timestamp.before.max.ms")
    risk = "records that are published again with their own timestamps are refused (InvalidTimestamp)"
    finding = f"records older than {past} are refused (message.timestamp.before.max.ms={before})"
    return RuleResult(Severity.INFO, finding, remedy, risk)


@rule(
    "hanging-transactions",
    "nothing behind its start is ever stable: ingest and every other reader of committed data stand still",
)
def hanging_transactions(facts: TopicFacts) -> RuleResult:
    """Find transactions that nobody will end, or that are open for long; readers of committed data wait for them."""
    opened = [(p, t) for p in facts.partitions for t in p.transactions]
    if hanging := [(p, t) for p, t in opened if t.hanging]:
        more = f"; {len(hanging) - 1:,} more like it" if len(hanging) > 1 else ""
        finding = f"{_described(*hanging[0])}, and no coordinator knows of it: nobody will end it{more}"
        remedy = [remedies.abort(facts, p.partition, t.start_offset) for p, t in hanging[:_MAX_ABORTS]]
        if "--command-config" in remedy[0]:
            check = (
                "make sure, as a user who may Describe every transactional id (a live one of another looks like this):"
            )
            remedy = [check, remedies.find_hanging(facts), "then abort what it shows:", *remedy]
        return RuleResult(Severity.ERROR, finding, remedies.lines(*remedy))
    results = [_known(facts, p, t, t.owner) if t.owner else _without_owner(facts, p, t) for p, t in opened]
    worst = min((each for each in results if each), key=lambda each: each.severity.rank, default=None)
    if worst:
        return worst
    return ok(f"{counted(len(opened), 'transaction')} under way" if opened else "no transaction is open")


def _known(facts: TopicFacts, p: PartitionFacts, transaction: OpenTransaction, owner: Owner) -> RuleResult | None:
    age = facts.taken_at - owner.begun_at
    if age <= min(_LONG_OPEN, owner.timeout):
        return None
    text = (
        f"{_described(p, transaction)} for {show_span(age)} (transactional id {owner.transactional_id}, "
        f"{owner.state}, timeout {show_span(owner.timeout)})"
    )
    show = "see what it waits for:", remedies.describe_transaction(facts, owner.transactional_id)
    if age <= owner.timeout:
        own = f"commit or abort it in its producer, or wait: it is aborted in {show_span(owner.timeout - age)}"
        return RuleResult(Severity.WARNING, text, remedies.lines(*show, own))
    force = remedies.end_transaction(facts, owner.transactional_id)
    ways = "start the brokers that it waits for, or end it by force (Kafka 4.2's tool can):"
    severity = Severity.ERROR if age > owner.timeout + _GRACE else Severity.WARNING
    return RuleResult(severity, f"{text}: its coordinator should have aborted it", remedies.lines(*show, ways, force))


def _without_owner(facts: TopicFacts, p: PartitionFacts, transaction: OpenTransaction) -> RuleResult | None:
    """Judge a transaction whose coordinator did not answer: only the timestamps of its records are known."""
    age = facts.taken_at - transaction.last_write
    limit = timedelta(milliseconds=facts.broker_number("transaction.max.timeout.ms", 900_000))
    if age <= limit:
        return None
    finding = (
        f"{_described(p, transaction)}, its last record is {show_span(age)} old, and not every coordinator can be asked"
    )
    remedy = remedies.lines("start all brokers, then check whether it hangs:", remedies.find_hanging(facts))
    return RuleResult(Severity.WARNING, finding, remedy)


def _described(p: PartitionFacts, transaction: OpenTransaction) -> str:
    waiting = counted(max(0, p.high_watermark - transaction.start_offset), "offset")
    return (
        f"partition {p.partition}: the transaction of producer {transaction.producer_id} from offset "
        f"{transaction.start_offset} on ({waiting}) is open"
    )


@rule(
    "message-size",
    "a record larger than what followers and readers fetch blocks older clients, and costs memory in others",
)
def message_size(facts: TopicFacts) -> RuleResult:
    """Records that the topic takes and its followers or readers do not expect."""
    largest = int(facts.settings["max.message.bytes"])
    limits = {
        "the brokers' replica.fetch.max.bytes": facts.broker_number("replica.fetch.max.bytes", 1_048_576),
        "the readers' max.partition.fetch.bytes": int(facts.client.get("max.partition.fetch.bytes", "1048576")),
        "the readers' fetch.max.bytes": int(facts.client.get("fetch.max.bytes", "52428800")),
    }
    # A batch has 61 bytes before its records: the brokers' own default is 1 MiB and 12 bytes.
    small = {name: limit for name, limit in limits.items() if limit + 12 < largest}
    finding = f"records of up to {largest:,} bytes are taken (max.message.bytes)"
    if small:
        limits_text = ", ".join(f"{name} is {limit:,}" for name, limit in small.items())
        refuse = remedies.set_topic(facts, f"max.message.bytes={min(small.values())}")
        raised = []
        for who, name in (reader.rsplit(" ", 1) for reader in small):
            if "brokers" in who:
                raised.append("or " + remedies.server_properties(f"{name}={largest}", (b.node for b in facts.brokers)))
            else:
                raised.append(
                    f"or set {name}={largest} in the extra of the Kafka connection, and at every other reader"
                )
        remedy = remedies.lines("refuse larger records:", refuse, *raised)
        return RuleResult(Severity.WARNING, f"{finding}, and {limits_text}", remedy)
    if facts.reader and facts.reader.value_bytes + 12 < largest:
        values = facts.reader.value_bytes
        remedy = f"set limits.value_bytes of the pipeline to {largest}, or refuse larger records in the topic:"
        return RuleResult(
            Severity.INFO,
            f"{finding}, and the pipeline's limits.value_bytes is {values:,}",
            remedies.lines(remedy, remedies.set_topic(facts, f"max.message.bytes={values}")),
            "a record between the two is accepted here and quarantined there",
        )
    return ok(f"{finding}, and every fetch is as large")


@rule("compaction", "events that share a key with a later one are removed before anybody has read them")
def compaction(facts: TopicFacts) -> RuleResult:
    """Compaction keeps the last record of a key; that is an event only where the key is the event id."""
    if not facts.compacts:
        return ok("not compacted")
    if facts.reader is None:
        finding = "compacted, and no pipeline was named: whether the key is the event id is not known"
        return RuleResult(Severity.INFO, finding, "name the pipeline that reads it: offset-ledger kafka audit PIPELINE")
    kept = kept_for(facts.settings["retention.ms"])
    by_age = f"delete by age instead (after {show_span(kept)}):" if kept is not None else "keep every record instead:"
    remedy = remedies.lines(by_age, remedies.set_topic(facts, "cleanup.policy=delete"))
    if not facts.reader.event_id_is_key:
        return RuleResult(Severity.ERROR, "compacted by key, and the event id is not the key", remedy)
    if facts.reader.newest_wins and not facts.reader.publish_at_is_timestamp:
        return RuleResult(
            Severity.INFO,
            "compacted: of each event id the record written last stays, the pipeline wants the one published last",
            remedies.lines("have producers write each key in the order of publish_at, or", remedy),
            "a late record of an older state removes the newer one from the topic, for whoever reads it later",
        )
    return ok("compacted by key, which is the event id")


@rule(
    "group-offsets",
    "when offsets expire, consumers start over by auto.offset.reset and monitors show no lag; "
    "the pipeline's own cursors are in the ledger and do not expire",
)
def group_offsets(facts: TopicFacts) -> RuleResult:
    """Offsets of groups that no longer commit: brokers delete them after offsets.retention.minutes."""
    kept = timedelta(minutes=facts.broker_number("offsets.retention.minutes", 10_080))
    idle = sorted(group for group, state in facts.groups.items() if state == "Empty")
    # Mirrors of cursors never have members; each is checked with its own pipeline.
    others = [group for group in idle if not group.startswith(GROUPS)]
    if facts.reader and facts.reader.last_commit and (result := _mirror(facts, facts.reader, kept)):
        return result
    if others:
        verb = "has" if len(others) == 1 else "have"
        finding = f"no consumer runs in {listed(others)}, which {verb} offsets here"
        known = f"{finding}; they expire {show_span(kept)} after the last one left"
        show = "see where it stands:", remedies.groups(facts, "--describe", others)
        delete = "then start its consumers, or delete it:", remedies.groups(facts, "--delete", others)
        return RuleResult(Severity.INFO, known, remedies.lines(*show, *delete))
    return ok("no group's offsets are about to expire")


def _mirror(facts: TopicFacts, reader: ReaderFacts, kept: timedelta) -> RuleResult | None:
    """The group that mirrors the cursors: its offsets expire after the last commit that moved them."""
    since = facts.taken_at - (reader.last_commit or facts.taken_at)
    group = consumer_group(reader.pipeline)
    renew = "the next commit sets it again:", f"offset-ledger ingest {reader.pipeline}"
    if group not in facts.groups:
        finding = f"{group} has no offsets here, although {reader.pipeline} committed {show_span(since)} ago"
        return RuleResult(Severity.WARNING, finding, remedies.lines(*renew))
    if since <= kept * _USED_WARNING:
        return None
    left = show_span(max(timedelta(0), kept - since))
    finding = f"{group} was last set {show_span(since)} ago; its offsets expire in {left}"
    again = "if there is nothing to commit:", remedies.commit_again(facts, group)
    return RuleResult(Severity.WARNING, finding, remedies.lines(*renew, *again))


RULES = (
    *rules_copies.RULES,
    both_retentions,
    retention_against_lag,
    tombstones_against_lag,
    timestamp_type,
    timestamp_range,
    message_size,
    compaction,
    hanging_transactions,
    group_offsets,
)


def check_topic(facts: TopicFacts) -> tuple[AuditFinding, ...]:
    """Return one finding for each rule, ``ok`` ones included, the worst first."""
    return tuple(sorted((each.apply(facts) for each in RULES), key=lambda finding: finding.severity.rank))
