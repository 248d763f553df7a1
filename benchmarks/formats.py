"""Plan to commit of the same events in JSON, Avro, Protobuf and JSON Schema, in turns and in one run.

    python -m benchmarks.formats [--events 500000] [--rounds 3] [--engine spark|process]

The events of benchmarks/ingest.py, all but JSON in Confluent's wire format with a schema of a real registry, on a stack
of its own. Spark's session is started before the clock; with ``process`` the process of the task stages.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import fastavro
import msgspec
from benchmarks.avro_schema import AMOUNT, TIMESTAMP, avro_record
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PARTITIONS, PIPELINE, events, steps
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from offset_ledger.base.progress import progress
from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.outside.producer.publisher import publish as publish_records
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.outside.spark.session import local_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack

Encode = Callable[[Mapping[str, Any]], bytes]

AVRO = avro_record(
    "Event",
    event_id="string",
    publish_at=TIMESTAMP,
    customer="string",
    status={"type": "enum", "name": "Status", "symbols": ["new", "paid", "sent"]},
    quantity="int",
    account="long",
    amount=AMOUNT,
    paid="boolean",
    address=avro_record("Address", city="string"),
)
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Event {
  string event_id = 1; google.protobuf.Timestamp publish_at = 2; string customer = 3; Status status = 4;
  int32 quantity = 5; int64 account = 6; int64 amount = 7; bool paid = 8; Address address = 9;
  message Address { string city = 1; }
}
enum Status { new = 0; paid = 1; sent = 2; }
"""
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Event",
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("event_id", "publish_at", "customer", "status")},
        **{name: {"type": "integer"} for name in ("quantity", "account")},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    "required": ["event_id", "publish_at"],
}
SCHEMAS = {
    "avro": (SchemaLanguage.AVRO, json.dumps(AVRO)),
    "protobuf": (SchemaLanguage.PROTOBUF, PROTO),
    "json_schema": (SchemaLanguage.JSON, json.dumps(JSON_SCHEMA)),
}


def moment(event: Mapping[str, Any]) -> datetime:
    """When it was published."""
    return datetime.strptime(event["publish_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def avro() -> Encode:
    """fastavro's encoding."""
    schema = fastavro.parse_schema(AVRO)

    def encode(event: Mapping[str, Any]) -> bytes:
        amount = Decimal(str(event["amount"])).quantize(Decimal("0.01"))
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, {**event, "publish_at": moment(event), "amount": amount})
        return written.getvalue()

    return encode


def protobuf() -> Encode:
    """The official runtime's encoding, after the index of the first message; amounts in cents."""
    import grpc_tools
    from grpc_tools import protoc

    shipped = Path(grpc_tools.__file__).parent / "_proto"
    with temporary_folder() as folder:
        (folder / "event.proto").write_text(PROTO)
        protoc.main(
            [
                "",
                f"-I{folder}",
                f"-I{shipped}",
                f"--descriptor_set_out={folder}/out",
                "--include_imports",
                str(folder / "event.proto"),
            ]
        )
        files = descriptor_pb2.FileDescriptorSet.FromString((folder / "out").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))
    statuses = {"new": 0, "paid": 1, "sent": 2}

    def encode(event: Mapping[str, Any]) -> bytes:
        made = kind(
            **{name: event[name] for name in ("event_id", "customer", "quantity", "account", "paid", "address")},
            status=statuses[event["status"]],
            amount=round(event["amount"] * 100),
        )
        made.publish_at.FromDatetime(moment(event).replace(tzinfo=None))
        return b"\0" + bytes(made.SerializeToString())

    return encode


ENCODERS: dict[str, Callable[[], Encode]] = {
    "avro": avro,
    "protobuf": protobuf,
    "json_schema": lambda: msgspec.json.encode,
}


def framed(name: str, schema_id: int, count: int) -> Iterator[Record]:
    """The events in that format."""
    head, encode = b"\0" + schema_id.to_bytes(4, "big"), ENCODERS[name]()
    for record in events(count):
        assert record.value is not None
        yield Record(key=record.key, value=head + encode(msgspec.json.decode(record.value)))


def publish(stack: Stack, name: str, count: int) -> None:
    """Register the schema and publish the events."""
    extra, topic = dict(stack.connections()[0].extra), f"bench.{name}"
    records = events(count)
    if name in SCHEMAS:
        registry = connect_registry(stack.registry.connection())
        records = framed(name, registry.register(f"{topic}-value", *SCHEMAS[name]), count)
    create_topic(extra, topic, PARTITIONS, 1, {})
    with progress(count, f"published {name}") as advance:
        publish_records(records, extra, topic, on_progress=advance)


def pipeline_file(name: str, number: int) -> str:
    """That of benchmarks/ingest.py for another topic, format and table; Protobuf has cents."""
    registry = ", registry: registry_default" * (name in SCHEMAS)
    text = PIPELINE.replace("topic: bench.events", f"topic: bench.{name}, format: {name}{registry}")
    for former in ("pipeline: bench", "public.bench"):
        text = text.replace(former, f"{former}_{name}_{number}")
    return text.replace("numeric(12,2)", "bigint") if name == "protobuf" else text


def measure(home: Path, count: int, rounds: int, engine: str) -> dict[str, list[dict[str, float]]]:
    """Seconds by step, of each format and round."""
    seconds: dict[str, list[dict[str, float]]] = {}
    with bench_stack(home, say=print, registry=True) as stack:
        names = ["json", *SCHEMAS]
        for name in names:
            publish(stack, name, count)
        spark = local_session() if engine == "spark" else None
        for number in range(rounds):
            for name in names:
                (home / "bench.yaml").write_text(pipeline_file(name, number))
                taken, _, committed = steps(parse_pipeline(home / "bench.yaml"), spark)
                assert committed.total.total == count, committed.total
                assert not committed.total.quarantined, committed.total
                seconds.setdefault(name, []).append(taken)
                print(f"round {number + 1}, {name}: " + ", ".join(f"{step} {s:.2f} s" for step, s in taken.items()))
        if spark:
            spark.stop()
    return seconds


def main() -> None:
    """Print the medians and their ratios to JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=["spark", "process"], default="spark")
    asked = parser.parse_args()
    with temporary_folder() as home:
        seconds = measure(home, asked.events, asked.rounds, asked.engine)
    totals = {name: median(sum(each.values()) for each in rounds) for name, rounds in seconds.items()}
    stages = {name: median(each["stage"] for each in rounds) for name, rounds in seconds.items()}
    for name, total in totals.items():
        ratios = f"{total / totals['json']:.2f} x JSON, stage {stages[name] / stages['json']:.2f} x"
        print(f"{name:12} {total:6.2f} s plan to commit ({ratios}), {asked.events / total:,.0f} records/s")


if __name__ == "__main__":
    main()
