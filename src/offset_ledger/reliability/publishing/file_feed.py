"""A checked file of records, published; with a transactional id a rerun goes on where the last one was."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from offset_ledger.errors import JournalMismatch, TransactionOutcomeUnknown
from offset_ledger.reliability.publishing.journal import Journal, JournalPosition
from offset_ledger.reliability.publishing.outbox import Summary
from offset_ledger.reliability.publishing.producer import Publisher, publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.record_file import CheckedFile

log = logging.getLogger(__name__)

RECORDS_PER_TRANSACTION = 50_000
_MOST_UNKNOWN = 3


@dataclass(slots=True)
class _Reading:
    """A file being read, and how far."""

    checked: CheckedFile
    at: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    _records: Iterator[Record] = field(init=False)

    def __post_init__(self) -> None:
        self._records = self.checked.read(self.digest)

    def take(self, count: int) -> Iterator[Record]:
        """The next records."""
        for record in islice(self._records, count):
            self.at += 1
            yield record

    @property
    def finished(self) -> bool:
        """Whether that was all."""
        return self.at == self.checked.records

    @property
    def place(self) -> JournalPosition:
        """Where it is."""
        return JournalPosition(self.at, self.digest.hexdigest(), self.finished)


def publish_file(
    extra: Mapping[str, str],
    topic: str,
    checked: CheckedFile,
    *,
    transactional_id: str | None = None,
    records_per_transaction: int = RECORDS_PER_TRANSACTION,
    on_resumed: Callable[[int], None] | None = None,
    **options: Any,
) -> tuple[Summary, int]:
    """Publish a file; the summary, and how many of its records were there from an earlier run.

    The options are those of :class:`Publisher`. A transactional id names this file's publication: run again with it, a
    finished one sends nothing, an interrupted one the rest, and a file that has grown since what was added;
    ``on_resumed`` is called with the number of records that were there.

    Raises:
        JournalMismatch: the id's last publication is unfinished and of another file.
        PublishFailed, TransactionOutcomeUnknown, ProducerFenced, BrokerUnavailable, UnsafeSettings: as ``publish``.
    """
    if transactional_id is None:
        return publish(checked.read(), extra, topic, **options), 0
    journal = Journal(extra, topic, transactional_id)
    began, summaries, unknown = time.monotonic(), list[Summary](), 0
    first, reading = -1, None
    while reading is None or not reading.finished:
        with Publisher(extra, topic, transactional_id=transactional_id, **options) as publisher:
            # Only now: the new producer has ended whatever an earlier one with this id had left open.
            reading = reading or _resumed(checked, journal)
            if first < 0:
                first = reading.at
                if first and on_resumed:
                    on_resumed(first)
            try:
                _one_transaction(publisher, reading, journal, records_per_transaction)
            except TransactionOutcomeUnknown as error:
                unknown += 1
                if unknown > _MOST_UNKNOWN:
                    raise
                log.warning("%s; reading back", error)
                reading = None
        summaries.append(publisher.summary)
    value_bytes, retried = (sum(getattr(each, name) for each in summaries) for name in ("value_bytes", "retried"))
    return Summary(checked.records - first, value_bytes, time.monotonic() - began, 0, retried), first


def _one_transaction(publisher: Publisher, reading: _Reading, journal: Journal, most: int) -> None:
    if reading.finished:
        return
    for record in reading.take(most):
        publisher.send(record)
    publisher.send_offsets(journal.entry(reading.place), journal.group)
    publisher.finish()


def _resumed(checked: CheckedFile, journal: Journal) -> _Reading:
    """The file behind what is committed of it."""
    place = journal.read()
    if place is None:
        return _Reading(checked)
    reading = _Reading(checked)
    for _ in reading.take(place.records):
        pass
    if (reading.at, reading.digest.hexdigest()) == (place.records, place.digest):
        return reading
    if place.finished:
        return _Reading(checked)
    raise JournalMismatch(
        f"the transactional id {journal.transactional_id!r} has published {place.records} records of another file and "
        f"not finished it, and {checked.file.path} does not begin with them; finish that file first, or use another id"
    )
