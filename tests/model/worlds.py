"""The small worlds: each bounds what may happen, so that all of it can be walked in a minute or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from tests.model import batch, failover, kafka, repair
from tests.model.rules import World
from tests.model.state import BAD, DELETE, OPEN, ROW, TIMESTAMP, File, Log, Record, Topic

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
    """Three records of two topics, one of them perhaps a delete, in every order of moments, up to names of keys.

    Producer's and Kafka's moments are opposite.
    """
    layouts = (((0,), (1,), (2,)), ((0, 1), (), (2,)), ((0,), (), (1, 2)))
    for layout, deleted, keys, paths in product(layouts, (None, 0, 1, 2), KEYS, product((1, 2), repeat=3)):
        some = [(delete if n == deleted else row)(keys[n], paths[n], 3 - paths[n]) for n in range(3)]
        logs = [[some[n] for n in numbers] for numbers in layout]
        yield topic(*(log for log in logs[:2] if log)), topic(logs[2])


KEYS = ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1))

FENCING = World(
    "fencing",
    "two attempts at a batch: crashes, lost answers, an older attempt that goes on, a transaction that may abort",
    (kafka.produce, kafka.end_transaction, batch.plan_at_once, *STEPS, batch.resolve, failover.crash, failover.kill, repair.abandon),
    scripts=((to_come([row(0, 1), row(0, 2, fate=OPEN)]),),),
    left={"rival": 1, "crash": 1, "kill or abandon": 1, "lost answer": 1},
    attempts=2,
    transactional=True,
)  # fmt: skip
ORDER = World(
    "order",
    "two topics into one table, every order of three records and of their batches, with deletes, a replay and a remerge",
    (*AT_ONCE, repair.replay, repair.edit, repair.remerge, repair.replay_part),
    scripts=tuple(orders_of_arrival()),
    left={"replay": 1, "edits": 1},
    keys=2,
    cuts=True,
)
QUARANTINE = World(
    "quarantine",
    "refused records: a rejected batch, approval, redrive, dismissal, replay, a file that is fixed, a crash between",
    (*AT_ONCE, repair.approve, repair.abandon, repair.redrive, repair.dismiss, repair.edit, repair.replay, repair.prune, failover.crash),
    scripts=((topic([bad(0, 2), row(0, 1), bad(1, 1)]),), (topic([bad(0, 1)], [bad(0, 2), row(1, 1)]),)),
    left={"redrive": 2, "dismiss": 2, "fix": 1, "replay": 1, "abandon": 1, "crash": 1, "prune": 1},
    keys=2,
    cuts=True,
    rejects=True,
)  # fmt: skip
COMPACTION = World(
    "compaction",
    "tombstones on a compacted topic, time that passes, batches that are read too late",
    (kafka.produce, kafka.compact, kafka.tick, batch.plan_at_once, *STEPS, repair.approve_tombstones, repair.abandon, failover.crash),
    scripts=((to_come([row(0, 1), delete(0, 2), row(1, 3)]),), (to_come([row(0, 1), delete(0, 2)], [row(1, 1)]),)),
    left={"compact": 3, "tick": 2, "abandon or crash": 1, "rival": 1},
    keys=2,
    compacted=True,
    file=File(TIMESTAMP),
)  # fmt: skip
LOGS = World(
    "logs",
    "logs that change: retention, recreation, truncation, partitions and topics that come later, and what people accept",
    (kafka.produce, kafka.expire, kafka.truncate, kafka.recreate, kafka.add_partition, kafka.add_topic, batch.look, batch.plan,
     *STEPS, repair.skip, repair.accept_topic, repair.abandon),
    scripts=(
        (to_come([row(0, 1), row(0, 2)], added=[Log(later=(row(0, 3),))]),),
        (to_come([row(0, 1), row(0, 2)]), to_come([row(0, 2)], there=False)),
    ),
    left={"expire": 2, "truncate": 1, "recreate": 1, "abandon": 1},
    attempts=2,
)  # fmt: skip
FAILOVER = World(
    "failover",
    "an earlier database: a standby or a backup, tasks of the lost period, lost answers, dead letters that were sent",
    (kafka.produce, batch.plan_at_once, *STEPS, batch.resolve, failover.replicate, failover.failover, failover.restore,
     failover.kill, failover.read_back, failover.send, failover.mark),
    scripts=((to_come([bad(0, 1), row(0, 2)]),),),
    left={"replicate": 1, "failover or restore": 2, "kill": 1, "lost answer": 1, "rival": 1},
    attempts=2,
    letters=True,
)  # fmt: skip
EVOLVE = World(
    "evolve",
    "a file that widens a column, with replays before and after, by attempts one after the other; history is pruned",
    (kafka.produce, *AT_ONCE, repair.replay, repair.edit, repair.prune, repair.abandon, failover.crash),
    scripts=((to_come([row(0, 1), row(0, 2), row(1, 1)]),),),
    left={"replay": 2, "widen": 1, "prune": 2, "abandon": 1, "crash": 1},
    keys=2,
    cuts=True,
)  # fmt: skip
FIRST_STAYS = replace(EVOLVE, name="first stays", about="the same with merge: skip_existing", skip_existing=True)
WORLDS = (FENCING, ORDER, QUARANTINE, COMPACTION, LOGS, FAILOVER, EVOLVE, FIRST_STAYS)
