"""Arrow tables -> the CSV of ``COPY ... FROM STDIN (FORMAT csv)``, exact for every value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offset_ledger.decoding.staged import content, moments
from offset_ledger.ledger.copy_into import PIECE_BYTES

_OPTIONS = csv.WriteOptions(include_header=False, batch_size=8192, quoting_style="needed")


def copy_csv(table: pa.Table) -> Iterator[bytes]:
    """The rows as CSV in pieces of ``PIECE_BYTES``: NULL is empty, an empty text is ``""``."""
    columns = [_written(column) for column in table.columns]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.Table.from_arrays(columns, names=table.column_names), out, _OPTIONS)
    written = out.getvalue()
    for start in range(0, written.size, PIECE_BYTES):
        yield written.slice(start, min(PIECE_BYTES, written.size - start)).to_pybytes()


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return _bytea(column)
    return _moments(column) if pa.types.is_timestamp(column.type) else column


def _bytea(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as Postgres's bytea reads them: text with its backslashes doubled where all are text, else hex."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return _hex(column)
    if _any_has(texts, "\0"):
        return _hex(column)
    return pc.replace_substring(texts, "\\", "\\\\") if _any_has(texts, "\\") else texts


def _any_has(texts: pa.ChunkedArray, character: str) -> bool:
    return any(bool((content(chunk) == ord(character)).any()) for chunk in texts.chunks)


def _hex(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [
        [None if value is None else "\\x" + value.hex() for value in chunk.to_pylist()] for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.string())


def _far_moment(microseconds: int | None) -> str | None:
    """A moment of any year as Postgres reads it."""
    if microseconds is None:
        return None
    text = str(np.datetime64(microseconds, "us"))
    year, rest = (text[1:] if text.startswith("-") else text).split("-", 1)
    if text.startswith("-") or int(year) == 0:
        return f"{int(year) + 1:04}-{rest}Z BC"
    return f"{year}-{rest}Z"


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if moments(column) is not None:
        return pa.chunked_array([list(map(_far_moment, column.cast(pa.int64()).to_pylist()))], pa.string())
    # Written without their zone and given it back: that way takes a twentieth of the time.
    texts = column.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(texts, "Z", "")
