"""CPU time of decoding a record: alone, in Arrow batches, and with what COPY reads.

python -m benchmarks.decode [--format json|avro|protobuf] [--rounds 15] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
from benchmarks.avro_schema import AMOUNT, TIMESTAMP, avro_record
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from offset_ledger.postgres.ledger.staging import refused_types, row_types
from offset_ledger.steps.stage.copy_rows import copy_form

BATCH = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)
SHAPE = RecordShape(
    event_id=("event_id",),
    publish_at=("publish_at",),
    columns=(
        Column("status", ColumnType("text"), ("status",)),
        Column("quantity", ColumnType("integer"), ("quantity",)),
        Column("account", ColumnType("bigint"), ("account",)),
        Column("amount", ColumnType("numeric", (12, 2)), ("amount",)),
        Column("active", ColumnType("boolean"), ("active",)),
        Column("city", ColumnType("text"), ("place", "city")),
    ),
)

AVRO = avro_record(
    "Event",
    event_id="string",
    publish_at=TIMESTAMP,
    status="string",
    quantity="int",
    account="long",
    amount=AMOUNT,
    active="boolean",
    place=avro_record("Place", city="string"),
)
PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Event {
  string event_id = 1;
  google.protobuf.Timestamp publish_at = 2;
  string status = 3;
  int32 quantity = 4;
  int64 account = 5;
  double amount = 6;
  bool active = 7;
  Place place = 8;
}
message Place { string city = 1; }
"""
Read = Callable[[bytes], Any]
A_THIRD = FieldCondition(("status",), "ordered")
OTHER = b'{"event_id":"order-000000000001","status":"refunded","reason":"The parcel came back twice.","shop":{"id":17}}'


@dataclass(frozen=True, slots=True)
class Format:
    """Events in one format, with their decoder, one that takes a third of them, and what else reads them, by name."""

    decoder: Decoder
    a_third: Decoder
    values: list[bytes]
    others: dict[str, Read]


class Place(msgspec.Struct):
    """Where it happened."""

    city: str


class Event(msgspec.Struct):
    """The same record as a Struct of msgspec's own choice of types."""

    event_id: str
    publish_at: datetime
    status: str
    quantity: int
    account: int
    amount: float
    active: bool
    place: Place


def value_of(number: int) -> bytes:
    """One event of about 190 bytes."""
    moment = START + timedelta(milliseconds=number * 37)
    status = ("ordered", "shipped", "cancelled")[number % 3]
    city = ("Berlin", "Zürich", "New York", "São Paulo")[number % 4]
    return (
        f'{{"event_id":"order-{number:012}","publish_at":"{moment:%Y-%m-%dT%H:%M:%S}.{number % 1000:03}Z",'
        f'"status":"{status}","quantity":{number % 90 + 10},"account":{10**12 + number},'
        f'"amount":{number % 5000}.{number % 100:02},"active":{"true" if number % 5 else "false"},'
        f'"place":{{"city":"{city}"}}}}'
    ).encode()


def json_format() -> Format:
    """The events as JSON."""
    others: dict[str, Read] = {"bare msgspec": msgspec.json.Decoder(Event).decode, "json.loads": json.loads}
    values = [value_of(number) for number in range(BATCH)]
    return Format(JsonDecoder(SHAPE, Limits()), JsonDecoder(replace(SHAPE, where=(A_THIRD,)), Limits()), values, others)


def avro_format() -> Format:
    """The same events in Avro."""
    written: Any = fastavro.parse_schema(json.loads(json.dumps(AVRO)))
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(AVRO))
    values = [avro_value(written, number) for number in range(BATCH)]
    others: dict[str, Read] = {"fastavro": lambda value: fastavro.schemaless_reader(BytesIO(value), written, None)}
    decoder, a_third = (avro_decoder(schema, shape, Limits()) for shape in (SHAPE, replace(SHAPE, where=(A_THIRD,))))
    return Format(decoder, a_third, values, others)


def avro_value(written: Any, number: int) -> bytes:
    """One event of about 55 bytes."""
    event = json.loads(value_of(number), parse_float=Decimal)
    out = BytesIO()
    fastavro.schemaless_writer(out, written, {**event, "publish_at": datetime.fromisoformat(event["publish_at"])})
    return out.getvalue()


def protobuf_format() -> Format:
    """The same events in Protobuf, behind message indexes; it has no decimals, so that the amount is a double."""
    schema = WriterSchema(1, SchemaLanguage.PROTOBUF, PROTOBUF)
    event = GetMessageClass(compile_schema(schema).file.message_types_by_name["Event"])
    amount = ColumnType("double precision")
    columns = tuple(replace(column, type=amount) if column.name == "amount" else column for column in SHAPE.columns)
    shape = replace(SHAPE, columns=columns)
    decoder, a_third = (protobuf_decoder(schema, each, Limits()) for each in (shape, replace(shape, where=(A_THIRD,))))
    values = [b"\0" + ParseDict(json.loads(value_of(number)), event()).SerializeToString() for number in range(BATCH)]
    return Format(decoder, a_third, values, {"Google's parser": lambda value: event.FromString(value[1:])})


FORMATS = {"json": json_format, "avro": avro_format, "protobuf": protobuf_format}


def batch_of(values: list[bytes | None]) -> pa.RecordBatch:
    """The values as a batch of Spark's Kafka source."""
    rows = len(values)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "key": pa.array([b"account-%d" % (number % 1000) for number in range(rows)], pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([START + timedelta(milliseconds=n) for n in range(rows)], pa.timestamp("us", "UTC")),
        "headers": pa.nulls(rows, header),
    }
    return pa.RecordBatch.from_pydict(columns)


def microseconds(work: Callable[[], Any], records: int, rounds: int) -> float:
    """The least CPU time of a record in so many rounds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / records * 1e6


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, default="json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    measured = FORMATS[arguments.format]()
    values, decoder = measured.values, measured.decoder
    batch = batch_of(list(values))
    spoiled = batch_of([value[:-1] if n % 100 == 7 else value for n, value in enumerate(values)])
    print(f"{sum(map(len, values)) / BATCH:.0f} bytes a record, batches of {BATCH}, CPU time of one record")
    works = works_of(measured, batch, spoiled)
    figures = {name: microseconds(work, BATCH, arguments.rounds) for name, work in works.items()}
    for name, figure in figures.items():
        against = (f"{figure / figures[other]:8.2f} x {other.split()[-1]}" for other in measured.others)
        print(f"{name:36}{figure:8.2f} µs{''.join(against)}")
    if arguments.profile:
        cProfile.runctx(
            "for _ in range(20): encoded(decoder, batch, True)", {**globals(), **locals()}, {}, sort="tottime"
        )


def encoded(decoder: Decoder, batch: pa.RecordBatch, binary: bool) -> int:
    """What a Spark task does with one batch; how many bytes it sends."""
    staged = decode_batch(decoder, batch)
    _, rows = copy_form(row_types(decoder.record), staged.rows, binary)
    _, refusals = copy_form(refused_types(decoder.record), staged.refusals, binary)
    return sum(map(len, rows)) + sum(map(len, refusals))


def works_of(measured: Format, batch: pa.RecordBatch, spoiled: pa.RecordBatch) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; each works on one batch."""
    decoder, values, a_third = measured.decoder, measured.values, measured.a_third
    column = pa.array(values, pa.binary())
    mixed = batch_of([value if n % 3 == 0 else OTHER for n, value in enumerate(values)])

    def each(read: Read) -> Callable[[], Any]:
        return lambda: [read(value) for value in values]

    return {
        **{name: each(read) for name, read in measured.others.items()},
        "decode, record by record": each(lambda value: decoder.decode(value, None, START)),
        "prove": lambda: decoder.prove(column),
        "batch": lambda: decode_batch(decoder, batch),
        "batch, where takes a third": lambda: decode_batch(a_third, batch),
        **({"same, others of another shape": lambda: decode_batch(a_third, mixed)} if values[0][:1] == b"{" else {}),
        "batch + CSV": lambda: encoded(decoder, batch, False),
        "batch + binary": lambda: encoded(decoder, batch, True),
        "batch + binary, 1 % truncated": lambda: encoded(decoder, spoiled, True),
    }


if __name__ == "__main__":
    main()
