"""Consumer groups: the offsets they have committed, and who they are."""

from __future__ import annotations

from collections.abc import Mapping

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from offset_ledger.kafka.admin import Admin


def group_offsets(admin: Admin, group: str, topic: str) -> dict[int, int]:
    """The offsets that the group has committed for the topic, by partition."""
    committed = admin.client.list_group_offsets({group: None})[group]
    return {tp.partition: int(at.offset) for tp, at in committed.items() if tp.topic == topic and at.offset >= 0}


def alter_group_offsets(admin: Admin, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets in the name of a group without members; the error of a partition is raised."""
    wanted = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
    for tp, error in admin.client.alter_group_offsets(group, wanted).items():
        if error is not kafka_errors.NoError:
            raise error(f"{group} {tp.topic} {tp.partition}")


def groups_with_offsets(admin: Admin, topic: str) -> dict[str, str]:
    """The consumer groups that have committed offsets of the topic, by name, each with its state."""
    states = {
        str(group["group_id"]): str(group.get("group_state") or "")
        for group in admin.client.list_groups()
        if str(group.get("group_type") or "").lower() != "share"
    }
    if not states:
        return {}
    offsets = admin.client.list_group_offsets(list(states))
    with_offsets = sorted(group for group, places in offsets.items() if any(tp.topic == topic for tp in places))
    return {group: states[group] for group in with_offsets}
