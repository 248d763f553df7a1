"""The worlds that the machine goes through: those of the model, and some in which everything may happen."""

from __future__ import annotations

from dataclasses import replace

from tests.model import batch, failover, kafka, repair, tables
from tests.model.rules import Table, World
from tests.model.state import OPEN, File, Log
from tests.model.table_worlds import TABLE_WORLDS, gone, of
from tests.model.worlds import AT_ONCE, COMPACTION, GO_BACK, PRODUCE, STEPS, WORLDS, bad, delete, row, to_come

EVERYTHING = World(
    "everything",
    "two topics, every fault and every decision, in any order",
    (
        *PRODUCE,
        kafka.expire,
        kafka.truncate,
        kafka.recreate,
        kafka.add_partition,
        kafka.add_topic,
        batch.look,
        batch.plan,
        batch.plan_ahead,
        *STEPS,
        batch.resolve,
        repair.approve,
        repair.abandon,
        repair.skip,
        repair.accept_topic,
        repair.replay,
        repair.redrive,
        repair.dismiss,
        repair.edit,
        repair.remerge,
        repair.replay_part,
        repair.prune,
        failover.crash,
        *GO_BACK,
    ),
    scripts=(
        (
            to_come(
                [row(0, 1, 2), bad(1, 1), row(0, 2, 1, fate=OPEN), delete(1, 3)],
                [bad(1, 2), row(1, 3)],
                added=[Log(later=(row(0, 3), bad(0, 4)))],
            ),
            to_come([delete(0, 2), row(1, 1, 3), row(0, 1, 4)], there=False),
        ),
    ),
    left={
        **dict.fromkeys(("expire", "truncate", "recreate", "replay", "redrive", "dismiss", "prune"), 2),
        **dict.fromkeys(("edits", "fix", "widen"), 1),
        **dict.fromkeys(("rival", "abandon", "crash", "kill", "lost answer"), 3),
        **dict.fromkeys(("replicate", "failover or restore"), 2),
    },
    attempts=2,
    keys=2,
    cuts=True,
    transactional=True,
    rejects=True,
)
OUTBOX = replace(
    EVERYTHING,
    name="outbox",
    about="one topic whose letters are delivered while all else happens",
    actions=(*EVERYTHING.actions, failover.read_back, failover.send, failover.mark),
    scripts=tuple(topics[:1] for topics in EVERYTHING.scripts),
    letters=True,
)
TOMBSTONES = replace(
    COMPACTION,
    name="tombstones",
    actions=(*(each for each in COMPACTION.actions if each not in AT_ONCE), batch.plan_at_once, *STEPS),
)
_HAPPENS = (
    kafka.produce,
    kafka.expire,
    batch.plan_at_once,
    *STEPS,
    batch.resolve,
    repair.abandon,
    repair.skip,
    repair.replay,
    repair.redrive,
    repair.dismiss,
    repair.edit,
    repair.prune,
    failover.kill,
    failover.crash,
    tables.prune_deletes,
)
ALL_BESIDE = World(
    "everything beside",
    "a table beside its bookkeeping, with groups of columns, and what people do to it, while all else happens",
    (*_HAPPENS, tables.regroup, tables.fill, tables.delete_by_hand, tables.lose_comments),
    scripts=(
        (
            to_come(
                [of(0, 1, "a"), bad(1, 1), of(0, 4, "b", spelling=1), gone(1, 5), of(1, 6, "ab")],
                [of(1, 2, "b"), gone(0, 3, spelling=1), of(0, 2, "ab"), of(1, 4)],
            ),
        ),
    ),
    left={
        **dict.fromkeys(("expire", "replay", "redrive", "dismiss", "prune", "prune deletes", "regroup"), 2),
        **dict.fromkeys(("fix", "delete by hand", "lose comments"), 1),
        **dict.fromkeys(("rival", "abandon", "crash", "kill", "lost answer"), 3),
    },
    attempts=2,
    keys=2,
    cuts=True,
    file=File(shape="xy"),
    table=Table(beside=True, users=((0, 0),), trigger=True, copies=True, shapes=("xy", ".y")),
)
ALL_UNIQUE = World(
    "everything unique",
    "a table with a unique column besides its key, while all else happens",
    _HAPPENS,
    scripts=(
        (
            to_come(
                [of(0, 1, value=1), of(1, 2, value=1), bad(2, 2), gone(0, 3), of(2, 5, value=2)],
                [of(2, 1, value=2), of(0, 4, value=2), of(1, 5, value=3), of(2, 6, value=1)],
            ),
        ),
    ),
    left={**ALL_BESIDE.left},
    attempts=2,
    keys=3,
    cuts=True,
    table=Table(unique=True, default=True),
)
MACHINE_WORLDS = (*WORLDS, *TABLE_WORLDS, TOMBSTONES, OUTBOX, EVERYTHING, ALL_BESIDE, ALL_UNIQUE)
