"""The worlds that the machine goes through: those of the model, and one in which everything may happen."""

from __future__ import annotations

from dataclasses import replace

from tests.model import batch, failover, kafka, repair
from tests.model.rules import World
from tests.model.state import OPEN, Log
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
MACHINE_WORLDS = (*WORLDS, TOMBSTONES, OUTBOX, EVERYTHING)
