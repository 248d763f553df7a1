"""Which engine staged a batch, and why: kept with the batch and shown wherever the batch is."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.model.batch import FROM_QUARANTINE, Engine, EngineChoice, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger import batches
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.report.step import reports_folder
from offset_ledger.steps.run.ingest import ingest, run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from offset_ledger.steps.stage.claim import claim
from offset_ledger_kit.cli.main import main
from tests.fixtures.servers import Servers
from tests.fixtures.staged import a_pipeline, planned
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
AT = 1_767_268_800_000  # milliseconds
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: kafka_timestamp, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
stage: {{process_below: {below}}}
"""
SMALL = EngineChoice(Engine.PROCESS, "2 offsets, fewer than stage.process_below: 3")
LARGE = EngineChoice(Engine.SPARK, "3 offsets, at least stage.process_below: 3")


class Bench(TopicBench):
    """A topic of one partition whose batches go to Spark from three offsets on."""

    TEMPLATE = PIPELINE
    DEFAULTS = MappingProxyType({"below": 3})


def order(event_id: str) -> Record:
    return Record(event_id.encode(), json.dumps({"id": event_id, "state": "new"}).encode(), (), AT, 0)


@pytest.mark.full
def test_engine_and_reason_are_kept_with_every_batch_and_shown(
    bench: Bench, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    said: list[str] = []
    bench.publish(order("a"), Record(b"k", b'{"id": "b"}', (), AT, 0))
    list(ingest(bench.pipeline, ME, False, said.append))
    bench.publish(order("c"), order("d"), order("e"))
    list(ingest(bench.pipeline, ME, False, said.append))
    assert [line for line in said if line.startswith("staging")] == [f"staging {SMALL}", f"staging {LARGE}"]
    run_batch(bench.pipeline, plan_redrive(bench.pipeline, RedriveChoice(), ME), ME, quiet)

    capsys.readouterr()
    assert main(["batch", "list", str(bench.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["engine"], each["engine_reason"]) for each in shown[::-1]] == [
        ("head", SMALL.engine, SMALL.reason),
        ("head", LARGE.engine, LARGE.reason),
        ("redrive", FROM_QUARANTINE.engine, "a redrive reads quarantine, not Kafka"),
    ]
    for each in shown:
        stored = json.loads((reports_folder() / "orders" / f"{each['batch_id']}.json").read_text())
        assert (stored["engine"], stored["engine_reason"]) == (each["engine"], each["engine_reason"])


def test_a_new_claim_forgets_the_engine_and_keeps_its_own_which_the_old_attempt_cannot_replace(
    servers: Servers,
) -> None:
    pipeline = a_pipeline()
    with connect(servers.postgres) as session:

        def kept() -> tuple[str | None, str | None]:
            with transaction(session) as cursor:
                batch = batches.read_batch(cursor, batch_id)
            return batch.engine, batch.engine_reason

        def note(epoch: int, choice: EngineChoice) -> None:
            with transaction(session) as cursor:
                batches.note_engine(cursor, claims[epoch - 1].attempt, choice)

        batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
        assert kept() == (None, None)
        claims = [claim(session, pipeline, batch_id, ME)]
        note(1, LARGE)
        assert kept() == (LARGE.engine, LARGE.reason)
        claims.append(claim(session, pipeline, batch_id, ME))
        assert kept() == (None, None)
        note(1, LARGE)
        assert kept() == (None, None)
        note(2, SMALL)
        note(1, LARGE)
        assert kept() == (SMALL.engine, SMALL.reason)
