"""What was sent and not yet answered, in order, with a bound; and the counts of what was."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata

from offset_ledger.reliability.publishing.progress import OnProgress
from offset_ledger.reliability.publishing.record import Record

OnAck = Callable[[Record, int, int], None]
"""Called with the record, its partition and its offset, in the order of sending, in the sender's own thread."""

OnError = Callable[[Record, Exception], None]
"""Called with a record that was not acknowledged and why, likewise."""

# kafka-python has no bound of its own on what waits for an answer.
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
SETTLE_EVERY = 1_000
# While it waits for its producer id, kafka-python lets nothing expire: so much later we stop waiting for it. Behind a
# record that expired between two attempts it waits for ever: it forgets its id then and asks for no other.
GRACE_SECONDS = 10.0


class Summary(NamedTuple):
    """What was published: records acknowledged, the bytes of their values, and the time it took.

    ``retried`` counts a record each time it was sent again.
    """

    records: int
    value_bytes: int
    seconds: float
    failed: int = 0
    retried: int = 0

    @property
    def per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds else 0.0


class Acknowledged(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Outbox:
    """Records waiting for their answer. ``patience``: seconds after which the client has answered by itself."""

    patience: float
    on_progress: OnProgress | None = None
    on_ack: OnAck | None = None
    on_error: OnError | None = None
    failed: list[Record] = field(default_factory=list)
    cause: Exception | None = None
    acknowledged: int = 0
    value_bytes: int = 0
    last: tuple[int, int] = (-1, -1)
    _waiting: deque[tuple[Record, int, FutureRecordMetadata]] = field(default_factory=deque)
    _bytes: int = 0
    _sent: int = 0

    def add(self, record: Record, size: int, future: FutureRecordMetadata) -> None:
        """Take one record in; blocks while too many wait."""
        self._waiting.append((record, size, future))
        self._bytes += size
        self._sent += 1
        if self._sent % SETTLE_EVERY == 0 or self._bytes > MAX_WAITING_BYTES:
            self.settle(MAX_WAITING, MAX_WAITING_BYTES)

    def refuse(self, record: Record, error: Exception) -> None:
        """Note that this record was not acknowledged."""
        self.failed.append(record)
        if self.cause is None or type(self.cause) is kafka_errors.KafkaError:  # that one only tells of another record
            self.cause = error
        if self.on_error:
            self.on_error(record, error)

    def settle(self, most: int = 0, most_bytes: int = 0) -> None:
        """Take off what was answered, and wait while more than that many records or bytes were not."""
        waiting, before, seconds = self._waiting, self.acknowledged, self.patience + GRACE_SECONDS
        while waiting and (waiting[0][2].is_done or len(waiting) > most or self._bytes > most_bytes):
            record, size, future = waiting.popleft()
            self._bytes -= size
            try:
                found = future.value if future.succeeded() else future.get(seconds)
            except kafka_errors.KafkaError as error:
                self.refuse(record, error)
                most = most_bytes = 0  # nothing more is sent: learn what became of the rest
                seconds = seconds if future.is_done else 0.0  # and wait that long once, not for each
            else:
                self._accept(record, size, found.partition, found.offset)
        if self.on_progress and self.acknowledged > before:
            self.on_progress(self.acknowledged - before)

    def _accept(self, record: Record, size: int, partition: int, offset: int) -> None:
        self.acknowledged += 1
        self.value_bytes += size
        self.last = (partition, offset)
        if self.on_ack:
            self.on_ack(record, partition, offset)
