"""Publishing a checked file of records; with a transactional id a rerun goes on where the last run ended."""

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
from offset_ledger.reliability.publishing.producer import Publisher, Summary, publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.record_file import CheckedFile

log = logging.getLogger(__name__)

RECORDS_PER_TRANSACTION = 50_000
_MAX_UNKNOWN = 3


@dataclass(slots=True)
class _Reading:
    """A file being read: ``at`` counts the records so far, ``digest`` is fed with their lines."""

    checked: CheckedFile
    at: int = 0
    digest: Any = field(init=False)
    _records: Iterator[Record] = field(init=False)

    def __post_init__(self) -> None:
        # With another schema the same line is another record.
        self.digest = hashlib.sha256(self.checked.file.form.identity.encode())
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
    def position(self) -> JournalPosition:
        """How far it was read, for the journal."""
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
    """Publish a file; return the summary, and how many of its records were there from an earlier run.

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
    publication = _Publication(checked, journal, records_per_transaction, on_resumed, options)
    return publication.run()


@dataclass(slots=True)
class _Publication:
    """One file on its way into a topic, a transaction at a time."""

    checked: CheckedFile
    journal: Journal
    records_per_transaction: int
    on_resumed: Callable[[int], None] | None
    options: Mapping[str, Any]
    before: int | None = None
    """Records that were there from an earlier run; None until the journal was read."""
    unknown: int = 0
    """Transactions whose outcome was unknown."""

    def run(self) -> tuple[Summary, int]:
        began, summaries, reading = time.monotonic(), list[Summary](), None
        while reading is None or not reading.finished:
            with self._publisher() as publisher:
                # Only now: the new producer has ended whatever an earlier one with this id had left open.
                reading = reading or self._resume()
                reading = self._one_transaction(publisher, reading)
            summaries.append(publisher.summary)
        value_bytes, before = sum(each.value_bytes for each in summaries), self.before or 0
        return Summary(self.checked.records - before, value_bytes, time.monotonic() - began), before

    def _publisher(self) -> Publisher:
        journal = self.journal
        return Publisher(journal.extra, journal.topic, transactional_id=journal.transactional_id, **self.options)

    def _resume(self) -> _Reading:
        reading = _resumed(self.checked, self.journal)
        if self.before is None:
            self.before = reading.at
            if reading.at and self.on_resumed:
                self.on_resumed(reading.at)
        return reading

    def _one_transaction(self, publisher: Publisher, reading: _Reading) -> _Reading | None:
        """Publish the next records; None where only the journal can say whether they are committed."""
        try:
            _send(publisher, reading, self.journal, self.records_per_transaction)
        except TransactionOutcomeUnknown as error:
            self.unknown += 1
            if self.unknown > _MAX_UNKNOWN:
                raise
            log.warning("%s; reading back", error)
            return None
        return reading


def _send(publisher: Publisher, reading: _Reading, journal: Journal, limit: int) -> None:
    if reading.finished:
        return
    for record in reading.take(limit):
        publisher.send(record)
    publisher.send_offsets(journal.entry(reading.position), journal.group)
    publisher.finish()


def _resumed(checked: CheckedFile, journal: Journal) -> _Reading:
    """The file from the first record that is not committed."""
    position = journal.read()
    if position is None:
        return _Reading(checked)
    reading = _Reading(checked)
    for _ in reading.take(position.records):
        pass
    if (reading.at, reading.digest.hexdigest()) == (position.records, position.digest):
        return reading
    if position.finished:
        return _Reading(checked)
    raise JournalMismatch(
        f"the transactional id {journal.transactional_id!r} has published {position.records} records of another file, "
        f"or by another schema, and not finished it, and {checked.file.path} does not begin with them; "
        "finish that first, or use another id"
    )
