"""The declared paths of a record as a tree: which member leads to which value of the row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import JsonPath, RecordShape
from offset_ledger.decoding.kinds import ColumnKind, kinds


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of the row: slot 0 is event_id, 1 is publish_at, the declared columns follow."""

    slot: int
    kind: ColumnKind
    nullable: bool


@dataclass(frozen=True)
class Node:
    """A place in the record; it can lead on to members, to values of the row, or both."""

    path: str
    members: dict[str, Node] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)

    def descendants(self) -> Iterator[Leaf]:
        """Every leaf here and below."""
        yield from self.leaves
        for member in self.members.values():
            yield from member.descendants()

    def add(self, path: JsonPath, leaf: Leaf) -> None:
        """Put a leaf at a path below this place."""
        node = self
        for depth, name in enumerate(path, start=1):
            node = node.members.setdefault(name, Node(format_path(path[:depth])))
        node.leaves.append(leaf)

    @cached_property
    def nullable(self) -> bool:
        """Whether the record may do without this place."""
        return all(leaf.nullable for leaf in self.descendants())


def tree(record: RecordShape) -> Node:
    """The tree of the record's paths."""
    root = Node("$")
    columns = [(column.path, column.nullable) for column in record.columns]
    places: list[tuple[JsonPath | None, bool]] = [(record.event_id, False), (record.publish_at, False), *columns]
    for slot, ((path, nullable), kind) in enumerate(zip(places, kinds(record), strict=True)):
        if path is not None:
            root.add(path, Leaf(slot, kind, nullable))
    return root
