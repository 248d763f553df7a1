"""A pipeline with records in quarantine, for tests of what people do with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from offset_ledger.model.batch import Batch
from offset_ledger.model.states import BatchKind
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.commit.step import Committed
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.tables import pipeline_of
from tests.fixtures.topic_bench import quiet

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: orders.redriven}}
record:
  event_id: $.id
  publish_at: $.at
  tombstone: {tombstone}
  columns: {{state: {state}, amount: {{type: "{amount}", nullable: true}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0{suite}}}
"""


def order(event_id: str, at: int, state: str = "new", **more: Any) -> bytes:
    moment = (NOON + timedelta(seconds=at)).isoformat()
    return json.dumps({"id": event_id, "at": moment, "state": state, **more}).encode()


Place = tuple[int, int]


@dataclass
class Bench:
    """A pipeline whose rules a test may loosen, and a ledger with its quarantine."""

    folder: Path
    session: Session
    tombstone: str = "quarantine"
    state: str = "text"
    amount: str = "numeric(12,2)"
    suite: str = ""

    @property
    def pipeline(self) -> Pipeline:
        settings = {"tombstone": self.tombstone, "state": self.state, "amount": self.amount, "suite": self.suite}
        return pipeline_of(self.folder, PIPELINE, **settings)

    def rule(self, *states: str, action: str = "quarantine") -> None:
        """From now on ``state`` must be one of these."""
        write_suite(self.folder, in_set(action, "state", *states))
        self.suite = ", suite: orders"

    def commit(self, *records: Raw, kind: BatchKind = BatchKind.HEAD) -> Committed:
        return commit_raw(self.session, self.pipeline, records, kind)

    def plan(self, **choice: Any) -> Batch:
        planned = plan_redrive(self.pipeline, RedriveChoice(**choice), ME)
        assert planned.batch is not None, planned.message
        return planned.batch

    def redrive(self, **choice: Any) -> Committed:
        planned = plan_redrive(self.pipeline, RedriveChoice(**choice), ME)
        return run_batch(self.pipeline, planned, ME, quiet).committed

    def table(self) -> dict[str, tuple[str, int, int]]:
        found = rows(self.session, "SELECT event_id, state, _partition, _offset FROM public.orders")
        return {row[0]: (row[1], row[2], row[3]) for row in found}

    def quarantine(self) -> dict[Place, int | None]:
        """Every quarantined record with the batch that resolved it."""
        found = rows(self.session, 'SELECT partition, "offset", resolved_by FROM offset_ledger.quarantine')
        return {(row[0], row[1]): row[2] for row in found}

    def reasons(self, column: str = "coalesce(retried_reasons, reasons)") -> dict[Place, list[str]]:
        found = rows(self.session, f'SELECT partition, "offset", {column} FROM offset_ledger.quarantine')
        return {(row[0], row[1]): [each["code"] for each in row[2]] for row in found if row[2]}

    def execute(self, statement: str) -> None:
        with transaction(self.session) as cursor:
            cursor.execute(statement)
