"""The declared paths of a record as a tree; they lead to the values of the row and of conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.kinds import ColumnKind, kinds
from offset_ledger.decoding.outcome import Flags
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import FieldCondition, JsonPath, RecordShape

Has = Callable[[JsonPath], bool]
"""A function that tells whether a record, or its writer's schema, has a path."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of the row: the slots of the key come first, then publish_at, then the declared columns.

    An ``aliased`` one can be elsewhere in the record, where it is not at its path; where a record was asked for its
    paths, none is.
    """

    slot: int
    kind: ColumnKind
    nullable: bool
    aliased: bool = False


@dataclass(frozen=True)
class Node:
    """A place in the record; it can lead on to members, to values of the row, or both."""

    path: str
    members: dict[str, Node] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)

    def descendants(self) -> Iterator[Leaf]:
        """Yield every leaf here and below."""
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
        """Return whether the record may do without this place."""
        return all(leaf.nullable for leaf in self.descendants())

    @cached_property
    def aliased(self) -> bool:
        """Return whether a value of the row is elsewhere where the record does without this place."""
        return any(leaf.aliased for leaf in self.descendants())


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the row, and the paths that it can be at: the first that the record has."""

    leaf: Leaf
    paths: tuple[JsonPath, ...]

    def path(self, has: Has) -> JsonPath:
        """Return where the value is in such a record; the path of the file if it is nowhere."""
        path, *aliases = self.paths
        return next(filter(has, self.paths), path) if aliases else path


def places(record: RecordShape) -> tuple[Place, ...]:
    """The values that have a path in the record."""
    declarations: list[tuple[JsonPath | None, tuple[JsonPath, ...], bool]] = [
        *((column.path, column.aliases, column.optional) for column in record.key_columns),
        (record.publish_at, record.publish_at_aliases, False),
        *((column.path, column.aliases, column.optional) for column in record.columns),
    ]
    return tuple(
        Place(Leaf(slot, kind, nullable, bool(aliases)), (path, *aliases))
        for slot, ((path, aliases, nullable), kind) in enumerate(zip(declarations, kinds(record), strict=True))
        if path
    )


def tree(record: RecordShape, has: Has | None = None) -> Node:
    """Return the tree of the record's paths; with ``has``, of the aliases that it has."""
    value_places = places(record)
    if has is not None:
        return tree_at(value_places, [place.path(has) for place in value_places])
    root = Node("$")
    for place in value_places:
        root.add(place.paths[0], place.leaf)
    return root


def tree_at(value_places: Iterable[Place], paths: Iterable[JsonPath]) -> Node:
    """The tree of records that have each value at this path."""
    root = Node("$")
    for place, path in zip(value_places, paths, strict=True):
        root.add(path, replace(place.leaf, aliased=False))
    return root


_KINDS = {str: "text", bool: "boolean", int: "bigint"}


def compared(condition: FieldCondition) -> ColumnKind:
    """The kind of the values that can be equal."""
    return ColumnKind(_KINDS[type(condition.equals)], (), "")


def add_condition(root: Node, condition: FieldCondition, slot: int) -> None:
    """Add the leaf of the value that is compared; a record may lack it."""
    root.add(condition.path, Leaf(slot, compared(condition), nullable=True))


def tree_of(condition: FieldCondition) -> Node:
    """The tree of the condition alone, whose value has slot 0."""
    root = Node("$")
    add_condition(root, condition, 0)
    return root


def holds(condition: FieldCondition, column: pa.Array) -> Flags:
    """Return for which records the condition holds; the column has their values or the texts of these."""
    flags = are_equal(condition, column)
    return ~flags if condition.negated else flags


def are_equal(condition: FieldCondition, column: pa.Array) -> Flags:
    """Return which values, or their texts, equal that of the condition."""
    equals = str(condition.equals) if pa.types.is_string(column.type) else condition.equals
    equal = pc.fill_null(pc.equal(column, pa.scalar(equals, column.type)), False)
    flags: Flags = equal.to_numpy(zero_copy_only=False)
    return flags
