"""Rules about how long records stay and what their timestamps do to that. Pure: facts in, result out."""

from datetime import timedelta

from offset_ledger.audit import remedies
from offset_ledger.audit.facts import PartitionFacts, TopicFacts
from offset_ledger.audit.finding import AuditRule, RuleResult, Severity, counted, listed, ok
from offset_ledger.units import kafka_span, show_size, show_span

USED_ERROR, USED_WARNING = 0.9, 2 / 3
"""Shares of the retention that unread records, or a group's silence, may use."""

_FUTURE = timedelta(hours=1)
_MILLISECOND = timedelta(milliseconds=1)


def both_retentions(facts: TopicFacts) -> RuleResult:
    """retention.ms and retention.bytes at once: whichever is reached first deletes."""
    time, size = facts.retention, facts.retention_bytes
    if time is None or size is None:
        kept = show_span(time) if time is not None else f"{show_size(size)} a partition" if size is not None else ""
        return ok(f"one retention: {kept}" if kept else "no retention deletes records")
    ways = ("keep by time alone:", "retention.bytes=-1"), ("or by size alone:", "retention.ms=-1")
    remedy = remedies.lines(*(line for label, way in ways for line in (label, remedies.set_topic(facts, way))))
    finding = f"both delete: retention.ms ({show_span(time)}) and retention.bytes ({show_size(size)} a partition)"
    return RuleResult(Severity.WARNING, finding, remedy)


def retention_against_lag(facts: TopicFacts) -> RuleResult:
    """Records that the pipeline has not committed yet have used much of the retention."""
    reader = facts.reader
    if reader is None:
        return ok("no pipeline was named, so no cursor is known")
    lost = [p for p in facts.partitions if p.cursor is not None and p.cursor < p.log_start]
    if lost:
        return _deleted(reader.pipeline, lost)
    worst = max(((_used(facts, p), p.partition) for p in facts.partitions), default=((0.0, ""), 0))
    (share, text), partition = worst
    severity = Severity.ERROR if share >= USED_ERROR else Severity.WARNING if share >= USED_WARNING else Severity.OK
    if severity is Severity.OK:
        finding = f"partition {partition}: {text}" if text else "every record is committed, or retention deletes none"
        return _unsized(facts) or ok(finding)
    catch_up = "catch up:", f"offset-ledger ingest {reader.pipeline} --until-drained"
    remedy = remedies.lines(*catch_up, "or keep records three times as long:", _longer(facts))
    return RuleResult(severity, f"partition {partition}: {text}", remedy)


def _unsized(facts: TopicFacts) -> RuleResult | None:
    """Unread records whose bytes are not known."""
    places = [str(p.partition) for p in facts.partitions if p.unread and p.size_bytes is None]
    if facts.retention_bytes is None or not places:
        return None
    noun = "partition" if len(places) == 1 else "partitions"
    finding = f"not known by retention.bytes: this login is not shown the size of {noun} {listed(places)}"
    return RuleResult(Severity.INFO, finding, "give the login of the audit the right Describe on the cluster")


def _deleted(pipeline: str, lost: list[PartitionFacts]) -> RuleResult:
    """Offsets that retention deleted before they were committed."""
    gone = [(p.partition, p.cursor or 0, p.log_start) for p in lost]
    text = listed(f"{first} to {after - 1} of partition {partition}" for partition, first, after in gone)
    count = counted(sum(after - first for _, first, after in gone), "offset")
    search = "look for the records elsewhere; if they are gone, set source.on_expired: earliest_after_approval"
    approve = "where it is fail (the default), and approve the loss (OffsetExpired in docs/runbook.md):"
    remedy = remedies.lines(search, approve, f"offset-ledger skip {pipeline} --why 'retention deleted them'")
    risk = "records were deleted before they were ingested, and ingestion stops until the loss is approved"
    return RuleResult(Severity.ERROR, f"deleted before they were committed: {count}, {text}", remedy, risk)


def _used(facts: TopicFacts, p: PartitionFacts) -> tuple[float, str]:
    """The share of the retention that the unread records have used, and that in words; the worse of time and size."""
    uses = [(0.0, "")]
    if not p.unread:
        return uses[0]
    if facts.retention and p.unread_at:
        age = facts.taken_at - p.unread_at
        left = max(timedelta(0), facts.retention - age)
        text = f"the oldest unread record is {show_span(age)} old and is deleted in {show_span(left)}"
        uses.append((age / facts.retention, text))
    if facts.retention_bytes and p.size_bytes is not None and p.high_watermark > p.log_start:
        unread = p.size_bytes * p.unread / (p.high_watermark - p.log_start)
        text = f"about {show_size(unread)} unread, of {show_size(facts.retention_bytes)} kept"
        uses.append((unread / facts.retention_bytes, text))
    return max(uses)


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
    if used < USED_WARNING:
        return ok(finding)
    longer = remedies.set_topic(facts, f"delete.retention.ms={max(int(longest / _MILLISECOND), 86_400_000) * 3}")
    catch_up = "catch up:", f"offset-ledger ingest {reader.pipeline} --until-drained"
    remedy = remedies.lines("keep tombstones for longer than the pipeline takes or may stand still:", longer, *catch_up)
    return RuleResult(Severity.ERROR if used >= USED_ERROR else Severity.WARNING, finding, remedy)


def _longer(facts: TopicFacts) -> str:
    settings = []
    if facts.retention:
        settings.append(f"retention.ms={3 * int(facts.retention.total_seconds() * 1000)}")
    if facts.retention_bytes:
        settings.append(f"retention.bytes={3 * facts.retention_bytes}")
    return remedies.set_topic(facts, *settings)


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


def timestamp_range(facts: TopicFacts) -> RuleResult:
    """Timestamps from the future, older than retention keeps, or refused when records are published again."""
    return _future(facts) or _old(facts) or _refused(facts) or ok("timestamps are within what retention expects")


def _future(facts: TopicFacts) -> RuleResult | None:
    latest = max(((p.newest_at, p.partition) for p in facts.partitions if p.newest_at), default=None)
    if latest is None or latest[0] <= facts.taken_at + _FUTURE:
        return None
    newest, partition = latest
    ahead = show_span(newest - facts.taken_at)
    refuse = remedies.set_topic(facts, "message.timestamp.after.max.ms=3600000")
    remedy = remedies.lines("correct the producer's clock, and refuse what is over an hour ahead:", refuse)
    risk = "retention counts from then, so the segment stays until then, and windows of time (replay --since) miss it"
    return RuleResult(Severity.WARNING, f"partition {partition}: a record is {ahead} in the future", remedy, risk)


def _old(facts: TopicFacts) -> RuleResult | None:
    if facts.retention is None:
        return None
    # A record may be older by the time that its segment stays open.
    bound = facts.taken_at - facts.retention - kafka_span(facts.settings["segment.ms"])
    old = [(at, p.partition) for p in facts.partitions for at in (p.first_at, p.last_at) if at and at < bound]
    if not old:
        return None
    oldest, partition = min(old)
    age, kept = show_span(facts.taken_at - oldest), show_span(facts.retention)
    back = remedies.set_topic(facts, f"retention.ms={facts.settings['retention.ms']}")
    keep = remedies.set_topic(facts, "retention.ms=-1")
    remedy = remedies.lines("keep them until they are ingested:", keep, "then as before:", back)
    risk = "retention counts from the records' timestamps: such records are deleted with the next check, unread or not"
    return RuleResult(
        Severity.WARNING, f"partition {partition}: a record is {age} old, and {kept} are kept", remedy, risk
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


RULES = (
    AuditRule(
        "both-retentions",
        "whichever limit is reached first deletes: a busy day removes records long before their time",
        both_retentions,
    ),
    AuditRule(
        "retention-against-lag", "records are deleted before they are ingested (OffsetExpired)", retention_against_lag
    ),
    AuditRule(
        "tombstones-against-lag",
        "tombstones are removed before they are read, and the rows that they delete stay (TombstonesMayBeGone)",
        tombstones_against_lag,
    ),
    AuditRule(
        "timestamp-type",
        "windows of time (replay --since) and retention follow the arrival, not the event",
        timestamp_type,
    ),
    AuditRule("timestamp-range", "retention and windows of time miss records", timestamp_range),
)
