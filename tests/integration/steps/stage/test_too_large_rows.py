"""A row that Postgres cannot hold sends its record to quarantine alone; whoever reads it again says the same."""

from __future__ import annotations

import json
from types import MappingProxyType
from uuid import UUID

import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from offset_ledger.steps.stage import copy_rows
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
COLUMNS = 600  # of 16 bytes each, which Postgres keeps in the row: together more than a page
RECORDS, LARGE = 50, {17, 18, 49}


class Bench(TopicBench):
    """A table of many columns that are seldom all set."""

    TEMPLATE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{{columns}}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{max_quarantined_share: 1.0}}
"""
    DEFAULTS = MappingProxyType(
        {"name": "orders", "columns": ", ".join(f"c{n}: {{type: uuid, nullable: true}}" for n in range(COLUMNS))}
    )

    def quarantined(self) -> list[tuple[int, bytes, str, str]]:
        query = """SELECT "offset", value, reasons, resolved_by FROM offset_ledger.quarantine ORDER BY "offset" """
        found = rows(self.session, query)
        assert all(resolved_by is None for *_, resolved_by in found)
        return [(n, bytes(value), each["code"], each["detail"]) for n, value, (each,), _ in found]


def order(n: int) -> Record:
    values = {f"c{c}": str(UUID(int=n * COLUMNS + c)) for c in range(COLUMNS if n in LARGE else 1)}
    return Record(b"%d" % n, json.dumps({"id": f"{n}", "at": "2026-01-01T12:00:00Z", **values}).encode())


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "csv"])
def test_it_is_quarantined_alone(bench: Bench, binary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_rows.copy_form, "__defaults__", (binary,))
    bench.publish(*map(order, range(RECORDS)))
    (done,) = bench.ingest()
    assert (done.batch.epoch, done.total.inserted, done.total.quarantined) == (1, RECORDS - len(LARGE), len(LARGE))
    assert set(bench.rows("event_id, _offset")) == {(f"{n}", n) for n in range(RECORDS) if n not in LARGE}
    refused = [(n, order(n).value, "too_large") for n in sorted(LARGE)]
    assert [each[:3] for each in bench.quarantined()] == refused
    details = {detail for *_, detail in bench.quarantined()}
    expected = "expected a row that Postgres can hold, got: row is too big"
    assert [each for each in details if not each.startswith(expected)] == []
    bench.check()
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, RedriveChoice(), ME), ME, quiet)
    assert [each[:3] for each in bench.quarantined()] == refused
