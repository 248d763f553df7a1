"""Debezium's change events into a table as its users made it, whatever order they arrive in."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BatchRejected
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.debezium import SOURCES, UNAVAILABLE, event, message, truncation, written
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.tables import do

PIPELINE = """
pipeline: customers
source: {{topic: shop.public.customers, envelope: debezium{key_format}}}
record:
  key: {{id: {{type: bigint, {key}}}}}
  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}
  columns:
    email: text
    born: {{type: date, nullable: true, encoding: epoch_days}}
    seen_at: {{type: timestamptz, path: $.seen, nullable: true, encoding: epoch_us}}
    credit: {{type: "numeric(12,2)", nullable: true, coerce: true}}
    notes: {{type: text, nullable: true, absent: keep}}
    photo: {{type: bytea, nullable: true, absent: keep}}
    tags: {{type: "text[]", nullable: true, absent: keep}}
    op: {{type: text, path: $.op}}
target: {{table: public.customers, bookkeeping: beside}}
quality: {{max_quarantined_share: 0.9}}
"""
OF_KEY, OF_VALUE = "key: $.id", "path: $.id"
TABLE = (
    "CREATE TABLE public.customers (id bigint PRIMARY KEY, email text NOT NULL, born date, seen_at timestamptz,"
    " credit numeric(12,2), notes text, photo bytea, tags text[], op text, mine integer DEFAULT 7)"
)
START = 1_767_268_800_000
PHOTO = base64.b64encode(b"\x00\xff").decode()
NOT_SENT = {"notes": UNAVAILABLE, "photo": base64.b64encode(UNAVAILABLE.encode()).decode(), "tags": [UNAVAILABLE]}


def pipeline_of(folder: Path, key: str = OF_KEY) -> Pipeline:
    path = folder / "customers.yaml"
    path.write_text(PIPELINE.format(key=key, key_format=", key_format: json" if key == OF_KEY else ""))
    return parse_pipeline(path)


def row(id: int, **more: Any) -> dict[str, Any]:
    """A row as the connector writes it: dates as days, moments as microseconds, decimals as texts."""
    values = {"email": f"{id}@x", "born": 366, "seen": 1_000_001, "credit": "12.50", "notes": "n", "photo": PHOTO}
    return {"id": id, **values, "tags": ["a"], **more}


def record(offset: int, value: bytes | None, id: int | None, partition: int = 0, wrapped: bool = False) -> Raw:
    return Raw(partition, offset, value, None if id is None else written({"id": id}, wrapped))


def table(session: Session, columns: str = "id, email, notes, op") -> set[tuple[Any, ...]]:
    return {tuple(each) for each in rows(session, f"SELECT {columns} FROM public.customers")}


@pytest.mark.parametrize("key", [OF_KEY, OF_VALUE])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("connector", SOURCES)
def test_creates_updates_deletes_and_snapshot_reads_become_the_rows_of_the_source(
    session: Session, tmp_path: Path, connector: str, wrapped: bool, key: str
) -> None:
    do(session, TABLE)

    def of(op: str, before: Any, after: Any, ms: int) -> bytes:
        return event(op, before, after, START + ms, connector, wrapped)

    values = [
        (of("r", None, row(1), 0), 1),
        (of("c", None, row(2), 1), 2),
        (of("u", row(1), row(1, email="new@x", born=None), 2), 1),
        (of("d", row(2), None, 3), 2),
        (None, 2),
        (message(), 99),
        (of("c", None, row(3, notes=None, **{k: NOT_SENT[k] for k in ("photo", "tags")}), 4), 3),
    ]
    pipeline = pipeline_of(tmp_path, key)
    records = [record(n, value, id, wrapped=wrapped) for n, (value, id) in enumerate(values)]
    done = commit_raw(session, pipeline, records)
    assert (done.total.skipped, done.total.quarantined, done.total.deleted) == (2, 0, 1)
    assert _as_bytes(table(session, "id, email, born, seen_at, credit::text, notes, photo, tags::text, op, mine")) == {
        (1, "new@x", None, _moment(1_000_001), "12.50", "n", b"\x00\xff", "{a}", "u", 7),
        (3, "3@x", date(1971, 1, 2), _moment(1_000_001), "12.50", None, None, None, "c", 7),
    }
    assert verify(pipeline)[0] == []


def _moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def _as_bytes(found: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {tuple(bytes(v) if isinstance(v, memoryview) else v for v in each) for each in found}


def test_what_the_database_did_not_log_stays(session: Session, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    commit_raw(session, pipeline, [record(0, event("c", None, row(1), START), 1)])
    commit_raw(session, pipeline, [record(1, event("u", None, row(1, email="b", **NOT_SENT), START + 1), 1)])
    assert _as_bytes(table(session, "email, notes, photo, tags::text")) == {("b", "n", b"\x00\xff", "{a}")}
    commit_raw(session, pipeline, [record(2, event("u", None, row(1, notes=None), START + 2), 1)])
    assert table(session, "notes") == {(None,)}


def test_a_value_that_was_not_sent_is_refused_where_the_column_keeps_nothing(session: Session, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    values = [event("u", None, row(1, email=UNAVAILABLE), START), event("u", None, row(2), START)]
    commit_raw(session, pipeline, [record(n, value, n) for n, value in enumerate(values)])
    ((path, code, detail),) = rows(
        session,
        "SELECT reasons->0->>'path', reasons->0->>'code', reasons->0->>'detail' FROM offset_ledger.quarantine",
    )
    assert (path, code) == ("$.after.email", "missing")
    assert "absent: keep" in detail


def test_a_truncation_asks_a_person_and_deletes_nothing(session: Session, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    commit_raw(session, pipeline, [record(0, event("c", None, row(1), START), 1)])
    later = [record(1, truncation(), None), record(2, event("c", None, row(2), START + 5), 2)]
    with pytest.raises(BatchRejected, match=r"all rows of the source's table were removed \(TRUNCATE, record 0:1\)"):
        commit_raw(session, pipeline, later)
    assert table(session, "id") == {(1,)}


def test_what_is_no_change_event_is_quarantined_with_a_reason(session: Session, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    values = [b'{"id": 1}', event("x", None, row(1)), b'{"schema":{},"payload":null}', event("c", None, None)]
    good = record(len(values), event("c", None, row(5), START), 5)
    commit_raw(session, pipeline, [*(record(n, value, n) for n, value in enumerate(values)), good])
    found = rows(session, "SELECT \"offset\", reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine")
    assert {tuple(each) for each in found} == {
        (0, "$", "type"),
        (1, "$.op", "format"),
        (2, "$", "type"),
        (3, "$.after", "null"),
    }


def fold(changes: Sequence[tuple[int, int, int, str, int, dict[str, Any]]]) -> dict[int, tuple[str, str | None]]:
    """The rows of the source by its changes in the order of their moments and offsets."""
    state: dict[int, tuple[str, str | None]] = {}
    for _, _, _, op, id, values in sorted(changes, key=lambda each: each[:3]):
        if op == "d":
            state.pop(id, None)
            continue
        kept = state.get(id, ("", None))[1]
        notes = kept if values["notes"] == UNAVAILABLE else values["notes"]
        state[id] = (values["email"], notes)
    return state


def test_every_order_of_arrival_gives_the_rows_of_the_source(session: Session, tmp_path: Path, few: bool) -> None:
    pipeline = pipeline_of(tmp_path)
    for seed in range(3 if few else 40):
        rng = random.Random(f"debezium {seed}")
        batches, offset = [], 0
        for _ in range(rng.randint(2, 3)):
            batch = []
            for _ in range(rng.randint(1, 6)):
                id, op = rng.randrange(3), rng.choice("crud")
                values = row(id, email=str(offset), notes=rng.choice(("x", None, UNAVAILABLE)))
                batch.append((rng.randrange(4), 0, offset, op, id, values))
                offset += 1
            batches.append(batch)
        order = rng.choice(list(permutations(batches)))
        do(session, "DROP TABLE IF EXISTS public.customers; SELECT tests.empty_ledger()", TABLE)
        for batch in order:
            records = [
                record(n, event(op, values, None if op == "d" else values, START + ms), id)
                for ms, _, n, op, id, values in batch
            ]
            commit_raw(session, pipeline, records, BatchKind.HEAD if list(order) == batches else BatchKind.REPLAY)
        expected = fold([change for batch in batches for change in batch])
        assert table(session, "id, email, notes") == {(id, *values) for id, values in expected.items()}, seed


MISTAKES = {
    "  columns:": ("  delete_when: {path: $.op, equals: d}\n  columns:", "says what deletes"),
    "source: {": ("source: {format: protobuf, registry: r, ", "no envelope in Protobuf"),
    "  publish_at:": ("  where: {path: $.status, equals: x}\n  publish_at:", "lacks? the row before or after it"),
    "  key:": ("  rest: true\n  key:", "rest of an envelope"),
}


@pytest.mark.parametrize("place", MISTAKES)
def test_what_a_file_of_change_events_cannot_say(tmp_path: Path, place: str) -> None:
    new, says = MISTAKES[place]
    path = tmp_path / "customers.yaml"
    path.write_text(PIPELINE.format(key=OF_KEY, key_format=", key_format: json").replace(place, new, 1))
    with pytest.raises(Exception, match=says):
        parse_pipeline(path)
