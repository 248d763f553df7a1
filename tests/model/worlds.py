"""The small worlds: each bounds what may happen, so that all of it can be walked in a minute or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations, product

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


FENCING = World(
    "fencing",
    "two attempts at one partition: crashes, lost answers, an older attempt that goes on, a transaction that may abort",
    (kafka.produce, kafka.end_transaction, batch.look, batch.plan, *STEPS, batch.resolve, failover.crash, failover.kill, repair.abandon),
    scripts=((to_come([row(0, 1), row(0, 2, fate=OPEN)]),),),
    left={"rival": 1, "crash": 1, "kill": 1, "lost answer": 1, "abandon": 1},
    attempts=2,
    transactional=True,
)  # fmt: skip
