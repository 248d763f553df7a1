"""The small worlds: each bounds what may happen, so that all of it can be walked in a minute or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from tests.model import batch, failover, kafka, repair
from tests.model.rules import World
from tests.model.state import BAD, DELETE, OPEN, ROW, TIMESTAMP, File, Log, Record, Topic

PRODUCE = (kafka.produce, kafka.end_transaction)
CHANGE = (kafka.produce, kafka.expire, kafka.truncate, kafka.recreate, kafka.add_partition)
GO_BACK = (failover.replicate, failover.failover, failover.restore, failover.kill)
STEPS = (batch.take_up, batch.claim, batch.stage_slice, batch.seal, batch.validate, batch.commit)
AT_ONCE = (batch.plan_at_once, batch.load, batch.commit_at_once)


def topic(*logs: Iterable[Record], added: Iterable[Log] = (), there: bool = True) -> Topic:
    """A topic whose records are in the log already."""
    return Topic(int(there), tuple(Log(tuple(records)) for records in logs), tuple(added))


def to_come(*logs: Iterable[Record], added: Iterable[Log] = (), there: bool = True) -> Topic:
    """A topic whose records producers have yet to send."""
    return Topic(int(there), tuple(Log(later=tuple(records)) for records in logs), tuple(added))


def row(key: int, path: int, timestamp: int | None = None, fate: str = "there") -> Record:
    """A record that becomes a row."""
    return Record(ROW, key, path, path if timestamp is None else timestamp, fate)


def delete(key: int, path: int, timestamp: int | None = None) -> Record:
    """A record that deletes."""
    return Record(DELETE, key, path, path if timestamp is None else timestamp)


def bad(key: int, path: int) -> Record:
    """A record that is refused until the pipeline file is fixed."""
    return Record(BAD, key, path, path)


def orders_of_arrival() -> Iterator[tuple[Topic, ...]]:
    """Three records of two topics, perhaps with a delete, in every order of moments; keys and moments up to names.

    Producer's and Kafka's moments are opposite.
    """
    layouts = (((0,), (1,), (2,)), ((0, 1), (), (2,)), ((0,), (), (1, 2)))
    for layout, deleted, (keys, moments) in product(layouts, (None, 0, 1, 2), MOMENTS):
        some = [(delete if n == deleted else row)(keys[n], moments[n], 3 - moments[n]) for n in range(3)]
        logs = [[some[n] for n in numbers] for numbers in layout]
        yield topic(*(log for log in logs[:2] if log)), topic(logs[2])


MOMENTS = (
    *(((0, 0, 0), moments) for moments in product((1, 2), repeat=3) if moments != (2, 2, 2)),
    *(((0, 0, 1), (*two, 1)) for two in ((1, 1), (1, 2), (2, 1))),
    *(((0, 1, 0), (two[0], 1, two[1])) for two in ((1, 1), (1, 2), (2, 1))),
    *(((0, 1, 1), (1, *two)) for two in ((1, 1), (1, 2), (2, 1))),
)

FENCING = World(
    "fencing",
    "two attempts at a batch: crashes, lost answers, an older attempt that goes on, a transaction that may abort",
    (*PRODUCE, batch.plan_at_once, *STEPS, batch.resolve, failover.crash, failover.kill, repair.edit, repair.abandon),
    scripts=((to_come([row(0, 1), row(0, 2, fate=OPEN)]),),),
    left={"rival": 1, "crash or fix": 1, "kill or abandon or lost answer": 1},
    attempts=2,
    transactional=True,
)
ORDER = World(
    "order",
    "two topics into one table: every order of three records and of their batches, deletes, a replay, a remerge",
    (batch.run, batch.ingest, repair.replay, repair.edit, repair.remerge, repair.replay_part),
    scripts=tuple(orders_of_arrival()),
    left={"replay or edits": 1},
    keys=2,
    cuts=True,
)
QUARANTINE = World(
    "quarantine",
    "refused records: a rejected batch, approval, redrive, dismissal, replay, a file that is fixed, a crash between",
    (
        *AT_ONCE,
        repair.approve,
        repair.abandon,
        repair.redrive,
        repair.dismiss,
        repair.edit,
        repair.replay,
        repair.prune,
        failover.crash,
    ),
    scripts=((topic([bad(0, 2), row(0, 1)]),), (topic([bad(0, 1)], [bad(0, 2)]),)),
    left={"redrive": 2, "dismiss": 2, "fix": 1, "replay or abandon or crash": 1, "prune": 1},
    rejects=True,
)
COMPACTION = World(
    "compaction",
    "tombstones on a compacted topic, time that passes, batches that are read too late",
    (kafka.produce, kafka.compact, kafka.tick, *AT_ONCE, repair.approve_tombstones, repair.abandon, failover.crash),
    scripts=((to_come([row(0, 1), delete(0, 2), row(1, 3)]),), (to_come([row(0, 1), delete(0, 2)], [row(1, 1)]),)),
    left={"compact": 2, "tick": 2, "abandon or crash": 1},
    keys=2,
    compacted=True,
    file=File(TIMESTAMP),
)
LOGS = World(
    "logs",
    "a log that changes while it is read: retention, recreation, truncation, a partition that comes later",
    (*CHANGE, batch.plan_at_once, *STEPS, failover.kill, repair.skip, repair.accept_topic, repair.abandon),
    scripts=((to_come([row(0, 1), row(0, 2)], added=[Log(later=(row(0, 3),))]),),),
    left={"expire": 1, "truncate or recreate": 1, "kill": 1},
)
LAST_COPY = World(
    "last copy",
    "staging of which the topic no longer has the records, while the pipeline file changes",
    (
        *CHANGE[1:-1],
        batch.plan_at_once,
        *STEPS,
        batch.resolve,
        failover.kill,
        failover.crash,
        repair.edit,
        repair.skip,
        repair.accept_topic,
        repair.approve,
        repair.abandon,
    ),
    scripts=((topic([bad(0, 1), row(0, 2)]),),),
    left={"expire or truncate or recreate": 2, "fix or widen": 1, "kill or lost answer": 1, "crash": 1},
    rejects=True,
    width=2,
)
SNAPSHOTS = World(
    "snapshots",
    "plans by snapshots that are outdated when they write: another plan, an accepted log, a loss comes between",
    (
        *CHANGE[1:],
        kafka.add_topic,
        batch.look,
        batch.plan,
        batch.ingest,
        repair.skip,
        repair.accept_topic,
        repair.abandon,
    ),
    scripts=(
        (topic([row(0, 1), row(0, 2)], added=[Log((row(0, 3),))]),),
        (topic([row(0, 1)]), topic([row(0, 2)], there=False)),
    ),
    left={"expire": 1, "truncate or recreate": 1},
    attempts=2,
    cuts=True,
)
FAILOVER = World(
    "failover",
    "an earlier database, promoted or restored: tasks of the lost period, lost answers, records that are gone",
    (kafka.produce, kafka.expire, batch.plan_at_once, *STEPS, batch.resolve, *GO_BACK, repair.skip, repair.abandon),
    scripts=((to_come([bad(0, 1), row(0, 2)]),),),
    left={"replicate": 1, "failover or restore": 1, "kill or lost answer or expire": 1, "rival": 1},
    attempts=2,
    width=2,
    transactional=True,
)
AHEAD = World(
    "ahead",
    "a batch that is staged while the one before it is not committed: that is rejected, abandoned, claimed again, lost",
    (
        kafka.expire,
        batch.plan_at_once,
        batch.plan_ahead,
        *STEPS,
        batch.resolve,
        failover.crash,
        failover.kill,
        repair.edit,
        repair.approve,
        repair.abandon,
        repair.skip,
    ),
    scripts=((topic([bad(0, 1), row(0, 2)]),), (topic([bad(0, 1)], [row(0, 2)]),)),
    left={"abandon or expire or fix or rival or crash": 1, "kill or lost answer": 1},
    attempts=2,
    cuts=True,
    rejects=True,
)
LETTERS = World(
    "letters",
    "dead letters: deliveries that die or are overtaken, and a database that goes back",
    (batch.run, *GO_BACK, failover.read_back, failover.send, failover.mark, repair.dismiss),
    scripts=((topic([bad(0, 1), bad(0, 2)]),), (topic([bad(0, 1)], [bad(0, 2)]),)),
    left={"replicate": 1, "failover or restore": 2, "kill": 1, "dismiss": 1},
    attempts=2,
    cuts=True,
    letters=True,
)
EVOLVE = World(
    "evolve",
    "a file that widens a column, with a replay before or after; history is pruned",
    (kafka.produce, *AT_ONCE, repair.replay, repair.edit, repair.prune),
    scripts=((to_come([row(0, 1), row(0, 2), row(0, 1)]),),),
    left={"replay": 1, "widen": 1, "prune": 1},
)
FIRST_STAYS = World(
    "first stays",
    "the same with merge: skip_existing, and batches that are given up",
    (kafka.produce, *AT_ONCE, repair.replay, repair.edit, repair.prune, repair.abandon, failover.crash),
    scripts=((to_come([row(0, 1), row(0, 2)]),), (to_come([row(0, 2), row(0, 1)]),)),
    left={"replay": 1, "widen": 1, "prune": 1, "abandon or crash": 1},
    skip_existing=True,
)
WORLDS = (
    *(FENCING, ORDER, QUARANTINE, COMPACTION, LOGS, LAST_COPY, SNAPSHOTS, FAILOVER, AHEAD, LETTERS),
    *(EVOLVE, FIRST_STAYS),
)
