"""Rows of CloudEvents in binary mode: their moment and their kind are in headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.raw import Raw, commit_raw

FILE = """
pipeline: orders
source: {topic: t}
record:
  event_id: key
  publish_at: {header: ce_time}
  where: [{header: ce_type, equals: shop.order}, {path: $.state, not: test}]
  tombstone: delete
  columns: {state: {type: text, nullable: true}}
target: {table: public.orders}
quality: {max_quarantined_share: 1}
"""


def at(offset: int, time: str | None, value: bytes | None, kind: str | None = "shop.order", key: bytes = b"k") -> Raw:
    headers = [("ce_time", None if time is None else time.encode()), ("ce_type", kind and kind.encode())]
    return Raw(0, offset, value, key, tuple(each for each in headers if each[1] is not None))


def test_the_header_orders_rows_and_deletes_and_says_which_records_are_taken(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(FILE)
    records = [
        at(0, "2026-01-01T12:00:00Z", b'{"state": "new"}'),
        at(1, "2026-01-01T12:00:02Z", b'{"state": "paid"}'),
        at(2, "2026-01-01T12:00:01Z", b'{"state": "late"}'),
        at(3, "2026-01-01T12:00:09Z", b"no JSON", "shop.refund"),
        at(4, "2026-01-01T12:00:09Z", b'{"state": "test"}'),
        at(5, "2026-01-01T12:00:00Z", b'{"state": null}', key=b"gone"),
        at(6, "2026-01-01T12:00:01Z", None, None, b"gone"),
        at(7, "", b'{"state": "new"}', key=b"empty"),
        at(8, None, b'{"state": "new"}', key=b"absent"),
    ]
    done = commit_raw(session, parse_pipeline(path), records)
    assert (done.total.skipped, done.total.quarantined) == (2, 2)
    stored = rows(session, "SELECT event_id, state, publish_at::text, _deleted FROM public.orders ORDER BY 1")
    assert [tuple(each) for each in stored] == [
        ("gone", None, "2026-01-01 12:00:01+00", True),
        ("k", "paid", "2026-01-01 12:00:02+00", False),
    ]
    refused = rows(
        session, """SELECT "offset", reasons->0->>'code', reasons->0->>'detail' FROM offset_ledger.quarantine"""
    )
    assert sorted(tuple(each) for each in refused) == [
        (7, "format", "expected timestamptz, and the header ce_time is empty"),
        (8, "missing", "expected a header, got none"),
    ]
    path.write_text(FILE.replace("{header: ce_time}", "kafka_timestamp"))
    with pytest.raises(TargetMismatch, match=r"has rows that are ordered by \{header: ce_time\}; nothing was changed"):
        commit_raw(session, parse_pipeline(path), [at(9, None, b'{"state": "new"}')])
