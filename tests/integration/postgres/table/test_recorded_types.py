"""Every type of real sources, as Debezium writes it, becomes the value that the source had, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.debezium import event
from tests.fixtures.raw import Raw, commit_raw, recorded
from tests.fixtures.suites import entry, write_suite


def pipeline_of(
    folder: Path,
    columns: Mapping[str, str],
    key: str = "id: {type: bigint, key: $.id}",
    share: float = 0,
    suite: str = "null",
) -> Pipeline:
    """A pipeline of change events with these columns, each as YAML."""
    path = folder / "types.yaml"
    path.write_text(
        "pipeline: types\nsource: {topic: t, envelope: debezium, key_format: json}\nrecord:\n"
        f"  key: {{{key}}}\n  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}\n  columns:\n"
        + "".join(f"    {name}: {declared}\n" for name, declared in columns.items())
        + "target: {table: public.types, bookkeeping: beside}\n"
        + f"quality: {{max_quarantined_share: {share}, suite: {suite}}}\n"
    )
    return parse_pipeline(path)


def table(session: Session, columns: str) -> list[tuple[Any, ...]]:
    return [tuple(each) for each in rows(session, f"SELECT {columns} FROM public.types ORDER BY 1")]


def shown(columns: Iterable[str]) -> str:
    """The columns as Postgres writes them."""
    return ", ".join(f"{name}::text" for name in columns)


def quarantined(session: Session) -> set[tuple[Any, ...]]:
    """Offset, path and code of every reason."""
    query = (
        "SELECT \"offset\", r->>'path', r->>'code' FROM offset_ledger.quarantine, jsonb_array_elements(reasons) AS r"
    )
    return {tuple(each) for each in rows(session, query)}


LARGE = {
    "big": "{type: text, nullable: true, absent: keep}",
    "bigj": "{type: jsonb, nullable: true, absent: keep, encoding: json}",
    "bigb": "{type: bytea, nullable: true, absent: keep}",
    "ta": '{type: "text[]", nullable: true, absent: keep}',
    "ia": '{type: "integer[]", nullable: true, absent: keep}',
    "hs": "{type: jsonb, nullable: true, absent: keep, encoding: json}",
    "n": "integer",
}


@pytest.mark.parametrize("mode", ["string", "precise"])
def test_large_values_stay_where_an_update_did_not_send_them(session: Session, tmp_path: Path, mode: str) -> None:
    more = {"nm": "{type: numeric, nullable: true, absent: keep, coerce: true}"} if mode == "string" else {}
    pipeline = pipeline_of(tmp_path, LARGE | more)
    records = recorded(f"types/postgres_{mode}", "pg.public.toast")
    update = next(n for n, each in enumerate(records) if json.loads(each.value or b"{}")["op"] == "u")
    assert commit_raw(session, pipeline, records[: update + 1]).total.quarantined == 0
    numbers = list(range(1, 2001))
    large = ("x" * 20, '"' + "y" * 20 + '"', b"\xff" * 20, [f"t{n}" for n in numbers], numbers)
    number = ["9" * 20 + ".5"] if mode == "string" else []
    shown = "id, n, big, bigj::text, bigb, ta, ia, hs::text" + (", nm::text" if number else "")
    hstore = json.dumps({"k": "z" * 20})
    assert [
        tuple(bytes(value) if isinstance(value, memoryview) else value for value in each)
        for each in table(session, shown)
    ] == [(1, 2, *large, hstore, *number)]
    if mode == "precise":  # then the key changed: the new one never had the values
        commit_raw(session, pipeline, records[update + 1 :])
        assert table(session, shown) == [(5, 2, None, None, None, None, None, None)]


def test_times_and_moments_of_every_unit_are_exact_or_rounded_where_the_file_says_so(
    session: Session, tmp_path: Path
) -> None:
    columns = {
        "micro": "{type: time, encoding: us, nullable: true}",
        "milli": "{type: time, encoding: ms, nullable: true}",
        "nano": "{type: time, encoding: ns, nullable: true}",
        "nano_rounded": "{type: time, encoding: ns, nullable: true, round: true}",
        "iso": "{type: time, nullable: true}",
        "iso_rounded": "{type: time, nullable: true, round: true}",
        "day": "{type: date, nullable: true}",
        "stamp": "{type: timestamptz, encoding: epoch_ns, nullable: true}",
        "stamp_rounded": "{type: timestamptz, encoding: epoch_ns, nullable: true, round: true}",
        "zoned": "{type: timestamptz, nullable: true}",
        "zoned_rounded": "{type: timestamptz, nullable: true, round: true}",
        "times": '{type: "time[]", encoding: us, nullable: true}',
        "length": "{type: interval, encoding: us, nullable: true}",
    }
    taken = [
        {"micro": 86_399_123_456, "milli": 86_399_123, "nano": 86_399_123_456_000, "iso": "23:59:59.1Z"},
        {"micro": 86_400_000_000, "iso": "24:00:00", "times": [0, 86_400_000_000, None], "length": 3_020_399_000_000},
        {"nano_rounded": 86_399_999_999_500, "iso_rounded": "23:59:59.9999995Z", "length": -3_020_399_000_000},
        {"day": "2026-01-02Z", "stamp": 1_767_323_045_123_456_000, "zoned": "2026-01-02T03:04:05.1234560+02:00"},
        {"stamp_rounded": 1_767_323_045_123_456_501, "zoned_rounded": "2026-01-02T03:04:05.1234565Z"},
        {"stamp_rounded": -1_500, "zoned_rounded": "2026-01-02T03:04:05.1234575Z", "times": [1]},
    ]
    expected = [
        {"micro": "23:59:59.123456", "milli": "23:59:59.123", "nano": "23:59:59.123456", "iso": "23:59:59.1"},
        {"micro": "24:00:00", "iso": "24:00:00", "times": "{00:00:00,24:00:00,NULL}", "length": "838:59:59"},
        {"nano_rounded": "24:00:00", "iso_rounded": "24:00:00", "length": "-838:59:59"},
        {"day": "2026-01-02", "stamp": "2026-01-02 03:04:05.123456+00", "zoned": "2026-01-02 01:04:05.123456+00"},
        {"stamp_rounded": "2026-01-02 03:04:05.123457+00", "zoned_rounded": "2026-01-02 03:04:05.123456+00"},
        {"stamp_rounded": "1969-12-31 23:59:59.999998+00", "zoned_rounded": "2026-01-02 03:04:05.123458+00"}
        | {"times": "{00:00:00.000001}"},
    ]
    refused = {
        "nano": (1, "precision"),
        "stamp": (1_767_323_045_123_456_789, "precision"),
        "zoned": ("2026-01-02T03:04:05.1234567Z", "precision"),
        "iso": ("23:59:59.1234567", "precision"),
        "micro": (86_400_000_001, "range"),
        "milli": (-1, "range"),
        "iso_rounded": ("24:00:00.1", "range"),
        "day": ("2026-01-02+00:00", "format"),
        "times": ([86_400_000_001], "range"),
    }
    rows_sent = [*taken, *({name: value} for name, (value, _) in refused.items())]
    values = [event("c", None, {"id": n, **row}) for n, row in enumerate(rows_sent)]
    pipeline = pipeline_of(tmp_path, columns, share=0.9)
    commit_raw(session, pipeline, [Raw(0, n, value, b'{"id": %d}' % n) for n, value in enumerate(values)])
    stored = rows(
        session, "SELECT to_jsonb(t) - 'id' FROM (SELECT id, " + shown(columns) + " FROM public.types) t ORDER BY id"
    )
    assert [{name: value for name, value in row[0].items() if value is not None} for row in stored] == expected
    assert quarantined(session) == {
        (len(taken) + n, f"$.after.{name}", code) for n, (name, (_, code)) in enumerate(refused.items())
    }


FAR = {
    "n": "{type: numeric, nullable: true, coerce: true}",
    "n102": '{type: "numeric(10,2)", nullable: true, coerce: true}',
    "d": "double precision",
    "ts": "{type: timestamptz, encoding: epoch_us, years: all}",
    "tstz": "{type: timestamptz, years: all}",
    "iv": "interval",
    "tz": "{type: timestamptz, years: all}",
    "bc": "{type: timestamptz, years: all}",
    "far": "{type: timestamptz, years: all}",
    "t24": "{type: time, encoding: us}",
    "fardt": "{type: date, encoding: epoch_days, years: all}",
}


def test_what_no_calendar_and_no_number_has_is_loaded_as_postgres_holds_it(session: Session, tmp_path: Path) -> None:
    commit_raw(session, pipeline_of(tmp_path, FAR), recorded("types/postgres_string", "pg.public.special"))
    endless = ["infinity", "infinity", "-1 days +02:03:04", "-infinity", "0044-03-15 12:00:00+00 BC"]
    endless += ["294276-12-31 23:59:59+00", "24:00:00", "5874897-12-31"]
    usual = ["2026-01-01 00:00:00+00", "1582-10-10 00:00:00+00", "9999-12-31 23:59:59.999999+00", "00:00:00"]
    usual += ["0044-03-15"]  # 44 BC at the source: a snapshot loses the era
    assert [list(each) for each in table(session, f"id, {shown(FAR)}")] == [
        [1, None, None, "NaN", *endless],
        [2, None, None, "Infinity", "-infinity", "0001-01-01 00:00:00+00", "178000000 years", *usual],
        [3, "NaN", "NaN", "NaN", *endless],
    ]


def test_a_suite_sees_them_too(session: Session, tmp_path: Path) -> None:
    names = [name for name in FAR if name != "iv"]
    expectations = [
        entry(each, "warn", column=name, **kwargs)
        for name in names
        for each, kwargs in (
            ("expect_column_values_to_be_unique", {}),
            ("expect_column_distinct_values_to_contain_set", {"value_set": []}),
            ("expect_column_max_to_be_between", {"min_value": 0 if name[0] in "n" else None, "max_value": None}),
        )
        if each != "expect_column_max_to_be_between" or name[0] == "n"
    ]
    write_suite(tmp_path, *expectations, name="types")
    pipeline = pipeline_of(tmp_path, FAR, suite="types")
    done = commit_raw(session, pipeline, recorded("types/postgres_string", "pg.public.special"))
    assert (done.total.inserted, done.total.quarantined) == (3, 0)
    (verdict,) = rows(session, "SELECT verdict->'findings' FROM offset_ledger.batch")
    unexpected = {each["columns"][0] for each in verdict[0] if not each["success"]}
    assert unexpected >= {"tstz", "t24", "bc", "fardt"}, verdict
    assert not [each for each in verdict[0] if each.get("exception")], verdict


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        ("dt: {type: date, encoding: epoch_days, years: all}", {(n, "$.after.dt", "range") for n in range(3)}),
        ("farts: {type: timestamptz, encoding: epoch_us, years: all}", {(n, "$.after.farts", "range") for n in (0, 2)}),
        ("tstz: timestamptz", {(n, "$.after.tstz", "range") for n in (0, 2)}),
        ("ts: {type: timestamptz, encoding: epoch_us}", {(n, "$.after.ts", "range") for n in range(3)}),
        ("fardt: {type: date, encoding: epoch_days}", {(n, "$.after.fardt", "range") for n in (0, 2)}),
    ],
)
def test_what_the_source_has_garbled_or_the_file_does_not_expect_is_refused(
    session: Session, tmp_path: Path, column: str, codes: set[tuple[Any, ...]]
) -> None:
    name, _, declared = column.partition(": ")
    pipeline = pipeline_of(tmp_path, {name: declared}, share=1)
    commit_raw(session, pipeline, recorded("types/postgres_string", "pg.public.special"))
    assert quarantined(session) == codes


@pytest.mark.parametrize("declared", ["numeric", '"numeric(10,2)"'])
def test_numeric_has_nan_and_without_a_precision_infinities(session: Session, tmp_path: Path, declared: str) -> None:
    columns = {
        "n": f"{{type: {declared}, nullable: true, coerce: true}}",
        "plain": f"{{type: {declared}, nullable: true}}",
    }
    columns["list"] = (
        f'{{type: {declared[:-1]}[]", nullable: true, coerce: true}}'
        if '"' in declared
        else '{type: "numeric[]", nullable: true}'
    )
    records = recorded("types/postgres_string", "pg.public.nan")
    sent = [json.loads(each.value or b"")["after"]["n"] for each in records]
    assert sent == ["1.5", "NAN", "1.50", "POSITIVE_INFINITY"]
    values = [event("c", None, {"id": n, "n": n_}) for n, n_ in enumerate(sent)]
    values += [
        event("c", None, {"id": 4, "plain": "NaN", "list": [1.5, "NaN", None]}),
        event("c", None, {"id": 5, "plain": -0.25}),
    ]
    commit_raw(
        session,
        pipeline_of(tmp_path, columns, share=1),
        [Raw(0, n, v, b'{"id": %d}' % n) for n, v in enumerate(values)],
    )
    infinite = {(3, "$.after.n", "range")} if "(" in declared else set()
    assert quarantined(session) == infinite
    two = "(" in declared
    expected = [
        (0, "1.50" if two else "1.5", None, None),
        (1, "NaN", None, None),
        (2, "1.50", None, None),
        (3, "Infinity", None, None),
        (4, None, "NaN", "{1.50,NaN,NULL}" if two else "{1.5,NaN,NULL}"),
        (5, None, "-0.25", None),
    ]
    assert table(session, f"id, {shown(columns)}") == [each for each in expected if not (two and each[0] == 3)]


PRECISE = {
    "n": "{type: numeric, nullable: true, encoding: unscaled}",
    "n102": '{type: "numeric(10,2)", nullable: true, encoding: unscaled(2)}',
    "m": '{type: "numeric(19,2)", nullable: true, encoding: unscaled(2)}',
    "na": '{type: "numeric[]", nullable: true, encoding: unscaled}',
    "naf": '{type: "numeric(10,2)[]", nullable: true, encoding: unscaled(2)}',
    "iv": "{type: interval, nullable: true, encoding: us}",
}


def test_decimals_of_the_precise_mode_have_their_scale_in_the_record_or_in_the_file(
    session: Session, tmp_path: Path
) -> None:
    pipeline = pipeline_of(tmp_path, PRECISE)
    first, *more = [each for each in recorded("types/postgres_precise", "pg.public.odd") if each.value]
    commit_raw(session, pipeline, [first])
    arrays = "{1.5,2.25}", "{1.50,2.25}"
    length = "10303:05:06.789"  # of 1 year 2 mons 3 days 04:05:06.789: months are average ones
    assert table(session, f"id, {shown(PRECISE)}") == [(1, "123.45", "12345678.90", "1234.56", *arrays, length)]
    commit_raw(session, pipeline, more)
    assert table(session, f"id, {shown(PRECISE)}") == [
        (1, "0", "12345678.90", "-0.01", *arrays, "-00:00:00.5"),
        (2, *[None] * len(PRECISE)),
    ]


def test_a_bigint_unsigned_is_wrapped_in_keys_and_values(session: Session, tmp_path: Path) -> None:
    unsigned = '{type: "numeric(20,0)", nullable: true, encoding: unsigned}'
    pipeline = pipeline_of(tmp_path, {"bu": unsigned}, 'id: {type: "numeric(20,0)", key: $.id, encoding: unsigned}')
    commit_raw(session, pipeline, recorded("types/mariadb_string", "my.m.odd"))
    assert table(session, "id::text, bu::text") == [
        *(("1", None), ("18446744073709551615", "18446744073709551615")),
        *(("2", None), ("5", None), ("6", None)),
    ]


@pytest.mark.parametrize(
    ("encoding", "value", "code"),
    [
        ("unscaled", "AQ==", "type"),
        ("unscaled", {"scale": 1}, "type"),
        ("unscaled", {"scale": 99999, "value": "AQ=="}, "range"),
        ("unscaled", {"scale": 0, "value": "A"}, "format"),
        ("unscaled(2)", 1.5, "type"),
        ("unscaled(2)", "1.50", "format"),
        ("unscaled(3)", "AQ==", "precision"),
        ("unsigned", "1", "type"),
        ("unsigned", 2**64, "range"),
        ("unsigned", -1, "range"),
    ],
)
def test_bits_that_are_no_decimal_of_the_column_are_refused(
    session: Session, tmp_path: Path, encoding: str, value: Any, code: str
) -> None:
    pipeline = pipeline_of(tmp_path, {"n": f'{{type: "numeric(10,2)", encoding: {encoding}}}'}, share=1)
    commit_raw(session, pipeline, [Raw(0, 0, event("c", None, {"id": 1, "n": value}), b'{"id": 1}')])
    assert quarantined(session) == {(0, "$.after.n", code)}
