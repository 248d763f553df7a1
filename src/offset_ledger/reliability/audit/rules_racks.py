"""The rule about reading from the closest copy. Pure: facts in, result out."""

from __future__ import annotations

from offset_ledger.reliability.audit import remedies
from offset_ledger.reliability.audit.facts import BrokerFacts, TopicFacts
from offset_ledger.reliability.audit.finding import AuditRule, RuleResult, Severity, ok
from offset_ledger.reliability.audit.wording import listed, numbered

_SELECTOR = "RackAwareReplicaSelector"
_SELECTOR_SETTING = f"replica.selector.class=org.apache.kafka.common.replica.{_SELECTOR}"
_RACK_SETTINGS = {"broker.rack": "broker.rack=RACK, each its own,", f"the {_SELECTOR}": _SELECTOR_SETTING}


def closest_replica(facts: TopicFacts) -> RuleResult:
    """Reading from the closest copy needs a rack and a selector on every broker, and client.rack at the reader."""
    rack = facts.client.get("client.rack")
    racks = sorted({b.rack for b in facts.brokers if b.rack and _selects(b)})
    if not rack and not racks:
        return ok("readers use the leaders, and neither side asks for more")
    if not rack:
        finding = f"the brokers offer the closest copy (racks {listed(racks)}), and the connection has no client.rack"
        remedy = f"set client.rack in the extra of the Kafka connection to the reader's rack: {' or '.join(racks)}"
        return RuleResult(Severity.INFO, finding, remedy)
    if lacking := _lacking(facts):
        finding = " and ".join(f"{what} is missing on {numbered('broker', nodes)}" for what, nodes in lacking.items())
        ways = [remedies.server_properties(_RACK_SETTINGS[what], nodes) for what, nodes in lacking.items()]
        remedy = remedies.lines(*ways, "or remove client.rack from the extra of the Kafka connection")
        return RuleResult(Severity.WARNING, f"client.rack is {rack}, but {finding}", remedy)
    if rack not in racks:
        remedy = f"set client.rack in the extra of the Kafka connection to {' or '.join(racks)}"
        return RuleResult(Severity.WARNING, f"client.rack is {rack}, and no broker is there ({listed(racks)})", remedy)
    return _copies_near(facts, rack)


def _selects(broker: BrokerFacts) -> bool:
    return _SELECTOR in broker.settings.get("replica.selector.class", "")


def _lacking(facts: TopicFacts) -> dict[str, list[int]]:
    """Which brokers lack what; a selector is needed where the leader is, and a rack where the copy is."""
    without = {
        "broker.rack": [b.node for b in facts.brokers if not b.rack],
        f"the {_SELECTOR}": [b.node for b in facts.brokers if not _selects(b)],
    }
    return {what: nodes for what, nodes in without.items() if nodes}


def _copies_near(facts: TopicFacts, rack: str) -> RuleResult:
    near = {broker.node for broker in facts.brokers if broker.rack == rack}
    far = [p.partition for p in facts.partitions if not near & set(p.replicas)]
    if not far:
        return ok(f"readers in rack {rack} use the copies there")
    finding = f"client.rack is {rack}, and {numbered('partition', far)} have no copy there"
    remedy = remedies.lines("move a copy there:", remedies.reassign(facts, facts.replication_factor, near))
    return RuleResult(Severity.WARNING, finding, remedy)


RULES = (AuditRule("closest-replica", "records cross racks all the same, which costs time and money", closest_replica),)
