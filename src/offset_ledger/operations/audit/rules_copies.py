"""Rules about copies, the brokers that have them, and reading from the closest. Pure: facts in, result out."""

from offset_ledger.base.units import counted
from offset_ledger.operations.audit import remedies
from offset_ledger.operations.audit.facts import BrokerFacts, TopicFacts
from offset_ledger.operations.audit.finding import RuleResult, Severity, listed, numbered, ok, rule


@rule("replication-factor", "the only broker that has a partition takes its records with it")
def replication_factor(facts: TopicFacts) -> RuleResult:
    """1 copy, or more copies than brokers."""
    factor, brokers = facts.replication_factor, len(facts.brokers)
    finding = f"replication factor {factor}, and {counted(brokers, 'broker')} up"
    if factor > brokers:
        missing = counted(factor - brokers, "more broker")
        return RuleResult(
            Severity.ERROR,
            finding,
            remedies.lines(
                f"start {missing}, or settle for {counted(brokers, 'copy') if brokers == 1 else f'{brokers} copies'}:",
                remedies.reassign(facts, brokers),
            ),
            "the copies that have no broker do not exist, and fewer brokers may be lost than the factor promises",
        )
    if factor > 1:
        lost = "1 copy" if factor == 2 else f"{factor - 1} copies"
        return ok(f"{finding}: {lost} can be lost")
    if brokers == 1:
        alone = "add brokers, then run this audit again for the command; one broker is good for development only"
        return RuleResult(Severity.WARNING, finding, alone)
    copies = min(3, brokers)
    remedy = remedies.lines(f"make {copies} copies of each partition:", remedies.reassign(facts, copies))
    return RuleResult(Severity.ERROR, finding, remedy)


@rule(
    "min-insync-replicas",
    "acks=all means the leader alone when the others are away: what it acknowledged is lost with it",
)
def min_insync_replicas(facts: TopicFacts) -> RuleResult:
    """1, which leaves acks=all to the leader alone, or the factor and more, which lets one lost broker stop writing."""
    min_insync, factor = facts.min_insync, facts.replication_factor
    finding = f"min.insync.replicas {min_insync} of {factor} copies"
    if factor == 1:
        return ok(f"min.insync.replicas {min_insync} of 1 copy: see replication-factor")
    if min_insync == 1:
        alone = factor == 2 and len(facts.brokers) > 2
        two = _third_copy(facts) if alone else remedies.set_topic(facts, "min.insync.replicas=2")
        return RuleResult(Severity.ERROR, finding, two)
    if min_insync < factor:
        return ok(f"{finding}: writing goes on with {counted(factor - min_insync, 'broker')} away")
    remedy = _third_copy(facts) if factor == 2 else remedies.set_topic(facts, f"min.insync.replicas={factor - 1}")
    risk = "one broker away stops every writer with acks=all (NotEnoughReplicas), maintenance included"
    if min_insync > factor:
        # Since KAFKA-15583 it counts as the factor; a broker does not say which version it is.
        risk = f"{risk}; brokers before Kafka 3.7 refuse those writes with all copies in sync, too"
    return RuleResult(Severity.WARNING, finding, remedy, risk)


def _third_copy(facts: TopicFacts) -> str:
    if len(facts.brokers) < 3:
        return "start a third broker, then run this audit again for the command that gives it a copy"
    two = remedies.set_topic(facts, "min.insync.replicas=2")
    wanted = ["keep 2, and add a third copy:"] if facts.min_insync == 2 else [two, "and add a third copy:"]
    return remedies.lines(*wanted, remedies.reassign(facts, 3))


@rule(
    "replicas-in-sync",
    "fewer brokers can be lost than the factor promises, and acks=all stops below min.insync.replicas",
)
def replicas_in_sync(facts: TopicFacts) -> RuleResult:
    """Find copies that lag behind or whose broker is unavailable."""
    behind = {p.partition: set(p.replicas) - set(p.in_sync) for p in facts.partitions if p.leader is not None}
    behind = {partition: nodes for partition, nodes in behind.items() if nodes}
    if not behind:
        return ok("every copy is in sync")
    away = numbered("broker", set.union(*behind.values()))
    refused = [
        p.partition
        for p in facts.partitions
        if p.leader is not None and len(p.in_sync) < min(facts.min_insync, len(p.replicas))
    ]
    finding = f"not in sync: the copies of {numbered('partition', behind)} on {away}"
    show = remedies.describe(facts, "--under-replicated-partitions")
    remedy = remedies.lines(f"start or repair {away}, then check that nothing is listed here:", show)
    if refused:
        risk = "these partitions refuse writes with acks=all (NotEnoughReplicas) until copies have caught up"
        less = f"{finding}; {numbered('partition', refused)} below min.insync.replicas ({facts.min_insync})"
        return RuleResult(Severity.ERROR, less, remedy, risk)
    return RuleResult(Severity.WARNING, finding, remedy)


@rule("offline-partitions", "nobody can write or read these partitions")
def offline_partitions(facts: TopicFacts) -> RuleResult:
    """Find partitions without a leader."""
    offline = [p for p in facts.partitions if p.leader is None]
    if not offline:
        return ok("every partition has a leader")
    nodes = numbered("broker", {node for p in offline for node in p.in_sync or p.replicas})
    show = remedies.describe(facts, "--unavailable-partitions")
    remedy = remedies.lines(f"start {nodes}, then check that nothing is listed here:", show)
    return RuleResult(Severity.ERROR, f"no leader: {numbered('partition', (p.partition for p in offline))}", remedy)


@rule("preferred-leaders", "one broker carries more than its share of writers and readers")
def preferred_leaders(facts: TopicFacts) -> RuleResult:
    """Leaders that are not the first of their replicas."""
    moved = {p.partition: p for p in facts.partitions if p.leader is not None and p.leader != p.replicas[0]}
    if not moved:
        return ok("every partition is led by its preferred broker")
    places = listed(f"{n} (by broker {p.leader}, not {p.replicas[0]})" for n, p in sorted(moved.items()))
    noun = "partition" if len(moved) == 1 else "partitions"
    return RuleResult(Severity.WARNING, f"not led by the preferred broker: {noun} {places}", remedies.elect(facts))


@rule(
    "unclean-election",
    "a copy that lags becomes the leader, and acknowledged records are cut off (LogTruncated, if noticed at all)",
)
def unclean_election(facts: TopicFacts) -> RuleResult:
    """A copy that was not in sync may become the leader."""
    if facts.settings["unclean.leader.election.enable"] != "true":
        return ok("only copies in sync become leaders")
    remedy = remedies.set_topic(facts, "unclean.leader.election.enable=false")
    finding = "a copy that is not in sync may become the leader (unclean.leader.election.enable=true)"
    return RuleResult(Severity.ERROR, finding, remedy)


@rule("auto-created", "a misspelt name becomes a topic with default copies and retention, and its writer is not told")
def auto_created(facts: TopicFacts) -> RuleResult:
    """Brokers that create topics for whoever names one; Kafka does not record which topics were created so."""
    creating = [b.node for b in facts.brokers if b.settings.get("auto.create.topics.enable", "false") == "true"]
    without_settings = [b.node for b in facts.brokers if not b.settings]
    if without_settings and not creating:
        finding = f"not known: {numbered('broker', without_settings)} showed no settings to this login"
        return RuleResult(
            Severity.INFO, finding, "give the login of the audit the right DescribeConfigs on the cluster"
        )
    if not creating:
        return ok("topics are created on purpose only")
    defaults = {"num.partitions": len(facts.partitions), "default.replication.factor": facts.replication_factor}
    as_created = not facts.own and all(facts.broker_number(name, 1) == value for name, value in defaults.items())
    doubt = "; this one has the brokers' defaults in everything, as a topic created so would" if as_created else ""
    remedy = remedies.server_properties("auto.create.topics.enable=false", creating)
    finding = (
        f"whoever names a topic creates it (auto.create.topics.enable=true on {numbered('broker', creating)}){doubt}"
    )
    return RuleResult(Severity.WARNING, finding, remedy)


_SELECTOR = "RackAwareReplicaSelector"
_SELECTOR_SETTING = f"replica.selector.class=org.apache.kafka.common.replica.{_SELECTOR}"
_RACK_SETTINGS = {"broker.rack": "broker.rack=RACK, each its own,", f"the {_SELECTOR}": _SELECTOR_SETTING}


@rule("closest-replica", "records cross racks all the same, which costs time and money")
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
    # A selector is needed where the leader is, and a rack where the copy is.
    without = {
        "broker.rack": [b.node for b in facts.brokers if not b.rack],
        f"the {_SELECTOR}": [b.node for b in facts.brokers if not _selects(b)],
    }
    if lacking := {what: nodes for what, nodes in without.items() if nodes}:
        finding = " and ".join(f"{what} is missing on {numbered('broker', nodes)}" for what, nodes in lacking.items())
        ways = [remedies.server_properties(_RACK_SETTINGS[what], nodes) for what, nodes in lacking.items()]
        remedy = remedies.lines(*ways, "or remove client.rack from the extra of the Kafka connection")
        return RuleResult(Severity.WARNING, f"client.rack is {rack}, but {finding}", remedy)
    if rack not in racks:
        remedy = f"set client.rack in the extra of the Kafka connection to {' or '.join(racks)}"
        return RuleResult(Severity.WARNING, f"client.rack is {rack}, and no broker is there ({listed(racks)})", remedy)
    near = {broker.node for broker in facts.brokers if broker.rack == rack}
    far = [p.partition for p in facts.partitions if not near & set(p.replicas)]
    if not far:
        return ok(f"readers in rack {rack} use the copies there")
    finding = f"client.rack is {rack}, and {numbered('partition', far)} have no copy there"
    remedy = remedies.lines("move a copy there:", remedies.reassign(facts, facts.replication_factor, near))
    return RuleResult(Severity.WARNING, finding, remedy)


def _selects(broker: BrokerFacts) -> bool:
    return _SELECTOR in broker.settings.get("replica.selector.class", "")


RULES = (
    replication_factor,
    min_insync_replicas,
    replicas_in_sync,
    offline_partitions,
    preferred_leaders,
    unclean_election,
    auto_created,
    closest_replica,
)
