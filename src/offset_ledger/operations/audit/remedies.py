"""The fixes of the rules' findings: Kafka's own tools, with every argument filled in.

A remedy is a text of lines. A line is a command to paste, or words; words before a command end with a colon.
"""

import json
import shlex
from collections.abc import Collection, Iterable

from offset_ledger.operations.audit.facts import TopicFacts
from offset_ledger.operations.audit.finding import numbered


def lines(*each: str) -> str:
    """Return one remedy of several lines."""
    return "\n".join(each)


def set_topic(facts: TopicFacts, *settings: str) -> str:
    """Set ``name=value`` on the topic."""
    return _configs(facts, f"--add-config {','.join(settings)}")


def unset_topic(facts: TopicFacts, *names: str) -> str:
    """Remove the topic's own settings, so that the brokers' apply."""
    return _configs(facts, f"--delete-config {','.join(names)}")


def _configs(facts: TopicFacts, change: str) -> str:
    return f"kafka-configs.sh {_at(facts)} --alter --entity-type topics --entity-name {facts.topic} {change}"


def describe(facts: TopicFacts, option: str) -> str:
    """Show the partitions that ``option`` selects."""
    return f"kafka-topics.sh {_at(facts)} --describe --topic {facts.topic} {option}"


def elect(facts: TopicFacts) -> str:
    """Bring the leaders back to their preferred brokers, with this project's own command."""
    who = facts.reader.pipeline if facts.reader else f"--topic {facts.topic}"
    return f"offset-ledger kafka audit {who} --elect"


def reassign(facts: TopicFacts, factor: int, near: Collection[int] = ()) -> str:
    """Give every partition ``factor`` copies on brokers that are up, one of them on a broker of ``near`` if any.

    A leader that is up stays the preferred one, unless its copy is the only one and is not near.
    """
    nodes, moves = sorted(broker.node for broker in facts.brokers), []
    for p in facts.partitions:
        turn = p.partition % len(nodes)
        kept = [node for node in p.replicas if node in nodes]
        copies = [*kept, *(node for node in nodes[turn:] + nodes[:turn] if node not in kept)][:factor]
        if near and not set(copies) & set(near):
            copies[-1] = sorted(near)[p.partition % len(near)]
        moves.append({"topic": facts.topic, "partition": p.partition, "replicas": copies})
    plan = json.dumps({"version": 1, "partitions": moves}, separators=(",", ":"))
    tool = f"kafka-reassign-partitions.sh {_at(facts)} --reassignment-json-file copies.json --execute"
    return f"echo '{plan}' > copies.json && {tool}"


def abort(facts: TopicFacts, partition: int, start: int) -> str:
    """Abort the transaction that begins at that offset, whatever its coordinator knows."""
    place = f"--topic {facts.topic} --partition {partition} --start-offset {start}"
    return f"kafka-transactions.sh {_at(facts)} abort {place}"


def find_hanging(facts: TopicFacts) -> str:
    """Show the topic's transactions that no coordinator knows, however young."""
    return f"kafka-transactions.sh {_at(facts)} find-hanging --topic {facts.topic} --max-transaction-timeout 0"


def describe_transaction(facts: TopicFacts, transactional_id: str) -> str:
    """Show a transaction as its coordinator has it."""
    return f"kafka-transactions.sh {_at(facts)} describe --transactional-id {shlex.quote(transactional_id)}"


def end_transaction(facts: TopicFacts, transactional_id: str) -> str:
    """Have its coordinator abort it and fence its producer; the tool spells this option differently."""
    name = shlex.quote(transactional_id)
    return f"kafka-transactions.sh {_at(facts)} forceTerminateTransaction --transactionalId {name}"


def groups(facts: TopicFacts, verb: str, names: Iterable[str]) -> str:
    """``--describe`` or ``--delete`` consumer groups."""
    named = " ".join(f"--group {shlex.quote(name)}" for name in names)
    return f"kafka-consumer-groups.sh {_at(facts)} {verb} {named}"


def commit_again(facts: TopicFacts, group: str) -> str:
    """Commit a group's offsets of the topic once more as they are."""
    return f"{groups(facts, '--reset-offsets', [group])} --topic {facts.topic} --to-current --execute"


def server_properties(setting: str, nodes: Iterable[int]) -> str:
    """A setting that brokers read only when they start."""
    return f"write {setting} into server.properties of {numbered('broker', nodes)} and restart one broker at a time"


def _at(facts: TopicFacts) -> str:
    # The tools cannot take a connection's secrets from the command line: they read Java's names from a file.
    secured = facts.client.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"
    return f"--bootstrap-server {shlex.quote(facts.servers)}" + (
        " --command-config client.properties" if secured else ""
    )
