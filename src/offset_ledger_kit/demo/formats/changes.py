"""The topic of change events: Debezium reports a table of another Postgres, which becomes a partitioned one."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from psycopg2.extras import execute_values

from offset_ledger.errors import StackError
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.postgres.ledger.database import Cursor, connect, named_sql, rows, transaction
from offset_ledger_kit.demo.formats.topics import CHANGES, PARTITIONS
from offset_ledger_kit.demo.run import Claim
from offset_ledger_kit.publishing.disturbances import TOPIC_CONFIGS
from offset_ledger_kit.publishing.flights import Actual, Status, events_of, read_rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.connect import CONVERTER, Connect

NAME = "airports"
TOPIC = f"{NAME}.public.flights"
KEY = ("carrier", "number", "day", "origin")
COLUMNS = ("dest", "dep_delay", "air_time", "remarks")
_LONG = 2_100  # characters: beyond 2 kB Postgres stores a text apart, and does not log it with each UPDATE
_EPOCH = date(1970, 1, 1)
_SECONDS = 300
_SETTINGS = {
    "table.include.list": "public.flights",
    **{"key.converter": CONVERTER, "key.converter.schemas.enable": "false"},
    **{"value.converter": CONVERTER, "value.converter.schemas.enable": "false"},
}


def states_of(limit: int) -> list[tuple[Any, ...]]:
    """Return the last state of ``limit`` flights; each third precedes the connector, each tenth has long remarks."""
    states = list[tuple[Any, ...]]()
    for n, events in enumerate(map(events_of, read_rows(limit))):
        ended, flight = events[-1], events[-1].flight
        actual = ended.actual if isinstance(ended.actual, Actual) else Actual()
        key = flight.carrier, flight.number, ended.schedule.date, flight.origin
        remarks = f"{ended.event_id} " * (_LONG // len(ended.event_id)) if n % 10 == 0 else None
        row = flight.dest, actual.dep_delay, actual.air_time, remarks
        states.append((*key, *row, n % 3 == 0, ended.status is Status.CANCELLED))
    return states


class ChangeTopic:
    """The topic of the connector, the contents of the source, and the end of each partition."""

    def __init__(self, kafka: Connection, source: Connection, worker: Connect, replication_factor: int) -> None:
        self.ends: dict[int, int] = {}
        self._kafka, self._source, self._worker = kafka, source, worker
        create_topic(dict(kafka.extra), TOPIC, PARTITIONS, replication_factor, TOPIC_CONFIGS)

    def fill(self, limit: int) -> int:
        """Fill the table of the source, let the connector read it, and change every row; how many records that makes.

        Raises:
            StackError: the connector failed, or did not report them in time.
        """
        states = states_of(limit)
        cancelled = sum(state[-1] for state in states)
        with connect(self._source) as session:
            with transaction(session) as cursor:
                cursor.run("offset_ledger_kit:demo/source_table")
                execute_values(cursor, named_sql("offset_ledger_kit:demo/source_states"), states, page_size=1000)
                cursor.run("offset_ledger_kit:demo/source_create", is_read=True)
            self._worker.add(NAME, self._source, _SETTINGS)
            self._wait_for(sum(state[-2] for state in states))
            with transaction(session) as cursor:
                cursor.run("offset_ledger_kit:demo/source_create", is_read=False)
            with transaction(session) as cursor:
                cursor.run("offset_ledger_kit:demo/source_change")
        return self._wait_for(2 * len(states) + cancelled)  # after a delete comes a tombstone

    def _wait_for(self, records: int) -> int:
        deadline = time.monotonic() + _SECONDS
        with connect_kafka(self._kafka) as kafka:
            while sum(self.ends.values()) < records:
                self._worker.check(NAME)
                if time.monotonic() > deadline:
                    raise StackError(
                        f"expected {records} records in {TOPIC}, found {self.ends}; see {self._worker.daemon.log}"
                    )
                time.sleep(0.2)
                self.ends = {partition: end for partition, (_, end) in kafka.snapshot(TOPIC).bounds.items()}
        return records

    def prove(self, cursor: Cursor) -> Iterator[Claim]:
        """The claims about the table, its partitions and the bookkeeping beside it."""
        with connect(self._source) as session:
            wanted = {tuple(row) for row in rows(session, named_sql("offset_ledger_kit:demo/source_rows"))}
        cursor.run("offset_ledger_kit:demo/change_rows")
        there = [tuple(row) for row in cursor.fetchall()]
        stored = {row[:-1] for row in there}
        yield Claim(f"{CHANGES}: rows, none of a deleted flight", len(wanted), len(there))
        yield Claim(f"{CHANGES}: rows of the source that are not in the table", 0, len(wanted - stored))
        yield Claim(f"{CHANGES}: rows that the source does not have", 0, len(stored - wanted))
        partitions = Counter(f"{CHANGES}_{row[KEY.index('origin')].lower()}" for row in wanted)
        yield Claim(f"{CHANGES}: rows by partition", dict(partitions), dict(Counter(row[-1] for row in there)))
        cursor.run("offset_ledger_kit:demo/change_places")
        kept = {tuple(row) for row in cursor.fetchall()}
        yield Claim(
            f"{CHANGES}: flights whose bookkeeping is not of their newest change", 0, len(self._places() ^ kept)
        )
        cursor.run("table/columns", columns=[], schema="public", table=CHANGES)
        columns = {row["name"] for row in cursor.fetchall()}
        yield Claim(f"{CHANGES}: columns that the table did not have", [], sorted(columns - {*KEY, *COLUMNS}))
        cursor.run("offset_ledger_kit:demo/format_quarantine", pipeline=CHANGES)
        yield Claim(f"{CHANGES}: records in quarantine", 0, len(cursor.fetchall()))

    def _places(self) -> set[tuple[Any, ...]]:
        """The key of each flight, with the place of its last record that is no tombstone."""
        places = dict[tuple[Any, ...], tuple[int, int]]()
        for partition, end in self.ends.items():
            for record in read_records(self._kafka, TOPIC, OffsetRange(partition, 0, end), "read_committed"):
                if record.value is not None:
                    fields = json.loads(record.key)
                    fields["day"] = _EPOCH + timedelta(days=fields["day"])
                    places[tuple(fields[name] for name in KEY)] = partition, record.offset
        return {(*key, *place) for key, place in places.items()}


def create_table(cursor: Cursor) -> None:
    """The table as its users have it: partitioned, with its own key and without a column of the ledger."""
    cursor.run("offset_ledger_kit:demo/change_table")
