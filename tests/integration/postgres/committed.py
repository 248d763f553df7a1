"""Batches of given events that are planned, staged, validated and committed, and rows that are read afterwards."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline
from offset_ledger.postgres.ledger.database import Session, transaction
from offset_ledger.steps.commit.step import commit
from tests.fixtures.staged import ME, Event, planned, staged, validated
from tests.fixtures.tables import do

BOTH = pytest.mark.parametrize("how", [Merge.NEWEST_WINS, Merge.SKIP_EXISTING])


def run(
    session: Session,
    pipeline: Pipeline,
    ranges: list[OffsetRange],
    events: list[Event],
    kind: BatchKind = BatchKind.HEAD,
    notes: Mapping[str, str] | None = None,
) -> int:
    batch_id = planned(session, pipeline, ranges, kind)
    tables = staged(session, pipeline, batch_id, events, "transaction")
    for event_id, note in (notes or {}).items():
        do(session, f"UPDATE offset_ledger_staging.{tables.rows} SET note = '{note}' WHERE event_id = '{event_id}'")
    validated(session, tables)
    commit(pipeline, batch_id, ME)
    return batch_id


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    with transaction(session) as cursor:
        cursor.execute(query)
        return [tuple(row) for row in cursor.fetchall()]
