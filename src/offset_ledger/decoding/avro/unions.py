"""Schemas that are a union: each record begins with the index of its branch."""

from __future__ import annotations

from collections.abc import Callable

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.nodes import Union, full_name
from offset_ledger.decoding.avro.schema import record_or_union
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.typed.decoder import Found
from offset_ledger.model.writer_schema import WriterSchema


def branch_at(union: Union, payload: bytes) -> tuple[int, int]:
    """The index of the payload's branch, and where the value begins.

    Raises:
        Mismatch: it does not begin with the index of a branch.
    """
    cursor = Cursor(payload, Found([]))
    try:
        return cursor.read_index(len(union.branches), "union"), cursor.at
    except Malformed as malformed:
        raise Mismatch(malformed.code, malformed.detail) from None


def branch_reader(schema: WriterSchema) -> Callable[[bytes], tuple[str, int]]:
    """What gives the full name of the record, or branch, that a payload is, and where it begins; it raises Mismatch.

    Raises:
        SchemaProblem: the schema is not valid, or neither a record nor a union with one.
    """
    root = record_or_union(schema)
    if not isinstance(root, Union):
        return lambda _: (root.name, 0)

    def read(payload: bytes) -> tuple[str, int]:
        index, at = branch_at(root, payload)
        return full_name(root.branches[index]), at

    return read
