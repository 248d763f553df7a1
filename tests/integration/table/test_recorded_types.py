"""Every type of real sources, as Debezium writes it, becomes the value that the source had, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.ledger.database import Session, rows
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


def pipeline_of(folder: Path, columns: Mapping[str, str], key: str = "id: {type: bigint, key: $.id}") -> Pipeline:
    """A pipeline of change events with these columns, each as YAML."""
    path = folder / "types.yaml"
    path.write_text(
        "pipeline: types\nsource: {topic: t, envelope: debezium, key_format: json}\nrecord:\n"
        f"  key: {{{key}}}\n  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}\n  columns:\n"
        + "".join(f"    {name}: {declared}\n" for name, declared in columns.items())
        + "target: {table: public.types, bookkeeping: beside}\n"
    )
    return parse_pipeline(path)


def table(session: Session, columns: str) -> list[tuple[Any, ...]]:
    return [tuple(each) for each in rows(session, f"SELECT {columns} FROM public.types ORDER BY 1")]


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
