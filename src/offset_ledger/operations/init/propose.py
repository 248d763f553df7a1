"""A sample and its schemas -> a pipeline file and a suite; nothing is asked and nothing is written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from offset_ledger.config.model import ColumnType, JsonPath, Limits, RecordShape, Tombstone
from offset_ledger.config.source import Source
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.decoding.framed import Lookup
from offset_ledger.decoding.inferred import Inferred, Proposed, left_out, limited, named
from offset_ledger.decoding.kafka_slots import fill_from_kafka
from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import DecodedRow, Decoder, Reason, Refusal
from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.init.events import Choice, Seen, choose_event_id, choose_publish_at
from offset_ledger.operations.init.render import render
from offset_ledger.operations.init.sample import Sample
from offset_ledger.operations.init.suite import suite_document
from offset_ledger.units import counted

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller gives the pipeline; no suite is named without ``suite``."""

    name: str
    table: str
    suite: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """The text of a pipeline file, what its parser has to read of it, its suite, and what was unsure, in lines."""

    text: str
    source: Source
    record: RecordShape
    suite: Mapping[str, Any] | None
    doubts: tuple[str, ...]


def propose(
    wanted: Wanted,
    source: Source,
    sample: Sample,
    inferred: Sequence[Inferred],
    lookup: Lookup = no_schemas,
    kind: str | None = None,
    doubts: Sequence[str] = (),
) -> Proposal:
    """The pipeline file for these columns, with what the sample says of events, moments and tombstones.

    It takes the records of the ``kind``; ``doubts`` is what was unsure before.

    Raises:
        ConfigurationError: there is nothing to make a column of.
    """
    room = limited(inferred)
    everything = named(room)
    if not everything:
        raise ConfigurationError(f"the sampled records of {sample.topic} have no member to make a column of")
    seen = _seen(source, sample, everything, lookup)
    event_id, publish_at = _choices(everything, seen, sample)
    proposed = _without(everything, event_id, publish_at)
    record = RecordShape(
        event_id.path,
        publish_at.path,
        tuple(each.column for each in proposed),
        tombstone=Tombstone.DELETE if _deletes(sample, event_id) else Tombstone.QUARANTINE,
        schemas=(kind,) if kind else (),
        schema_ids=source.registry is not None,
        event_id_aliases=_aliases(everything, event_id),
        publish_at_aliases=_aliases(everything, publish_at),
    )
    source = _final_source(source, record, sample)
    refused = _refused(compile_decoder(source, record, Limits(), lookup), sample)
    unsure = [*doubts, *_of_sample(sample, record), *left_out(room), *refused]
    suite = suite_document(wanted.name, record.columns, seen.values) if wanted.suite else None
    head = [f"Proposed by offset-ledger init from {counted(len(sample.records), 'record')} of {sample.topic}.", *unsure]
    name = wanted.name if suite else None
    text = render(wanted.name, head, source, record, proposed, (event_id, publish_at), wanted.table, name)
    unsure = [f"event_id: {event_id.why}", f"publish_at: {publish_at.why}", *unsure]
    unsure += [f"column {each.column.name}: {each.doubt}" for each in proposed if each.doubt]
    return Proposal(text, source, record, suite, tuple(unsure))


def _seen(source: Source, sample: Sample, proposed: Sequence[Proposed], lookup: Lookup) -> Seen:
    """The values of all columns, in the records that decode."""
    columns = tuple(each.column for each in proposed)
    decoder = compile_decoder(source, RecordShape(None, None, columns), Limits(), lookup)
    outcomes = [decoder.decode(value, b"key", EPOCH) for value in sample.values]
    rows = [outcome.values for outcome in outcomes if isinstance(outcome, DecodedRow)]
    values = {column.name: [row[place] for row in rows] for place, column in enumerate(columns)}
    return Seen(len(rows), values, [_key_text(decoder, each.key) for each in sample.records if each.value is not None])


def _key_text(decoder: Decoder, key: bytes | None) -> str | None:
    slots: list[object] = [None, None]
    reasons = fill_from_kafka(slots, _key(decoder, key), EPOCH, needs_key=True, needs_timestamp=False)
    return None if reasons else str(slots[0])


def _key(decoder: Decoder, key: bytes | None) -> bytes | Reason | None:
    return decoder.keys.read(key) if decoder.keys else key


def _choices(proposed: Sequence[Proposed], seen: Seen, sample: Sample) -> tuple[Choice, Choice]:
    event_id = choose_event_id(proposed, seen, sample.compacted or sample.tombstones > 0)
    if _deletes(sample, event_id):
        return event_id, Choice(None, "tombstones have no other moment than Kafka's")
    return event_id, choose_publish_at([each for each in proposed if each.column.path != event_id.path])


def _deletes(sample: Sample, event_id: Choice) -> bool:
    return sample.tombstones > 0 and event_id.path is None


def _aliases(proposed: Sequence[Proposed], choice: Choice) -> tuple[JsonPath, ...]:
    return next((each.column.aliases for each in proposed if each.column.path == choice.path), ())


def _without(proposed: Sequence[Proposed], *choices: Choice) -> tuple[Proposed, ...]:
    """The columns but those that event_id and publish_at are; the first as jsonb, where none is left."""
    taken = {choice.path for choice in choices}
    first = replace(proposed[0].column, type=ColumnType("jsonb"), encoding="")
    left = tuple(each for each in proposed if each.column.path not in taken)
    return left or (Proposed(first, "a table needs one column besides event_id and publish_at"),)


def _final_source(source: Source, record: RecordShape, sample: Sample) -> Source:
    unread = Source("", "").key_format
    return replace(source, transactional=sample.gaps, key_format=unread if record.event_id else source.key_format)


def _of_sample(sample: Sample, record: RecordShape) -> list[str]:
    lines = []
    if sample.tombstones and record.tombstone is Tombstone.DELETE:
        lines.append(f"{sample.tombstones} sampled records are tombstones: each deletes the row of its key")
    elif sample.tombstones:
        lines.append(
            f"{sample.tombstones} sampled records are tombstones, which are quarantined: the key names no event"
        )
    if sample.compacted:
        lines.append("the topic is compacted")
    if sample.gaps:
        lines.append("the topic has offsets without a record: source.transactional is true")
    return lines


def _refused(decoder: Decoder, sample: Sample) -> list[str]:
    """What the proposed file would refuse of the sample, with the first detail of each reason."""
    outcomes = [decoder.decode(each.value, _key(decoder, each.key), each.timestamp) for each in sample.records]
    refusals = [outcome.reasons for outcome in outcomes if isinstance(outcome, Refusal)]
    counts = Counter((reason.path, reason.code) for reasons in refusals for reason in dict.fromkeys(reasons))
    details = {(reason.path, reason.code): reason.detail for reasons in reversed(refusals) for reason in reasons}
    return [
        f"{count} of {len(sample.records)} sampled records would be quarantined: {place[0]}: {details[place]}"
        for place, count in counts.most_common(_SHOWN)
    ]
