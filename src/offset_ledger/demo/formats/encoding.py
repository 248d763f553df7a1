"""Flights as bytes, each format by its own library: fastavro, Google's Protobuf runtime, json."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp

Encode = Callable[[Mapping[str, Any]], bytes]


def framed(schema_id: int, payload: bytes) -> bytes:
    """The payload in Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema: str) -> Encode:
    """Documents as Avro's binary encoding."""
    parsed = fastavro.parse_schema(json.loads(schema))

    def encode(document: Mapping[str, Any]) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, document)
        return written.getvalue()

    return encode


def protobuf(schema: str) -> Encode:
    """Documents as the first message of the file, behind the index that Confluent's serializers write for it."""
    message = _first_message(schema)

    def encode(document: Mapping[str, Any]) -> bytes:
        return b"\0" + bytes(message(**{name: _moment(value) for name, value in document.items()}).SerializeToString())

    return encode


def json_schema(_: str) -> Encode:
    """Documents as JSON."""

    def encode(document: Mapping[str, Any]) -> bytes:
        return json.dumps(document, default=datetime.isoformat).encode()

    return encode


def _first_message(schema: str) -> Any:
    """The class of the first message, from what protoc makes of the file and its imports."""
    with TemporaryDirectory(prefix="offset-ledger-") as folder:
        Path(folder, "schema.proto").write_text(schema)
        options = [f"-I{folder}", "--include_imports", f"--descriptor_set_out={folder}/set", "schema.proto"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True)
        files = FileDescriptorSet.FromString(Path(folder, "set").read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    name = f"{files[-1].package}.{files[-1].message_type[0].name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    stamp = Timestamp()
    stamp.FromDatetime(value)
    return {"seconds": stamp.seconds, "nanos": stamp.nanos}
