"""The kinds of the sampled records: where a topic has several, a pipeline takes one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from offset_ledger.decoding import frame
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.record_kinds import ReadKind, kind_reader
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.operations.init.sample import Sample, SampledRecord

_SHOWN = 5
Readers = Mapping[int, ReadKind | None]


@dataclass(frozen=True, slots=True)
class SampledKinds:
    """The records to infer from; ``taken`` is the name of their kind where there are others, which ``doubts`` name.

    ``names`` are the kinds among them, by the ids of their schemas.
    """

    sample: Sample
    names: Mapping[int, frozenset[str]]
    taken: str | None = None
    doubts: tuple[str, ...] = ()


def sampled_kinds(sample: Sample, schemas: Iterable[WriterSchema]) -> SampledKinds:
    """The records of the most frequent kind, with those whose kind cannot be told.

    All records, where a schema has no name: a pipeline that takes one kind refuses its records.
    """
    known = tuple(schemas)
    readers = {schema.schema_id: _reader(schema) for schema in known}
    kinds = [_kind(record, readers) for record in sample.records]
    counts = Counter(kind[1] for kind in kinds if kind)
    if len(counts) < 2:
        return SampledKinds(sample, _by_schema(kinds))
    if any(each.language is SchemaLanguage.JSON and readers[each.schema_id] is None for each in known):
        said = f"{_shown(counts)}, and others whose schema has no title: the file takes all"
        return SampledKinds(sample, _by_schema(kinds), doubts=(said,))
    taken = counts.most_common(1)[0][0]
    kept = [kind is None or kind[1] == taken for kind in kinds]
    records = tuple(each for each, keep in zip(sample.records, kept, strict=True) if keep)
    names = _by_schema([kind for kind in kinds if kind and kind[1] == taken])
    said = f"{_shown(counts)}; record.where takes {taken}, the others are skipped"
    return SampledKinds(replace(sample, records=records), names, taken, (said,))


def _reader(schema: WriterSchema) -> ReadKind | None:
    try:
        return kind_reader(schema)
    except SchemaProblem:
        return None


def _kind(record: SampledRecord, readers: Readers) -> tuple[int, str] | None:
    """The id of the record's schema and the name of its kind; None where that cannot be told."""
    try:
        id_ = frame.schema_id(record.value or b"")
        read = readers.get(id_)
        return (id_, read(record.value[frame.SIZE :])[0]) if read and record.value else None
    except Mismatch:
        return None


def _by_schema(kinds: Iterable[tuple[int, str] | None]) -> dict[int, frozenset[str]]:
    names: dict[int, frozenset[str]] = {}
    for id_, name in filter(None, kinds):
        names[id_] = names.get(id_, frozenset()) | {name}
    return names


def _shown(counts: Counter[str]) -> str:
    shown = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_SHOWN))
    more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
    return f"the records are of {len(counts)} kinds: {shown}{more}"
