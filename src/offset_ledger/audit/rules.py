"""All rules in the order of the report."""

from offset_ledger.audit import rules_copies, rules_reading, rules_retention
from offset_ledger.audit.facts import TopicFacts
from offset_ledger.audit.finding import AuditFinding

RULES = (*rules_copies.RULES, *rules_copies.CLOSEST_REPLICA, *rules_retention.RULES, *rules_reading.RULES)


def check_topic(facts: TopicFacts) -> tuple[AuditFinding, ...]:
    """One finding for each rule, ``ok`` ones included, the worst first."""
    findings = [rule.apply(facts) for rule in RULES]
    return tuple(sorted(findings, key=lambda finding: finding.severity.rank))
