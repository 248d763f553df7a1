"""The fields of a slice that nothing reads: which ones, in how many records, and in how many of these it looked."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.by_schema import MAX_KINDS
from offset_ledger.decoding.needed_columns import UnreadMembers, unread
from offset_ledger.model.unread import MAX_FIELDS, UnreadCounts, together
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, RecordShape
from offset_ledger.pipeline_file.source import Format, SchemaFile, Source
from offset_ledger.steps.stage.unread_fields import MAX_PATHS, SAMPLE, EvenSample, UnreadFields

TEXT = ColumnType("text")
SHAPE = RecordShape(("id",), ("at",),
    (Column("city", TEXT, ("place", "city"), True, aliases=(("town",),)),
        Column("tags", ColumnType("jsonb"), ("tags",), True)), delete_when=FieldCondition(("op",), "d"))  # fmt: skip


def rows(values: list[bytes], deleted: tuple[int, ...] = ()) -> pa.Table:
    flags = [place in deleted for place in range(len(values))]
    return pa.table({"_value": pa.array(values, pa.binary()), "_deleted": pa.array(flags, pa.bool_())})


def counted(source: Source, *parts: pa.Table, schemas: dict[int, Any] | None = None) -> UnreadCounts:
    fields = UnreadFields(source, SHAPE, {**(schemas or {})})
    for part in parts:
        fields.add(part)
    return fields.result()


def documents(*documents: Any) -> list[bytes]:
    return [json.dumps(each).encode() for each in documents]


def test_members_of_documents_at_the_top_and_where_a_path_leads_into_an_object() -> None:
    values = documents(
        {"id": "a", "at": 1, "op": "c", "town": "x", "new": 1, "tags": {"any": 1}},
        {"id": "b", "place": {"city": "x", "zip": 1, "more": {"deep": 1}}, "new": None},
        {"id": "c", "place": {"zip": [{"city": 1}]}, "$.odd\u0000 name": 1},
        {"id": "d", "place": "no object"},
        {"id": "e", "new": "of a delete marker"},
    )

    found = counted(Source("k", "t"), rows(values[:2]), rows(values[2:], deleted=(2,)))

    fields = {"$.new": 2, "$.place.zip": 2, "$.place.more": 1, "$['$.odd\\x00 name']": 1}
    assert found == UnreadCounts(4, 4, fields)
    assert list(found.fields) == ["$.new", "$.place.zip", "$.place.more", "$['$.odd\\x00 name']"]
    assert UnreadCounts.from_json(json.loads(json.dumps(found.to_json()))) == found


@given(st.integers(1, 400), st.lists(st.integers(1, 90), min_size=1, max_size=30))
def test_a_sample_is_even_whatever_the_parts_are(most: int, parts: list[int]) -> None:
    sample = EvenSample[int](most)
    start = 0
    for count in parts:
        sample.add(count, lambda places, start=start: [start + place for place in places.tolist()])  # type: ignore[misc]
        start += count

    assert len(sample.items) <= most
    if start <= most:
        assert sample.items == list(range(start))
    elif most >= 4:
        ends = [-1, *sample.items, start]
        gaps = [after - before for before, after in itertools.pairwise(ends)]
        assert max(gaps) <= 16 * start / most


@pytest.mark.parametrize("period", [2, 3, 4, 8, 10, 64, 100])
def test_no_pattern_of_the_records_is_hidden(period: int) -> None:
    sample = EvenSample[int](SAMPLE)
    for _ in range(25):
        sample.add(10_000, lambda places: (places % period).tolist())

    shares = [sample.items.count(each) / len(sample.items) * period for each in range(period)]
    assert 0.5 < min(shares) <= max(shares) < 1.6


def test_of_many_documents_a_sample_is_looked_at() -> None:
    values = documents(*({"id": "a", "odd" if number % 2 else "even": 1, "all": 1} for number in range(9_999)))

    found = counted(Source("k", "t"), rows(values[:5_000]), rows(values[5_000:]))

    assert (found.records, found.more) == (9_999, False)
    assert SAMPLE / 4 < found.sampled <= SAMPLE
    assert found.fields["$.all"] == found.sampled == found.fields["$.odd"] + found.fields["$.even"]
    assert abs(found.fields["$.odd"] - found.fields["$.even"]) < found.sampled / 10


def test_names_that_are_values_are_counted_up_to_a_limit() -> None:
    values = documents(*({"id": "a", "new": 1, **{f"{number}-{n}": 1 for n in range(9)}} for number in range(500)))

    found = counted(Source("k", "t"), rows(values))

    assert (len(found.fields), found.more, found.sampled) == (MAX_FIELDS, True, 500)
    assert MAX_PATHS < 500 * 9
    assert next(iter(found.fields.items())) == ("$.new", 500)


def avro(*names: str) -> str:
    fields = [{"name": name, "type": "string"} for name in names]
    inner = {"type": "record", "name": "In", "fields": [{"name": name, "type": "int"} for name in ("city", "zip")]}
    fields += [{"name": each, "type": inner if each == "place" else "In"} for each in ("place", "spare")]  # type: ignore[dict-item]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def test_schemas_say_exactly_which_fields_records_have() -> None:
    known = {1: WriterSchema(1, SchemaLanguage.AVRO, avro("id", "at", "op", "note"))}
    known |= {2: WriterSchema(2, SchemaLanguage.AVRO, avro("id", "at", "town", "note", "new"))}
    source = Source("k", "t", format=Format.AVRO, registry="r")
    values = [b"\0\0\0\0" + bytes([id_]) + b"anything" for id_ in (1, 2, 2, 1, 2)]

    found = counted(source, rows(values, deleted=(4,)), schemas=known)

    assert found == UnreadCounts(4, 4, {"$.note": 4, "$.place.zip": 4, "$.spare": 4, "$.new": 2})
    from_file = Source("k", "t", format=Format.AVRO, schema=SchemaFile("r.avsc", avro("id", "at", "new")))
    assert counted(from_file, rows([b"x"] * 3)) == UnreadCounts(3, 3, {"$.new": 3, "$.place.zip": 3, "$.spare": 3})


def test_each_message_of_a_proto_file_has_its_own_fields() -> None:
    inner = "message Outer { message Inner { string id = 1; string deep = 2; } }"
    text = f'syntax = "proto3"; message R {{ string id = 1; string new = 2; }} {inner}'
    known = {7: WriterSchema(7, SchemaLanguage.PROTOBUF, text)}
    values = [b"\0\0\0\0\7" + indexes + b"\x0a\1a" for indexes in (b"\0", b"\4\2\0", b"\0", b"\2\0")]

    found = counted(Source("k", "t", format=Format.PROTOBUF, registry="r"), rows(values), schemas=known)

    assert found == UnreadCounts(4, 4, {"$.new": 3, "$.deep": 1})


def test_each_branch_of_a_union_has_its_own_fields() -> None:
    order = {"type": "record", "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "new", "type": "int"}]}  # fmt: skip
    fields = [{"name": "town", "type": "string"}, {"name": "deep", "type": {"type": "array", "items": "int"}}]
    union = json.dumps(["null", order, {"type": "record", "name": "Payment", "fields": fields}])
    known = {1: WriterSchema(1, SchemaLanguage.AVRO, union)}
    payloads = [b"\2anything", b"\4anything", b"\2", b"\x84\0"]  # the last index has a byte more than it needs

    found = counted(
        Source("k", "t", format=Format.AVRO, registry="r"),
        rows([b"\0\0\0\0\1" + each for each in payloads]),
        schemas=known,
    )

    assert found == UnreadCounts(4, 4, {"$.new": 2, "$.deep": 2})
    from_file = Source("k", "t", format=Format.AVRO, schema=SchemaFile("r.avsc", union))
    assert counted(from_file, rows(payloads)) == found


def test_more_messages_than_are_counted_together_are_counted_one_by_one() -> None:
    messages = " ".join(f"message M{n} {{ string id = 1; string f{n} = 2; }}" for n in range(2 * MAX_KINDS))
    known = {7: WriterSchema(7, SchemaLanguage.PROTOBUF, f'syntax = "proto3"; {messages}')}
    numbers = [*range(2 * MAX_KINDS)] * 2
    values = [b"\0\0\0\0\7\2" + bytes([2 * number]) + b"\x0a\1a" for number in numbers]

    found = counted(Source("k", "t", format=Format.PROTOBUF, registry="r"), rows(values), schemas=known)

    assert found == UnreadCounts(len(values), len(values), {f"$.f{number}": 2 for number in range(2 * MAX_KINDS)})


def test_a_schema_of_too_many_fields_is_not_looked_at() -> None:
    levels = " ".join(f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; }}" for n in range(14))
    text = f'syntax = "proto3"; message R {{ string id = 1; L0 new = 2; }} message L14 {{ string x = 1; }} {levels}'
    known = {7: WriterSchema(7, SchemaLanguage.PROTOBUF, text)}
    values = [b"\0\0\0\0\7" + indexes for indexes in (b"\0", b"\0", b"\2\2")]

    found = counted(Source("k", "t", format=Format.PROTOBUF, registry="r"), rows(values), schemas=known)

    assert found == UnreadCounts(3, 1, {"$.x": 1}, more=True)


def test_the_message_that_the_file_names_is_counted() -> None:
    text = 'syntax = "proto3"; message A { string id = 1; } message B { string id = 1; string new = 2; }'
    source = Source("k", "t", format=Format.PROTOBUF, schema=SchemaFile("r.proto", text), message="B")
    assert counted(source, rows([b"", b"\x0a\1a"])) == UnreadCounts(2, 2, {"$.new": 2})


def test_slices_are_added_up_and_the_most_frequent_fields_stay() -> None:
    first = UnreadCounts.of(10, 5, {f"$.f{number:03}": number for number in range(1, 101)})
    second = UnreadCounts.of(4, 4, {"$.f001": 200, "$.new": 1})

    found = together([first, second])

    assert found is not None
    assert (found.records, found.sampled, found.more, len(found.fields)) == (14, 9, True, MAX_FIELDS)
    assert list(found.fields.items())[:2] == [("$.f001", 201), ("$.f100", 100)]
    assert "$.new" not in found.fields
    assert together([]) is None


def test_what_a_path_reads_leads_through_or_into_is_read() -> None:
    paths = [("id",), ("place",), ("place", "zip"), ("tags", "x"), ("new", "a"), ("new", "b"), ("town", "x")]
    assert unread(paths, SHAPE) == (("place", "zip"), ("new",))
    assert UnreadMembers(SHAPE).of(b'{"id": 1, "town": {"x": 1}, "tags": {"x": 1}, "place": {"city": {}}}') == []
