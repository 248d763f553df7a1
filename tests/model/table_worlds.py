"""Small worlds about the table: groups of columns, bookkeeping beside it, unique values, markers that are pruned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from tests.model import batch, failover, kafka, repair, tables
from tests.model.rules import Table, World
from tests.model.state import DELETE, ROW, File, Record, Topic
from tests.model.worlds import AT_ONCE, STEPS, bad, topic

RUNS = (batch.run, batch.ingest, repair.replay)


def of(key: int, at: int, gives: str = "", value: int = 0, spelling: int = 0, what: str = ROW) -> Record:
    """A record with optional columns, a value, and a way to write its key; the clocks agree."""
    return Record(what, key, at, at, gives=gives, value=value, spelling=spelling)


def gone(key: int, at: int, spelling: int = 0) -> Record:
    """A record that deletes."""
    return of(key, at, spelling=spelling, what=DELETE)


def some_that_give(*ways: str) -> Iterator[tuple[Topic, ...]]:
    """Three records of a key, the second spelled in another way, perhaps a delete, in partitions of their own."""
    for each in sorted({tuple(three) for way in ways for three in permutations(way.split())}):
        first, second, third = (
            gone(0, at, at % 2) if gives == "delete" else of(0, at, gives.strip("-"), spelling=at % 2)
            for at, gives in enumerate(each, start=1)
        )
        yield (topic([first], [second], [third]),)


GROUPS = World(
    "groups",
    "columns in two groups: every order of three records that give some of them, or delete; rows deleted by hand",
    (*RUNS, tables.delete_by_hand, tables.lose_comments),
    scripts=tuple(some_that_give("a b -", "a b delete", "ab b -", "a - delete")),
    left={"replay or delete by hand": 1, "lose comments": 1},
    cuts=True,
    file=File(shape="xy"),
    table=Table(beside=True),
)
TOGETHER = World(
    "together",
    "two columns in one group, rows that were there before, fills of rows that were deleted by hand",
    (batch.run, batch.ingest, tables.fill, tables.delete_by_hand),
    scripts=tuple(some_that_give("a b -", "ab a delete")),
    left={"replay": 1, "delete by hand": 1},
    cuts=True,
    file=File(shape="xx"),
    table=Table(beside=True, users=((0, 0),), trigger=True, copies=True),
)
LEFT = World(
    "left",
    "a column that leaves its group and comes back to it, between any of three records",
    (batch.run, tables.regroup),
    scripts=tuple(some_that_give("a a b", "a - b", "a b delete")),
    left={"regroup": 2},
    cuts=True,
    file=File(shape="xy"),
    table=Table(beside=True, shapes=("xy", ".y")),
)
MOVED = World(
    "moved",
    "a column that goes to the group of another one, between any of three records",
    (*RUNS, tables.regroup),
    scripts=tuple(some_that_give("a a b", "a b ab", "a b delete")),
    left={"regroup": 1, "replay": 1},
    cuts=True,
    file=File(shape="xy"),
    table=Table(beside=True, shapes=("xy", "yy")),
)
OVERTAKEN = World(
    "overtaken",
    "a column that goes to another group while a batch is open",
    (batch.plan_at_once, *STEPS, tables.regroup, failover.kill),
    scripts=((topic([of(0, 1, "b")], [of(0, 2, "a")]),),),
    left={"regroup": 1, "kill": 1},
    cuts=True,
    file=File(shape="xy"),
    table=Table(beside=True, shapes=("xy", "yy")),
)
FILLED = World(
    "filled",
    "a column that comes later, with a group or without, and is filled",
    (batch.run, batch.ingest, repair.replay, tables.fill, tables.regroup),
    scripts=tuple(some_that_give("a b -")),
    left={"regroup": 1, "replay": 1},
    cuts=True,
    file=File(shape=" y"),
    table=Table(beside=True, shapes=("xy", ".y")),
)
BESIDE = World(
    "beside",
    "bookkeeping beside the table: rows that were there before, deleted by hand, or with another spelling of the key",
    (*RUNS, tables.fill, tables.delete_by_hand, failover.crash),
    scripts=(
        (topic([of(0, 1), of(1, 2, spelling=1)], [of(0, 3, spelling=1), gone(1, 1)]),),
        (topic([gone(0, 1), of(0, 3, spelling=1)], [of(1, 1, spelling=1), of(0, 2)]),),
    ),
    left={"replay or crash": 1, "delete by hand": 1},
    keys=2,
    cuts=True,
    table=Table(beside=True, users=((0, 0),), trigger=True, copies=True),
)
BESIDE_FIRST = World(
    "first stays beside",
    "the same with merge: skip_existing",
    (*RUNS, tables.fill, tables.delete_by_hand),
    scripts=BESIDE.scripts,
    left={"replay": 1, "delete by hand": 1},
    keys=2,
    cuts=True,
    skip_existing=True,
    table=Table(beside=True, users=((0, 0),)),
)


def that_bring(*ways: str) -> Iterator[tuple[Topic, ...]]:
    """Records by their moments: ``0u1`` brings key 0 the value 1, ``0d`` deletes it; a / stands between logs.

    Every second one is spelled in another way.
    """
    for way in ways:
        moments = iter(range(1, 9))
        yield (topic(*([_bringing(each, next(moments)) for each in log.split()] for log in way.split("/"))),)


def _bringing(text: str, at: int) -> Record:
    key, what, value, spelling = int(text[0]), text[1], text[2:], at % 2
    return gone(key, at, spelling) if what == "d" else of(key, at, value=int(value), spelling=spelling)


CONFLICTS = World(
    "conflicts",
    "a unique column beside the key: two keys that claim one value, in any batches, redrives, replays",
    (*RUNS, repair.redrive),
    scripts=tuple(
        that_bring("0u1 1u1 0u2", "0u1 / 1u1 0u2", "1u1 / 0u1 1d", "0u1 0d 1u1", "0u2 1u2 / 1u1", "0u0 1u0 0u1")
    ),
    left={"replay": 1, "redrive": 1},
    keys=2,
    cuts=True,
    table=Table(unique=True, trigger=True, collated=True),
)
CONFLICTS_BESIDE = World(
    "conflicts beside",
    "the same beside the bookkeeping, where rows were there before, a delete frees its value, and NULL is a value",
    (*RUNS, repair.redrive),
    scripts=tuple(that_bring("0u1 1u1 0u2", "0u0 / 1u0 0d", "0u1 0d 1u1", "1u3 / 2u3 1d", "0u1 / 0d 1u1 0u1")),
    left={"replay": 1, "redrive": 1},
    keys=3,
    cuts=True,
    table=Table(beside=True, unique=True, nulls_are_equal=True, users=((2, 2),)),
)
CONFLICTS_FIRST = World(
    "conflicts, first stays",
    "the same with merge: skip_existing",
    (*RUNS, repair.redrive),
    scripts=tuple(that_bring("0u1 1u1 0u2", "2u1 0u2 / 1u1", "0d 1u1 / 0u1")),
    left={"replay": 1, "redrive": 1},
    keys=3,
    cuts=True,
    skip_existing=True,
    table=Table(beside=True, unique=True, users=((2, 2),)),
)
RACES = World(
    "races",
    "a unique column, and a batch that commits between the gate of another one and its commit",
    (*AT_ONCE, repair.replay, repair.abandon),
    scripts=tuple(that_bring("0u1 / 1u1 0u2")),
    left={"replay": 1},
    keys=2,
    cuts=True,
    table=Table(unique=True, default=True),
)
CLASSIFIED = World(
    "classified",
    "a batch with a row that loses, on a server that cannot classify it",
    (batch.plan_at_once, *STEPS, tables.fail_to_classify),
    scripts=((topic([of(0, 2), of(0, 1)]),), (topic([gone(0, 2), of(0, 1), of(1, 1)]),)),
    left={"fail to classify": 1},
    keys=2,
    width=3,
    cuts=True,
    table=Table(classified=True),
)
FAMILY = World(
    "family",
    "rows that refer to rows: a parent goes after its child has got another one",
    (batch.run,),
    scripts=tuple(that_bring("0u0 1u1 2u0 1u3 0d", "0u0 1u1 2u0 0u3 1u3 0d")),
    keys=3,
    cuts=True,
    table=Table(beside=True, refers=True),
)
MARKERS = World(
    "markers",
    "delete markers that are pruned while records of their keys are in quarantine, in another partition or in staging",
    (
        batch.run,
        batch.load,
        batch.commit_at_once,
        kafka.expire,
        repair.redrive,
        repair.replay,
        repair.dismiss,
        repair.edit,
        repair.skip,
        repair.abandon,
        tables.prune_deletes,
    ),
    scripts=(
        (topic([bad(0, 1), gone(0, 2)]),),
        (topic([gone(0, 2)], [of(0, 1)]),),
        (topic([of(0, 1), gone(0, 2)], [of(0, 3)]),),
    ),
    left={"expire": 3, "redrive or replay": 1, "dismiss": 2, "fix": 1, "prune deletes": 1},
    cuts=True,
)
APPENDED = World(
    "appended",
    "records that are rows of their own: some are refused, some come again by a replay, while history is pruned",
    (
        *RUNS,
        repair.redrive,
        repair.dismiss,
        repair.edit,
        repair.prune,
    ),
    scripts=((topic([bad(0, 1), of(1, 1)]),),),
    left={"replay": 2, "redrive or dismiss": 1, "fix": 1, "prune": 1},
    keys=2,
    cuts=True,
    append=True,
)
TABLE_WORLDS = (
    GROUPS, TOGETHER, LEFT, MOVED, OVERTAKEN, FILLED, BESIDE, BESIDE_FIRST,
    CONFLICTS, CONFLICTS_BESIDE, CONFLICTS_FIRST, RACES, CLASSIFIED, FAMILY, MARKERS, APPENDED,
)  # fmt: skip
