"""Ways to make the JSON of an event malformed, each with the path that a strict decoder must name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Malformation:
    """One way. ``path`` is where the reason must point; ``$`` is the record as a whole."""

    name: str
    path: str
    spoil: Callable[[bytes], bytes]


def _replacing(pattern: bytes, replacement: bytes) -> Callable[[bytes], bytes]:
    find = re.compile(pattern)

    def spoil(value: bytes) -> bytes:
        return find.sub(lambda _: replacement, value, count=1)

    return spoil


_PUBLISH_AT = rb'"publish_at":"[^"]*"'

MALFORMATIONS = (
    Malformation("truncated", "$", lambda value: value[: len(value) // 2]),
    Malformation("trailing_text", "$", lambda value: value + b" and more"),
    Malformation("not_an_object", "$", lambda value: b"[" + value + b"]"),
    Malformation("bad_utf8", "$", _replacing(rb'"carrier":"', b'"carrier":"\xff')),
    Malformation("duplicate_key", "$.distance", _replacing(rb'"distance":', b'"distance":1,"distance":')),
    Malformation("missing_event_id", "$.event_id", _replacing(rb'"event_id":"[^"]*",', b"")),
    Malformation("empty_publish_at", "$.publish_at", _replacing(_PUBLISH_AT, b'"publish_at":""')),
    Malformation("no_such_day", "$.publish_at", _replacing(_PUBLISH_AT, b'"publish_at":"2013-02-30T00:00:00Z"')),
    Malformation("null_status", "$.status", _replacing(rb'"status":"[^"]*"', b'"status":null')),
    Malformation("nul_in_text", "$.flight.origin", _replacing(rb'"origin":"', rb'"origin":"\u0000')),
    Malformation("text_for_number", "$.flight.number", _replacing(rb'"number":\d+', b'"number":"one"')),
    Malformation("fraction", "$.schedule.arr_time", _replacing(rb'"arr_time":\d+', b'"arr_time":0.5')),
    Malformation("number_too_large", "$.distance", _replacing(rb'"distance":\d+', b'"distance":99999999999999999999')),
)
