"""The steps of records that are walked at the same time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.lockstep_scalars import Where, check, read_column, skip_column
from offset_ledger.decoding.avro.nodes import Scalar
from offset_ledger.decoding.avro.scalars import Step
from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.typed.columns import Build
from offset_ledger.decoding.typed.convert import json_text
from offset_ledger.decoding.typed.decoder import Found

MAX_ITEMS = 32


class Walk:
    """The cursors, and for each slot the columns of the branches that lead to it."""

    def __init__(self, values: pa.BinaryArray, candidates: Flags, slots: int) -> None:
        self.cursors = Cursors(values, candidates)
        self.columns: list[list[pa.Array]] = [[] for _ in range(slots)]


WalkStep = Callable[[Walk, Where], None]


def skip_step(scalar: Scalar) -> WalkStep:
    """Steps over values without parts."""
    skip = skip_column(scalar)

    def step(walk: Walk, where: Where) -> None:
        skip(walk.cursors, where)

    return step


def fill_step(scalar: Scalar, builds: list[tuple[int, Build]]) -> WalkStep:
    """Fills the slots with values without parts."""
    read = read_column(scalar)

    def step(walk: Walk, where: Where) -> None:
        column = read(walk.cursors, where)
        for slot, build in builds:
            staged, flags = build(column)
            walk.columns[slot].append(staged)
            if flags is not None:
                check(walk.cursors, flags, where)

    return step


def document_step(pass_over: WalkStep, read: Step, slots: list[int]) -> WalkStep:
    """Fills the slots with the JSON of what a step passes over, which the exact reader reads one by one."""

    def step(walk: Walk, where: Where) -> None:
        start = walk.cursors.places()
        pass_over(walk, where)
        spans = walk.cursors.since(start, where)
        column = pa.array([None if span is None else _document(read, span) for span in spans.to_pylist()], pa.string())
        check(walk.cursors, column.is_valid().to_numpy(zero_copy_only=False), where)
        for slot in slots:
            walk.columns[slot].append(column)

    return step


def _document(read: Step, span: bytes) -> str | None:
    """The JSON of a value, None where there is a reason against it."""
    cursor = Cursor(span, Found([]))
    try:
        value = read(cursor)
        return None if cursor.against else json_text(value)
    except (Malformed, Mismatch):
        return None


def leave(walk: Walk, where: Where) -> None:
    """Leave these records to the exact reader."""
    check(walk.cursors, np.zeros(len(walk.cursors.good), np.bool_), where)


def items_step(step: WalkStep, keyed: bool) -> WalkStep:
    """Steps over the items of arrays or maps, the first of all of them, then the second, and so on."""

    def walk_items(walk: Walk, where: Where) -> None:
        cursors = walk.cursors
        rest = np.full(len(cursors.good), MAX_ITEMS)
        open_ = cursors.good.copy() if where is None else cursors.good & where
        while open_.any():
            count = cursors.zigzags(open_)
            check(cursors, (count >= 0) & (count <= rest), open_)
            open_ = cursors.good & open_ & (count > 0)
            rest -= np.where(open_, count, 0)
            for number in range(int(np.max(count, initial=0, where=open_))):
                takes = cursors.good & open_ & (number < count)
                if keyed:
                    cursors.skip(cursors.zigzags(takes), takes)
                step(walk, takes)

    return walk_items
