"""What compaction removed before it was read: unread tombstones, and gaps of a topic that was compacted once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.errors import TombstonesMayBeGone, UnexplainedGap
from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.decide.answers import loss_question
from offset_ledger_kit.cli.main import main
from tests.fixtures.compaction import NEVER, OFTEN, WEEK, CompactedTopic
from tests.fixtures.topic_bench import TopicBench

ME = Origin("test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

PIPELINE = """
pipeline: orders
source:
  connection: kafka_default
  topic: {topic}
  on_expired: {on_expired}
  compacted: {compacted}
record:
  event_id: key
  publish_at: kafka_timestamp
  tombstone: delete
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders}}
stage: {{engine: process}}
"""


def record(key: str, at: int, state: str | None = "new") -> Record:
    value = None if state is None else json.dumps({"state": state}).encode()
    return Record(key.encode(), value, (), int((NOON + timedelta(seconds=at)).timestamp() * 1000), 0)


class Bench(TopicBench):
    """A topic of one partition that is compacted at once, and a pipeline that deletes by tombstones."""

    TEMPLATE = PIPELINE
    CONFIGS = MappingProxyType(OFTEN | NEVER | {"delete.retention.ms": WEEK})
    DEFAULTS = MappingProxyType(
        {"on_expired": "earliest_after_approval", "transactional": "false", "compacted": "false"}
    )

    def publish(self, *records: Record, **options: Any) -> None:
        if self.settings["transactional"] == "true":
            options["transactional_id"] = self.topic
        super().publish(*records, **options)

    def alter(self, configs: dict[str, str]) -> None:
        self._compacted.alter(configs)

    def table(self) -> dict[str, tuple[Any, ...]]:
        """The live rows."""
        live = self.rows("_deleted, event_id, state, _offset")
        return {event_id: tuple(rest) for deleted, event_id, *rest in live if not deleted}

    def readable(self) -> set[int]:
        """The offsets at which a plain consumer gets a record."""
        return self._compacted.readable()

    def compact_until(self, *gone: int) -> set[int]:
        """Roll segments until compaction has removed these offsets; then stop it and return the rest."""
        return self._compacted.compact_until(lambda turn: self.publish(record("filler", 100 + turn)), *gone)

    @property
    def _compacted(self) -> CompactedTopic:
        return CompactedTopic(self.servers.bootstrap, self.topic)


def test_a_topic_that_was_compacted_once_continues_when_the_pipeline_file_says_so(bench: Bench) -> None:
    bench.publish(record("a", 1, "old"), record("a", 2, "newer"), record("b", 3))
    bench.alter(OFTEN)
    left = bench.compact_until(0)
    assert {1, 2} <= left
    bench.alter({"cleanup.policy": "delete", "retention.ms": "-1", "delete.retention.ms": WEEK})
    with pytest.raises(UnexplainedGap, match=r"source\.compacted: true"):
        bench.ingest()
    bench.settings["compacted"] = "true"
    (committed,) = bench.ingest()
    assert {key: row for key, row in bench.table().items() if key != "filler"} == {"a": ("newer", 1), "b": ("new", 2)}
    assert committed.total.gap == max(left) + 1 - len(left)
    reasons = rows(bench.session, "SELECT gap_reason FROM offset_ledger.batch_range")
    assert [row[0] for row in reasons] == ["compaction"]
    assert verify(bench.pipeline)[0] == []


@pytest.mark.parametrize("transactional", ["false", "true"])
def test_a_tombstone_that_compaction_removed_unread_stops_the_batch(bench: Bench, transactional: str) -> None:
    bench.settings["transactional"] = transactional
    bench.publish(record("a", 1), record("b", 2))
    bench.ingest()
    assert set(bench.table()) == {"a", "b"}
    first = 3 if transactional == "true" else 2
    bench.publish(record("a", 3, None))
    bench.alter(OFTEN)
    left = bench.compact_until(0, first)  # a's record and its tombstone: nothing is left of a
    with pytest.raises(TombstonesMayBeGone, match=rf"range 0:\[{first}, \d+\).*offset-ledger accept loss") as refused:
        bench.ingest()
    assert "\n" not in str(refused.value)
    with pytest.raises(TombstonesMayBeGone):  # trying again is no approval
        bench.ingest()
    assert (set(bench.table()), loss_question(bench.pipeline) is None) == ({"a", "b"}, False)
    assert main(["accept", "loss", str(bench.pipeline.path), "--why", "a is known to be gone"]) == 0
    assert loss_question(bench.pipeline) is None
    (committed,) = bench.ingest()
    assert [(r.partition, r.from_offset) for r in committed.batch.ranges] == [(0, first)]
    assert committed.total.gap == committed.batch.ranges[0].width - len([o for o in left if o >= first])
    assert set(bench.table()) == {"a", "b", "filler"}
    assert verify(bench.pipeline)[0] == []
