"""The state of the model: what Kafka, Postgres and the attempts hold at one moment, as small immutable tuples.

What ``Database`` has could be read from the ledger's tables:

- ``sources``: ``pipeline``, ``beginning``, ``cursor``, ``topic_look``
- ``batches``: ``batch``, ``batch_range``, ``slice``, ``redrive_record``, ``pruned_reread``
- ``table``, ``values``: the target table, or its bookkeeping and the table beside that
- ``staging``, beside the database: the UNLOGGED tables
- ``quarantine``: ``quarantine``, ``dead_letter``
- ``forgotten``, ``parts``, ``mark``: ``pruned_dismissal``, ``decision``, ``dead_letter_mark``

``topics`` are Kafka's, ``letters`` the dead letter topic, ``attempts`` the processes, ``earlier`` a standby or backup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState

T = TypeVar("T")

ROW, DELETE, BAD, MARKER = "row", "delete", "bad", "marker"  # what a record is; BAD is refused until the file is fixed
THERE, OPEN, ABORTED, GONE = "there", "open", "aborted", "gone"  # what became of it in the log
WITH_ROW, ABSENT = ".", " "  # of a column: written with the row, not declared
PATH, TIMESTAMP = "path", "timestamp"  # the two moments by which a pipeline file may order rows
WAITING, DELIVERED = "waiting", "delivered"  # of a dead letter

LOOKED, STAGING, VALIDATING, COMMITTING = "has a snapshot", "is staging", "is to validate", "is to commit"
UNSURE, TORN = "lost the answer to COMMIT", "has yet to move the cursor"  # TORN: only with a defect
SENDING, SENT = "is sending letters", "has sent letters"


# -- Kafka -----------------------------------------------------------------------------------------------------------


class Record(NamedTuple):
    """A record. ``topic_id`` and ``era``, a leader epoch, say in which log it is; ``cleaned``: compaction met it.

    ``gives`` are the optional columns that it has. ``value`` is that of the column which is unique or refers to a row;
    0 is NULL. ``spelling`` is one of the ways to write its key, as 1.5 or 1.50.
    """

    what: str
    key: int = 0
    path: int = 0
    timestamp: int = 0
    fate: str = THERE
    topic_id: int = 1
    era: int = 0
    cleaned: int = -1
    gives: str = ""
    value: int = 0
    spelling: int = 0

    def moment(self, order: str | None) -> int:
        """What orders it: the moment in the record, or Kafka's timestamp."""
        return self.timestamp if order == TIMESTAMP else self.path

    @property
    def bare(self) -> Record:
        """The record as whoever has read it knows it."""
        return self._replace(fate=THERE, cleaned=-1)


class Log(NamedTuple):
    """A partition. ``cuts`` are the first offsets of its leader epochs, ``later`` what producers have yet to send."""

    records: tuple[Record, ...] = ()
    start: int = 0
    cuts: tuple[int, ...] = (0,)
    later: tuple[Record, ...] = ()

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return next((at for at, each in enumerate(self.records) if each.fate == OPEN), len(self.records))

    @property
    def era(self) -> int:
        """The present leader epoch."""
        return len(self.cuts) - 1

    def end_of(self, era: int) -> int:
        """Where the log of this leader epoch and of earlier ones ends."""
        return min(self.cuts[era + 1 :], default=len(self.records))

    def read(self, start: int, end: int) -> Iterator[tuple[int, Record]]:
        """What a reader of committed data gets of these offsets."""
        for offset in range(max(start, self.start), min(end, len(self.records))):
            record = self.records[offset]
            if record.fate == THERE and record.what != MARKER:
                yield offset, record.bare


class Topic(NamedTuple):
    """A topic by its id, 0 before it is created; ``added`` are partitions that it may get."""

    id: int
    logs: tuple[Log, ...]
    added: tuple[Log, ...] = ()


# -- the ledger, the table, the quarantine: one database ---------------------------------------------------------------

LogId = tuple[int, int]
"""Kafka's topic id, and how often the log was truncated and that accepted."""


class Place(NamedTuple):
    """Where a partition stands: its start offset and, once a head batch has committed, its cursor."""

    log: LogId
    partition: int
    start: int
    start_era: int = -1
    cursor: int | None = None
    cursor_era: int = -1

    @property
    def next(self) -> int:
        """The next offset."""
        return self.start if self.cursor is None else self.cursor

    @property
    def era(self) -> int:
        """The leader epoch under which that was stable; -1 where it is not known."""
        return self.start_era if self.cursor is None else self.cursor_era


class Look(NamedTuple):
    """How far the partitions were stable at a moment."""

    time: int
    log: LogId
    stables: tuple[int, ...]


class Source(NamedTuple):
    """The pipeline of one topic; without a log it was never planned. ``order``: the moment that orders the table."""

    log: LogId | None = None
    order: str | None = None
    places: tuple[Place, ...] = ()
    looks: tuple[Look, ...] = ()
    planned_at: int = 0

    def known(self) -> dict[int, Place]:
        """The places of the present log, by partition."""
        return {place.partition: place for place in self.places if place.log == self.log}


class Sheet(NamedTuple):
    """The balance sheet of a range."""

    inserted: int = 0
    updated: int = 0
    superseded: int = 0
    duplicate: int = 0
    deleted: int = 0
    quarantined: int = 0
    skipped: int = 0
    gap: int = 0


class Range(NamedTuple):
    """Offsets of a batch; ``era`` as the plan saw it, sheet and ``added`` event ids since the commit."""

    partition: int
    start: int
    end: int
    era: int = 0
    sheet: Sheet | None = None
    added: int = 0


class Slice(NamedTuple):
    """A row of the manifest."""

    epoch: int
    number: int
    partition: int
    rows: int
    refused: int
    skipped: int
    first: int
    last: int

    @property
    def records(self) -> int:
        """How many records it has staged."""
        return self.rows + self.refused + self.skipped


class File(NamedTuple):
    """The pipeline file: the order it names, the columns it declares, and whether it decodes what was BAD before.

    ``shape`` has a letter for each optional column: that of its group, WITH_ROW for one that is written with the row,
    and ABSENT where the file does not declare it.
    """

    order: str = PATH
    columns: int = 0
    fixed: bool = False
    shape: str = ""


class Batch(NamedTuple):
    """A batch; ``after`` is the open head batch that it is ahead of.

    ``moved_by`` is the epoch of the attempt that moved it last; every other field is in the ledger.
    """

    number: int
    topic: int
    kind: BatchKind
    state: BatchState
    log: LogId
    ranges: tuple[Range, ...]
    epoch: int = 0
    claim: int = 0
    moved_by: int = 0
    file: File = File()
    slices: tuple[Slice, ...] = ()
    expected: int | None = None
    late: tuple[tuple[int, int], ...] = ()
    late_approved: tuple[tuple[int, int], ...] = ()
    rejected: bool = False
    judged: tuple[object, ...] = ()
    approval: tuple[object, ...] = ()
    chosen: tuple[tuple[int, int], ...] = ()
    part: int = -1
    rereads: tuple[Range, ...] = ()
    after: int = 0
    fill: bool = False
    moved: tuple[tuple[int, int], ...] = ()  # into quarantine by the gate, by partition

    @property
    def manifest(self) -> tuple[Slice, ...]:
        """The slices of the present epoch, in the order of their numbers."""
        return tuple(sorted((each for each in self.slices if each.epoch == self.epoch), key=lambda each: each.number))

    @property
    def approved(self) -> bool:
        """Whether it passed although the gate had rejected it."""
        return self.state is BatchState.VALIDATED and self.rejected


class Row(NamedTuple):
    """A row, or a delete marker, of the target table."""

    at: int
    topic: int
    partition: int
    offset: int
    record: Record
    batch: int

    @property
    def place(self) -> tuple[int, int, int, int]:
        """By what it is ordered."""
        return self[:4]


class Values(NamedTuple):
    """A row of a table whose bookkeeping is beside it: of which record it is, and of which each optional column."""

    spelling: int
    whole: Row
    columns: tuple[Row | None, ...] = ()


USERS = Row(-1, -1, -1, -1, Record("user"), 0)  # of the row that the table had before the first batch
LOST = Row(-1, -1, -1, -2, Record("lost"), 0)  # went with a row that somebody deleted by hand
DELETED_BY_HAND = Values(0, LOST)


def is_live(values: Values | None) -> bool:
    """Whether the table has the row."""
    return values is not None and values != DELETED_BY_HAND


class Quarantined(NamedTuple):
    """A quarantined record and what became of it; ``against``: the key whose row has its unique value."""

    topic: int
    log: LogId
    partition: int
    offset: int
    record: Record
    batch: int
    resolved_by: int = 0
    tried_by: int = 0
    dismissed: bool = False
    letter: str = ""
    against: int = -1

    @property
    def position(self) -> Position:
        """By what a dead letter names it."""
        return self[:4]


Position = tuple[int, LogId, int, int]


class Part(NamedTuple):
    """A part of a remerge, to be replayed."""

    topic: int
    log: LogId
    ranges: tuple[Range, ...]


class Database(NamedTuple):
    """What commits, and goes back, together. ``columns`` are those of the table, ``last`` is the newest batch id.

    ``table`` is the bookkeeping, if that is beside the table, whose rows are ``values`` then. ``groups`` are the orders
    of each key's groups of columns, ``shape`` is that of the file by which they were kept last. ``pruned`` is history:
    key and place of the delete markers that were pruned.
    """

    sources: tuple[Source, ...]
    table: tuple[Row | None, ...]
    batches: tuple[Batch, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()
    forgotten: tuple[Position, ...] = ()
    parts: tuple[Part, ...] = ()
    columns: int = 0
    mark: int = 0
    last: int = 0
    values: tuple[Values | None, ...] = ()
    groups: tuple[tuple[tuple[str, Row], ...], ...] = ()
    shape: str = ""
    pruned: tuple[tuple[int, tuple[int, int, int, int]], ...] = ()

    def batch(self, number: int) -> Batch | None:
        """The batch of that id."""
        return next((each for each in self.batches if each.number == number), None)

    def head(self, topic: int) -> Batch | None:
        """The open head batch; the one ahead of it is no such yet."""
        heads = (b for b in self.of(topic) if b.kind is BatchKind.HEAD and b.state.is_open and not b.after)
        return next(heads, None)

    def ahead(self, batch: Batch) -> Batch | None:
        """The one that is ahead of this batch."""
        return next((b for b in self.batches if b.after == batch.number), None)

    def of(self, topic: int) -> Iterator[Batch]:
        """The batches of a topic."""
        return (each for each in self.batches if each.topic == topic)

    def with_batch(self, batch: Batch) -> Database:
        """With this batch in place of the one of its id, or as a new one."""
        if batch.number > self.last:
            return self._replace(batches=(*self.batches, batch), last=batch.number)
        return self._replace(batches=tuple(batch if b.number == batch.number else b for b in self.batches))

    def abandoned(self, batch: Batch) -> Database:
        """With this batch given up, and with it the one ahead, which begins where it ends."""
        db = self.with_batch(batch._replace(state=BatchState.ABANDONED, chosen=(), after=0))
        return db.without_ahead(batch)

    def without_ahead(self, batch: Batch) -> Database:
        """With the one ahead of this batch given up."""
        ahead = self.ahead(batch)
        return self.abandoned(ahead) if ahead else self

    def with_source(self, topic: int, source: Source) -> Database:
        """With this pipeline row."""
        return self._replace(sources=put(self.sources, topic, source))


# -- the rest --------------------------------------------------------------------------------------------------------


class Staged(NamedTuple):
    """A record in staging, and the moment that orders it; ``against`` as in quarantine."""

    partition: int
    offset: int
    record: Record
    at: int
    against: int = -1


class Staging(NamedTuple):
    """The UNLOGGED tables of an epoch; a crash empties them."""

    batch: int
    epoch: int
    file: File
    rows: tuple[Staged, ...] = ()
    refused: tuple[Staged, ...] = ()


class Attempt(NamedTuple):
    """A process at work. ``memory`` is what it has learned, which may be outdated: a paused one learns nothing."""

    doing: str
    topic: int
    batch: int = 0
    epoch: int = 0
    claim: int = 0
    done: tuple[int, ...] = ()
    memory: tuple[Any, ...] = ()


class State(NamedTuple):
    """Everything. ``claims`` and ``time`` are clocks, ``letters`` the dead letter topic, ``left`` what may yet fail."""

    topics: tuple[Topic, ...]
    db: Database
    staging: tuple[Staging, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    earlier: Database | None = None
    file: File = File()
    letters: tuple[Position, ...] = ()
    claims: int = 0
    time: int = 0
    left: tuple[int, ...] = ()

    def log(self, topic: int, partition: int) -> Log:
        """A partition."""
        return self.topics[topic].logs[partition]

    def tables(self, batch: int, epoch: int) -> Staging | None:
        """The staging tables of that epoch, if they are there."""
        return next((each for each in self.staging if (each.batch, each.epoch) == (batch, epoch)), None)

    def with_log(self, topic: int, partition: int, log: Log) -> State:
        """With this partition."""
        there = self.topics[topic]
        return self._replace(topics=put(self.topics, topic, there._replace(logs=put(there.logs, partition, log))))

    def with_attempt(self, before: Attempt | None, after: Attempt | None) -> State:
        """With ``after`` in the place of ``before``; which of the interchangeable slots it has does not matter."""
        attempts = list(self.attempts)
        if before is not None:
            attempts.remove(before)
        if after is not None:
            attempts.append(after)
        return self._replace(attempts=tuple(sorted(attempts)))

    def with_tables(self, tables: Staging) -> State:
        """With these staging tables."""
        others = (each for each in self.staging if (each.batch, each.epoch) != (tables.batch, tables.epoch))
        return self._replace(staging=tuple(sorted((*others, tables), key=lambda each: each[:2])))


def put(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    """The tuple with another item at a place."""
    return (*items[:place], item, *items[place + 1 :])


def changed(items: Iterable[T], change: Callable[[T], T]) -> tuple[T, ...]:
    """The tuple with every item changed."""
    return tuple(change(each) for each in items)
