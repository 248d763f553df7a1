"""Stories of the table: each shows a fault that the code has had (docs/model.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.model.rules import Table, World
from tests.model.table_worlds import (
    APPENDED,
    BESIDE,
    BESIDE_FIRST,
    CLASSIFIED,
    CONFLICTS,
    CONFLICTS_BESIDE,
    FAMILY,
    FILLED,
    GROUPS,
    LEFT,
    MARKERS,
    MOVED,
    OVERTAKEN,
    RACES,
    TOGETHER,
    gone,
    of,
    that_bring,
)  # fmt: skip
from tests.model.worlds import bad, topic

Story = tuple[World, *tuple[Any, ...]]


def of_logs(world: World, *logs: list[Any]) -> World:
    """The world with these records."""
    return replace(world, scripts=((topic(*logs),),))


def run(*logs: int | tuple[int, int, int]) -> tuple[str, Any]:
    """A run that takes the first record of these partitions, or these ranges."""
    return "run", (0, *((each, 0, 1) if isinstance(each, int) else each for each in logs))


def prune(*keys: int) -> tuple[str, Any]:
    """A prune that takes the markers of these keys."""
    return "prune deletes", (0, *keys)


# One head batch after the other takes the partitions 0, 2, 1: their turns are the code's.
THREE = ([of(0, 1, "a")], [of(0, 5, "a")], [of(0, 9, "b")])
LATE = ([of(0, 9, "b")], [of(0, 5, "a")], [of(0, 1, "a")])
OF_ONE = ("claim", "stage slice", "seal", "validate")
FAMILIES = replace(FAMILY, scripts=tuple(that_bring("0u0 1u1 2u0 1u3 0d")))
STORIES: dict[str, Story] = {
    "a column that leaves its group has no order of before when it comes back": (
        of_logs(LEFT, *THREE), run(0), ("regroup", (".y",)), run(2), ("regroup", ("xy",)), run(1),
    ),
    "a column that goes to another group keeps its newer value": (
        of_logs(MOVED, [of(0, 1, "b")], [of(0, 9, "a")], [of(0, 5, "b")]), run(0, 1), ("regroup", ("yy",)), run(2),
    ),
    "a batch that was staged with other groups is staged again": (
        OVERTAKEN, ("plan", (0, (0, 0, 1))), *OF_ONE, "commit", "plan", *OF_ONE, ("regroup", ("yy",)), "end", *OF_ONE,
        "commit",
    ),
    "a column that no commit has written takes what a late record gives": (
        of_logs(FILLED, *LATE), run(0), ("regroup", ("xy",)), run(2), run(1),
    ),
    "a column that no commit has written is filled": (
        of_logs(FILLED, [of(0, 1, "a")], [of(0, 9, "b")]), run(0, 1), ("regroup", ("xy",)), ("fill", (0, 0, 0, 1)),
        "ingest",
    ),
    "groups are known without a comment": (
        of_logs(GROUPS, [of(0, 5, "a")], [of(0, 9, "b")], [of(0, 1, "a")]), run(0), "lose comments", run(2), run(1),
    ),
    "a group of a row that was deleted by hand": (of_logs(GROUPS, *LATE), run(0), "delete by hand", run(2), run(1)),
    "a row that was deleted by hand is filled": (
        of_logs(replace(TOGETHER, table=Table(beside=True)), *LATE), run(0), "delete by hand", run(2),
        ("fill", (0, 0, 0, 1)), "ingest", run(1),
    ),
    "keys that are equal, with groups": (
        of_logs(GROUPS, [of(0, 1, "a")], [of(0, 2, "b", spelling=1)]), run(0), run(1),
    ),
    "keys that are equal, with a trigger beside the bookkeeping": (
        of_logs(replace(BESIDE, table=Table(beside=True, trigger=True)), [of(0, 1)], [of(0, 2, spelling=1)]), run(0),
        run(1), ("replay", (0, 0, 0, 1)), "ingest",
    ),
    "keys that are equal, with a trigger": (
        of_logs(CONFLICTS, [of(0, 1, value=1)], [of(0, 2, value=1, spelling=1)]), run(0), run(1),
    ),
    "a copy of the batch id, with a trigger": (of_logs(BESIDE, [of(0, 1)], [of(0, 2)]), run(0), run(1)),
    "a copy of the batch id, with groups": (
        of_logs(replace(TOGETHER, table=replace(TOGETHER.table, trigger=False)), *THREE), run(0), run(2), run(1),
    ),
    "a row is not filled for its copy of the batch id": (
        of_logs(replace(BESIDE, table=Table(beside=True, copies=True)), [of(0, 1)], [of(0, 2)]), run(0, 1),
        ("fill", (0, 1, 0, 1)), "ingest",
    ),
    "a row of before is the first": (
        of_logs(BESIDE_FIRST, [of(0, 1)], [of(1, 2)]), run(0), run(1), "delete by hand", ("replay", (0, 1, 0, 1)),
        "ingest",
    ),
    "a row of before is not deleted": (of_logs(BESIDE_FIRST, [gone(0, 1)], [gone(1, 2)]), run(0), run(1)),
    "a batch that cannot be classified": (
        of_logs(CLASSIFIED, [of(0, 2), of(0, 1)]), ("plan", (0, (0, 0, 2))), *OF_ONE, "fail to classify", "take up",
        "commit",
    ),
    "a unique value where a default counts": (
        replace(RACES, scripts=tuple(that_bring("0u1 1u1"))), ("plan", (0, (0, 0, 2))), "load", "commit",
    ),
    "a delete beside the bookkeeping brings no value": (
        replace(CONFLICTS_BESIDE, scripts=tuple(that_bring("0u0 / 1u1 1d"))), run(0), run((1, 0, 1)), run((1, 1, 2)),
    ),
    "a delete beside the bookkeeping frees its value": (
        replace(CONFLICTS_BESIDE, scripts=tuple(that_bring("0u1 / 0d 1u1"))), run(0), run((1, 0, 2)),
    ),
    "values in columns whose collation is nondeterministic": (
        replace(CONFLICTS, scripts=tuple(that_bring("0u1 1u1"))), run((0, 0, 2)), "redrive", "ingest",
    ),
    "a child moves before its parent goes": (FAMILIES, run((0, 0, 3)), run((0, 3, 5))),
    "a child moves to a parent that comes with it": (FAMILIES, run((0, 0, 2)), run((0, 2, 4)), run((0, 4, 5))),
    "what was appended is not appended again": (
        APPENDED, run((0, 0, 2)), ("edit", ("decodes", "all")), ("replay", (0, 0, 0, 2)), "ingest", "redrive", "ingest",
        ("replay", (0, 0, 0, 2)), "ingest",
    ),
    "what a replay appended ahead is not appended by a run": (
        APPENDED, run((0, 0, 1)), ("replay", (0, 0, 1, 2)), "ingest", run((0, 1, 2)), "dismiss", "prune",
        ("replay", (0, 0, 0, 2)), "ingest",
    ),
    "a delete marker that a record of another partition contradicts": (
        of_logs(MARKERS, [gone(0, 2)], [of(0, 1)]), run(0), "expire", prune(), run(1),
    ),
    "a delete marker that a quarantined record contradicts": (
        of_logs(MARKERS, [bad(0, 1), gone(0, 2)]), run((0, 0, 2)), "expire", "expire", prune(),
        ("edit", ("decodes", "all")), "redrive", "load", "commit",
    ),
    "a delete marker that a dismissed record contradicts": (
        of_logs(MARKERS, [bad(0, 1), gone(0, 2)]), run((0, 0, 2)), "expire", "expire", "dismiss", prune(),
        "undo dismissal", ("edit", ("decodes", "all")), "redrive", "load", "commit",
    ),
    "a delete marker that a staged record contradicts": (
        of_logs(MARKERS, [gone(0, 2)], [of(0, 1)]), run(0, 1), ("replay", (0, 1, 0, 1)), "load", "expire", "expire",
        prune(), "commit",
    ),
    "a delete marker that nothing contradicts": (
        of_logs(MARKERS, [gone(0, 2)], [of(0, 3)]), run(0), "expire", prune(0), run(1),
    ),
}  # fmt: skip
