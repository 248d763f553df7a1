"""Kafka headers <-> the JSON that the target keeps: [[name, value], ...], exact for any bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.frame import ID_HEADERS, id_in_header
from offset_ledger.decoding.outcome import HEADERS_PATH, Code, Reason, printable
from offset_ledger.model.header_name import HeaderName

HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_SPECIAL = r'["\\\x00-\x1f]'
_encode = msgspec.json.Encoder().encode
Header = dict[str, Any]


def headers_json(headers: pa.Array) -> pa.StringArray:
    """One text a record; null where it has no headers."""
    if headers.null_count == len(headers) or not len(headers.flatten()):
        return pa.nulls(len(headers), pa.string())
    plain = _plain(headers)
    return plain if plain is not None else pa.array(list(map(_one, headers.to_pylist())), pa.string())


def wrong_names(headers: pa.Array) -> dict[int, Reason]:
    """The records, by place, of which a header has a name that is not UTF-8, each with the reason against it."""
    names = _names(headers, _not_utf8)
    return {place: _wrong_name(name) for place, name in names.items()}


def schemas_in_headers(headers: pa.Array) -> dict[int, Reason]:
    """The records, by place, of which a header names the schema, each with the reason against it."""
    names = _names(headers, lambda all_: pc.is_in(all_, pa.array(ID_HEADERS, pa.binary())))
    return {place: id_in_header(name.decode()) for place, name in names.items()}


def _names(headers: pa.Array, wanted: Callable[[pa.Array], pa.Array]) -> dict[int, bytes]:
    """The first wanted name of each record that has one, by place."""
    names = pc.struct_field(headers.flatten(), 0)
    marked = wanted(names)
    if not pc.any(marked, min_count=0).as_py():
        return {}
    places = pc.list_parent_indices(headers).filter(marked).to_pylist()
    return dict(zip(reversed(places), reversed(names.filter(marked).to_pylist()), strict=True))


def _not_utf8(names: pa.BinaryArray) -> pa.BooleanArray:
    try:
        names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_as_text(name) is None for name in names.to_pylist()], pa.bool_())
    return pa.repeat(False, len(names))


def _as_text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _wrong_name(name: bytes) -> Reason:
    shown = printable(name.decode(errors="backslashreplace"))
    return Reason(HEADERS_PATH, Code.ENCODING, f"expected header names in UTF-8, got {shown}")


def _plain(headers: pa.ListArray) -> pa.StringArray | None:
    """All at once, where every name and value is text that JSON writes as it is."""
    pairs = headers.flatten()
    try:
        names, values = (pc.struct_field(pairs, index).cast(pa.string()) for index in (0, 1))
    except pa.ArrowInvalid:
        return None
    special = (pc.any(pc.match_substring_regex(texts, _SPECIAL), min_count=0).as_py() for texts in (names, values))
    if values.null_count or names.null_count or any(special):
        return None
    written = pc.binary_join_element_wise('["', names, '","', values, '"]', "")
    lists = pa.ListArray.from_arrays(_offsets(headers), written)
    joined = pc.binary_join(lists, ",")
    some = pc.greater(pc.fill_null(pc.list_value_length(headers), 0), 0)
    return pc.if_else(some, pc.binary_join_element_wise("[", joined, "]", ""), None)


def _offsets(headers: pa.ListArray) -> pa.Int32Array:
    """Offsets into the flattened headers; a null list takes no room there."""
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _one(headers: list[Header] | None) -> str | None:
    if not headers:
        return None
    return _encode([[_text(header["key"]), _value(header["value"])] for header in headers]).decode()


def _value(value: bytes | None) -> str | dict[str, str] | None:
    return None if value is None else _text(value)


def _text(value: bytes) -> str | dict[str, str]:
    """The text, or ``{"base64": ...}`` for bytes that are no text of Postgres."""
    text = _as_text(value)
    return {"base64": b64encode(value).decode()} if text is None or "\0" in text else text


def kafka_headers(kept: Sequence[Sequence[Any]] | None) -> list[tuple[str, bytes | None]]:
    """The headers as Kafka had them, from the JSON that was kept of them; the inverse of :func:`headers_json`."""
    return [(HeaderName.of(_bytes(name) or b""), _bytes(value)) for name, value in kept or ()]


def _bytes(kept: str | dict[str, str] | None) -> bytes | None:
    if kept is None:
        return None
    return kept.encode() if isinstance(kept, str) else b64decode(kept["base64"])
