"""A sample and its schemas -> a pipeline file and a suite, as text; nothing is asked and nothing is written here."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.decoding.connect_schema import PAYLOAD, null_as_default
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.decoding.inferred import Inferred, Proposed, column_name, left_out, limited, named
from offset_ledger.decoding.kafka_columns import fill_from_kafka
from offset_ledger.decoding.kinds import EPOCH, MAX_EVENT_ID_BYTES
from offset_ledger.decoding.outcome import DecodedRow, Reason, Refusal
from offset_ledger.decoding.schemas import Lookup
from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.init.changes import ADDED, DELETED, OP
from offset_ledger.operations.init.file_text import render
from offset_ledger.operations.init.match import Matched, match
from offset_ledger.operations.init.suite import PART_OF_NAME, suite_document
from offset_ledger.pipeline_file.envelope import UNAVAILABLE, in_envelope, notes_on, with_unavailable
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, FieldCondition, JsonPath, Limits, RecordShape, Tombstone
from offset_ledger.pipeline_file.source import KeyFormat, Source
from offset_ledger.postgres.table.existing import ExistingTable
from offset_ledger.postgres.table.infer import Sample

_SHOWN = 5
_NAMES = {"event_id": 0.5, "id": 0.5, "uuid": 0.5, "guid": 0.5, "key": 0.5, "message_id": 0.5}
_MOMENTS = (
    *("published_at", "published", "updated_at", "modified_at", "event_time", "event_at"),
    *("event_timestamp", "occurred_at", "timestamp", "ts", "time", "at", "publish_at"),
)
_MOMENT_PART = re.compile(r"_(?:at|ts|time|timestamp)$")
_OTHERS = 3
_NUMBER = "the event id as a number: event_id is a text"


@dataclass(frozen=True, slots=True)
class Choice:
    """A path, or None for Kafka's own value, with the reason for it and the alternatives."""

    path: JsonPath | None
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The values of each sampled column by its name, and the keys of the records that have a value."""

    values: Mapping[str, Sequence[object]]
    keys: Sequence[str | None]


def choose_event_id(proposed: Sequence[Proposed], seen: Seen, key_first: bool) -> Choice:
    """The path that names events, or the key; ``key_first`` where the topic has one record for each key."""
    candidates = [candidate for each in proposed if (candidate := _scored(each.column, seen))]
    keys = [key for key in seen.keys if key is not None]
    if keys and len(keys) == len(seen.keys):
        score = _share(keys) + (2 if key_first else 0.45)
        candidates.append((score, Choice(None, _shown_share(keys))))
    if not candidates:
        return Choice(None, "no sampled value could name the event, nor could the key of each record: choose another")
    best, *others = (choice for _, choice in sorted(candidates, key=lambda each: -each[0]))
    also = "; ".join(f"{format_path(each.path) if each.path else 'key'} ({each.why})" for each in others[:_OTHERS])
    return Choice(best.path, f"{best.why}; {f'other candidates: {also}' if also else 'there is no other candidate'}")


def _given(event_id: str, proposed: Sequence[Proposed], seen: Seen) -> Choice:
    """Return the event id that the caller names; the records must have it."""
    if event_id == "key":
        return Choice(None, f"as given; {_shown_share([key for key in seen.keys if key is not None])}")
    columns = {format_path(each.column.path): each.column for each in proposed}
    if event_id not in columns:
        there = ", ".join(get_close_matches(event_id, columns, _OTHERS) or list(columns)[:_OTHERS])
        raise ConfigurationError(f"--event-id: no sampled record has a value at {event_id}; there are {there}, key")
    column = columns[event_id]
    return Choice(column.path, f"as given; {_shown_share(seen.values[column.name])}")


def _scored(column: Column, seen: Seen) -> tuple[float, Choice] | None:
    """The column as an event id, with a score that compares it to others; None if it cannot be one."""
    name = column_name(column.path[-1:])
    by_name = _NAMES.get(name, 0.25 if PART_OF_NAME.search(name) else 0)
    values = seen.values[column.name]
    if column.nullable or column.type.name not in ("text", "uuid", "bigint"):
        return None
    if not all(0 < len(str(value).encode()) <= MAX_EVENT_ID_BYTES for value in values):
        return None
    if not by_name and (column.type.name == "bigint" or not values):
        return None
    score = _share(values) + by_name - 0.05 * len(column.path) + (0.1 if column.type.name == "uuid" else 0)
    return score, Choice(column.path, _shown_share(values) + (f", and named {name}" if by_name else ""))


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
    also = ", ".join([format_path(path) for path in others[:_OTHERS]] + ["kafka_timestamp"])
    return Choice(best, f"by its name; it says which of two records of one event is newer; other candidates: {also}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The names that the caller gives; ``suite``: write one. Without ``event_id`` the sample decides.

    The columns are those of the table, where it is ``existing``.
    """

    name: str
    table: str
    suite: bool
    event_id: str | None = None
    existing: ExistingTable | None = None


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
    members: Sequence[Inferred] = (),
) -> Proposal:
    """The pipeline file for these columns, with what the sample says of events, moments and tombstones.

    It takes the records of the ``kind``; ``doubts`` is what was unsure before. ``members`` are those of the Kafka keys,
    where these are structs.

    Raises:
        ConfigurationError: there is nothing to make a column of, or no value where the event id should be.
    """
    room = limited(inferred)
    everything = named(room)
    if not everything:
        raise ConfigurationError(f"the sampled records of {sample.topic} have no member to make a column of")
    columns = [each.column for each in everything if each.column.path[:-1] in ((), (PAYLOAD,))]
    added = {column.path[-1]: column for column in columns if column.path[-1] in ADDED}
    is_unwrapped = bool(added) or source.unavailable is not None
    by_log, marks = source.envelope is not None or is_unwrapped, _delete_when(added)
    if is_unwrapped:
        source = replace(source, unavailable=UNAVAILABLE.decode())
        everything = tuple(each for each in everything if each.column.path[-1] != DELETED)
    seen = _seen(source, sample, everything, lookup)
    matched, in_kafka_key = Matched((), (), ()), _key_columns(members, everything)
    if wanted.existing:
        has_keys = None not in seen.keys and bool(seen.keys)
        matched = match(wanted.existing, everything, seen.values, has_keys)
        seen = replace(seen, values=_renamed(seen.values, everything, matched.columns))
    if matched.key:
        names = ", ".join(each.name for each in matched.key)
        event_id, key = Choice(None, f"the rows of {wanted.table} are known by {names}"), matched.key
        of_kafka = {each.name: each.key for each in in_kafka_key}
        tombstones = source.envelope is None and (is_unwrapped or sample.tombstones)
        if tombstones and of_kafka.keys() >= {each.name for each in key}:
            # A delete that is a tombstone has nothing but Kafka's key.
            key = tuple(replace(each, path=(), aliases=(), key=of_kafka[each.name]) for each in key)
    elif wanted.event_id:
        event_id, key = _given(wanted.event_id, everything, seen), ()
    else:
        event_id, key = choose_event_id(everything, seen, sample.compacted or sample.tombstones > 0 or by_log), ()
        if in_kafka_key and (by_log or event_id.path is None):
            keys = [each.key for each in sample.records if each.value is not None]
            event_id, key = Choice(None, f"the members of the Kafka key; {_shown_share(keys)}"), in_kafka_key
    of_kafka_key = event_id.path is None and all(each.key is not None for each in key)
    deletes = (sample.tombstones > 0 or is_unwrapped) and of_kafka_key and source.envelope is None
    tombstone = Tombstone.DELETE if deletes else Tombstone.QUARANTINE
    if DELETED in added:  # other marks of a delete only repeat it
        tombstone = Tombstone.SKIP
    read = {event_id.path, *(each.column.path for each in matched.columns), *(each.path for each in key)}
    if by_log:
        publish_at = Choice(None, "a change is newer than those before it in its partition, whatever the clocks say")
    elif deletes:
        publish_at = Choice(None, "tombstones have no other moment than Kafka's")
    else:
        publish_at = choose_publish_at([each for each in everything if each.column.path not in read])
    taken = {event_id.path, publish_at.path}
    proposed = (
        matched.columns
        if wanted.existing
        else tuple(
            replace(each, doubt=_NUMBER if each.column.path in taken else each.doubt)
            for each in everything
            if each.column.name not in {column.name for column in key}
            and (each.column.path not in taken or each.column.type.name in ("bigint", "numeric"))
        )
    )
    record = RecordShape(
        event_id.path,
        publish_at.path,
        tuple(each.column for each in proposed),
        tombstone=tombstone,
        delete_when=marks,
        schemas=(kind,) if kind else (),
        schema_ids=source.registry is not None,
        event_id_aliases=_with_aliases(everything, event_id),
        publish_at_aliases=_with_aliases(everything, publish_at),
        log_orders=by_log,
        key=key,
    )
    key_format = source.key_format if of_kafka_key else Source().key_format
    if of_kafka_key and any(each.key for each in key) and source.registry is None:
        key_format = KeyFormat.JSON
    source = replace(source, key_format=key_format)
    in_table = {each.name for each in wanted.existing.columns} if wanted.existing else {"publish_at", "_batch_id"}
    beside = by_log or not in_table >= {"publish_at", "_batch_id"}
    record = with_unavailable(record, source.unavailable) if source.unavailable else record
    shown, record = record, in_envelope(record, False) if source.envelope else record
    refused = _refused(compile_decoder(source, record, Limits(), lookup), sample)
    unsure = [*doubts, *matched.doubts, *_of_sample(sample, record), *notes_on(record), *left_out(room), *refused]
    unsure += null_as_default(next(iter(sample.values), b""), record.all_columns)
    suite = suite_document(wanted.name, record.columns, seen.values) if wanted.suite else None
    head = [f"Proposed by offset-ledger init from {counted(len(sample.records), 'record')} of {sample.topic}.", *unsure]
    name, reasons = wanted.name if suite else None, (event_id.why, publish_at.why)
    text = render(wanted.name, head, source, shown, proposed, reasons, wanted.table, name, beside)
    unsure = [f"{'key' if key else 'event_id'}: {event_id.why}", f"publish_at: {publish_at.why}", *unsure]
    unsure += [f"column {each.column.name}: {each.doubt}" for each in proposed if each.doubt]
    return Proposal(text, source, record, suite, tuple(unsure))


def _delete_when(added: Mapping[str, Column]) -> FieldCondition | None:
    """Return the condition by which ExtractNewRecordState marks deletes."""
    if DELETED in added:
        return FieldCondition(added[DELETED].path, True if added[DELETED].type.name == "boolean" else "true")
    return FieldCondition(added[OP].path, "d") if OP in added else None


def _seen(source: Source, sample: Sample, proposed: Sequence[Proposed], lookup: Lookup) -> Seen:
    """The values of all columns, in the records that decode."""
    columns = tuple(each.column for each in proposed)
    shape = RecordShape(None, None, columns)
    shape = in_envelope(shape, False) if source.envelope else shape
    decoder = compile_decoder(source, shape, Limits(), lookup)
    outcomes = [decoder.decode(value, b"key", EPOCH) for value in sample.values]
    rows = [outcome.values for outcome in outcomes if isinstance(outcome, DecodedRow)]
    values = {column.name: [row[place] for row in rows] for place, column in enumerate(columns)}
    keys = list[str | None]()
    for each in sample.records:
        if each.value is not None:
            slots: list[object] = [None, None]
            reasons = fill_from_kafka(RecordShape(None, None, ()), slots, _key(decoder, each.key), EPOCH)
            keys.append(None if reasons else str(slots[0]))
    return Seen(values, keys)


def _key_columns(members: Sequence[Inferred], proposed: Sequence[Proposed]) -> tuple[Column, ...]:
    """The members of the Kafka key as columns of a key, of the types that values of the same names have."""
    same, key = {each.column.name: each.column for each in proposed}, list[Column]()
    for member, column in zip(members, (each.column for each in named(members)), strict=True):
        typed = same.get(column.name, column)
        key.append(replace(column, path=(), key=member.path, type=typed.type, encoding=typed.encoding))
    return tuple(key)


def _renamed(
    values: Mapping[str, Sequence[object]], proposed: Sequence[Proposed], columns: Sequence[Proposed]
) -> dict[str, Sequence[object]]:
    """The values by the names that the columns of a table have."""
    names = {each.column.path: each.column.name for each in proposed}
    return {**values, **{each.column.name: values[names[each.column.path]] for each in columns}}


def _key(decoder: Decoder, key: bytes | None) -> bytes | Reason | None:
    return decoder.keys.read(key) if decoder.keys else key


def _with_aliases(proposed: Sequence[Proposed], choice: Choice) -> tuple[JsonPath, ...]:
    return next((each.column.aliases for each in proposed if each.column.path == choice.path), ())


def _of_sample(sample: Sample, record: RecordShape) -> list[str]:
    lines = []
    if sample.tombstones:
        tombstones = f"{sample.tombstones} sampled records are tombstones"
        outcomes = {
            Tombstone.DELETE: ": each deletes the row of its key",
            Tombstone.SKIP: ": each repeats the delete before it, and is skipped",
            Tombstone.QUARANTINE: ", which are quarantined: the key names no event",
        }
        lines.append(tombstones + outcomes[record.tombstone])
    if sample.compacted:
        lines.append("the topic is compacted")
    if sample.gaps:
        lines.append(
            "offsets lack a record: transactions leave such offsets, which needs no setting; if the topic was "
            "compacted earlier, set source.compacted: true"
        )
    return lines


def _refused(decoder: Decoder, sample: Sample) -> list[str]:
    """Return what the proposed file would refuse in the sample, with the first detail of each reason."""
    outcomes = [decoder.decode(each.value, _key(decoder, each.key), each.timestamp) for each in sample.records]
    refusals = [outcome.reasons for outcome in outcomes if isinstance(outcome, Refusal)]
    counts = Counter((reason.path, reason.code) for reasons in refusals for reason in dict.fromkeys(reasons))
    details = {(reason.path, reason.code): reason.detail for reasons in reversed(refusals) for reason in reasons}
    return [
        f"{count} of {len(sample.records)} sampled records would be quarantined: {place[0]}: {details[place]}"
        for place, count in counts.most_common(_SHOWN)
    ]
