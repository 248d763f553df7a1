"""Confluent's wire format: a magic byte of 0, the id of the schema in four bytes, then what the schema describes.

A header may name the schema instead: by the magic byte 0 and an id, or by the magic byte 1 and the schema's GUID.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import Code, Mismatch
from offset_ledger.model.writer_schema import SchemaRef

SIZE = 5
NO_SCHEMA = -1
LAST_ID = 2**31 - 1
"""The largest id of a registry, a Java integer; the four bytes of a record can name more."""
_END = 2**31 - 1  # without an end, Arrow fails on short values: "Negative buffer resize"
VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
GUID_SIZE = 17


def schema_id(framed: bytes) -> int:
    """The id of the schema.

    Raises:
        Mismatch: it is not framed.
    """
    if len(framed) < SIZE:
        raise Mismatch(Code.FRAME, f"expected a magic byte and a schema id in {SIZE} bytes, got {len(framed)}")
    if framed[0]:
        raise Mismatch(Code.FRAME, f"expected the magic byte 0 of Confluent's wire format, got {framed[0]:#04x}")
    return int.from_bytes(framed[1:SIZE], "big")


def named_schema(header: bytes) -> tuple[SchemaRef, bytes]:
    """Return the schema that a header names by this value, and the rest: the message indexes of Protobuf.

    Raises:
        Mismatch: it names none.
    """
    size = {b"\0": SIZE, b"\1": GUID_SIZE}.get(header[:1])
    if size is None or len(header) < size:
        expected = f"expected a magic byte of 1 and a GUID in {GUID_SIZE} bytes, or of 0 and an id in {SIZE}"
        raise Mismatch(Code.FRAME, f"{expected}, got {len(header)} bytes: {header[:GUID_SIZE].hex(' ')}")
    return UUID(bytes=header[1:size]) if header[0] else int.from_bytes(header[1:size], "big"), header[size:]


def frame_of(schema_id: int, indexes: bytes) -> bytes:
    """The frame of a schema; only Protobuf has message indexes."""
    return b"\0" + schema_id.to_bytes(SIZE - 1, "big") + indexes


def header_of(guid: UUID, indexes: bytes) -> bytes:
    """The value of the header that names this schema."""
    return b"\1" + guid.bytes + indexes


def schema_ids(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Return the schema id of each value; NO_SCHEMA if there is none."""
    length = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    ids = np.full(len(column), NO_SCHEMA, np.int64)
    framed = np.flatnonzero(length >= SIZE)
    if not framed.size:
        return ids
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column)][framed]
    heads = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(SIZE)]
    values = heads[:, 1:].astype(np.int64) @ (1 << np.arange(24, -1, -8))
    ids[framed] = np.where(heads[:, 0] == 0, values, NO_SCHEMA)
    return ids


def without_head(column: pa.BinaryArray, size: int = SIZE) -> pa.BinaryArray:
    """Return the values without their frames, or without the first ``size`` bytes."""
    return pc.binary_slice(column, size, _END)
