"""Leaders of a topic: who they are, and how they are moved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError

PREFERRED, UNCLEAN = 0, 1


@contextmanager
def administered(servers: str) -> Iterator[KafkaAdminClient]:
    """An admin client that soon gives up on a broker that is silent."""
    client = KafkaAdminClient(bootstrap_servers=servers.split(","), request_timeout_ms=3000, bootstrap_timeout_ms=6000)
    try:
        yield client
    finally:
        client.close()


def described(servers: str, topic: str) -> Mapping[int, Mapping[str, Any]]:
    """Each partition as the cluster describes it; nothing while it does not answer."""
    with suppress(KafkaError), administered(servers) as admin:
        (found,) = admin.describe_topics([topic])
        return {each["partition_index"]: each for each in found["partitions"]}
    return {}


def leaders(servers: str, topic: str) -> dict[int, int]:
    """Partition -> node of its leader, -1 where there is none."""
    return {partition: each["leader_id"] for partition, each in described(servers, topic).items()}


def in_sync(servers: str, topic: str) -> set[int]:
    """The nodes that are in sync for any partition."""
    return {node for each in described(servers, topic).values() for node in each["isr_nodes"]}


def create_placed(servers: str, topic: str, places: Mapping[int, Sequence[int]], configs: Mapping[str, str]) -> None:
    """Make a topic whose replicas are on these nodes, the first of each being its leader."""
    asked = {"assignments": {p: list(nodes) for p, nodes in places.items()}, "configs": dict(configs)}
    with administered(servers) as admin:
        admin.create_topics({topic: asked})


def move_leaders(servers: str, topic: str, seconds: float = 30) -> None:
    """Let the next replica of each partition lead it, and return when that is so.

    Raises:
        TimeoutError: it was not so in time.
    """
    replicas = {p: list(each["replica_nodes"]) for p, each in described(servers, topic).items()}
    wanted = {p: [*nodes[1:], nodes[0]] for p, nodes in replicas.items()}
    deadline = time.monotonic() + seconds
    while leaders(servers, topic) != {p: nodes[0] for p, nodes in wanted.items()}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"leaders of {topic} should be {wanted}, found {leaders(servers, topic)}")
        with suppress(KafkaError), administered(servers) as admin:
            admin.alter_partition_reassignments({TopicPartition(topic, p): nodes for p, nodes in wanted.items()})
            admin.elect_leaders(PREFERRED, {topic: sorted(wanted)})


def elect_unclean(servers: str, topic: str) -> None:
    """Let a replica that is not in sync lead."""
    with suppress(KafkaError), administered(servers) as admin:
        admin.elect_leaders(UNCLEAN, {topic: sorted(leaders(servers, topic))})
