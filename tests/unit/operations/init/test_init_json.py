"""What is proposed for JSON: types by literal tables, and for random documents a file that decodes each of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.inferred import Inferred, column_name, limited, named
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.init.propose import Proposal, Wanted, propose
from offset_ledger.operations.init.run import check_proposal
from offset_ledger.operations.init.suite import suite_document
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, Tombstone
from offset_ledger.pipeline_file.source import Source
from offset_ledger.postgres.table.infer import Sample, SampledRecord, json_columns, json_inferred, sample_ranges
from tests.examples import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(*values: bytes | None, keys: Sequence[bytes | None] | None = None, **said: bool) -> Sample:
    """Records with these values, and keys of their own unless others are given."""
    keys = keys or [f"k{n}".encode() for n in range(len(values))]
    records = (SampledRecord(key, value, NOON) for key, value in zip(keys, values, strict=True))
    return Sample("shop.orders", tuple(records), **said)


def proposal(sampled: Sample) -> Proposal:
    return propose(
        Wanted("orders", "public.orders", True), Source("kafka_default", "shop.orders"), sampled, json_inferred(sampled)
    )


def documents(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


@pytest.mark.parametrize(
    ("values", "type_", "nullable"),
    [
        (["1", "-9223372036854775808"], "bigint", False),
        (["1", "9223372036854775808"], "numeric", False),
        (["1", "1.0"], "numeric", False),
        (["1e3", "null"], "numeric", True),
        (["1.5", '"NaN"', '"-Infinity"'], "numeric", False),
        (['"NaN"'], "text", False),
        (["true", "false"], "boolean", False),
        (['"x"', '"2026-01-01"'], "text", False),
        (['"2026-01-01"', '"2024-02-29"'], "date", False),
        (['"2026-02-30"'], "text", False),
        (['"23:59:59.5"'], "time", False),
        (['"2026-01-01T00:00:00Z"', '"2026-01-01T00:00:00.123456+05:30"'], "timestamptz", False),
        (['"2026-01-01T00:00:00"'], "text", False),
        (['"2026-01-01T00:00:00.1234567Z"'], "text", False),
        (['"8f14e45f-ceea-467f-a5e6-3f8ad7a1b2c3"'], "uuid", False),
        (['"1"', "1"], "jsonb", False),
        (["[1]", "[]", "[2, null]"], "bigint[]", False),
        (["[]"], "jsonb", False),
        (["[1]", '["a"]'], "jsonb", False),
        (["[[1]]"], "jsonb", False),
        (['["2026-01-01"]'], "text[]", False),
        ([json.dumps(["2026-01-01"] * 20), "null"], "date[]", True),
        (["{}", "{}"], "jsonb", False),
        (['{"a": 1}', "1"], "jsonb", False),
        (["null"], "jsonb", True),
    ],
)
def test_a_column_has_the_narrowest_type_that_takes_every_value(values: list[str], type_: str, nullable: bool) -> None:
    (column,) = json_columns([f'{{"a": {value}}}'.encode() for value in values])
    assert (column.path, column.type, column.nullable) == (("a",), type_, nullable)


def test_members_of_objects_have_columns_and_a_missing_object_makes_them_nullable() -> None:
    found = json_columns(documents({"c": {"id": 1, "at": "x"}, "n": 1}, {"c": {"id": 2}, "n": 2}, {"c": None, "n": 3}))
    assert [(each.path, each.type, each.nullable) for each in found] == [
        (("c", "id"), "bigint", True),
        (("c", "at"), "text", True),
        (("n",), "bigint", False),
    ]


def test_an_object_that_is_a_map_stays_whole() -> None:
    (column,) = json_columns(documents(*({"m": {f"user{n}": 1}} for n in range(30))))
    assert (column.type, column.doubt) == ("jsonb", "30 names in 30 objects: rather a map than a record")


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("paid_at", 1795248000000, "epoch_ms"),
        ("ts", 1795248000, "epoch_s"),
        ("eventTime", 1795248000000000, "epoch_us"),
    ],
)
def test_an_integer_that_looks_like_a_moment_stays_a_bigint_with_a_doubt(name: str, value: int, unit: str) -> None:
    (column,) = json_columns(documents({name: value}))
    assert column.type == "bigint"
    assert f"{{type: timestamptz, encoding: {unit}}}" in column.doubt
    assert json_columns(documents({"amount": value}))[0].doubt == ""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("customer", "firstName"), "customer_first_name"), (("Zürich-Nord",), "z_rich_nord"), (("2fa",), "c_2fa"),
        (("ÄÖ",), "c"), (("_id",), "id"), (("x" * 80,), "x" * 63),
    ],
)  # fmt: skip
def test_a_path_gives_a_name_that_needs_no_quotes(path: tuple[str, ...], name: str) -> None:
    assert column_name(path) == name


def test_names_are_unique_and_none_is_reserved() -> None:
    paths = [("event_id",), ("a", "b"), ("a_b",), ("a-b",), ("ctid",), ("y" * 70,), ("y" * 71,)]
    columns = named(Inferred(path, "text", False) for path in paths)
    names = ["event_id_2", "a_b", "a_b_2", "a_b_3", "ctid_2", "y" * 63, "y" * 61 + "_2"]
    assert [each.column.name for each in columns] == names


def test_more_members_than_columns_become_whole_objects() -> None:
    wide = [*(Inferred(("o", f"m{n}"), "text", False) for n in range(1600)), Inferred(("id",), "bigint", False)]
    assert [(each.path, each.type) for each in limited(wide)] == [(("o",), "jsonb"), (("id",), "bigint")]
    flat = limited([Inferred((f"m{n}",), "text", False) for n in range(1590)])
    assert [each.path for each in flat if not each.type] == [("m1589",)]


def test_the_event_is_named_by_what_is_unique_and_called_so() -> None:
    values = [
        {"id": f"o{n}", "code": f"c{n}", "shop_id": n % 2, "at": "2026-01-01T00:00:00Z", "n": n} for n in range(6)
    ]
    found = proposal(sample(*documents(*values)))
    assert (found.record.event_id, found.record.publish_at) == (("id",), ("at",))
    assert [column.name for column in found.record.columns] == ["code", "shop_id", "n"]
    assert "unique in 6 records, and named id; other candidates: key (unique in 6 records); $.code" in found.doubts[0]


def test_what_publish_may_have_added_is_not_preferred_to_what_the_records_have_themselves() -> None:
    own, added = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    values = [{"id": f"o{n}", "ts": own, "event_id": f"e{n}", "publish_at": added} for n in range(6)]
    found = proposal(sample(*documents(*values)))
    assert (found.record.event_id, found.record.publish_at) == (("id",), ("ts",))
    stamped = [{name: each[name] for name in ("event_id", "publish_at")} for each in values]
    alone = proposal(sample(*documents(*stamped)))
    assert (alone.record.event_id, alone.record.publish_at) == (("event_id",), ("publish_at",))


def test_a_topic_with_tombstones_is_named_by_its_keys_and_deletes() -> None:
    found = proposal(sample(*documents({"id": 1, "at": "2026-01-01T00:00:00Z"}), None))
    assert (found.record.event_id, found.record.publish_at) == (None, None)
    assert found.record.tombstone is Tombstone.DELETE
    check_proposal(found)


def test_tombstones_whose_keys_name_nothing_stay_in_quarantine() -> None:
    found = proposal(sample(*documents({"id": 1}), None, keys=[None, b"\xff"]))
    assert (found.record.event_id, found.record.tombstone) == (("id",), Tombstone.QUARANTINE)
    assert any("1 of 2 sampled records would be quarantined: $: expected a value" in each for each in found.doubts)


def test_gaps_are_told_about() -> None:
    found = proposal(sample(*documents({"id": 1, "n": 2}), gaps=True))
    assert any("transactions" in each and "source.compacted: true" in each for each in found.doubts)
    check_proposal(found)


def test_a_record_of_an_event_id_alone_needs_no_column_beside_it() -> None:
    found = proposal(sample(*documents({"id": "a"}, {"id": "b"})))
    assert (found.record.event_id, found.record.columns) == (("id",), ())
    check_proposal(found)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "it has no records; publish some first"),
        ([None, None], "all 2 sampled records are tombstones"),
        ([b"\0\0\0\0\x01\x02"], "name its schema registry"),
        ([b"a,b", b"1,2"], "none of 2 sampled records of shop.orders is a JSON object"),
        ([b"{}"], "no member to make a column of"),
    ],
)
def test_nothing_to_infer_from_is_one_line(values: list[bytes | None], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as error:
        proposal(sample(*values))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("bounds", "wanted", "ranges"),
    [
        ({0: (0, 0)}, 10, []),
        ({0: (5, 8)}, 10, ["0:[5, 8)"]),
        ({0: (0, 100), 1: (7, 9)}, 10, ["0:[0, 2)", "0:[97, 100)", "1:[7, 9)"]),
        ({0: (0, 9), 1: (0, 9), 2: (0, 9)}, 2, ["0:[8, 9)", "1:[8, 9)"]),
    ],
)
def test_the_sample_is_the_beginning_and_the_end_of_each_partition(
    bounds: dict[int, tuple[int, int]], wanted: int, ranges: list[str]
) -> None:
    assert [str(each) for each in sample_ranges(bounds, wanted)] == ranges


def test_the_suite_expects_what_the_sample_kept_to() -> None:
    values = [
        {
            "id": f"o{n}", "state": ("new", "paid")[n % 2], "amount": n + 0.5, "note": f"n{n}", "loss": -n,
            "country": f"{n % 10}{n % 7}", "shop_id": n, "hash": 10**15 + n, "open": n > 3,
        }
        for n in range(60)
    ]  # fmt: skip
    suite = proposal(sample(*documents(*values))).suite
    assert suite is not None
    between = "expect_column_values_to_be_between"
    assert [(each["type"], each["kwargs"]) for each in suite["expectations"]] == [
        ("expect_column_values_to_be_in_set", {"column": "state", "value_set": ["new", "paid"]}),
        (between, {"column": "amount", "min_value": 0, "max_value": 1000}),
        ("expect_column_value_lengths_to_be_between", {"column": "note", "min_value": 1, "max_value": 10}),
        (between, {"column": "loss", "min_value": -1000, "max_value": 10}),
        ("expect_column_value_lengths_to_equal", {"column": "country", "value": 2}),
        (between, {"column": "shop_id", "min_value": 0}),
    ]
    assert {each["meta"]["action"] for each in suite["expectations"]} == {"warn"}
    descriptions = [each["description"] for each in suite["expectations"]]
    assert descriptions[1] == "amount is from 0 to 1000; the sample has 0.5 to 59.5"


def test_a_column_that_may_be_null_and_never_was_is_watched() -> None:
    columns = [Column(name, ColumnType("boolean"), (name,), nullable=True) for name in ("a", "b")]
    suite = suite_document("orders", columns, {"a": [True] * 60, "b": [True] * 59 + [None]})
    assert suite is not None
    assert [(each["type"], each["kwargs"]) for each in suite["expectations"]] == [
        ("expect_column_values_to_not_be_null", {"column": "a"})
    ]


def given_id(event_id: str, *values: Any) -> Proposal:
    wanted, sampled = Wanted("orders", "public.orders", True, event_id), sample(*documents(*values))
    return propose(wanted, Source("kafka_default", "shop.orders"), sampled, json_inferred(sampled))


def test_the_event_id_that_is_given_is_taken_and_a_number_is_a_column_too() -> None:
    values = [{"event_id": f"e{n}", "payment": {"id": n}, "at": "2026-01-01T00:00:00Z"} for n in range(3)]
    found = given_id("$.payment.id", *values)
    assert (found.record.event_id, found.record.publish_at) == (("payment", "id"), ("at",))
    assert [(each.name, each.path) for each in found.record.columns] == [
        ("event_id_2", ("event_id",)),
        ("payment_id", ("payment", "id")),
    ]
    assert found.doubts[0] == "event_id: as given; unique in 3 records"
    assert "column payment_id: the event id as a number: event_id is a text" in found.doubts
    check_proposal(found)
    assert given_id("key", *values).record.event_id is None


def test_an_event_id_that_no_record_has_is_one_line() -> None:
    said = r"--event-id: no sampled record has a value at \$\.payment\.uid; there are \$\.payment\.id, key"
    with pytest.raises(ConfigurationError, match=said):
        given_id("$.payment.uid", {"payment": {"id": 1}, "b": 1})


# What some column takes: no NUL, and numbers within Postgres's own.
TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
    st.dates().map(str),
    st.uuids().map(str),
    st.times().map(str),
    st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
)
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False))
NAMES = st.one_of(
    st.sampled_from(
        ["id", "at", "a", "b", "event_id", "publish_at", "ts", "A", "a.b", "it's", "\\", "", "# x: {}", "é\n"]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
DOCUMENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=5)


@examples(60)
@given(DOCUMENTS)
def test_the_proposed_file_decodes_every_sampled_document(found: list[dict[str, Any]]) -> None:
    sampled = sample(*documents(*found))
    if not any(name for document in found for name in document):
        with pytest.raises(ConfigurationError, match="no member"):
            proposal(sampled)
        return
    made = proposal(sampled)
    check_proposal(made)
    decoder = compile_decoder(made.source, made.record, Limits())
    outcomes = [decoder.decode(each.value, each.key, each.timestamp) for each in sampled.records]
    assert all(isinstance(each, DecodedRow) for each in outcomes), outcomes
    assert not any("quarantined" in doubt for doubt in made.doubts)
    for document, outcome in zip(found, outcomes, strict=True):
        assert isinstance(outcome, DecodedRow)
        for column, value in zip(made.record.columns, outcome.values, strict=True):
            assert (value is None) == (at(document, column.path) is None)


def at(document: Any, path: tuple[str, ...]) -> Any:
    """What stands at the path; None where nothing does."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document
