"""Fields that nothing reads are kept with their batch, however often it was staged, and shown where people look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.operations.check.diff import diff
from offset_ledger.pipeline_file.pipeline import Column, ColumnType
from offset_ledger.postgres.ledger import batches, staging
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.report.step import report
from offset_ledger.steps.stage.step import stage
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.formats import AVRO
from tests.fixtures.registry_bench import RegistryBench, framed
from tests.integration.operations.check.test_effects import JSON

ME = Origin("test")
OF_AVRO = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: avro, registry: registry_default}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: {{type: bigint, nullable: true}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""


@pytest.fixture
def bench(
    open_bench: Callable[[type[RegistryBench]], RegistryBench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RegistryBench:
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(tmp_path / "reports"))
    made = open_bench(RegistryBench)
    made.form = AVRO
    return made


def counted(bench: RegistryBench, batch_id: int) -> UnreadCounts | None:
    with transaction(bench.session) as cursor:
        return staging.read_unread(cursor, batches.read_batch(cursor, batch_id).attempt)


def document(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"e{number}", "amount": number, **more}).encode()


def page(bench: RegistryBench, batch_id: int) -> str:
    found = report(bench.pipeline, batch_id)
    assert found is not None
    return found.read_text()


def test_a_batch_that_is_staged_twice_counts_once(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON)
    refused = [b'{"id": "x", "amount": "no number", "of_refused": 1}']
    bench.send(*(document(n, new=n, place={"zip": 1}) for n in range(10)), document(10, rare=1), *refused)
    batch = plan(bench.pipeline, ME).batch
    assert batch is not None
    stage(BY_PROCESS, bench.pipeline, batch.batch_id, ME)
    with transaction(bench.session) as cursor:
        cursor.execute("UPDATE offset_ledger.batch SET state = 'staging' WHERE batch_id = %s", [batch.batch_id])
    stage(BY_PROCESS, bench.pipeline, batch.batch_id, ME)

    (committed,) = bench.ingest()

    expected = UnreadCounts(11, 11, {"$.new": 10, "$.place": 10, "$.rare": 1})
    assert counted(bench, committed.batch.batch_id) == expected
    epochs = rows(bench.session, "SELECT DISTINCT epoch FROM offset_ledger.slice WHERE unread IS NOT NULL ORDER BY 1")
    assert [row[0] for row in epochs] == [1, 2]
    first = page(bench, committed.batch.batch_id)
    assert "In 11 rows" in first
    assert "<code>$.new</code>" in first
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON.replace("    note:", "    new: {{type: bigint}}\n    note:"))
    assert page(bench, committed.batch.batch_id) == first


def test_diff_names_what_the_file_does_not_read_by_now(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", JSON)
    bench.send(*(document(n, new=n, place={"zip": 1, "city": "x"}) for n in range(3)))
    (committed,) = bench.ingest()
    bench.ingest()  # nothing is new

    pipeline = bench.pipeline
    found = {line.path: [(mark.text, mark.matters) for mark in line.marks] for line in diff(pipeline).lines}
    said = f"nothing reads it: in 3 of 3 rows of batch {committed.batch.batch_id}"
    assert {path: marks for path, marks in found.items() if marks} == {
        "$.new": [(said, False)],
        "$.place": [(said, False)],
    }
    city = Column("city", ColumnType("text"), ("place", "city"), nullable=True)
    reading = replace(pipeline, record=replace(pipeline.record, columns=(*pipeline.record.columns, city)))
    marked = {line.path for line in diff(reading).lines if any("nothing reads it" in mark.text for mark in line.marks)}
    assert marked == {"$.new"}


def test_of_records_with_schemas_the_schemas_say_it(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", OF_AVRO)
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.send(
        *(framed(first, AVRO.encode(1, {"id": f"a{n}", "amount": n})) for n in range(3)),
        *(framed(second, AVRO.encode(2, {"id": f"b{n}", "amount": n, "note": None})) for n in range(4)),
        framed(second, b"damaged"),
    )

    (committed,) = bench.ingest()

    assert counted(bench, committed.batch.batch_id) == UnreadCounts(7, 7, {"$.note": 4})
    assert "<code>$.note</code>" in page(bench, committed.batch.batch_id)
