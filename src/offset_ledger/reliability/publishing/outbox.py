"""Records that were sent and not answered yet, in order and bounded; and the counts of those that were."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata

from offset_ledger.progress import OnProgress
from offset_ledger.reliability.publishing.record import Record

OnAck = Callable[[Record, int, int], None]
"""Called with the record, its partition and its offset, in the order of sending, in the sender's own thread."""

OnError = Callable[[Record, Exception], None]
"""Called with a record that was not acknowledged and why, likewise."""

# kafka-python has no bound of its own on what waits for an answer.
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
SETTLE_EVERY = 1_000
# While it waits for its producer id, kafka-python lets nothing expire: so much later the wait ends. Behind a
# record that expired between two attempts it waits for ever: it forgets its id then and asks for no other.
GRACE_SECONDS = 10.0


class Summary(NamedTuple):
    """What was published: records acknowledged, the bytes of their values, and the time it took.

    ``retried`` counts a record each time it was sent again; librdkafka does not tell.
    """

    records: int
    value_bytes: int
    seconds: float
    failed: int = 0
    retried: int | None = 0

    @property
    def per_second(self) -> float:
        """Records/s."""
        return self.records / self.seconds if self.seconds else 0.0


class Acknowledged(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Outbox:
    """Records waiting for their answer. ``timeout``: seconds after which the client itself gives an answer."""

    timeout: float
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
        # A plain KafkaError only says that another record failed.
        if self.cause is None or type(self.cause) is kafka_errors.KafkaError:
            self.cause = error
        if self.on_error:
            self.on_error(record, error)

    def settle(self, max_records: int = 0, max_bytes: int = 0) -> None:
        """Remove what was answered, and wait while more than that many records or bytes were not."""
        waiting, before, seconds = self._waiting, self.acknowledged, self.timeout + GRACE_SECONDS
        while waiting and (waiting[0][2].is_done or len(waiting) > max_records or self._bytes > max_bytes):
            record, size, future = waiting.popleft()
            self._bytes -= size
            try:
                metadata = future.value if future.succeeded() else future.get(seconds)
            except kafka_errors.KafkaError as error:
                self.refuse(record, error)
                max_records = max_bytes = 0  # nothing more is sent: learn what became of the rest
                seconds = seconds if future.is_done else 0.0  # and wait that long once, not for each
            else:
                self._accept(record, size, metadata.partition, metadata.offset)
        if self.on_progress and self.acknowledged > before:
            self.on_progress(self.acknowledged - before)

    def _accept(self, record: Record, size: int, partition: int, offset: int) -> None:
        self.acknowledged += 1
        self.value_bytes += size
        self.last = (partition, offset)
        if self.on_ack:
            self.on_ack(record, partition, offset)
