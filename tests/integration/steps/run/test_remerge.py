"""A table ordered by two clocks, on real servers: what wins after a remerge, and what a crash during it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError, PipelineFileError, StateConflict, TargetMismatch
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.status import status
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.remerge import restate_rows
from offset_ledger_kit.cli.main import main
from tests.fixtures.staged import ME, NOON
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record:
  event_id: key
  publish_at: {publish_at}
  tombstone: delete
  delete_when: {{path: $.op, equals: d}}
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders}}
limits: {{records_per_batch: 4}}
"""


def sent(event_id: str, at: int, timestamp: int, state: str | None, partition: int = 0) -> Record:
    """A record, or without a state a tombstone: ``at`` by its producer's clock, ``timestamp`` by Kafka's."""
    moment = (NOON + timedelta(seconds=at)).isoformat()
    value = None if state is None else json.dumps({"at": moment, "state": state}).encode()
    millis = int((NOON + timedelta(seconds=timestamp)).timestamp() * 1000)
    return Record(event_id.encode(), value, (), millis, partition)


GONE = [sent("gone", 9, 0, "late"), sent("gone", 1, 5, "early")]  # retention takes the first one
AHEAD = [sent("ahead", 30, 0, "new"), sent("ahead", 0, 1, None)]
AGAIN = [sent("again", 0, 0, "new", 1), sent("again", 0, 5, None, 1), sent("again", 2, 6, "back", 1)]
PLAIN = [sent("plain", 2, 0, "first", 1), sent("plain", 1, 3, "second", 1)]

MIXED = {
    ("gone", "late", False, 0, 0),
    ("ahead", "new", False, 0, 2),
    ("again", None, True, 1, 1),
    ("plain", "first", False, 1, 3),
}
ORDERED = {
    ("gone", "early", False, 0, 1),
    ("ahead", None, True, 0, 3),
    ("again", "back", False, 1, 2),
    ("plain", "second", False, 1, 4),
}


class Bench(TopicBench):
    """A topic with records of two clocks, and a table that an earlier version has filled from it."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2
    DEFAULTS = MappingProxyType({"publish_at": "kafka_timestamp"})

    @property
    def before(self) -> Pipeline:
        """The pipeline as an earlier version read it: rows by their own timestamp, markers by Kafka's."""
        path = self.folder / "before.yaml"
        path.write_text(PIPELINE.format(topic=self.topic, publish_at="$.at"))
        with pytest.raises(PipelineFileError, match="two clocks"):
            parse_pipeline(path)
        record = replace(self.pipeline.record, publish_at=("at",), delete_when=None)
        return replace(self.pipeline, record=record)

    def remember(self, moment: str | None) -> None:
        """Let the ledger have another order of the rows; an earlier version leaves none."""
        with transaction(self.session) as cursor:
            cursor.execute("UPDATE offset_ledger.pipeline SET ordered_by = %s", [moment])

    def table(self) -> set[tuple[Any, ...]]:
        return set(self.rows("event_id, state, _deleted, _partition, _offset"))

    def fingerprint(self) -> set[tuple[Any, ...]]:
        """Every row with the transaction that wrote it, and every batch and decision."""
        query = (
            "SELECT xmin::text, t::text FROM public.orders t UNION ALL"
            " SELECT xmin::text, d::text FROM offset_ledger.decision d UNION ALL"
            " SELECT xmin::text, b::text FROM offset_ledger.batch b"
        )
        return {tuple(row) for row in rows(self.session, query)}


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.publish(*GONE, *AHEAD, *AGAIN, *PLAIN)
    bench.ingest(pipeline=bench.before)
    bench.remember(None)
    return bench


def test_after_a_remerge_the_newest_by_one_clock_wins(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.table() == MIXED
    with pytest.raises(TargetMismatch, match="offset-ledger remerge orders --why"):
        plan(bench.pipeline, ME)
    bench.delete_below(0, 1)

    restated = restate_rows(bench.pipeline, ME, "one clock")  # and here the process dies
    assert restated.rows == 3
    assert sum(r.width for part in restated.parts for r in part.ranges) == 8
    assert rows(bench.session, "SELECT count(*) FROM orders WHERE publish_at <> _timestamp")[0][0] == 0
    assert bench.table() == MIXED
    bench.publish(sent("ahead", 90, -1, "older"), sent("fresh", 0, 1, "new"))
    bench.ingest()  # a run between the two halves does no harm
    assert bench.table() == {*MIXED, ("fresh", "new", False, 0, 5)}

    assert status(bench.pipeline).remerge == (
        "unfinished, 8 offsets in 3 batches still to replay; finish it with: offset-ledger remerge orders --why ..."
    )
    assert main(["status", str(bench.path)]) == 0
    assert "\nremerge: unfinished, 8 offsets in 3 batches still to replay; " in capsys.readouterr().out
    assert main(["remerge", str(bench.path), "--why", "again", "--json"]) == 0
    assert status(bench.pipeline).remerge is None
    found = json.loads(capsys.readouterr().out)
    assert (found["restated"], found["gone"]) == (None, ["0:[0, 1)"])
    assert bench.table() == {*ORDERED, ("fresh", "new", False, 0, 5)}
    assert verify(bench.pipeline)[0] == []
    decided = rows(bench.session, "SELECT kind, answer, who, why, details->'restated' FROM offset_ledger.decision")
    assert [tuple(row) for row in decided] == [("remerge", "approve", "test", "one clock", 3)]
    replayed = rows(
        bench.session,
        "SELECT partition, min(from_offset), max(until_offset), sum(until_offset - from_offset)::int"
        " FROM offset_ledger.batch_range JOIN offset_ledger.batch USING (batch_id)"
        " WHERE kind = 'replay' AND state = 'committed' GROUP BY 1 ORDER BY 1",
    )
    assert [tuple(row) for row in replayed] == [(0, 1, 4, 3), (1, 0, 5, 5)]

    before = bench.fingerprint()
    assert main(["remerge", str(bench.path), "--why", "once more"]) == 0
    assert "nothing to remerge" in capsys.readouterr().out
    assert bench.fingerprint() == before


def test_what_an_open_batch_has_staged_is_not_mixed_in(bench: Bench) -> None:
    bench.publish(sent("plain", 50, 1, "third"))
    bench.remember("$.at")
    planned = plan(bench.before, ME).batch
    assert planned is not None
    bench.remember(None)
    before = bench.fingerprint()
    with pytest.raises(StateConflict, match=f"offset-ledger batch abandon {planned.batch_id} --why"):
        restate_rows(bench.pipeline, ME, "one clock")
    assert bench.fingerprint() == before
    with pytest.raises(ConfigurationError, match=r"\$\.at.*write publish_at: log or kafka_timestamp first"):
        restate_rows(bench.before, ME, "one clock")
    decide(bench.session, planned.batch_id, State.ABANDONED, ME, "remerge")
    assert main(["remerge", str(bench.path), "--why", "one clock"]) == 0
    bench.publish(Record(b"plain", b'{"op":"d"}', (), int(NOON.timestamp() * 1000) + 9000, 0))
    bench.ingest()
    assert bench.table() == {*ORDERED, ("plain", None, True, 0, 5)} - {("plain", "second", False, 1, 4)}
