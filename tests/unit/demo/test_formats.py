"""The records of the demo of record formats are what it says they are, by the formats' own libraries."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.validation import validate

from offset_ledger.demo.formats import files, publishing
from offset_ledger.demo.formats.flights import AGAINST_SCHEMA, POISON, UNKNOWN_SCHEMA, Sending, avro_waves, flights
from offset_ledger.demo.formats.run import FEWEST, run
from offset_ledger.errors import ConfigurationError

SCHEMAS = {version: files.text(f"flight.{version}.avsc") for version in (1, 2, 3)}
STATES = flights(300)
WAVES = list(avro_waves(STATES))


def good(wave: list[Sending]) -> list[Sending]:
    return [sending for sending in wave if not sending.poison]


def read(version: int, payload: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(json.loads(SCHEMAS[version])), None)


def test_each_wave_has_the_versions_that_exist_by_then_and_every_poison() -> None:
    assert [{sending.version for sending in good(wave)} for wave in WAVES] == [{1}, {1, 2}, {1, 2, 3}]
    assert [[each.poison for each in wave if each.poison] for wave in WAVES] == [
        [*POISON],
        [*POISON],
        [*POISON, UNKNOWN_SCHEMA],
    ]


def test_all_flights_are_in_the_waves_and_those_beyond_an_int_only_in_the_last_version() -> None:
    sent = {sending.flight for wave in WAVES for sending in good(wave)}
    assert {last for _, last in STATES} <= sent
    far = {sending.version for wave in WAVES for sending in good(wave) if sending.flight.distance >= 2**31}
    assert far == {3}
    beyond = next(last for _, last in STATES if last.distance >= 2**31)
    assert read(3, publishing.avro(SCHEMAS[3])(beyond.document())) == beyond.document()
    fitting = {
        version: validate(beyond.document(), json.loads(text), raise_errors=False) for version, text in SCHEMAS.items()
    }
    assert fitting == {1: False, 2: False, 3: True}


def test_protobuf_and_json_hold_what_the_flight_says() -> None:
    flight = STATES[0][1]
    message = publishing._first_message(files.text("flight.proto"))
    found = message.FromString(publishing.protobuf(files.text("flight.proto"))(flight.document())[1:])
    assert (found.event_id, found.distance, found.air_time) == (flight.event_id, flight.distance, flight.air_time)
    assert found.published_at.ToDatetime(flight.published_at.tzinfo) == flight.published_at
    text = publishing.json_schema("")(flight.document())
    assert json.loads(text)["published_at"] == flight.published_at.isoformat()
    assert json.loads(AGAINST_SCHEMA.spoil(text))["carrier"] == flight.carrier[0]


def test_too_few_flights_are_refused_before_a_server_starts() -> None:
    with pytest.raises(ConfigurationError, match=r"^--formats needs at least 100 flights, found 99$"):
        run(FEWEST - 1, print)
