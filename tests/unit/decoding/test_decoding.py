"""Each way to be wrong has its code, and a reason that names the place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kafka_columns import FAR_TIMESTAMP, NO_TIMESTAMP
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape, Tombstone

AT = datetime(2026, 3, 4, tzinfo=UTC)
GOOD = b'{"event_id":"e1","publish_at":"2026-01-02T03:04:05+01:00","value":1}'


def decoder_of(
    type_: str, *args: int, nullable: bool = False, encoding: str = "", path: tuple[str, ...] = ("value",)
) -> JsonDecoder:
    """A decoder with one column at that path."""
    column = Column("value", ColumnType(type_, args), path, nullable, encoding)
    return JsonDecoder(RecordShape(("event_id",), ("publish_at",), (column,)), Limits(value_bytes=5000))


def refused(outcome: DecodedRow | Refusal | Skip) -> list[tuple[str, str]]:
    """Path and code of each reason."""
    assert isinstance(outcome, Refusal), outcome
    return [(reason.path, reason.code.value) for reason in outcome.reasons]


def with_value(literal: str | bytes) -> bytes:
    """The good record with another value."""
    return GOOD.replace(b'"value":1', b'"value":' + (literal if isinstance(literal, bytes) else literal.encode()))


def test_a_row_has_its_id_its_moment_and_its_values() -> None:
    expected = DecodedRow(("e1",), datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC), (1,))
    assert decoder_of("integer").decode(GOOD, None, AT) == expected


# What a record is refused with: the path and the code of its reason, and records with that reason.
RECORDS: dict[tuple[str, str], tuple[bytes, ...]] = {
    ("$", "syntax"): (b"", b"\xef\xbb\xbf" + GOOD, GOOD[:-1], GOOD + b" x", GOOD + GOOD, GOOD.replace(b'"e1"', b"'e1'"),
        *map(with_value, ("NaN", "-Infinity", "01", '1,"z":"\\ud83d\\ude00","y":"\\\\ud800" x', '1,"z":"\\ud800" x')),
        with_value(b'1,"z":"\x00"')),
    ("$.z", "encoding"): (with_value('1,"z":"\\ud800"'), with_value('1,"z":"\\udc00\\ud800"')),
    ("$.z.a[1]['b c']", "encoding"): (with_value('1,"z":{"a":[1,{"b c":"x\\uDFFFx"}]}'),),
    ("$.z['\\ud800']", "encoding"): (with_value('1,"z":{"\\ud800":1}'),),
    ("$", "type"): (b"[" + GOOD + b"]", b"null", b' "x"'),
    ("$", "encoding"): (with_value(b'1,"z":"\xff"'), with_value(b'1,"z":"\xed\xa0\x80"')),
    ("$.value", "duplicate_key"): (with_value('1,"value":1'), with_value('1,"v\\u0061lue":2')),
    ("$.z[0]['a b'].k", "duplicate_key"): (with_value('1,"z":[{"a b":{"k":1,"k":2}}]'),),
    ("$['z\\x00']", "duplicate_key"): (with_value('1,"z\\u0000":1,"z\\u0000":1'),),
    ("$", "depth"): (with_value('1,"z":' + "[" * 500 + "]" * 500), b'{"z":' + b'{"a":' * 600 + b"1" + b"}" * 601),
    ("$", "too_large"): (GOOD.ljust(5001),),
    ("$.value", "missing"): (GOOD.replace(b'"value"', b'"Value"'),),
    ("$.value", "null"): (with_value("null"),),
    ("$.value", "type"): tuple(map(with_value, ("1.5", "1.0", "1e2", '"1"', "true", "[1]"))),
    ("$.value", "range"): tuple(map(with_value, ("2147483648", "-2147483649", "9" * 4500))),
    ("$.event_id", "length"): tuple(GOOD.replace(b"e1", each) for each in (b"", b"x" * 1025)),
    ("$.event_id", "nul"): (GOOD.replace(b'"e1"', b'"\\u0000"'),),
    ("$.event_id", "type"): (GOOD.replace(b'"e1"', b"1.5"),),
    ("$.event_id", "null"): (GOOD.replace(b'"e1"', b"null"),),
    ("$.publish_at", "format"): (GOOD.replace(b"+01:00", b""),),
    ("$.publish_at", "range"): (GOOD.replace(b"05+01:00", b"60Z"),),
    ("$.publish_at", "precision"): (GOOD.replace(b"05+01:00", b"05.1234567Z"),),
}  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), [(value, each) for each, values in RECORDS.items() for value in values])
def test_a_wrong_record_is_refused_with_its_place(value: bytes, reason: tuple[str, str]) -> None:
    assert refused(decoder_of("integer").decode(value, None, AT)) == [reason]


def test_a_value_that_is_too_long_names_the_limit() -> None:
    outcome = decoder_of("integer").decode(GOOD.ljust(5001), None, AT)
    assert isinstance(outcome, Refusal)
    assert outcome.reasons[0].detail == "expected at most 5000 bytes (limits.value_bytes), got 5001"


# What a value of a type is refused with, and values that are.
VALUES: dict[tuple[str, tuple[int, ...], str], tuple[str, ...]] = {
    ("smallint", (), "range"): ("32768",),
    ("bigint", (), "range"): ("9223372036854775808",),
    ("numeric", (4, 2), "range"): ("100",),
    ("numeric", (4, 2), "precision"): ("1.001",),
    ("numeric", (4, 2), "type"): ('"1.00"',),
    ("numeric", (), "range"): ("1e131072", "1e-16384", "1e9999999"),
    ("double precision", (), "range"): ("1e309", "1e-400"),
    ("double precision", (), "precision"): ("0.10000000000000001", "9007199254740993"),
    ("real", (), "range"): ("1e39", "1e-46"),
    ("real", (), "precision"): ("16777217",),
    ("boolean", (), "type"): ("1", '"true"'),
    ("text", (), "type"): ("1",),
    ("text", (), "nul"): ('"\\u0000"',),
    ("varchar", (2,), "length"): ('"abc"',),
    ("date", (), "range"): ('"2023-02-29"',),
    ("date", (), "format"): ('"2023-2-9"',),
    ("time", (), "range"): ('"24:00:00.1"', '"23:59:60"'),
    ("time", (), "format"): ('"12:34"',),
    ("time", (), "precision"): ('"12:34:56.1234567"',),
    ("time", (), "type"): ("0",),
    ("timestamptz", (), "range"): ('"0001-01-01T00:00:00+00:01"',),
    ("uuid", (), "format"): ('"00000000000040008000000000000000"',),
    ("bytea", (), "format"): ('"AB=="', '"AAA"'),
    ("jsonb", (), "nul"): ('{"a":"\\u0000"}', '"\\\\\\u0000"'),
    ("jsonb", (), "range"): ("[1e-16384]", '{"a":0e-20000}'),
    ("jsonb", (), "null"): ("null",),
}


@pytest.mark.parametrize(("of", "literal"), [(each, literal) for each, values in VALUES.items() for literal in values])
def test_a_value_that_does_not_fit_its_type_is_refused(of: tuple[str, tuple[int, ...], str], literal: str) -> None:
    type_, args, code = of
    assert refused(decoder_of(type_, *args).decode(with_value(literal), None, AT)) == [("$.value", code)]


@pytest.mark.parametrize(
    ("type_", "args", "encoding", "literal", "value"),
    [
        ("numeric", (4, 2), "", "1.1000", Decimal("1.1")),
        ("numeric", (), "", "0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
        ("double precision", (), "", "0.30000000000000004", 0.30000000000000004),
        ("real", (), "", "0.1", 0.10000000149011612),
        ("text", (), "", '"\\\\u0000\\ud83d\\ude00"', "\\u0000😀"),
        ("varchar", (2,), "", '"\\ud83d\\ude00é"', "😀é"),
        ("timestamptz", (), "epoch_us", "-1", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("timestamptz", (), "epoch_s", "60", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
        ("timestamptz", (), "", '"2026-01-01T00:00:00.123456000-00:30"', datetime(2026, 1, 1, 0, 30, 0, 123456, UTC)),
        ("uuid", (), "", '"ABCDEF00-0000-4000-8000-000000000000"', UUID("abcdef00-0000-4000-8000-000000000000")),
        ("bytea", (), "hex", '"00fF"', b"\x00\xff"),
        ("jsonb", (), "", '{"a" : "\\\\u0000", "b":1.50}', '{"a" : "\\\\u0000", "b":1.50}'),
    ],
)
def test_a_value_is_exact(type_: str, args: tuple[int, ...], encoding: str, literal: str, value: object) -> None:
    outcome = decoder_of(type_, *args, encoding=encoding).decode(with_value(literal), None, AT)
    assert isinstance(outcome, DecodedRow)
    assert outcome.values == (value,)
    assert type(outcome.values[0]) is type(value)


def test_every_wrong_value_has_its_reason() -> None:
    value = b'{"event_id":[],"publish_at":1,"value":"x"}'
    found = refused(decoder_of("integer").decode(value, None, AT))
    assert found == [("$.event_id", "type"), ("$.publish_at", "type"), ("$.value", "type")]


@pytest.mark.parametrize(
    ("parent", "nullable", "expected"),
    [
        ('"p":{"v":1}', False, 1), ('"p":{"v":null}', True, None), ('"p":{}', True, None), ('"p":null', True, None),
        ('"q":1', True, None), ('"p":{}', False, [("$.p.v", "missing")]), ('"p":null', False, [("$.p", "null")]),
        ('"q":1', False, [("$.p", "missing")]), ('"p":[]', True, [("$.p", "type")]),
        ('"p":"x"', False, [("$.p", "type")]),
    ],
)  # fmt: skip
def test_a_missing_or_null_parent_counts_for_its_members(parent: str, nullable: bool, expected: object) -> None:
    decoder = decoder_of("integer", nullable=nullable, path=("p", "v"))
    outcome = decoder.decode(GOOD.replace(b'"value":1', parent.encode()), None, AT)
    assert (outcome.values[0] if isinstance(outcome, DecodedRow) else refused(outcome)) == expected


def test_nul_and_wrong_types_in_undeclared_members_do_no_harm() -> None:
    value = with_value('1,"z":"\\u0000","y":{"value":null,"n":1e999999999999}')
    assert isinstance(decoder_of("integer").decode(value, None, AT), DecodedRow)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("é".encode(), "é"), (None, [("_key", "missing")]), (b"", [("_key", "length")]),
        (b"\xff", [("_key", "encoding")]), (b"a\x00", [("_key", "nul")]), (b"x" * 1025, [("_key", "length")]),
    ],
)  # fmt: skip
def test_the_id_of_a_delete_is_the_key(key: bytes | None, expected: object) -> None:
    shape = RecordShape(("a",), ("b",), (Column("v", ColumnType("text"), ("v",)),), tombstone=Tombstone.DELETE)
    outcome = JsonDecoder(shape, Limits()).decode(None, key, AT)
    if isinstance(outcome, DecodedRow):
        assert outcome == DecodedRow((str(expected),), AT, (None,), deleted=True)
    else:
        assert refused(outcome) == expected


def test_tombstones_are_skipped_or_refused_as_declared() -> None:
    shape = RecordShape(None, None, ())
    assert refused(JsonDecoder(shape, Limits()).decode(None, b"k", AT)) == [("$", "tombstone")]
    assert JsonDecoder(replace(shape, tombstone=Tombstone.SKIP), Limits()).decode(None, b"k", AT) == Skip()


def test_id_and_moment_come_from_kafka_where_no_path_is_declared() -> None:
    decoder = JsonDecoder(RecordShape(None, None, ()), Limits())
    assert decoder.decode(b"{}", b"k1", AT) == DecodedRow(("k1",), AT, ())
    assert refused(decoder.decode(b"{}", None, FAR_TIMESTAMP)) == [("_key", "missing"), ("_timestamp", "range")]
    assert refused(decoder.decode(b"{}", b"k1", NO_TIMESTAMP)) == [("_timestamp", "missing")]


# Whether a record with such a value deletes, where another one is declared to; or the reason that it is refused with.
DELETES: list[tuple[object, list[tuple[str | bool | int, str]]]] = [
    (True, [("d", '"op":"d"'), ("d", '"op":"\\u0064"'), (True, '"op":true'), (False, '"op":false'),
        (1, '"op":1'), (1, '"op":1.0'), (1, '"op":10e-1'), (9007199254740993, '"op":9007199254740993'),
        (0, '"op":-0')]),
    (False, [("d", '"op":"D"'), ("d", '"op":"c"'), ("d", '"op":null'), ("d", '"Op":"d"'), (True, '"op":false'),
        (False, '"op":null'), (1, '"op":1.0000000000000000000000001'),
        (9007199254740993, '"op":9007199254740992')]),
    (("$.op", "type", "expected text, got boolean"), [("d", '"op":true'), ("true", '"op":true')]),
    (("$.op", "type", "expected text, got array"), [("d", '"op":["d"]')]),
    (("$.op", "type", "expected boolean, got number"), [(True, '"op":1')]),
    (("$.op", "type", "expected boolean, got text"), [(True, '"op":"true"')]),
    (("$.op", "type", "expected number, got boolean"), [(1, '"op":true')]),
    (("$.op", "range", "expected a number with an exponent of six digits, got 0e9999999"), [
        (0, '"op":0e9999999')]),
]  # fmt: skip


@pytest.mark.parametrize(("equals", "op", "expected"), [(*each, expected) for expected, of in DELETES for each in of])
def test_a_record_deletes_if_its_value_is_the_declared_one(equals: str | bool | int, op: str, expected: object) -> None:
    columns = (Column("value", ColumnType("integer"), ("value",)),)
    shape = RecordShape(("event_id",), ("publish_at",), columns, delete_when=FieldCondition(("op",), equals))
    outcome = JsonDecoder(shape, Limits()).decode(GOOD.replace(b'"value":1', b'"value":1,' + op.encode()), None, AT)
    if isinstance(outcome, Refusal):
        assert [(reason.path, reason.code, reason.detail) for reason in outcome.reasons] == [expected]
    else:
        assert outcome == DecodedRow(
            ("e1",), datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC), (None if expected else 1,), expected
        )


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ('"meta":{"op":"d"}', True), ('"meta":{}', False), ('"meta":null', False), ('"n":1', False),
        ('"meta":"d"', [("$.meta", "type")]), ('"meta":{"op":1}', [("$.meta.op", "type")]),
    ],
)  # fmt: skip
def test_the_value_that_deletes_may_lie_deeper(meta: str, expected: object) -> None:
    shape = RecordShape(("event_id",), ("publish_at",), (), delete_when=FieldCondition(("meta", "op"), "d"))
    outcome = JsonDecoder(shape, Limits()).decode(GOOD.replace(b'"value":1', meta.encode()), None, AT)
    assert (outcome.deleted if isinstance(outcome, DecodedRow) else refused(outcome)) == expected


def test_a_delete_needs_its_id_and_its_moment_and_no_value() -> None:
    columns = (Column("value", ColumnType("integer"), ("value",)),)
    shape = RecordShape(("event_id",), ("publish_at",), columns, delete_when=FieldCondition(("value",), "d"))
    decoder = JsonDecoder(shape, Limits())
    assert isinstance(decoder.decode(GOOD.replace(b"1}", b'"d"}'), None, AT), DecodedRow)
    assert refused(decoder.decode(b'{"value":"d"}', None, AT)) == [
        ("$.event_id", "missing"),
        ("$.publish_at", "missing"),
    ]
    assert refused(decoder.decode(b'{"value":"d","value":"d"}', None, AT)) == [("$.value", "duplicate_key")]


def test_half_a_character_is_named_as_that() -> None:
    outcome = decoder_of("integer").decode(with_value('1,"z":"\\uD83Dx"'), None, AT)
    assert isinstance(outcome, Refusal)
    (reason,) = outcome.reasons
    assert reason.detail == r"expected whole characters, got a lone surrogate (\ud83d), half of one"
