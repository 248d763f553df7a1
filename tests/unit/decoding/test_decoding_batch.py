"""The quick way takes only what the decoder takes, and reads it the same; batches keep every record."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offset_ledger.decoding.arrow import decode_batch, refusal_schema, staging_schema
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.json.unique import UniqueNames, duplicate_path
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, RecordShape, Tombstone
from tests.examples import examples
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.decoding_documents import (
    BAD,
    COLUMNS,
    CONDITIONS,
    DELETES,
    GOOD,
    KAFKA_TIME,
    KINDS,
    LIMITS,
    SHAPE,
    documents,
    kind,
    numbers,
)


def exact(column: Column | None, staged: Any) -> Any:
    """A staged value as the decoder's Python value."""
    name = column.type.name if column else ""
    if staged is None or name not in ("numeric", "uuid"):
        return staged
    return UUID(bytes=staged) if name == "uuid" else Decimal(staged)


def row_of(staged: dict[str, Any], columns: tuple[Column, ...] = COLUMNS) -> DecodedRow:
    """The row that was staged."""
    values = tuple(exact(column, staged[column.name]) for column in columns)
    return DecodedRow((staged["event_id"],), staged["publish_at"], values, staged["_deleted"])


def check(decoder: JsonDecoder, values: list[bytes | None], keys: list[bytes | None]) -> None:
    """Hold that the batch is what the records are one by one, in their order."""
    staged = decode_batch(decoder, batch_of(values, keys))
    alone = [decoder.decode(value, key, KAFKA_TIME) for value, key in zip(values, keys, strict=True)]
    rows = [(place, outcome) for place, outcome in enumerate(alone) if isinstance(outcome, DecodedRow)]
    refusals = [(place, outcome) for place, outcome in enumerate(alone) if isinstance(outcome, Refusal)]
    found = staged.rows.to_pylist()
    assert [(r["_offset"] - 100, row_of(r)) for r in found] == [(place, row) for place, row in rows]
    assert [r["_value"] for r in found] == [values[place] for place, _ in rows]
    assert [r["_key"] for r in found] == [keys[place] for place, _ in rows]
    reasons = [(r["_offset"] - 100, json.loads(r["reasons"])) for r in staged.refusals.to_pylist()]
    assert reasons == [
        (place, [{"path": r.path, "code": r.code, "detail": r.detail} for r in refusal.reasons])
        for place, refusal in refusals
    ]
    assert [r["_value"] for r in staged.refusals.to_pylist()] == [values[place] for place, _ in refusals]
    assert staged.skipped == sum(isinstance(outcome, Skip) for outcome in alone)
    assert staged.rows.schema == staging_schema(decoder.record)
    assert staged.refusals.schema == refusal_schema(decoder.record)


keys_ = st.sampled_from([None, b"k", b"", b"\xff", b"a\x00", "é".encode(), b"x" * 1025])


@examples(400)
@given(
    st.lists(st.tuples(st.one_of(st.none(), documents(), documents(0)), keys_), max_size=6),
    st.sampled_from(list(Tombstone)),
)
def test_a_batch_is_its_records_one_by_one(
    records: list[tuple[bytes | None, bytes | None]], tombstone: Tombstone
) -> None:
    values, keys = [value for value, _ in records], [key for _, key in records]
    check(JsonDecoder(replace(SHAPE, tombstone=tombstone), LIMITS), values, keys)


@examples(300)
@given(
    st.lists(st.tuples(st.one_of(st.none(), documents(), documents(0)), keys_), max_size=6),
    st.sampled_from([None, *DELETES]),
    CONDITIONS,
    st.booleans(),
)
def test_a_batch_with_deletes_and_other_kinds_is_its_records_one_by_one(
    records: list[tuple[bytes | None, bytes | None]],
    delete_when: FieldCondition | None,
    where: tuple[FieldCondition, ...],
    kafkas: bool,
) -> None:
    values, keys = [value for value, _ in records], [key for _, key in records]
    shape = replace(SHAPE, delete_when=delete_when, where=where)
    if kafkas:
        shape = replace(shape, event_id=None, publish_at=None, tombstone=Tombstone.DELETE)
    check(JsonDecoder(shape, LIMITS), values, keys)


@examples(100)
@given(st.lists(st.tuples(st.one_of(documents(), documents(0)), keys_), max_size=6))
def test_a_batch_with_ids_from_keys_and_kafkas_time(records: list[tuple[bytes | None, bytes | None]]) -> None:
    values, keys = [value for value, _ in records], [key for _, key in records]
    check(JsonDecoder(replace(SHAPE, event_id=None, publish_at=None), LIMITS), values, keys)


def good_value() -> bytes:
    """A record that has every value."""
    decoded: dict[str, Any] = {"event_id": '"e1"', "publish_at": '"2026-01-02T03:04:05Z"'}
    for column in COLUMNS:
        place = decoded
        for name in column.path[:-1]:
            place = place.setdefault(name, {})
        place[column.path[-1]] = GOOD[kind(column)][0]
    return text_of(decoded).encode()


def text_of(members: dict[str, Any]) -> str:
    """Its JSON."""
    found = (f'"{name}":{text_of(value) if isinstance(value, dict) else value}' for name, value in members.items())
    return "{" + ",".join(found) + "}"


def value_with(name: str, literal: str) -> bytes:
    """The good record with another literal for one value."""
    good = GOOD[KINDS[name]][0].encode()
    before, after = good_value().split(b'"%s":' % name.split("__")[-1].encode() + good, 1)
    return before + b'"%s":' % name.split("__")[-1].encode() + literal.encode("utf-8", "surrogatepass") + after


ALL_LITERALS = [*BAD, *(literal for group in GOOD.values() for literal in group)]


def test_every_literal_in_every_place_is_read_alike_in_a_batch() -> None:
    values: list[bytes | None] = [value_with(name, literal) for name in KINDS for literal in ALL_LITERALS]
    check(JsonDecoder(SHAPE, LIMITS), values, [None] * len(values))


@pytest.mark.parametrize("equals", ["1", "", True, 1, 0, 100_000])
@pytest.mark.parametrize("path", [("words",), ("flag",), ("any",), ("options", "note"), ("document", "a")], ids=str)
def test_every_literal_that_a_condition_reads_is_read_alike_in_a_batch(
    path: tuple[str, ...], equals: str | bool | int
) -> None:
    shape = replace(SHAPE, delete_when=FieldCondition(path, equals))
    values: list[bytes | None] = [value_with("__".join(path[:2]).removesuffix("__a"), one) for one in ALL_LITERALS]
    check(JsonDecoder(shape, LIMITS), values, [None] * len(values))
    for condition in (FieldCondition(path, equals), FieldCondition(path, equals, negated=True)):
        check(JsonDecoder(replace(SHAPE, where=(condition,)), LIMITS), values, [None] * len(values))


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.one_of(numbers, st.text().map(json.dumps))), max_size=20))
def test_any_number_or_text_in_any_place_is_read_alike_in_a_batch(places: list[tuple[str, str]]) -> None:
    check(JsonDecoder(SHAPE, LIMITS), [value_with(*place) for place in places], [None] * len(places))


def test_keys_as_ids_are_read_alike_in_a_batch() -> None:
    keys = [None, b"", b"k", b"a\x00", "é".encode(), b"x" * 1024, b"x" * 1025]
    for some in (keys, [*keys, b"\xff"]):
        check(JsonDecoder(replace(SHAPE, event_id=None), LIMITS), [good_value()] * len(some), some)


@pytest.mark.parametrize("extra", ['"words":"again"', '"z":{"k":1,"k":2}', '"z":[{"k":1},{"k":2}]', '"w\\u006frds":1'])
def test_a_repeated_name_is_found_in_a_batch(extra: str) -> None:
    spoiled = good_value()[:-1] + b"," + extra.encode() + b"}"
    check(JsonDecoder(SHAPE, LIMITS), [good_value(), spoiled, good_value()], [None] * 3)


def test_good_records_take_the_quick_way() -> None:
    proven = JsonDecoder(SHAPE, LIMITS).prove(pa.array([good_value()] * 3, pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("equals", "written", "deleting"),
    [
        (7, ["7.5", "-7", "70", "0.7", "-7.0", "7.01"], ["7", "7.0", "7e0", "7.000"]),
        (0, ["0.5", "10", "-0.1"], ["0", "0.0", "-0", "-0.00", "0e7"]),
        (-7, ["7", "-7.5", "-70"], ["-7", "-7.0"]),
    ],
)
def test_numbers_that_do_not_delete_take_the_quick_way(equals: int, written: list[str], deleting: list[str]) -> None:
    decoder = JsonDecoder(replace(SHAPE, delete_when=FieldCondition(("any",), equals)), LIMITS)
    values = [value_with("any", literal) for literal in written + deleting]
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == [*range(len(written))]
    check(decoder, list(values), [None] * len(values))
    for negated in (False, True):
        condition = FieldCondition(("any",), equals, negated)
        check(JsonDecoder(replace(SHAPE, where=(condition,)), LIMITS), list(values), [None] * len(values))


def test_a_value_cannot_lend_its_end_to_the_next() -> None:
    halves = ['{"event_id":"ü'.encode()[:-1], b"\xbc", b'{"a":1}{"a":1}', b"", b'{"x":[{}', b"{}]}"]
    latin = good_value()[:-1] + b',"z":"\xff"}'
    check(JsonDecoder(SHAPE, LIMITS), [*halves, good_value(), latin], [None] * 8)


def test_a_sliced_batch_is_read_from_its_slice() -> None:
    values: list[bytes | None] = [b"bad", good_value(), good_value()[:-1], good_value(), b"[]"]
    staged = decode_batch(JsonDecoder(SHAPE, LIMITS), batch_of(values).slice(1, 3))
    assert staged.rows["_offset"].to_pylist() == [101, 103]
    assert staged.refusals["_offset"].to_pylist() == [102]


def test_two_columns_of_one_path_both_get_its_value() -> None:
    columns = (Column("a", ColumnType("text"), ("x",)), Column("b", ColumnType("integer"), ("a\"'b",)))
    decoder = JsonDecoder(RecordShape(("x",), None, columns), LIMITS)
    staged = decode_batch(decoder, batch_of([b'{"x":"e","a\\"\'b":5}']))
    assert [row_of(r, columns) for r in staged.rows.to_pylist()] == [DecodedRow(("e",), KAFKA_TIME, ("e", 5))]


def test_a_kafka_time_that_no_datetime_holds_is_refused_where_it_is_needed() -> None:
    batch = batch_of([good_value()] * 2)
    far = pa.array([2**62 // 1000, 0], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    batch = batch.set_column(4, "timestamp", far)
    kept = decode_batch(JsonDecoder(SHAPE, LIMITS), batch)
    assert (kept.rows.num_rows, kept.refusals.num_rows) == (2, 0)
    staged = decode_batch(JsonDecoder(replace(SHAPE, publish_at=None), LIMITS), batch)
    assert staged.rows["_offset"].to_pylist() == [101]
    assert [r["path"] for r in json.loads(staged.refusals["reasons"][0].as_py())] == ["_timestamp"]


FIRST, LAST = -210_866_803_200_000, (2**63 - 1) // 1000


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, publish_at=None)], ids=["by path", "by timestamp"])
def test_a_timestamp_that_postgres_cannot_hold_refuses_its_record_alone(shape: RecordShape) -> None:
    unheld = [-(2**63), FIRST - 1, LAST + 1, 2**63 - 1]
    batch = batch_of([good_value()] * 8)
    timestamps = pa.array([0, *unheld, FIRST, LAST, None], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    staged = decode_batch(JsonDecoder(shape, LIMITS), batch.set_column(4, "timestamp", timestamps))
    refused = zip(staged.refusals["_offset"].to_pylist(), staged.refusals["reasons"].to_pylist(), strict=True)
    detail = "expected a record timestamp of the years 4714 BC to 294,246, got {} ms"
    assert {offset - 100: json.loads(reasons) for offset, reasons in refused if offset < 105} == {
        place: [{"path": "_timestamp", "code": "range", "detail": detail.format(unheld[place - 1])}]
        for place in (1, 2, 3, 4)
    }
    assert staged.refusals["_timestamp"][:4].to_pylist() == [None] * 4
    kept = pa.concat_tables([each.select(["_offset", "_timestamp"]) for each in (staged.rows, staged.refusals)])
    held = dict(zip(kept["_offset"].to_pylist(), kept["_timestamp"].cast(pa.int64()).to_pylist(), strict=True))
    assert [held[offset] for offset in (100, 105, 106, 107)] == [0, 1000 * FIRST, 1000 * LAST, None]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([None, []], [None, None]),
        ([[("a", b"1"), ("b", b"")], None], [[["a", "1"], ["b", ""]], None]),
        ([[("a", None)], []], [[["a", None]], None]),
        ([[('q"\\\n', 'é"'.encode())], [("a", b"\xff\x00")]], [[['q"\\\n', 'é"']], [["a", {"base64": "/wA="}]]]),
        ([[("n\0", b"a\0")], None], [[[{"base64": "bgA="}, {"base64": "YQA="}]], None]),
    ],
)
def test_headers_are_a_list_of_pairs(headers: Any, expected: Any) -> None:
    named = [None if found is None else [{"key": k, "value": v} for k, v in found] for found in headers]
    staged = decode_batch(JsonDecoder(SHAPE, LIMITS), batch_of([good_value()] * 2, headers=named))
    found = staged.rows["_headers"].to_pylist()
    assert [text if text is None else json.loads(text) for text in found] == expected


NAMES = st.sampled_from(["a", "b", "id", "a_long_name_x", "a_long_name_y", "", "é", 'q"id', "b:", "]", "\\"])
TREES = st.recursive(
    st.sampled_from(["1", '"x"', '":"', '"{"', '"\\"id\\":"', '"a\\":1,\\"b"', "{}", "[]", '"},"']),
    lambda inner: st.one_of(
        st.lists(st.tuples(NAMES, inner), max_size=4).map(
            lambda members: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}"
        ),
        st.lists(inner, max_size=3).map(lambda values: "[" + ",".join(values) + "]"),
    ),
    max_leaves=12,
)


@examples(600)
@given(st.lists(TREES, min_size=1, max_size=8), st.sampled_from([":", ": ", " :"]), st.integers(0, 2**32))
@example([r'{"q\"id":1,"q\"id":1}', r'[{"q\"id":1},{"q\"id":1}]'], ":", 0)  # quotes inside of names
def test_what_is_proven_unique_is_unique(drawn: list[str], colon: str, seed: int) -> None:
    random = Random(seed)
    for _ in range(5):  # orders of the same texts: drawing trees takes longer than proving them
        texts = [text.replace(":", colon) if random.random() < 0.2 else text for text in drawn * 2]
        random.shuffle(texts)
        sure = proven_of([text.encode() for text in texts])
        assert [text for text, each in zip(texts, sure, strict=True) if each and duplicate_path(text) is not None] == []


@pytest.mark.parametrize(
    ("shape", "repeating"),
    [
        ('{"b":[{"a":1},1],"a":1}', '{"b":[{"a":[1],"a":1}]}'),
        ('{"b":[1,{"a":1},1],"a":1}', '{"b":[1,{"a":[1],"a":1}]}'),
        ('{"a":{"b":1},"b":1,"a2":{"b":1}}', '{"a":{"b":1,"b":1,"a2":{"b":1}}}'),
        ('{"member_one":1,"member_two":1}', '{"member_two":1,"member_two":1}'),
        ('{"alpha_member":1,"gamma_member":1}', '{"gamma_member":1,"gamma_member":1}'),
    ],
)
def test_the_shape_of_one_text_does_not_prove_another(shape: str, repeating: str) -> None:
    assert proven_of([shape.encode(), repeating.encode()], shapes=1)[1] is False


def small_texts(depth: int) -> list[str]:
    """Many texts nested so deep: of two names, objects of one or two members, arrays of one or two values."""
    if depth == 0:
        return ["1", '"\\"},"']
    inner = small_texts(depth - 1)
    few = inner if depth < 3 else inner[:: len(inner) // 40]
    objects = [f'{{"{name}":{value}}}' for name in "ab" for value in few]
    objects += [f'{{"{x}":{v},"{y}":{w}}}' for x, y in ("aa", "ab", "ba") for v in few for w in few]
    return [
        *inner[:2], *objects, "[1]", *(f"[{v}]" for v in few[-8:]), *(f"[{v},{w}]" for v in few[:3] for w in few[-8:]),
    ]  # fmt: skip


def test_no_shape_proves_a_text_that_repeats_a_name() -> None:
    texts = [text for text in small_texts(3) if text.startswith("{")]
    repeating = [text.encode() for text in texts if duplicate_path(text) is not None]
    shapes = [text.encode() for text in texts if duplicate_path(text) is None]
    wrongly = {}
    for shape in shapes[:: len(shapes) // 400]:
        proven = proven_of([shape] * 2 + repeating, shapes=1)
        wrongly |= {shape: [text for text, sure in zip(repeating, proven[2:], strict=True) if sure][:1]}
    assert {shape: found for shape, found in wrongly.items() if found} == {}
    assert len(wrongly) >= 400


def proven_of(texts: list[bytes], shapes: int = 64, among: list[bool] | None = None) -> list[bool]:
    """Which of the texts, or of some of them, are proven to repeat no name when they come in one batch."""
    _, offsets, data = pa.array(texts, pa.binary()).buffers()
    unique = UniqueNames(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32))
    return unique.prove(np.array(among or [True] * len(texts)), shapes).tolist()


@pytest.mark.parametrize(
    "text",
    [
        '{"event_id":"a:b","at":"10:00","nested":{"id":1,"long_name_of_a_member":{"x":[1,{"y":2}]}}}',
        '{"id":1,"a":{"id":2,"b":{}},"c":{"id":3}}',
        '{"id": 1, "a": {"id": 2},\n "b": {"id": "\u00fc"}}',
        "{}",
        '{"a":"say \\"a\\": [1]"}',
    ],
)
def test_common_shapes_are_proven(text: str) -> None:
    assert proven_of([text.encode()] * 3, among=[True, False, True]) == [True, False, True]


def test_the_epoch_of_a_moment_survives() -> None:
    shape = RecordShape(("e",), ("t",), (), publish_at_encoding="epoch_us")
    staged = decode_batch(JsonDecoder(shape, LIMITS), batch_of([b'{"e":1,"t":1}', b'{"e":2,"t":-62135596800000000}']))
    first = datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert staged.rows["publish_at"].to_pylist() == [first, first - timedelta(days=719162, microseconds=1)]
