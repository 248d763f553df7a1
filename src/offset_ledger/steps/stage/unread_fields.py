"""Counting, while a slice is staged, the fields of its rows that nothing reads, with an even sample of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import wire_format
from offset_ledger.decoding.by_schema import by_head
from offset_ledger.decoding.needed_columns import UnreadMembers, unread
from offset_ledger.decoding.outcome import SchemaProblem, printable
from offset_ledger.decoding.schemas import Schema
from offset_ledger.decoding.subjects import LANGUAGES, ReadKind, fields_of, kind_reader
from offset_ledger.model.unread import MAX_NAME, UnreadCounts
from offset_ledger.model.writer_schema import SchemaRef, WriterSchema
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import JsonPath, RecordShape
from offset_ledger.pipeline_file.source import Format, Source

SAMPLE = 2000
"""Documents of a slice that are looked at, at most."""
MAX_PATHS = 1000
"""Different paths that are counted in a slice."""
Schemas = Mapping[SchemaRef, Schema]


class UnreadFields:
    """Counts the fields of the staged rows of one slice; delete markers have no values and are left out.

    Of JSON, with a schema or without, it looks at some documents; of Avro and Protobuf at the schema of each record,
    which is among the ``schemas`` once the record is decoded.
    """

    def __init__(self, source: Source, record: RecordShape, schemas: Schemas) -> None:
        documents = source.format in (Format.JSON, Format.JSON_SCHEMA)
        self._fields = Documents(source, record) if documents else OfSchemas(source, record, schemas)

    def add(self, rows: pa.Table, framed: pa.BinaryArray | None = None) -> None:
        """Count the fields of these staged rows, whose values are ``framed`` where headers stand for frames."""
        values = rows.column("_value") if framed is None else pa.chunked_array([framed])
        for chunk in values.filter(pc.invert(rows.column("_deleted"))).chunks:
            self._fields.add(chunk)

    def result(self) -> UnreadCounts:
        """Return the counts."""
        return self._fields.result()


class Documents:
    """The count of members of JSON documents, of which an even sample is looked at."""

    def __init__(self, source: Source, record: RecordShape) -> None:
        self._members = UnreadMembers(record)
        self._framed = source.registry is not None
        self._sample = EvenSample[tuple[JsonPath, ...]](SAMPLE)
        self._known = set[JsonPath]()
        self._records, self._more = 0, False

    def add(self, values: pa.BinaryArray) -> None:
        """Count the fields of these records, all of which became rows."""
        self._records += len(values)
        self._sample.add(len(values), lambda places: self._look(values.take(pa.array(places))))

    def result(self) -> UnreadCounts:
        """Return the counts."""
        looked_at = self._sample.items
        counts = Counter(path for paths in looked_at for path in paths)
        return UnreadCounts.of(self._records, len(looked_at), _named(counts), self._more)

    def _look(self, values: pa.BinaryArray) -> Iterator[tuple[JsonPath, ...]]:
        for document in (wire_format.without_head(values) if self._framed else values).to_pylist():
            yield tuple(filter(self._is_known, self._members.of(document)))

    def _is_known(self, path: JsonPath) -> bool:
        """Return whether the path is one of those that are counted; names that are values are too many to count."""
        if len(self._known) < MAX_PATHS:
            self._known.add(path)
        is_known = path in self._known
        self._more |= not is_known
        return is_known


class OfSchemas:
    """Counts the fields of the schemas that records name, or of the file's: those of each kind of records."""

    def __init__(self, source: Source, record: RecordShape, schemas: Schemas) -> None:
        self._source, self._record, self._schemas = source, record, schemas
        if source.schema is not None:
            self._schemas = {wire_format.NO_SCHEMA: WriterSchema(0, LANGUAGES[source.format], source.schema.text)}
        self._readers: dict[int, ReadKind] = {}
        self._counts = Counter[tuple[int, str]]()

    def add(self, values: pa.BinaryArray) -> None:
        """Count the fields of these records, all of which became rows."""
        if self._source.schema is not None:
            self._add(wire_format.NO_SCHEMA, values)
            return
        ids = wire_format.schema_ids(values)
        for id_ in np.unique(ids).tolist():
            self._add(id_, wire_format.without_head(values.filter(pa.array(ids == id_))))

    def result(self) -> UnreadCounts:
        """Return the counts."""
        counts, looked_at = Counter[JsonPath](), 0
        for (id_, kind), records in self._counts.items():
            try:
                fields = fields_of(self._schema(id_), kind)
            except SchemaProblem:  # it has too many fields, which kept no record from becoming a row
                continue
            counts.update(dict.fromkeys(unread((field.path for field in fields), self._record), records))
            looked_at += records
        records = self._counts.total()
        return UnreadCounts.of(records, looked_at, _named(counts), more=looked_at < records)

    def _add(self, id_: int, payloads: pa.BinaryArray) -> None:
        """Count the payloads of one schema by their kinds."""
        if id_ not in self._readers:
            message = self._source.message
            self._readers[id_] = kind_reader(self._schema(id_)) if message is None else lambda _: (message, 0)
        read, left = self._readers[id_], np.ones(len(payloads), np.bool_)
        for kind, places, _ in by_head(payloads, left, read):
            self._counts[id_, kind] += len(places)
        for payload in payloads.filter(pa.array(left)).to_pylist():
            self._counts[id_, read(payload)[0]] += 1

    def _schema(self, id_: int) -> WriterSchema:
        schema = self._schemas[id_]
        assert isinstance(schema, WriterSchema)  # the record became a row
        return schema


def _named(counts: Mapping[JsonPath, int]) -> dict[str, int]:
    """The counts by the path as it is shown; paths that are cut to the same text count once for each record."""
    return {printable(format_path(path), MAX_NAME): records for path, records in counts.items()}


T = TypeVar("T")
Places = npt.NDArray[np.int64]

_TURN = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio of 2^64: no pattern of the records has its period
_WHOLE = 1 << 64


class EvenSample(Generic[T]):
    """At most a fixed number of items, one of every n with n doubled when there are too many.

    The places of a full turn lie evenly on a circle, and those in a part of it are kept: which ones depends on the
    lengths of the parts alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._every, self._seen = 1, 0
        self._kept: dict[int, T] = {}

    def add(self, count: int, look: Callable[[Places], Iterable[T]]) -> None:
        """Take some of the next ``count`` items: ``look`` gives those at these places among them."""
        places = self._chosen(np.arange(self._seen, self._seen + count))
        while len(self._kept) + len(places) > self._most:
            self._every *= 2
            kept = self._chosen(np.fromiter(self._kept, np.int64, len(self._kept)))
            self._kept = {place: self._kept[place] for place in kept.tolist()}
            places = self._chosen(places)
        self._kept |= zip(places.tolist(), look(places - self._seen), strict=True)
        self._seen += count

    @property
    def items(self) -> list[T]:
        """The items that are kept, in the order of the stream."""
        return list(self._kept.values())

    def _chosen(self, places: Places) -> Places:
        return places[places.astype(np.uint64) * _TURN <= np.uint64(_WHOLE // self._every - 1)]
