"""What Debezium wrote about tables of a real Postgres and a real MariaDB becomes the rows that these tables had."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BatchRejected
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.raw import Raw, commit_raw, recorded
from tests.fixtures.tables import do
from tests.paths import ROOT

RECORDED = ROOT / "tests" / "fixtures" / "recorded"
PIPELINE = """
pipeline: customers
source: {{topic: shop.customers, envelope: debezium, key_format: json}}
record:
  key: {{id: {{type: bigint, key: $.id}}, region: {{type: text, key: $.region}}}}
  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}
  columns:
    email: {{type: text, nullable: true}}
    born: {{type: date, nullable: true, encoding: epoch_days}}
    credit: {{type: "numeric(12,2)", coerce: true}}
    notes: {{type: text, nullable: true, absent: keep}}
    joined: {{type: timestamptz, nullable: true}}
    seen: {{type: timestamptz, nullable: true, encoding: epoch_ms}}
    touched: {{type: timestamptz, nullable: true, encoding: epoch_us}}
    settings: {{type: text, nullable: true}}
    mood: {{type: text, nullable: true}}
    picture: {{type: bytea, nullable: true, absent: keep}}
{more}
target: {{table: public.customers, bookkeeping: beside}}
"""
MORE = {
    "postgresql": """
    active: boolean
    tags: {type: "text[]", nullable: true}
    ref: {type: uuid, nullable: true}
    amount: {type: double precision, nullable: true}""",
    "mariadb": """
    active: smallint
    visits: {type: bigint, nullable: true}""",
}


def pipeline_of(folder: Path, source: str) -> Pipeline:
    path = folder / "customers.yaml"
    path.write_text(PIPELINE.format(more=MORE[source]))
    return parse_pipeline(path)


def rows_of_source(source: str) -> set[tuple[Any, ...]]:
    """The rows that the source had, each as its names and values."""
    lines = (RECORDED / f"{source}_rows.jsonl").read_text().splitlines()
    return {_named(_read(json.loads(line, parse_float=Decimal))) for line in lines}


def _read(row: dict[str, Any]) -> dict[str, Any]:
    def of(name: str, read: Callable[[Any], Any]) -> None:
        row[name] = None if row.get(name) is None else read(row[name])

    row.pop("opens", None)
    of("born", date.fromisoformat)
    of("credit", Decimal)
    for name in ("joined", "seen", "touched"):
        of(name, lambda text: datetime.fromisoformat(text.removesuffix("+00:00")).replace(tzinfo=UTC))
    of("picture", lambda text: bytes.fromhex(text.removeprefix("\\x")))
    if "amount" in row:
        of("amount", float)
    if "tags" in row:
        of("tags", tuple)
    return row


def rows_there(session: Session) -> set[tuple[Any, ...]]:
    return {_named(dict(each)) for each in rows(session, "SELECT * FROM public.customers")}


def _named(row: dict[str, Any]) -> tuple[Any, ...]:
    """The row as a value that may be in a set; its JSON as what it says."""
    settings = row.get("settings")
    row["settings"] = json.dumps(json.loads(settings) if isinstance(settings, str) else settings)
    made = {list: tuple, memoryview: bytes}
    return tuple(sorted((name, made.get(type(value), lambda each: each)(value)) for name, value in row.items()))


# The UPDATE that gave this row another key did not log the text, so no record of its new key ever had it.
NEVER_SENT = (5, "us")


def expected(source: str) -> set[tuple[Any, ...]]:
    wanted = set()
    for row in map(dict, rows_of_source(source)):
        if (row["id"], row["region"]) == NEVER_SENT:
            assert row["notes"].startswith("eee")
            row["notes"] = None
        wanted.add(tuple(sorted(row.items())))
    return wanted


@pytest.mark.parametrize("source", MORE)
def test_the_table_has_the_rows_of_the_source(session: Session, tmp_path: Path, source: str) -> None:
    pipeline = pipeline_of(tmp_path, source)
    *records, truncation = recorded(source)
    done = commit_raw(session, pipeline, records)
    assert done.total.quarantined == 0
    assert rows_there(session) == expected(source)
    with pytest.raises(BatchRejected, match=r"\(TRUNCATE, record 0:\d+\)"):
        commit_raw(session, pipeline, [truncation])
    assert rows_there(session) == expected(source)
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", MORE)
def test_so_has_it_in_any_order_of_arrival(session: Session, tmp_path: Path, source: str, seed: int) -> None:
    pipeline = pipeline_of(tmp_path, source)
    records = recorded(source)[:-1]
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(records)), 6))
    batches = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    for batch in [*rng.sample(batches, len(batches)), *rng.sample(batches, 2)]:
        commit_raw(session, pipeline, batch, BatchKind.REPLAY)
    assert rows_there(session) == expected(source)


def test_the_wrapper_of_the_converter_changes_nothing(session: Session, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "postgresql")
    wrapped = recorded("postgresql_wrapped")
    lines = [json.loads(line)["line"] for line in (RECORDED / "postgresql_wrapped.jsonl").read_text().splitlines()]
    plain = recorded("postgresql")
    found = []
    for records in ([plain[n] for n in lines[:-1]], wrapped[:-1]):
        commit_raw(session, pipeline, [Raw(0, n, each.value, each.key) for n, each in enumerate(records)])
        found.append(rows_there(session))
        do(
            session,
            "DROP TABLE public.customers; DROP TABLE offset_ledger_rows.customers",
            "SELECT tests.empty_ledger()",
        )
    assert found[0] == found[1] != set()
    with pytest.raises(BatchRejected, match="TRUNCATE"):
        commit_raw(session, pipeline, wrapped[-1:])
