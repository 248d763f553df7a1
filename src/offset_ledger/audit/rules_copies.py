"""Rules about copies and the brokers that hold them. Pure: facts in, verdict out."""

from __future__ import annotations

from collections.abc import Iterable

from offset_ledger.audit import remedies
from offset_ledger.audit.facts import TopicFacts
from offset_ledger.audit.finding import Rule, Severity, Verdict, ok


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def replication_factor(facts: TopicFacts) -> Verdict:
    """1 copy, or more copies than brokers."""
    factor, brokers = facts.replication_factor, len(facts.brokers)
    if factor > brokers:
        return Verdict(
            Severity.ERROR,
            f"replication factor {factor} on {brokers} brokers",
            f"start {factor - brokers} more brokers, or: {remedies.reassign(facts, brokers)}",
            "the copies that have no broker do not exist, and fewer brokers may be lost than the factor promises",
        )
    if factor > 1:
        return ok(f"replication factor {factor} on {brokers} brokers: {factor - 1} copies can be lost")
    if brokers == 1:
        alone = "add brokers; this cluster is good for development only"
        return Verdict(Severity.WARNING, "replication factor 1 on 1 broker", alone)
    remedy = remedies.reassign(facts, min(3, brokers))
    return Verdict(Severity.ERROR, f"replication factor 1 on {brokers} brokers", remedy)


def min_insync_replicas(facts: TopicFacts) -> Verdict:
    """1, which leaves acks=all to the leader alone, or the factor, which lets one lost broker stop writing."""
    least, factor = facts.min_insync, facts.replication_factor
    found = f"min.insync.replicas {least} of {factor} copies"
    if factor == 1:
        return ok(f"{found}: there is only one copy, see replication-factor")
    if least == 1:
        return Verdict(Severity.ERROR, found, remedies.set_topic(facts, f"min.insync.replicas={min(2, factor)}"))
    if least < factor:
        return ok(f"{found}: writing goes on with {factor - least} brokers away")
    remedy = remedies.set_topic(facts, f"min.insync.replicas={factor - 1}")
    if factor == 2:
        first = "add a third copy" if len(facts.brokers) > factor else "start a third broker and give it a copy"
        remedy = f"{first}, and keep min.insync.replicas=2: {remedies.reassign(facts, 3)}"
    if least > factor:
        return Verdict(Severity.ERROR, found, remedy, "nobody can write with acks=all: NotEnoughReplicas for ever")
    risk = "one broker away stops every writer with acks=all (NotEnoughReplicas), maintenance included"
    return Verdict(Severity.WARNING, found, remedy, risk)


def replicas_in_sync(facts: TopicFacts) -> Verdict:
    """Copies that lag behind or whose broker is away."""
    behind = {p.partition: set(p.replicas) - set(p.in_sync) for p in facts.partitions if p.leader is not None}
    behind = {partition: nodes for partition, nodes in behind.items() if nodes}
    if not behind:
        return ok("every copy is in sync")
    away = set.union(*behind.values())
    refused = [p.partition for p in facts.partitions if p.leader is not None and len(p.in_sync) < facts.min_insync]
    found = f"partitions {_listed(behind)} lack the copies on brokers {_listed(away)}"
    remedy = f"start or mend brokers {_listed(away)}, then: {remedies.describe(facts, '--under-replicated-partitions')}"
    if refused:
        risk = "these partitions refuse writes with acks=all (NotEnoughReplicas) until copies have caught up"
        return Verdict(Severity.ERROR, f"{found}; fewer than min.insync.replicas in {_listed(refused)}", remedy, risk)
    return Verdict(Severity.WARNING, found, remedy)


def offline_partitions(facts: TopicFacts) -> Verdict:
    """Partitions that nobody leads."""
    offline = [p for p in facts.partitions if p.leader is None]
    if not offline:
        return ok("every partition has a leader")
    nodes = {node for p in offline for node in p.in_sync or p.replicas}
    remedy = f"start brokers {_listed(nodes)}, then: {remedies.describe(facts, '--unavailable-partitions')}"
    return Verdict(Severity.ERROR, f"partitions {_listed(p.partition for p in offline)} have no leader", remedy)


def preferred_leaders(facts: TopicFacts) -> Verdict:
    """Leaders that are not the first of their replicas."""
    moved = {p.partition: p for p in facts.partitions if p.leader is not None and p.leader != p.replicas[0]}
    if not moved:
        return ok("every partition is led by its preferred broker")
    places = ", ".join(f"{n} (by {p.leader}, not {p.replicas[0]})" for n, p in sorted(moved.items()))
    return Verdict(Severity.WARNING, f"led by another than the preferred broker: {places}", remedies.elect(facts))


def unclean_election(facts: TopicFacts) -> Verdict:
    """A copy that was not in sync may become the leader."""
    if facts.settings["unclean.leader.election.enable"] != "true":
        return ok("only copies in sync become leaders")
    remedy = remedies.set_topic(facts, "unclean.leader.election.enable=false")
    return Verdict(Severity.ERROR, "unclean.leader.election.enable=true", remedy)


def auto_created(facts: TopicFacts) -> Verdict:
    """Brokers that make topics for whoever names one; Kafka does not keep which topics were made so."""
    if "true" not in facts.broker_settings("auto.create.topics.enable", "false"):
        return ok("topics are made on purpose only")
    defaults = {
        "num.partitions": len(facts.partitions),
        "default.replication.factor": facts.replication_factor,
    }
    as_made = not facts.own and all(facts.broker_number(name, 1) == found for name, found in defaults.items())
    doubt = "; this one has the brokers' defaults in everything, as a topic made so would" if as_made else ""
    remedy = remedies.server_properties("auto.create.topics.enable=false")
    return Verdict(Severity.WARNING, f"the brokers make topics for whoever names one{doubt}", remedy)


def closest_replica(facts: TopicFacts) -> Verdict:
    """Reading from the closest copy needs racks and a selector on the brokers and client.rack at the reader."""
    client = facts.client.get("client.rack")
    racks = {broker.rack for broker in facts.brokers if broker.rack}
    selects = "RackAware" in " ".join(facts.broker_settings("replica.selector.class", ""))
    if not client and not (racks and selects):
        return ok("readers use the leaders, and neither side asks for more")
    if client and racks and selects:
        if client in racks:
            return ok(f"readers in rack {client} use the copies there")
        named = ", ".join(sorted(racks))
        remedy = f"set client.rack of the connection to one of: {named}"
        return Verdict(Severity.WARNING, f"client.rack {client} is no broker's rack ({named})", remedy)
    if client:
        lacks = [] if racks else ["broker.rack=<its rack>"]
        lacks += [] if selects else ["replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"]
        remedy = f"{remedies.server_properties(' and '.join(lacks))}; or remove client.rack from the connection"
        return Verdict(Severity.WARNING, f"client.rack {client}, and the brokers lack {' and '.join(lacks)}", remedy)
    found = (
        f"the brokers offer the closest copy (racks {', '.join(sorted(racks))}), and the connection has no client.rack"
    )
    return Verdict(Severity.INFO, found, "set client.rack in the extra of the Kafka connection")


RULES = (
    Rule("replication-factor", "the only broker that has a partition takes its records with it", replication_factor),
    Rule(
        "min-insync-replicas",
        "acks=all means the leader alone when the others are away: what it acknowledged is lost with it",
        min_insync_replicas,
    ),
    Rule(
        "replicas-in-sync",
        "fewer brokers can be lost than the factor promises, and acks=all stops below min.insync.replicas",
        replicas_in_sync,
    ),
    Rule("offline-partitions", "nobody can write or read these partitions", offline_partitions),
    Rule("preferred-leaders", "one broker carries more than its share of writers and readers", preferred_leaders),
    Rule(
        "unclean-election",
        "a copy that lags becomes the leader, and acknowledged records are cut off (LogTruncated, if noticed at all)",
        unclean_election,
    ),
    Rule(
        "auto-created",
        "a misspelt name becomes a topic with default copies and retention, and its writer never learns",
        auto_created,
    ),
    Rule("closest-replica", "records cross racks all the same, which costs time and money", closest_replica),
)
