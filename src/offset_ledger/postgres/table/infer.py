"""The columns of a sample: from the documents of JSON, from the schemas of the other formats, or from both.

For ``init`` to propose them, and for ``columns: auto`` to have them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import compress
from math import ceil

import msgspec
import numpy as np
import pyarrow as pa

from offset_ledger.decoding import wire_format
from offset_ledger.decoding.decimals import NOT_FINITE
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.headers import HEADERS
from offset_ledger.decoding.inferred import Inferred, column_name, limited, named, schema_columns
from offset_ledger.decoding.json.conversions import conversion, json_kind, list_elements
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kafka_columns import timestamp_of
from offset_ledger.decoding.key_and_headers import wanted_by_headers
from offset_ledger.decoding.kinds import EPOCH, ColumnKind
from offset_ledger.decoding.outcome import Mismatch, Reason, Refusal, SchemaProblem, Skip
from offset_ledger.decoding.subjects import LANGUAGES, ReadKind, fields_of, is_value_schema, kind_names, kind_reader
from offset_ledger.decoding.typed.types import SchemaField
from offset_ledger.errors import ConfigurationError, UnusableSchema
from offset_ledger.model.moments import known_timestamp
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.outside.schema_registry.client import Registry, connect_registry, schema_or_problem
from offset_ledger.pipeline_file.column_types import ENCODINGS
from offset_ledger.pipeline_file.json_path import touch
from offset_ledger.pipeline_file.pipeline import Column, FieldCondition, JsonPath, Limits, Pipeline, RecordShape
from offset_ledger.pipeline_file.source import Format, Source


@dataclass(frozen=True, slots=True)
class SampledRecord:
    """One record of the sample; its timestamp may be one that no column holds."""

    key: bytes | None
    value: bytes | None
    timestamp: datetime | Reason
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a topic; ``gaps``: there were offsets without a record, and the topic is not compacted."""

    topic: str
    records: tuple[SampledRecord, ...]
    compacted: bool = False
    gaps: bool = False

    @property
    def values(self) -> tuple[bytes, ...]:
        """Return the values of those that have one."""
        return tuple(record.value for record in self.records if record.value is not None)

    @property
    def tombstones(self) -> int:
        """Return the number of those that have none."""
        return len(self.records) - len(self.values)


def sample_ranges(bounds: Mapping[int, tuple[int, int]], wanted: int) -> tuple[OffsetRange, ...]:
    """Return offset ranges at the beginning and end of each partition, of ``wanted`` offsets together."""
    filled = {partition: (start, end) for partition, (start, end) in sorted(bounds.items()) if start < end}
    each = max(1, wanted // max(1, len(filled)))
    ranges: list[OffsetRange] = []
    for partition, (start, end) in list(filled.items())[:wanted]:
        if end - start <= each:
            ranges.append(OffsetRange(partition, start, end))
            continue
        first, last = each // 2, ceil(each / 2)
        ranges += [OffsetRange(partition, start, start + first)] if first else []
        ranges.append(OffsetRange(partition, end - last, end))
    return tuple(ranges)


def read_sample(connection: Connection, topic: str, wanted: int) -> Sample:
    """Return about ``wanted`` records of the topic, none of an open or an aborted transaction.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable: no broker answered, or they answered no more.
    """
    with connect_kafka(connection) as kafka:
        snapshot = kafka.snapshot(topic)
    ranges, records = sample_ranges(snapshot.bounds, wanted), list[SampledRecord]()
    for part in ranges:
        for each in read_records(connection, topic, part, "read_committed"):
            milliseconds = known_timestamp(each.timestamp)
            timestamp = timestamp_of(None if milliseconds is None else milliseconds * 1000)
            records.append(SampledRecord(each.key, each.value, timestamp, each.headers))
    gaps = len(records) < sum(part.width for part in ranges)
    return Sample(topic, tuple(records), snapshot.compacted, gaps and not snapshot.compacted)


def json_inferred(sample: Sample, where: Sequence[FieldCondition] = ()) -> tuple[Inferred, ...]:
    """Return the columns of those JSON records for which the conditions hold.

    Raises:
        ConfigurationError: none of the records is.
    """
    values = sample.values
    if documents := json_documents(values, where):
        return json_columns(documents)
    if not values:
        wrong = f"all {len(sample.records)} sampled records are tombstones" if sample.records else "it has no records"
        raise ConfigurationError(f"nothing can be inferred from topic {sample.topic}: {wrong}; publish some first")
    right = "name its schema registry" if any(value[:1] == b"\0" for value in values) else "write the columns by hand"
    which = " for which record.where holds" if where else ""
    wrong = f"none of {len(values)} sampled records of {sample.topic} is a JSON object{which}"
    raise ConfigurationError(f"{wrong}; {right}")


@dataclass(frozen=True, slots=True)
class SampledKinds:
    """The records to infer from; ``taken`` is the name of their kind where there are others, which ``doubts`` name.

    ``names`` are the kinds among them, by the ids of their schemas.
    """

    sample: Sample
    names: Mapping[int, frozenset[str]]
    taken: str | None = None
    doubts: tuple[str, ...] = ()


def schema_inferred(
    source: Source, kinds: SampledKinds, schemas: Sequence[WriterSchema]
) -> tuple[tuple[Inferred, ...], tuple[str, ...]]:
    """The columns of records that name these schemas, of the kinds that were sampled; a line for each unreadable one.

    Raises:
        UnusableSchema: none of them can be read.
        ConfigurationError: the format's library is not installed.
    """
    compile_decoder(source, RecordShape(None, None, ()), Limits())
    fields, unreadable = list[tuple[SchemaField, ...]](), list[str]()
    for schema in schemas:
        names = sorted(kinds.names.get(schema.schema_id, ()))
        try:
            if names or not kinds.taken:  # where no kind was sampled, its first one
                fields += (fields_of(schema, name) for name in names or (None,))
            else:
                kind_names(schema)  # it may be one that cannot be read
        except SchemaProblem as problem:
            unreadable.append(f"schema id {schema.schema_id} cannot be read, its records are quarantined: {problem}")
    if unreadable and not fields:
        raise UnusableSchema(f"topic {source.topic}: {unreadable[0]}; register a valid one")
    by_schema = schema_columns(fields)
    if source.format is Format.JSON_SCHEMA:
        begins = {b"\0" + schema.schema_id.to_bytes(wire_format.SIZE - 1, "big") for schema in schemas}
        values = kinds.sample.values
        documents = json_documents(
            [value[wire_format.SIZE :] for value in values if value[: wire_format.SIZE] in begins]
        )
        by_schema = refined(by_schema, json_columns(documents))
    return by_schema, tuple(unreadable)


def json_documents(values: Sequence[bytes], where: Sequence[FieldCondition] = ()) -> list[bytes]:
    """Return the values that are JSON objects and could become a row."""
    decode = JsonDecoder(RecordShape(None, None, (), where=tuple(where)), Limits()).decode
    return [value for value in values if not isinstance(decode(value, b"key", EPOCH), Refusal | Skip)]


NARROWED = ("uuid", "date", "time", "timestamptz")


def refined(by_schema: Sequence[Inferred], by_sample: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """The columns of a JSON Schema: texts narrowed by the sampled documents, and members that it does not mention."""
    sampled = {each.path: each for each in by_sample}
    narrowed = [
        replace(each, type=in_sample.type, doubt=in_sample.doubt)
        if each.type == "text" and (in_sample := sampled.get(each.path)) and in_sample.type in NARROWED
        else each
        for each in by_schema
    ]
    unknown = [each for each in by_sample if not any(touch(each.path, known.path) for known in by_schema)]
    more = [replace(each, nullable=True, doubt="not in the schema") for each in unknown]
    return (*narrowed, *more)


MAX_NESTED = 8
FEW_VALUES = 20
MANY_NAMES = 20
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NOT_FINITE = {f'"{word}"'.encode() for word in NOT_FINITE}
_TYPES = {"number": ("bigint", "numeric"), "text": (*NARROWED, "text"), "boolean": ("boolean",)}
_MOMENT_NAME = re.compile(r"(?:^|_)(?:at|ts|time|timestamp|date|millis|ms)$|time")
_EPOCHS = (("seconds", "epoch_s", 1), ("milliseconds", "epoch_ms", 1_000), ("microseconds", "epoch_us", 1_000_000))
_FIRST, _LAST = 631_152_000, 4_102_444_800  # 1990 and 2100


def json_columns(documents: Sequence[bytes]) -> tuple[Inferred, ...]:
    """The columns of these documents, which are valid JSON objects, in the order in which their members appear."""
    return tuple(_members([document.strip() for document in documents], (), False))


def _members(objects: Sequence[bytes], path: JsonPath, nullable: bool) -> Iterator[Inferred]:
    members: dict[str, list[bytes]] = {}
    for each in objects:
        for name, value in _object(each).items():
            members.setdefault(name, []).append(bytes(value))
    for name, values in members.items():
        if name:
            yield from _member((*path, name), values, nullable or len(values) < len(objects))
        elif not path:
            yield Inferred(("''",), "", True, "no path leads to a member without a name")


def _member(path: JsonPath, sampled: Sequence[bytes], nullable: bool) -> Iterator[Inferred]:
    values = [value for value in sampled if value != b"null"]
    nullable = nullable or len(values) < len(sampled)
    kinds = sorted({json_kind(value) for value in values})
    if kinds == ["number", "text"] and all(value in _NOT_FINITE for value in values if value[:1] == b'"'):
        kinds = ["number"]
    if kinds == ["object"] and (doubt := _no_record(path, values)) is None:
        yield from _members(values, path, nullable)
    elif kinds == ["object"]:
        yield Inferred(path, "jsonb", nullable, doubt or "")
    elif len(kinds) == 1 and kinds[0] in _TYPES:
        *narrow, last = _TYPES[kinds[0]]
        type_ = next((each for each in narrow if takes_all(each, values)), last)
        yield Inferred(path, type_, nullable, _doubt(path, type_, values))
    elif kinds == ["array"] and (array := _array_type(values)):
        yield Inferred(path, array, nullable)
    else:
        doubt = f"{' and '.join(kinds)} in the sample" if len(kinds) > 1 else ""
        yield Inferred(path, "jsonb", nullable, doubt if kinds else "null in every sampled record")


def _array_type(arrays: Sequence[bytes]) -> str | None:
    """Return the type that takes these lists; None where their elements are not all of one kind, or none is there."""
    elements = [bytes(each) for array in arrays for each in list_elements(array) if bytes(each) != b"null"]
    kinds = {json_kind(each) for each in elements}
    if len(kinds) != 1 or not (types := _TYPES.get(kinds.pop())):
        return None
    few = len(elements) < FEW_VALUES
    return next((f"{each}[]" for each in types if not (few and each in NARROWED) and takes_all(each, elements)), None)


def _no_record(path: JsonPath, objects: Sequence[bytes]) -> str | None:
    """Return why an object is kept whole, though all values are objects; None where each member becomes a column."""
    names = [_object(each).keys() for each in objects]
    known = set[str]().union(*names)
    if not known:
        return "an object without members in every sampled record"
    if "" in known:
        return "it has a member without a name, which no path leads to"
    if len(path) >= MAX_NESTED:
        return "nested too deeply to give each member a column"
    if len(known) > MANY_NAMES and sum(map(len, names)) * 10 < len(known) * len(names):
        return f"{len(known)} names in {len(names)} objects: rather a map than a record"
    return None


def takes_all(type_: str, values: Sequence[bytes]) -> bool:
    """Return whether a column of this type takes each of the JSON texts."""
    read = conversion(ColumnKind(type_, (), ENCODINGS.get(type_, ("",))[0])).read
    try:
        for value in values:
            read(value)
    except Mismatch:
        return False
    return True


def _doubt(path: JsonPath, type_: str, values: Sequence[bytes]) -> str:
    if type_ in NARROWED and len(values) < FEW_VALUES:
        return f"a {type_} in each of only {len(values)} sampled values; else write text"
    if type_ == "bigint" and _MOMENT_NAME.search(column_name(path[-1:])):
        for unit, encoding, factor in _EPOCHS:
            if all(_FIRST * factor <= int(value) <= _LAST * factor for value in values):
                return f"looks like {unit} since 1970; if so, write {{type: timestamptz, encoding: {encoding}}}"
    return ""


_SHOWN = 5


def sampled_kinds(sample: Sample, schemas: Iterable[WriterSchema]) -> SampledKinds:
    """Return the records of the most frequent kind, with those whose kind is not known.

    If a schema has no name it returns all records: a pipeline that takes one kind refuses those.
    """
    known = tuple(schemas)
    kinds, unnamed = _kinds(sample, known)
    counts = Counter(kind[1] for kind in kinds if kind)
    if len(counts) < 2:
        return SampledKinds(sample, _by_schema(kinds))
    if any(each.language is SchemaLanguage.JSON and each.schema_id in unnamed for each in known):
        said = f"{_shown(counts)}, and others whose schema has no title: the file takes all"
        return SampledKinds(sample, _by_schema(kinds), doubts=(said,))
    taken = counts.most_common(1)[0][0]
    kept = [kind is None or kind[1] == taken for kind in kinds]
    records = tuple(each for each, keep in zip(sample.records, kept, strict=True) if keep)
    names = _by_schema([kind for kind in kinds if kind and kind[1] == taken])
    said = f"{_shown(counts)}; record.where takes {taken}, the others are skipped"
    return SampledKinds(replace(sample, records=records), names, taken, (said,))


def _kinds(sample: Sample, schemas: Iterable[WriterSchema]) -> tuple[list[tuple[int, str] | None], set[int]]:
    """Return the schema id and kind of each record, where known; and the unnamed schemas."""
    readers = dict[int, ReadKind | None]()
    for schema in schemas:
        readers[schema.schema_id] = None
        with suppress(SchemaProblem):
            readers[schema.schema_id] = kind_reader(schema)
    kinds = list[tuple[int, str] | None]()
    for record in sample.records:
        kinds.append(None)
        with suppress(Mismatch):
            id_ = wire_format.schema_id(record.value or b"")
            if record.value and (read := readers.get(id_)):
                kinds[-1] = id_, read(record.value[wire_format.SIZE :])[0]
    return kinds, {id_ for id_, read in readers.items() if read is None}


def _by_schema(kinds: Iterable[tuple[int, str] | None]) -> dict[int, frozenset[str]]:
    names: dict[int, frozenset[str]] = {}
    for id_, name in filter(None, kinds):
        names[id_] = names.get(id_, frozenset()) | {name}
    return names


def _shown(counts: Counter[str]) -> str:
    shown = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_SHOWN))
    more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
    return f"the records are of {len(counts)} kinds: {shown}{more}"


def sampled_columns(pipeline: Pipeline, records: int = 1_000) -> tuple[Column, ...]:
    """Return a nullable column for each value that records of the pipeline have, by a sample or by their schemas.

    A text of JSON that looks like a date, a moment or a uuid stays a text, unless many do.

    Raises:
        ConfigurationError: there is nothing to infer a column from.
        UnusableSchema: the schema cannot be read.
        UnknownTopic, BrokerUnavailable, RegistryUnavailable: a server is unavailable, or has no such topic.
    """
    source = pipeline.source
    if source.schema:
        try:
            schema = WriterSchema(0, LANGUAGES[source.format], source.schema.text)
            inferred = schema_columns([fields_of(schema, source.message)])
        except SchemaProblem as problem:
            raise UnusableSchema(f"{source.schema.name}: {problem}; correct it") from None
    else:
        sample = read_sample(get_connection(source.connection), source.topic, records)
        if conditions := pipeline.record.where_in_headers:
            sample = _wanted(sample, conditions)
        of_values = pipeline.record.where_in_values
        inferred = _of_registry(pipeline, sample) if source.registry else json_inferred(sample, of_values)
        if source.format is Format.JSON:
            inferred = tuple(replace(x, type="text") if x.type in NARROWED and x.doubt else x for x in inferred)
    columns = named(limited(inferred))
    if not columns:
        raise ConfigurationError(f"no column can be inferred from topic {source.topic}; name them in record.columns")
    return tuple(replace(each.column, nullable=True, aliases=()) for each in columns)


def _wanted(sample: Sample, conditions: Sequence[FieldCondition]) -> Sample:
    """Return the records that the conditions on headers do not skip."""
    pairs = [[{"key": name.encode(), "value": value} for name, value in each.headers] for each in sample.records]
    is_tombstone = np.array([each.value is None for each in sample.records])
    wanted, _ = wanted_by_headers(conditions, pa.array(pairs, HEADERS), is_tombstone)
    return replace(sample, records=tuple(compress(sample.records, wanted)))


def _of_registry(pipeline: Pipeline, sample: Sample) -> tuple[Inferred, ...]:
    """The columns by the schemas of the sample, or by the topic's latest one where no record names any."""
    source, wanted = pipeline.source, pipeline.record.schemas
    registry = connect_registry(get_connection(source.registry or ""))
    sample = framed_sample(sample, registry)
    answers = [schema_or_problem(registry, id_) for id_ in sampled_ids(sample.values)]
    answers = answers or [registry.latest(f"{source.topic}-value")]
    schemas = [each for each in answers if isinstance(each, WriterSchema) and is_value_schema(source, each)]
    kinds = [kind for kind in _kinds(sample, schemas)[0] if kind and (not wanted or kind[1] in wanted)]
    sampled = SampledKinds(sample, _by_schema(kinds), next(iter(wanted), None))
    return schema_inferred(source, sampled, schemas)[0]


def framed_sample(sample: Sample, registry: Registry) -> Sample:
    """The sample with frames, where headers name schemas that the registry has."""

    @cache
    def frame_by(header: bytes) -> bytes:
        try:
            ref, indexes = wire_format.named_schema(header)
        except Mismatch:
            return b""
        schema = schema_or_problem(registry, ref)
        return wire_format.frame_of(schema.schema_id, indexes) if isinstance(schema, WriterSchema) else b""

    def framed(payload: bytes | None, header: bytes | None) -> bytes | None:
        return payload if payload is None or header is None else frame_by(header) + payload

    records = []
    for each in sample.records:
        named = dict(each.headers)  # the last ones of their names
        key, value = (
            framed(each.key, named.get(wire_format.KEY_HEADER)),
            framed(each.value, named.get(wire_format.VALUE_HEADER)),
        )
        records.append(replace(each, key=key, value=value))
    return replace(sample, records=tuple(records))


def sampled_ids(framed: Iterable[bytes]) -> list[int]:
    """Return the schema ids of these values, ascending; a value that names none has none."""
    ids = wire_format.schema_ids(pa.array([*framed], pa.binary()))
    return sorted({*ids.tolist()} - {wire_format.NO_SCHEMA})
