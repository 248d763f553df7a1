"""The section ``quality`` of a pipeline file: the gate that a batch passes before it is merged."""

from __future__ import annotations

import yaml

from offset_ledger.config import schema
from offset_ledger.config.document import Refused, Section, Value, describe, line_of, quoted
from offset_ledger.config.model import History, NullBand, Quality, RecordShape, Unusual, VolumeBand
from offset_ledger.config.names import SUITE_PATTERN
from offset_ledger.config.sections import topic
from offset_ledger.config.values import choice, is_null, matching, number, share, text, whole_number

_suite = matching(SUITE_PATTERN, "a suite name", "write the name of a file in expectations/ without .json")


def read_quality(value: Value, record: RecordShape, source_topic: str) -> Quality:
    """The section ``quality`` of a pipeline that reads ``source_topic`` and whose records have that shape."""
    section = Section(value, schema.QUALITY)
    default = Quality()
    return Quality(
        suite=section.take("suite", lambda it: None if is_null(it) else _suite(it), default.suite),
        max_quarantined_share=section.take("max_quarantined_share", share, default.max_quarantined_share),
        keep_rejected_days=section.take(
            "keep_rejected_days", whole_number(schema.MAX_DAYS), default.keep_rejected_days
        ),
        history=section.take("history", lambda it: _history(it, record), None),
        dead_letter_topic=section.take("dead_letter_topic", lambda it: _dead_letter_topic(it, source_topic), None),
    )


def _dead_letter_topic(value: Value, source_topic: str) -> str | None:
    found = None if is_null(value) else topic(value)
    if found and found == source_topic:
        raise Refused("the pipeline would read its own dead letters", "name another topic than source.topic")
    return found


def _history(value: Value, record: RecordShape) -> History:
    section = Section(value, schema.HISTORY)
    default = History()
    if not any(section.entry(key) for key in ("volume", "null_share")):
        raise Refused("nothing is compared", "add volume or null_share, for example volume: {low: 0.2, high: 5}")
    batches = section.take("batches", whole_number(schema.MAX_HISTORY), default.batches)
    least = section.take("least", whole_number(schema.MAX_HISTORY), default.least)
    if least > batches:
        raise Refused(f"least {least} is above batches {batches}, so nothing is ever judged", "raise batches")
    return History(
        batches,
        least,
        volume=section.take("volume", _volume, None),
        null_share=section.take("null_share", lambda it: _null_share(it, record), None),
    )


def _volume(value: Value) -> VolumeBand:
    section = Section(value, schema.VOLUME)
    default = VolumeBand()
    return VolumeBand(
        low=section.take("low", share, default.low),
        high=section.take("high", _at_least_one, default.high),
        action=section.take("action", choice(Unusual), default.action),
    )


def _at_least_one(value: Value) -> float:
    if not 1 <= (found := number(value)) < float("inf"):
        raise Refused(f"{describe(value.node)} times the usual is not above it", "write 1 or more")
    return found


def _null_share(value: Value, record: RecordShape) -> NullBand:
    section = Section(value, schema.NULL_SHARE)
    default = NullBand()
    return NullBand(
        tolerance=section.take("tolerance", share, default.tolerance),
        columns=section.take("columns", lambda it: _columns(it, record), default.columns),
        action=section.take("action", choice(Unusual), default.action),
    )


def _columns(value: Value, record: RecordShape) -> tuple[str, ...]:
    if not isinstance(value.node, yaml.SequenceNode) or not value.node.value:
        raise Refused(f"expected a list of columns, found {describe(value.node)}", "write [one, two], or leave it out")
    nullable = [column.name for column in record.columns if column.nullable]
    found: list[str] = []
    for place, node in enumerate(value.node.value):
        item = Value(f"{value.where}[{place}]", line_of(node), node, value.mistakes)
        name = item.read(text, "")
        if name in found:
            item.note(Refused(f"{quoted(name)} is there already", "keep one of them"))
        elif name and name not in nullable:
            wrong = f"{quoted(name)} is not a nullable column of record.columns, so its share of NULL is always 0"
            item.note(Refused(wrong, f"write one of {', '.join(nullable)}" if nullable else "leave null_share out"))
        found.append(name)
    return tuple(found)
