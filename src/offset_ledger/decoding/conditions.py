"""Conditions on a value of the record: the kind of value that is compared, and the comparison of a whole column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import FieldCondition
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.staged import Flags

_KINDS = {str: "text", bool: "boolean", int: "bigint"}


def compared(condition: FieldCondition) -> ColumnKind:
    """The kind of the values that can be equal."""
    return ColumnKind(_KINDS[type(condition.equals)], (), "")


def add_condition(root: Node, condition: FieldCondition, slot: int) -> None:
    """Let the tree lead to the value that is compared; a record may do without it."""
    root.add(condition.path, Leaf(slot, compared(condition), nullable=True))


def tree_of(condition: FieldCondition) -> Node:
    """The tree of the condition alone, whose value has slot 0."""
    root = Node("$")
    add_condition(root, condition, 0)
    return root


def holds(condition: FieldCondition, column: pa.Array) -> Flags:
    """Of which records, by the column of their values or of the texts of these, the condition holds."""
    equals = str(condition.equals) if pa.types.is_string(column.type) else condition.equals
    equal = pc.fill_null(pc.equal(column, pa.scalar(equals, column.type)), False)
    flags: Flags = equal.to_numpy(zero_copy_only=False)
    return flags
