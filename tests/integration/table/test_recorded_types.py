"""Every type of real sources, as Debezium writes it, becomes the value that the source had, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.ledger.database import Session, rows
from tests.fixtures.debezium import event
from tests.fixtures.raw import Raw, commit_raw

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded" / "types"


def recorded(file: str, topic: str) -> list[Raw]:
    """The records of a recorded topic."""
    lines = [json.loads(line) for line in (RECORDED / f"{file}.jsonl").read_text().splitlines()]
    of_topic = [each for each in lines if each["topic"] == topic]
    return [
        Raw(0, n, *(each[name] if each[name] is None else each[name].encode() for name in ("value", "key")))
        for n, each in enumerate(of_topic)
    ]


def pipeline_of(
    folder: Path, columns: Mapping[str, str], key: str = "id: {type: bigint, key: $.id}", share: float = 0
) -> Pipeline:
    """A pipeline of change events with these columns, each as YAML."""
    path = folder / "types.yaml"
    path.write_text(
        "pipeline: types\nsource: {topic: t, envelope: debezium, key_format: json}\nrecord:\n"
        f"  key: {{{key}}}\n  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}\n  columns:\n"
        + "".join(f"    {name}: {declared}\n" for name, declared in columns.items())
        + f"target: {{table: public.types, bookkeeping: beside}}\nquality: {{max_quarantined_share: {share}}}\n"
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
    "bigj": "{type: text, nullable: true, absent: keep}",
    "bigb": "{type: bytea, nullable: true, absent: keep}",
    "ta": '{type: "text[]", nullable: true, absent: keep}',
    "ia": '{type: "integer[]", nullable: true, absent: keep}',
    "hs": "{type: text, nullable: true, absent: keep}",
    "n": "integer",
}


@pytest.mark.parametrize("mode", ["string", "precise"])
def test_large_values_stay_where_an_update_did_not_send_them(session: Session, tmp_path: Path, mode: str) -> None:
    more = {"nm": "{type: numeric, nullable: true, absent: keep, coerce: true}"} if mode == "string" else {}
    pipeline = pipeline_of(tmp_path, LARGE | more)
    records = recorded(f"postgres_{mode}", "pg.public.toast")
    update = next(n for n, each in enumerate(records) if json.loads(each.value or b"{}")["op"] == "u")
    assert commit_raw(session, pipeline, records[: update + 1]).total.quarantined == 0
    numbers = list(range(1, 2001))
    large = ("x" * 20, '"' + "y" * 20 + '"', b"\xff" * 20, [f"t{n}" for n in numbers], numbers)
    number = ["9" * 20 + ".5"] if mode == "string" else []
    shown = "id, n, big, bigj, bigb, ta, ia, hs" + (", nm::text" if number else "")
    hstore = json.dumps({"k": "z" * 20}, separators=(",", ":"))
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
