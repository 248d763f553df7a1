"""The records of the demo of record formats are what it says they are, by the formats' own libraries."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import pytest
from fastavro.validation import validate

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger_kit.demo.formats import topics
from offset_ledger_kit.demo.formats.run import FEWEST, run
from offset_ledger_kit.demo.formats.topics import (
    AGAINST_SCHEMA,
    POISON,
    UNKNOWN_SCHEMA,
    Flight,
    Sending,
    avro_waves,
    flights,
)
from offset_ledger_kit.publishing.formats.registered import compile_codec
from tests.fixtures.protoc import described, message_class

SCHEMAS = {version: topics.text(f"flight.{version}.avsc") for version in (1, 2, 3)}
STATES = flights(300)
WAVES = list(avro_waves(STATES))


def good(wave: list[Sending]) -> list[Sending]:
    return [sending for sending in wave if not sending.poison]


def read(version: int, payload: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(json.loads(SCHEMAS[version])), None)


def written(language: SchemaLanguage, file: str, flight: Flight) -> bytes:
    return compile_codec(WriterSchema(1, language, topics.text(file))).write(flight.document())


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
    assert read(3, written(SchemaLanguage.AVRO, "flight.3.avsc", beyond)) == beyond.document()
    fitting = {
        version: validate(beyond.document(), json.loads(text), raise_errors=False) for version, text in SCHEMAS.items()
    }
    assert fitting == {1: False, 2: False, 3: True}


def test_protobuf_and_json_hold_what_the_flight_says() -> None:
    flight = STATES[0][1]
    with TemporaryDirectory() as folder:
        Path(folder, "flight.proto").write_text(topics.text("flight.proto"))
        message = message_class(described(Path(folder, "flight.proto")), "flights.Flight")
    found = message.FromString(written(SchemaLanguage.PROTOBUF, "flight.proto", flight))
    assert (found.event_id, found.distance, found.air_time) == (flight.event_id, flight.distance, flight.air_time)
    assert found.published_at.ToDatetime(flight.published_at.tzinfo) == flight.published_at
    text = written(SchemaLanguage.JSON, "flight.json", flight)
    assert datetime.fromisoformat(json.loads(text)["published_at"]) == flight.published_at
    assert json.loads(AGAINST_SCHEMA.spoil(text))["carrier"] == flight.carrier[0]


def test_too_few_flights_are_refused_before_a_server_starts() -> None:
    with pytest.raises(ConfigurationError, match=r"^--formats needs at least 100 flights, found 99$"):
        run(FEWEST - 1, print)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_producer_that_is_behind_writes_the_fields_of_its_schema(version: int) -> None:
    flight = next(last for _, last in STATES if last.distance < 2**31)
    found = read(version, topics.Writer(topics.AVRO, version, 1).value(flight)[5:])
    assert found == {name: value for name, value in flight.document().items() if name in found}
    assert ("air_time" in found) == (version > 1)
