"""The commands that mend what the rules find: Kafka's own tools, with every argument filled in."""

from __future__ import annotations

import json

from offset_ledger.audit.facts import TopicFacts


def set_topic(facts: TopicFacts, *settings: str) -> str:
    """Set ``name=value`` on the topic."""
    return _configs(facts, f"--add-config {','.join(settings)}")


def unset_topic(facts: TopicFacts, *names: str) -> str:
    """Remove the topic's own settings, so that the brokers' apply."""
    return _configs(facts, f"--delete-config {','.join(names)}")


def _configs(facts: TopicFacts, change: str) -> str:
    return f"kafka-configs {_at(facts)} --alter --entity-type topics --entity-name {facts.topic} {change}"


def describe(facts: TopicFacts, option: str) -> str:
    """Show the partitions that ``option`` selects."""
    return f"kafka-topics {_at(facts)} --describe --topic {facts.topic} {option}"


def elect(facts: TopicFacts) -> str:
    """Bring the leaders back to their preferred brokers, with our own command."""
    who = facts.reader.pipeline if facts.reader else f"--topic {facts.topic}"
    return f"offset-ledger audit {who} --elect"


def reassign(facts: TopicFacts, factor: int) -> str:
    """Give every partition ``factor`` copies on brokers that are up; its leader stays the preferred one."""
    nodes = sorted(broker.node for broker in facts.brokers)
    moves = []
    for p in facts.partitions:
        kept = [node for node in p.replicas if node in nodes]
        turn = p.partition % len(nodes)
        others = [node for node in nodes[turn:] + nodes[:turn] if node not in kept]
        moves.append({"topic": facts.topic, "partition": p.partition, "replicas": [*kept, *others][:factor]})
    plan = json.dumps({"version": 1, "partitions": moves}, separators=(",", ":"))
    tool = f"kafka-reassign-partitions {_at(facts)} --reassignment-json-file copies.json --execute"
    return f"echo '{plan}' > copies.json && {tool}"


def transactions(facts: TopicFacts, what: str, partition: int, start: int | None = None) -> str:
    """``abort`` or ``describe-producers`` on a partition."""
    place = f"--topic {facts.topic} --partition {partition}"
    return f"kafka-transactions {_at(facts)} {what} {place}" + (f" --start-offset {start}" if start is not None else "")


def server_properties(setting: str) -> str:
    """A setting that brokers read only when they start."""
    return f"write {setting} into every broker's server.properties and restart the brokers one by one"


def _at(facts: TopicFacts) -> str:
    return f"--bootstrap-server {facts.servers}"
