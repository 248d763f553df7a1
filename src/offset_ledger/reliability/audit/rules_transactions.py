"""The rule about transactions that stay open. Pure: facts in, result out."""

from __future__ import annotations

from datetime import timedelta

from offset_ledger.reliability.audit import remedies
from offset_ledger.reliability.audit.facts import OpenTransaction, Owner, PartitionFacts, TopicFacts
from offset_ledger.reliability.audit.finding import RuleResult, Severity, ok
from offset_ledger.reliability.audit.wording import counted
from offset_ledger.units import show_span

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
