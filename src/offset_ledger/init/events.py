"""Candidates for the identity of an event, and for the moment of its publication, with reasons."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Column, JsonPath
from offset_ledger.decoding.inferred import Proposed, column_name
from offset_ledger.decoding.kinds import MAX_EVENT_ID_BYTES
from offset_ledger.units import counted

_NAMES = {"event_id": 0.6, "id": 0.5, "uuid": 0.5, "guid": 0.5, "key": 0.5, "message_id": 0.5}
_PART_OF_NAME = re.compile(r"_(?:id|uuid|guid|key|no|number)$")
_MOMENTS = (
    *("publish_at", "published_at", "published", "updated_at", "modified_at", "event_time", "event_at"),
    *("event_timestamp", "occurred_at", "timestamp", "ts", "time", "at"),
)
_MOMENT_PART = re.compile(r"_(?:at|ts|time|timestamp)$")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Choice:
    """A path, or None for what Kafka has, with the reason for it and what else there was."""

    path: JsonPath | None
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The values of each sampled column by its name, and the keys of the records that have a value."""

    values: Mapping[str, Sequence[object]]
    keys: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: JsonPath | None
    shown: str
    score: float
    why: str


def choose_event_id(proposed: Sequence[Proposed], seen: Seen, key_first: bool) -> Choice:
    """The path that names events, or the key; ``key_first`` where the topic has one record for each key."""
    candidates = [candidate for each in proposed if (candidate := _of_column(each.column, seen))]
    keys = [key for key in seen.keys if key is not None]
    if keys and len(keys) == len(seen.keys):
        score = _share(keys) + (2 if key_first else 0.45)
        candidates.append(_Candidate(None, "key", score, _shown_share(keys)))
    if not candidates:
        return Choice(None, "no sampled value could name the event, nor could the key of each record: choose another")
    best, *others = sorted(candidates, key=lambda each: -each.score)
    also = "; ".join(f"{each.shown} ({each.why})" for each in others[:_SHOWN])
    return Choice(best.path, f"{best.why}; {f'other candidates: {also}' if also else 'there is no other candidate'}")


def _of_column(column: Column, seen: Seen) -> _Candidate | None:
    name = column_name(column.path[-1:])
    by_name = _NAMES.get(name, 0.25 if _PART_OF_NAME.search(name) else 0)
    values = seen.values[column.name]
    if column.nullable or column.type.name not in ("text", "uuid", "bigint"):
        return None
    if not all(0 < len(str(value).encode()) <= MAX_EVENT_ID_BYTES for value in values):
        return None
    if not by_name and (column.type.name == "bigint" or not values):
        return None
    score = _share(values) + by_name - 0.05 * len(column.path) + (0.1 if column.type.name == "uuid" else 0)
    why = _shown_share(values) + (f", and named {name}" if by_name else "")
    return _Candidate(column.path, format_path(column.path), score, why)


def _share(values: Sequence[object]) -> float:
    return len(set(values)) / len(values) if values else 0


def _shown_share(values: Sequence[object]) -> str:
    different = len(set(values))
    if not values:
        return "by its name alone"
    records = counted(len(values), "record")
    return f"unique in {records}" if different == len(values) else f"{different} in {records}"


def choose_publish_at(proposed: Sequence[Proposed]) -> Choice:
    """The moment by which a record is newer than another of its event: one of the record, or Kafka's."""
    moments: dict[JsonPath, int] = {}
    for column in (each.column for each in proposed):
        name = column_name(column.path[-1:])
        if column.type.name != "timestamptz" or column.nullable:
            continue
        if name in _MOMENTS:
            moments[column.path] = _MOMENTS.index(name)
        elif _MOMENT_PART.search(name):
            moments[column.path] = len(_MOMENTS) + name.startswith(("created", "creation"))
    if not moments:
        return Choice(None, "no moment in every record is named like one of publication")
    best, *others = sorted(moments, key=lambda path: (moments[path], len(path)))
    also = ", ".join([format_path(path) for path in others[:_SHOWN]] + ["kafka_timestamp"])
    return Choice(best, f"by its name; it says which of two records of one event is newer; other candidates: {also}")
