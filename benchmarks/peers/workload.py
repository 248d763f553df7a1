"""The records, the states of the target before, and the right answer.

Of twenty records one repeats an event with a newer state and one arrives late with an older state; the other eighteen
are events of their own. The right answer has the newest state of each event, whatever was in the target before.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import msgspec
from benchmarks.peers.task import COLUMNS

from offset_ledger.outside.producer.record import Record

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 8
PAD = 1_800
_BEHIND = 7  # a repetition comes so many records later


class Target(StrEnum):
    """What the target has before."""

    EMPTY = "empty"
    HALF = "half"  # older states of every second event
    STALE = "stale"  # newer states of every event, so that nothing may change


class Width(StrEnum):
    """About 200 bytes, or 2 KB."""

    NARROW = "narrow"
    WIDE = "wide"


class Workload(NamedTuple):
    """One table to fill."""

    records: int
    width: Width
    target: Target

    @property
    def topic(self) -> str:
        """It is the same whatever the target has."""
        return f"peers.{self.width}.{self.records}"

    @property
    def answer(self) -> str:
        """The table with the right answer for an empty target."""
        return f"peer.answer_{self.width}_{self.records}"

    def __str__(self) -> str:
        return f"{self.records:,} {self.width} {self.target}"


def state(i: int, wide: bool) -> dict[str, Any]:
    """The event that record ``i`` has, flat."""
    late, repeated = i % 20 == 19, i % 10 == 9
    number = i - _BEHIND if repeated else i
    moment = EPOCH + timedelta(seconds=number - 3_600 if late else i)
    found = {
        "event_id": f"order-{number:012d}",
        "publish_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "customer": f"customer {number % 50_000}",
        "status": "late" if late else ("new", "paid", "sent")[i % 3],
        "quantity": i % 100,
        "account": 10_000_000_000 + i,
        "amount": i % 100_000 / 100,
        "paid": i % 2 == 0,
        "city": "Sankt Gallen",
    }
    return {**found, "pad": _pad(i)} if wide else found


@cache
def _noise() -> str:
    return Random(1).randbytes(500_000).hex()


def _pad(i: int) -> str:
    start = i * 7_919 % (1_000_000 - PAD)
    return _noise()[start : start + PAD]


def records(workload: Workload) -> Iterator[Record]:
    """What is published. The key is the customer, so one partition has all states of an event."""
    encode, wide = msgspec.json.encode, workload.width is Width.WIDE
    for i in range(workload.records):
        event = state(i, wide)
        event["address"] = {"city": event.pop("city")}
        yield Record(event["customer"].encode(), encode(event))


def newest(count: int) -> Iterator[int]:
    """The record that has the newest state of each event, of the first ``count`` records."""
    for i in range(count):
        if i % 10 != 9:
            repeated = i + _BEHIND
            yield repeated if repeated % 20 == 9 and repeated < count else i


class AnswerLines(io.RawIOBase):
    """The right answer as COPY reads it; of the padding only its MD5."""

    def __init__(self, workload: Workload) -> None:
        self._lines = self._all(workload)

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Some lines, whatever the size."""
        del size
        return b"".join(islice(self._lines, 2_000))

    @staticmethod
    def _all(workload: Workload) -> Iterator[bytes]:
        wide = workload.width is Width.WIDE
        for i in newest(workload.records):
            event = state(i, wide)
            if wide:
                event["pad"] = hashlib.md5(event["pad"].encode(), usedforsecurity=False).hexdigest()
            yield "\t".join(map(str, event.values())).encode() + b"\n"


def _before(workload: Workload, moment: str, status: str, where: str) -> str:
    """The rows of the target before, as a query."""
    values = {name: name for name in COLUMNS} | {"publish_at": f"publish_at {moment}", "status": f"'{status}'"}
    if workload.width is Width.WIDE:
        values["pad"] = "repeat(md5(event_id), 56)"
    chosen = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"SELECT {chosen} FROM {workload.answer} WHERE {where}"


def rows_before(workload: Workload) -> str | None:
    """The query of the rows that the target has before; None if there are none."""
    if workload.target is Target.EMPTY:
        return None
    if workload.target is Target.HALF:
        return _before(workload, "- interval '1 day'", "before", "right(event_id, 1) IN ('0', '2', '4', '6', '8')")
    return _before(workload, "+ interval '1 year'", "later", "true")


def rows_after(workload: Workload) -> str:
    """The query of the rows that the target must have after; of the padding only its MD5."""
    wide = workload.width is Width.WIDE
    names = ", ".join(COLUMNS)
    if workload.target is not Target.STALE:
        return f"SELECT {names}{', pad' if wide else ''} FROM {workload.answer}"
    return f"SELECT {names}{', md5(pad) AS pad' if wide else ''} FROM ({rows_before(workload)}) AS before"


def difference(workload: Workload, table: str) -> str:
    """The query of how many rows are missing, too many, and in another state than the right one."""
    wide = workload.width is Width.WIDE
    right, found = [f"w.{name}" for name in COLUMNS], [f"t.{name}" for name in COLUMNS]
    if wide:
        right, found = [*right, "w.pad"], [*found, "md5(t.pad)"]
    differs = f"({', '.join(right)}) IS DISTINCT FROM ({', '.join(found)})"
    both = "w.event_id IS NOT NULL AND t.event_id IS NOT NULL"
    return (
        "SELECT count(*) FILTER (WHERE t.event_id IS NULL), count(*) FILTER (WHERE w.event_id IS NULL), "
        f"count(*) FILTER (WHERE {both} AND {differs}) "
        f"FROM ({rows_after(workload)}) AS w FULL JOIN {table} AS t ON t.event_id = w.event_id"
    )
