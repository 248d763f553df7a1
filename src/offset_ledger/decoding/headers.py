"""Kafka headers <-> the JSON that the target keeps: [[name, value], ...], exact for any bytes."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import HEADERS_PATH, Code, Flags, Reason, printable
from offset_ledger.decoding.texts import is_utf8, utf8
from offset_ledger.model.header_name import HeaderName

HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_SPECIAL = r'["\\\x00-\x1f]'
_encode = msgspec.json.Encoder().encode


def headers_json(headers: pa.Array) -> pa.StringArray:
    """Return one text a record, null if it has no headers."""
    if headers.null_count == len(headers) or not len(headers.flatten()):
        return pa.nulls(len(headers), pa.string())
    pairs = headers.flatten()
    columns = [pc.struct_field(pairs, index) for index in (0, 1)]
    texts = [utf8(column)[0] for column in columns]
    odd = [pc.match_substring_regex(each, _SPECIAL) for each in texts]
    if any(each.null_count or pc.any(each, min_count=0).as_py() for each in odd):
        texts = [_json_texts(*each) for each in zip(columns, texts, odd, strict=True)]
        written = pc.binary_join_element_wise("[", texts[0], ",", texts[1], "]", "")
    else:  # JSON writes all of them as they are
        written = pc.binary_join_element_wise('["', texts[0], '","', texts[1], '"]', "")
    lengths = pc.fill_null(pc.list_value_length(headers), 0)  # a null list takes no room among the flattened headers
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, written), ",")
    return pc.if_else(pc.greater(lengths, 0), pc.binary_join_element_wise("[", joined, "]", ""), None)


def wrong_names(headers: pa.Array) -> dict[int, Reason]:
    """Return by place the reasons against records with a header name that is not UTF-8."""
    _, flags = utf8(pc.struct_field(headers.flatten(), 0))
    names = {} if flags is None else _first_names(headers, pa.array(~flags))
    shown = {place: printable(name.decode(errors="backslashreplace")) for place, name in names.items()}
    detail = "expected header names in UTF-8, got "
    return {place: Reason(HEADERS_PATH, Code.ENCODING, detail + name) for place, name in shown.items()}


def last_headers(headers: pa.Array, name: str) -> tuple[pa.BinaryArray, Flags]:
    """Return the value of the last header of this name of each record, null without one, and which records have one."""
    pairs, last = headers.flatten(), np.full(len(headers), -1)
    marked = pc.indices_nonzero(pc.equal(pc.struct_field(pairs, 0), pa.scalar(name.encode(), pa.binary())))
    if not len(marked):
        return pa.nulls(len(headers), pa.binary()), last >= 0
    last[pc.list_parent_indices(headers).take(marked).to_numpy()] = marked.to_numpy()  # the last one stays
    return pc.struct_field(pairs, 1).take(pa.array(last, mask=last < 0)), last >= 0


def _first_names(headers: pa.Array, marked: pa.BooleanArray) -> dict[int, bytes]:
    """The first marked name of each record that has one, by place."""
    if not pc.any(marked, min_count=0).as_py():
        return {}
    places = pc.list_parent_indices(headers).filter(marked).to_pylist()
    names = pc.struct_field(headers.flatten(), 0).filter(marked).to_pylist()
    return dict(zip(reversed(places), reversed(names), strict=True))


def _json_texts(column: pa.BinaryArray, texts: pa.StringArray, odd: pa.BooleanArray) -> pa.StringArray:
    """Return the JSON of each name or value; those that are no texts, or odd ones, one by one."""
    odd = pc.fill_null(odd, True)
    each = column.filter(odd).dictionary_encode()
    encoded = pa.array([_encode(_text(value)).decode() for value in each.dictionary.to_pylist()], pa.string())
    written = pc.binary_join_element_wise('"', texts, '"', "")
    return pc.replace_with_mask(written, odd, pc.fill_null(encoded.take(each.indices), "null"))


def _text(value: bytes | None) -> str | dict[str, str] | None:
    """The text, or ``{"base64": ...}`` for bytes that are no text of Postgres."""
    if value is None:
        return None
    is_text = is_utf8(value) and b"\0" not in value
    return value.decode() if is_text else {"base64": b64encode(value).decode()}


def kafka_headers(kept: Sequence[Sequence[Any]] | None) -> list[tuple[str, bytes | None]]:
    """The headers as Kafka had them, from the JSON that was kept of them; the inverse of :func:`headers_json`."""
    return [(HeaderName.of(_bytes(name) or b""), _bytes(value)) for name, value in kept or ()]


def _bytes(kept: str | dict[str, str] | None) -> bytes | None:
    if kept is None:
        return None
    return kept.encode() if isinstance(kept, str) else b64decode(kept["base64"])
