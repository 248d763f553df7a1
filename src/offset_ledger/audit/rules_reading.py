"""Rules about what readers meet: sizes, keys, transactions, groups. Pure: facts in, result out."""

from collections.abc import Mapping
from datetime import timedelta

from offset_ledger.audit import remedies
from offset_ledger.audit.facts import (
    MIRROR_PREFIX,
    OpenTransaction,
    Owner,
    PartitionFacts,
    ReaderFacts,
    TopicFacts,
)
from offset_ledger.audit.finding import AuditRule, RuleResult, Severity, counted, listed, ok
from offset_ledger.audit.rules_retention import USED_WARNING
from offset_ledger.units import kept_for, show_span

_LONG_OPEN = timedelta(minutes=5)
_GRACE = timedelta(minutes=1)
"""How long a coordinator may take to end a transaction that is past its timeout; it checks every ten seconds."""
_MAX_ABORTS = 5


def hanging_transactions(facts: TopicFacts) -> RuleResult:
    """Transactions that nobody will end, or that are open for long; readers of committed data wait behind them."""
    opened = [(p, t) for p in facts.partitions for t in p.transactions]
    if hanging := [(p, t) for p, t in opened if t.hanging]:
        return _hanging(facts, hanging)
    results = [_known(facts, p, t, t.owner) if t.owner else _without_owner(facts, p, t) for p, t in opened]
    worst = min((each for each in results if each), key=lambda each: each.severity.rank, default=None)
    if worst:
        return worst
    return ok(f"{counted(len(opened), 'transaction')} under way" if opened else "no transaction is open")


def _hanging(facts: TopicFacts, every: list[tuple[PartitionFacts, OpenTransaction]]) -> RuleResult:
    partition, first = every[0]
    more = f"; {len(every) - 1:,} more like it" if len(every) > 1 else ""
    finding = f"{_described(partition, first)}, and no coordinator knows of it: nobody will end it{more}"
    remedy = [remedies.abort(facts, p.partition, t.start_offset) for p, t in every[:_MAX_ABORTS]]
    if "--command-config" in remedy[0]:
        check = "make sure, as a user who may Describe every transactional id (a live one of another looks like this):"
        remedy = [check, remedies.find_hanging(facts), "then abort what it shows:", *remedy]
    return RuleResult(Severity.ERROR, finding, remedies.lines(*remedy))


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
    """Without an answer of its coordinator, only the timestamps of its records are known."""
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
        return RuleResult(Severity.WARNING, f"{finding}, and {limits_text}", _smaller(facts, largest, small))
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


def _smaller(facts: TopicFacts, largest: int, small: Mapping[str, int]) -> str:
    """Refuse what is larger than the smallest fetch, or raise each fetch that is smaller."""
    refuse = remedies.set_topic(facts, f"max.message.bytes={min(small.values())}")
    raised = []
    for reader in small:
        who, name = reader.rsplit(" ", 1)
        if "brokers" in who:
            raised.append("or " + remedies.server_properties(f"{name}={largest}", (b.node for b in facts.brokers)))
        else:
            raised.append(f"or set {name}={largest} in the extra of the Kafka connection, and at every other reader")
    return remedies.lines("refuse larger records:", refuse, *raised)


def compaction(facts: TopicFacts) -> RuleResult:
    """Compaction keeps the last record of a key; that is an event only where the key is the event id."""
    if not facts.compacts:
        return ok("not compacted")
    if facts.reader is None:
        finding = "compacted, and no pipeline was named: whether the key is the event id is not known"
        return RuleResult(Severity.INFO, finding, "name the pipeline that reads it: offset-ledger audit PIPELINE")
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


def group_offsets(facts: TopicFacts) -> RuleResult:
    """Offsets of groups that no longer commit: brokers delete them after offsets.retention.minutes."""
    kept = timedelta(minutes=facts.broker_number("offsets.retention.minutes", 10_080))
    idle = sorted(group.group for group in facts.groups if group.state == "Empty")
    # Mirrors of cursors never have members; each is checked with its own pipeline.
    others = [group for group in idle if not group.startswith(MIRROR_PREFIX)]
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
    renew = "the next commit sets it again:", f"offset-ledger ingest {reader.pipeline}"
    if reader.group not in {group.group for group in facts.groups}:
        finding = f"{reader.group} has no offsets here, although {reader.pipeline} committed {show_span(since)} ago"
        return RuleResult(Severity.WARNING, finding, remedies.lines(*renew))
    if since <= kept * USED_WARNING:
        return None
    left = show_span(max(timedelta(0), kept - since))
    finding = f"{reader.group} was last set {show_span(since)} ago; its offsets expire in {left}"
    again = "if there is nothing to commit:", remedies.commit_again(facts, reader.group)
    return RuleResult(Severity.WARNING, finding, remedies.lines(*renew, *again))


RULES = (
    AuditRule(
        "message-size",
        "a record larger than what followers and readers fetch blocks older clients, and costs memory in others",
        message_size,
    ),
    AuditRule(
        "compaction", "events that share a key with a later one are removed before anybody has read them", compaction
    ),
    AuditRule(
        "hanging-transactions",
        "nothing behind its start is ever stable: ingest and every other reader of committed data stand still",
        hanging_transactions,
    ),
    AuditRule(
        "group-offsets",
        "when offsets expire, consumers start over by auto.offset.reset and monitors show no lag; "
        "the pipeline's own cursors are in the ledger and do not expire",
        group_offsets,
    ),
)
