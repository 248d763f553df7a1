"""The dead letter topic as a value: what a delivery publishes to and reads back, behind its publisher and its reader.

The outbox, the marks and the delivery itself are real. The topic is a value in most walks because a delivery to a
broker makes a producer with a transactional id and a consumer for what it reads back, which takes about a second;
broker.py has some deliveries to a real topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from offset_ledger.errors import ProducerFenced
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.steps.report.dead_letters import source_position
from tests.machine.actors import DELIVERS, reach
from tests.machine.mapping import log_of
from tests.machine.pipelines import FILE
from tests.model.state import Position


class Letter(NamedTuple):
    """A record of the topic, as far as a read back looks at it."""

    offset: int
    headers: tuple[tuple[str, bytes], ...]


def position_of(headers: Iterable[tuple[str, bytes]], translated: Callable[[str], str] = str) -> Position:
    """The record that a letter is of, in a world with one topic."""
    found = source_position(headers, FILE)
    assert found is not None
    return 0, log_of(translated(found.topic_id)), found.partition, found.offset


@dataclass
class DeadLetterTopic:
    """One partition. Transactions that have not committed take no offset in it, and no control record does."""

    letters: list[Letter] = field(default_factory=list)
    newest: Publisher | None = None

    def publisher(self, extra: object, topic: str, *, transactional_id: str, on_ack: Any) -> Publisher:
        """Takes the transactional id from whoever has it."""
        reach(DELIVERS)
        self.newest = Publisher(self, on_ack)
        return self.newest

    def read(self, connection: object, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Letter]:
        """The letters that are committed."""
        yield from self.letters[wanted.from_offset : wanted.until_offset]

    def positions(self) -> dict[int, Position]:
        """Of which record each letter is, by its offset."""
        return {letter.offset: position_of(letter.headers) for letter in self.letters}


class Publisher:
    """One transaction: its letters are in the topic when it commits, if no other one has taken its id before."""

    def __init__(self, topic: DeadLetterTopic, on_ack: Any) -> None:
        self._topic, self._on_ack = topic, on_ack
        self._records: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What has not committed by now has not happened."""

    def send(self, record: Any) -> None:
        """Send a letter in the transaction."""
        self._records.append(record)

    def flush(self) -> None:
        """Nothing is on its way."""

    def finish(self) -> None:
        """Commit.

        Raises:
            ProducerFenced: a newer delivery has the transactional id.
        """
        if self._topic.newest is not self:
            raise ProducerFenced("another delivery has taken over")
        for record in self._records:
            self._on_ack(record, 0, len(self._topic.letters))
            self._topic.letters.append(Letter(len(self._topic.letters), record.headers))
