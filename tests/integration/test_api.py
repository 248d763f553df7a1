"""A script that uses the public names only: it checks a file, ingests, replays, and asks for status and proof."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from offset_ledger import (
    ConfigurationError,
    OffsetExpired,
    OffsetRange,
    PipelineFileError,
    batches,
    check,
    ingest,
    preview,
    quarantine,
    replay,
    status,
    verify,
)
from offset_ledger.outside.producer.record import Record
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns: {{state: text}}
target: {{connection: postgres_default, table: orders}}
"""


class Bench(TopicBench):
    TEMPLATE = PIPELINE


def order(event_id: str, state: str) -> Record:
    return Record(b"k", json.dumps({"id": event_id, "state": state}).encode(), partition=0)


def test_a_script_needs_the_public_names_only(bench: Bench) -> None:
    bench.publish(order("a", "new"), order("b", "new"), order("a", "paid"))
    said: list[str] = []
    assert "orders" in check(bench.path)

    (first,) = ingest(bench.path, until_drained=True, say=said.append)
    assert {p: (sheet.inserted, sheet.superseded + sheet.duplicate) for p, sheet in first.committed.sheet.items()} == {
        0: (2, 1)
    }
    assert sorted(bench.rows("event_id, state, _partition, _offset")) == [("a", "paid", 0, 2), ("b", "new", 0, 1)]
    assert any(line.startswith("planned") for line in said)
    assert ingest(bench.path) == ()

    again = replay(bench.path, [OffsetRange(0, 0, 2)], why="to be sure")
    assert again.committed.total.inserted + again.committed.total.updated == 0
    assert [(p.cursor, p.lag) for p in status(bench.path).partitions] == [(3, 0)]
    proved = verify(bench.path, against_topic=True)
    assert (proved.holds, proved.violations) == (True, ())


def test_mistakes_are_errors_of_the_package(bench: Bench) -> None:
    bench.publish(order("a", "new"), order("b", "new"))
    with pytest.raises(ConfigurationError, match="give one of the two"):
        replay(bench.path)
    bench.delete_below(0, 1)
    with pytest.raises(OffsetExpired, match="the log starts at 1"):
        replay(bench.path, [OffsetRange(0, 0, 2)])
    broken = bench.folder / "broken.yaml"
    broken.write_text("pipeline: 1\n")
    with pytest.raises(PipelineFileError):
        check(broken)


TYPED = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: numeric(8,2)
    exact: {{type: numeric, nullable: true}}
    token: {{type: uuid, nullable: true}}
    day: {{type: date, nullable: true}}
    lines: {{type: jsonb, nullable: true}}
target: {{connection: postgres_default, table: orders}}
quality: {{max_quarantined_share: 1}}
"""
TOKEN = "6f1e3c9a-0d5b-4b5e-8c3e-2f7f3d1a9b10"


def test_what_is_shown_is_arrow_with_types(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", TYPED)
    assert preview(bench.path).rows.num_rows == 0
    good = (
        b'{"id": "a", "amount": 1.50, "exact": 1e2, "token": "%s", "day": "2026-03-01", "lines": [1]}' % TOKEN.encode()
    )
    bad = b'{"id": "b", "amount": 7.125}'
    bench.publish(Record(b"k", good, partition=0), Record(b"k", bad, (("h", b"x"),), partition=0))

    shown = preview(bench.path, records=5)
    kinds = {field.name: str(field.type) for field in shown.rows.schema}
    declared = {name: kinds[name] for name in ("amount", "exact", "token", "day", "lines", "publish_at", "_deleted")}
    assert declared == {
        "amount": "decimal128(8, 2)",
        "exact": "string",
        "token": "string",
        "day": "date32[day]",
        "lines": "string",
        "publish_at": "timestamp[us, tz=UTC]",
        "_deleted": "bool",
    }
    assert "_value" not in kinds
    (row,) = shown.rows.select(["event_id", "amount", "token", "day", "_offset"]).to_pylist()
    assert row == {"event_id": "a", "amount": Decimal("1.50"), "token": TOKEN, "day": date(2026, 3, 1), "_offset": 0}
    (refused,) = shown.refused.select(["_offset", "_value", "reasons"]).to_pylist()
    detail = "expected numeric(8,2), got 7.125"
    reasons = [{"path": "$.amount", "code": "precision", "detail": detail}]
    assert refused == {"_offset": 1, "_value": bad, "reasons": reasons}
    assert shown.skipped == 0

    ingest(bench.path)
    kept = quarantine(bench.path)
    (record,) = kept.select(["partition", "offset", "key", "value", "headers", "reasons", "resolved_by"]).to_pylist()
    assert record == {
        **{"partition": 0, "offset": 1, "key": b"k", "value": bad, "reasons": reasons, "resolved_by": None},
        "headers": '[["h", "x"]]',
    }
    assert quarantine(bench.path, reason="missing").schema == kept.schema
    for none in (
        {"reason": "missing"},
        {"resolved": True},
        {"dismissed": True},
        {"since": datetime(2100, 1, 1, tzinfo=UTC)},
    ):
        assert quarantine(bench.path, **none).num_rows == 0
    with pytest.raises(ConfigurationError, match="has no time zone"):
        quarantine(bench.path, since=datetime(2026, 1, 1))
    (batch,) = batches(bench.path).to_pylist()
    assert (batch["state"], batch["offsets"], batch["inserted"], batch["quarantined"]) == ("committed", 2, 1, 1)
    assert batch["planned_at"] < batch["ended_at"]
    assert batches(bench.path, limit=1).schema.field("offsets").type == pa.int64()
