"""Change events of Debezium: the meaning of each operation, and the payload inside Kafka Connect's wrapper."""

import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import WHOLE, Code, Flags, Reason, Refusal, Skip

ROWS = ("c", "r", "u")
"""The operations whose record has a row after it: create, read by a snapshot, update."""
_OP = "$.op"
_TEXT_ROW = re.compile(rb'"(?:after|before)":"\{')
_WRAPPED = b'{"schema":'  # as JsonConverter begins, which writes no blanks
_NULL, _NULL_PAYLOAD = b"null", b'"payload":null}'
_string = msgspec.json.Decoder(str).decode
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def connector_of(document: bytes) -> str:
    """The connector that the change event names; empty where it names none."""
    try:
        source = _object(unwrapped(document)).get("source", b"{}")
        return msgspec.json.decode(bytes(source), type=_Source).connector
    except msgspec.DecodeError:
        return ""


class _Source(msgspec.Struct):
    connector: str = ""


def without_row(op: object) -> Refusal | Skip | None:
    """Return what becomes of a record without a row, by its operation; None if it has one, or deletes one."""
    match op:
        case "c" | "r" | "u" | "d":
            return None
        case "m":  # a logical message, which is of no table
            return Skip()
        case "t":
            detail = "expected a change of one row, got that all rows of the table were removed"
            return Refusal((Reason(_OP, Code.TRUNCATE, detail),))
        case None:
            return Refusal((Reason(WHOLE, Code.TYPE, "expected an envelope of Debezium, got a record without op"),))
        case _:
            return Refusal((Reason(_OP, Code.FORMAT, "expected the operation c, r, u, d, t or m, got another one"),))


def have_rows(ops: pa.Array) -> Flags:
    """Return which operations have a row after them."""
    flags: Flags = pc.is_in(ops, pa.array(ROWS)).to_numpy(zero_copy_only=False)
    return flags


def unwrapped(document: bytes) -> bytes:
    """The payload, where the document is ``{"schema": ..., "payload": ...}`` and nothing else.

    Rows that are texts of documents, as MongoDB's connector writes them, are these documents in it.
    """
    try:
        members = _object(document)
        if members.keys() == {"schema", "payload"}:
            document = bytes(members["payload"])
            members = _object(document) if _TEXT_ROW.search(document) else {}
        for name in ("after", "before") if _TEXT_ROW.search(document) else ():
            row = bytes(members.get(name, b""))
            if row[:1] == b'"':
                member = f'"{name}":'.encode()
                document = document.replace(member + row, member + _string(row).encode(), 1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return document
    return document


def is_null(document: bytes, in_wrapper: bool = True) -> bool:
    """Return whether JsonConverter writes this for a null with a schema: null, alone or in its wrapper."""
    in_wrapper = in_wrapper and document.startswith(_WRAPPED) and document.endswith(_NULL_PAYLOAD)
    return document == _NULL or (in_wrapper and unwrapped(document) == _NULL)


def are_null(documents: pa.BinaryArray) -> pa.BooleanArray:
    """Return which documents may be null, in a wrapper or not; :func:`is_null` decides."""
    return pc.fill_null(pc.or_(pc.equal(documents, _NULL), pc.ends_with(documents, _NULL_PAYLOAD.decode())), True)


def all_unwrapped(documents: pa.BinaryArray, most: int) -> pa.BinaryArray:
    """Return the documents unwrapped as by :func:`unwrapped` if they have at most ``most`` bytes, else unchanged."""
    of_size = pc.less_equal(pc.binary_length(documents), most)
    differ = pc.or_(pc.starts_with(documents, _WRAPPED), pc.match_substring_regex(documents, _TEXT_ROW.pattern))
    wrapped = pc.fill_null(pc.and_(differ, of_size), False).to_numpy(zero_copy_only=False)
    if not wrapped.any():
        return documents
    texts = np.array(documents.to_pylist(), object)
    for place in np.flatnonzero(wrapped):
        texts[place] = unwrapped(texts[place])
    return pa.array(texts.tolist(), pa.binary())
