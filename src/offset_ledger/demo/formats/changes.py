"""The topic of change events: flights as Debezium reports a table of another Postgres, into a partitioned table."""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from offset_ledger.connections import Connection
from offset_ledger.demo.formats.topics import CHANGES, PARTITIONS
from offset_ledger.demo.run import Claim
from offset_ledger.ledger.database import Cursor
from offset_ledger.publishing.disturbances import TOPIC_CONFIGS
from offset_ledger.publishing.flights import Actual, Event, Status, events_of, read_rows
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic

KEY = ("carrier", "number", "day", "origin")
COLUMNS = ("dest", "dep_delay", "air_time", "remarks")
UNAVAILABLE = "__debezium_unavailable_value"
_EPOCH = date(1970, 1, 1)
_LONG = 2_100  # characters: beyond 2 kB Postgres stores a text apart, and does not log it with each UPDATE


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the row of a flight: ``op`` as Debezium has it, and the row after it, None after a delete."""

    op: str
    key: tuple[Any, ...]
    row: tuple[Any, ...] | None
    at: datetime
    has_remarks: bool = True

    def records(self) -> list[Record]:
        """The record of it, as the connector for Postgres writes it with JsonConverter; after a delete a tombstone."""
        fields = dict(zip(KEY, self.key, strict=True)) | {"day": (self.key[2] - _EPOCH).days}
        key = _json(fields)
        partition = zlib.crc32(key) % PARTITIONS
        if self.row is None:  # of the row before a table with the default REPLICA IDENTITY logs its key
            value = envelope(self.op, self.at, before=fields | dict.fromkeys(COLUMNS), after=None)
            return [Record(key, _json(value), partition=partition), Record(key, None, partition=partition)]
        after = fields | dict(zip(COLUMNS, self.row, strict=True))
        if not self.has_remarks:
            after["remarks"] = UNAVAILABLE
        return [Record(key, _json(envelope(self.op, self.at, before=None, after=after)), partition=partition)]


def envelope(op: str, at: datetime, **members: Any) -> dict[str, Any]:
    """The value of a record, with where in the log of the source it is from."""
    ms = int(at.timestamp() * 1000)
    source = {
        **{"version": "3.6.1.Final", "connector": "postgresql", "name": "airports", "ts_ms": ms},
        **{"snapshot": "true" if op == "r" else "false", "db": "airports", "sequence": '["24023119","24023128"]'},
        **{"ts_us": ms * 1_000, "ts_ns": ms * 1_000_000, "schema": "public", "table": "flights"},
        **{"txId": 559, "lsn": 24023128, "xmin": None, "origin": None, "origin_lsn": None},
    }
    return {**members, "source": source, "transaction": None, "op": op} | {
        name: (ms + 100) * factor for name, factor in (("ts_ms", 1), ("ts_us", 1_000), ("ts_ns", 1_000_000))
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def changes_of(limit: int) -> list[Change]:
    """The changes of so many flights, in the order of the topic.

    A snapshot reads a third of the rows. Each tenth has remarks that no UPDATE touches. A cancelled flight is deleted.
    In the end the connector restarts and reports the last seventh of the changes again, in their order.
    """
    first, last = list[Change](), list[Change]()
    for n, states in enumerate(map(events_of, read_rows(limit))):
        began, ended = states[0], states[-1]
        remarks = f"{ended.event_id} " * (_LONG // len(ended.event_id)) if n % 10 == 0 else None
        first.append(Change("c" if n % 3 else "r", _key(began), _row(began, remarks), began.publish_at))
        if ended.status is Status.CANCELLED:
            last.append(Change("d", _key(ended), None, ended.publish_at))
        else:
            row = _row(ended, remarks)
            last.append(Change("u", _key(ended), row, ended.publish_at, has_remarks=remarks is None))
    return [*first, *last, *last[-len(last) // 7 :]]


def _key(event: Event) -> tuple[Any, ...]:
    return event.flight.carrier, event.flight.number, event.schedule.date, event.flight.origin


def _row(event: Event, remarks: str | None) -> tuple[Any, ...]:
    actual = event.actual if isinstance(event.actual, Actual) else Actual()
    return event.flight.dest, actual.dep_delay, actual.air_time, remarks


class ChangeTopic:
    """The topic with its changes, the place of each, and the end of each partition."""

    def __init__(self, kafka: Connection, replication_factor: int) -> None:
        self.changes: list[Change] = []
        self.places: list[tuple[int, int]] = []
        self.ends: dict[int, int] = {}
        self._extra = dict(kafka.extra)
        create_topic(self._extra, CHANGES, PARTITIONS, replication_factor, TOPIC_CONFIGS)

    def publish(self, changes: Sequence[Change]) -> int:
        """Publish them, with a tombstone after each delete and a logical message in the end; how many records that are.

        Raises:
            PublishFailed, BrokerUnavailable: it is not possible.
        """
        self.changes = list(changes)
        records, of_changes = list[Record](), list[int]()
        for change in changes:
            of_changes.append(len(records))
            records += change.records()
        message = {"prefix": "heartbeat", "content": "aGVsbG8="}
        value = envelope("m", changes[-1].at, message=message)
        records.append(Record(_json({"prefix": "heartbeat"}), _json(value), partition=0))
        places: list[tuple[int, int]] = []
        publish(records, self._extra, CHANGES, on_ack=lambda _, *place: places.append(place))
        self.places = [places[n] for n in of_changes]
        self.ends = {partition: offset + 1 for partition, offset in places}
        return len(records)

    def prove(self, cursor: Cursor) -> Iterator[Claim]:
        """The claims about the table, its partitions and the bookkeeping beside it."""
        newest = {change.key: n for n, change in enumerate(self.changes)}  # of a key all are in one partition
        rows = {key: row for key, n in newest.items() if (row := self.changes[n].row)}
        wanted = {(*key, *row) for key, row in rows.items()}
        cursor.run("demo/change_rows")
        there = [tuple(row) for row in cursor.fetchall()]
        stored = {row[:-1] for row in there}
        yield Claim(f"{CHANGES}: rows, none of a deleted flight", len(wanted), len(there))
        yield Claim(f"{CHANGES}: flights whose newest state is not in the table", 0, len(wanted - stored))
        yield Claim(f"{CHANGES}: rows that are no flight's newest state", 0, len(stored - wanted))
        partitions = Counter(f"{CHANGES}_{origin.lower()}" for _, _, _, origin in rows)
        yield Claim(f"{CHANGES}: rows by partition", dict(partitions), dict(Counter(row[-1] for row in there)))
        cursor.run("demo/change_places")
        places = {(*key, *self.places[n]) for key, n in newest.items()}
        kept = {tuple(row) for row in cursor.fetchall()}
        yield Claim(f"{CHANGES}: flights whose bookkeeping is not of their newest change", 0, len(places ^ kept))
        cursor.run("table/columns", columns=[], schema="public", table=CHANGES)
        columns = {row["name"] for row in cursor.fetchall()}
        yield Claim(f"{CHANGES}: columns that the table did not have", [], sorted(columns - {*KEY, *COLUMNS}))
        cursor.run("demo/format_quarantine", pipeline=CHANGES)
        yield Claim(f"{CHANGES}: records in quarantine", 0, len(cursor.fetchall()))


def create_table(cursor: Cursor) -> None:
    """The table as its users have it: partitioned, with its own key and without a column of the ledger."""
    cursor.run("demo/change_table")
