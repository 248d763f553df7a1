"""The record that is published for a dead letter, and the coordinates that it carries. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from offset_ledger.decoding.headers import kafka_headers
from offset_ledger.ledger.dead_letters import RecordPosition
from offset_ledger.reliability.publishing.record import Record

PREFIX = "offset-ledger."


def to_record(letter: Any, pipeline: str, partitions: int) -> Record:
    """The original record, with its coordinates and the reasons in headers.

    Records of one partition stay in one partition. The client can send neither a header without a value nor a record
    without key and value: these values are sent empty, and ``offset-ledger.sent-empty`` lists the positions of such
    headers and ``"value"``.
    """
    key, value = (None if bytes_ is None else bytes(bytes_) for bytes_ in (letter["key"], letter["value"]))
    headers = kafka_headers(letter["headers"])
    empty: list[int | str] = [position for position, (_, content) in enumerate(headers) if content is None]
    if key is None and value is None:
        value = b""
        empty.append("value")
    return Record(
        key=key,
        value=value,
        headers=(*((name, content or b"") for name, content in headers), *_own_headers(letter, pipeline, empty)),
        partition=letter["partition"] % partitions,
    )


def _own_headers(letter: Any, pipeline: str, empty: list[int | str]) -> Iterable[tuple[str, bytes]]:
    contents = {
        "pipeline": pipeline,
        "topic": letter["topic"],
        "topic-id": letter["topic_id"],
        "partition": letter["partition"],
        "offset": letter["offset"],
        "timestamp": letter["timestamp_ms"],
        "batch": letter["batch_id"],
        "reasons": letter["reasons"],
        "sent-empty": json.dumps(empty) if empty else None,
    }
    return ((PREFIX + name, str(content).encode()) for name, content in contents.items() if content is not None)


def source_position(headers: Iterable[tuple[str, bytes]], pipeline: str) -> RecordPosition | None:
    """The coordinates that a dead letter of this pipeline carries; None for any other record.

    The last of several headers of one name counts: a record that was a dead letter before has such headers of its own.
    """
    own = {name.removeprefix(PREFIX): value for name, value in headers if name.startswith(PREFIX)}
    if own.get("pipeline") != pipeline.encode():
        return None
    try:
        return RecordPosition(own["topic-id"].decode(), int(own["partition"]), int(own["offset"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
