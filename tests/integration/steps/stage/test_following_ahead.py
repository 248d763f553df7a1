"""Columns that follow schemas, and a batch ahead of the open one, which never has other columns than that."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest

from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.plan.step import PlannedBatch, plan, plan_ahead
from offset_ledger.steps.stage.step import stage
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.following import TEMPLATE, Bench
from tests.fixtures.formats import AVRO
from tests.fixtures.registry_bench import ME, open_bench

__all__ = ["open_bench"]  # the fixture


class Limited(Bench):
    """Batches of three records, and perhaps a column ``note`` in the pipeline file."""

    TEMPLATE = TEMPLATE.replace("nullable: true}}\n", "nullable: true}}{more}\n") + "limits: {{records_per_batch: 3}}\n"
    DEFAULTS = MappingProxyType({**Bench.DEFAULTS, "more": ""})

    def staged(self, plans: Callable[..., PlannedBatch] = plan) -> Batch:
        planned = plans(self.pipeline, ME).batch
        assert planned is not None
        stage(BY_PROCESS, self.pipeline, planned.batch_id, ME)
        return planned

    def ends(self) -> list[tuple[int, str, int]]:
        query = (
            "SELECT batch_id, state, until_offset FROM offset_ledger.batch"
            " JOIN offset_ledger.batch_range USING (batch_id) ORDER BY 1"
        )
        return [(row[0], row[1], row[2]) for row in rows(self.session, query)]

    def has(self, names: str, noted: str) -> bool:
        self.check()
        there = sorted(self.rows("_partition, _offset, event_id, note"))
        return there == [(0, n, name, "x" if name in noted else None) for n, name in enumerate(names)]


@pytest.fixture
def bench(open_bench: Callable[[type[Limited]], Limited]) -> Limited:
    return open_bench(Limited)


def test_nothing_is_planned_ahead_of_a_batch_that_ends_at_a_schema_or_brings_its_columns(bench: Limited) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "ab"), *bench.orders(2, second, "cdefghijk"))
    bench.staged()
    assert bench.ends() == [(1, "staged", 2)]
    assert plan_ahead(bench.pipeline, ME).message.endswith("may change the columns")
    bench.ingest(until_drained=False)
    bench.staged()
    assert plan_ahead(bench.pipeline, ME).message.endswith("may change the columns")
    bench.ingest(until_drained=False)
    bench.staged()
    assert bench.staged(plan_ahead).ranges == (OffsetRange(0, 8, 11),)
    bench.ingest()
    assert bench.ends() == [(1, "committed", 2), (2, "committed", 5), (3, "committed", 8), (4, "committed", 11)]
    assert bench.has("abcdefghijk", "cdefghijk")


@pytest.mark.parametrize("before", [3, 4], ids=["begins with it", "ends before it"])
def test_a_batch_ahead_that_meets_a_schema_itself_brings_its_columns_or_ends_there(bench: Limited, before: int) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    old, new = "abcdefgh"[:before], "abcdefgh"[before:]
    bench.put(0, *bench.orders(1, first, old), *bench.orders(2, second, new))
    bench.staged()
    bench.staged(plan_ahead)
    assert bench.ends() == [(1, "staged", 3), (2, "staged", 6 if before == 3 else 4)]
    bench.ingest()
    assert [state for _, state, _ in bench.ends()] == ["committed"] * before
    assert bench.changes() == [(before - 1, "ADD COLUMN note text")]
    assert bench.has("abcdefgh", new)


def test_a_batch_ahead_goes_when_the_one_before_it_is_to_end_earlier(bench: Limited) -> None:
    """The pipeline file had the column, and has it no more, so that the schemas bring it."""
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "ab"), *bench.orders(2, second, "cdef"))
    bench.settings["more"] = "\n    note: {type: text, nullable: true}"
    bench.staged()
    bench.staged(plan_ahead)
    assert bench.ends() == [(1, "staged", 3), (2, "staged", 6)]
    bench.settings["more"] = ""
    bench.execute("ALTER TABLE public.orders DROP COLUMN note")
    bench.staged()
    assert bench.ends() == [(1, "staged", 2), (2, "abandoned", 6)]
    bench.ingest()
    assert bench.ends() == [(1, "committed", 2), (2, "abandoned", 6), (3, "committed", 5), (4, "committed", 6)]
    assert bench.has("abcdef", "cdef")
