"""What every version of the ledger was given: records of a topic, and two pipelines left with an open batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from offset_ledger.publishing.record import Record

NOON = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
PARTITIONS = 2
PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}, start: earliest}}
record:
  event_id: key
  publish_at: kafka_timestamp
  tombstone: delete
  columns:
    state: {{type: text, nullable: true}}
    amount: {{type: "numeric(8,2)", nullable: true}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{max_quarantined_share: 1.0}}
"""


@dataclass(frozen=True, slots=True)
class Left:
    """A pipeline, and the failpoint at which the old version left its last batch."""

    name: str
    place: str
    commits_first: bool


PIPELINES = (Left("orders", "before_merge", True), Left("planned", "after_plan", False))
"""``orders`` has committed the first records and validated the rest; ``planned`` has planned a batch of them all."""


def _record(partition: int, name: str, second: int, value: bytes | None) -> Record:
    return Record(name.encode(), value, (), NOON + 1000 * second, partition)


def _event(partition: int, name: str, second: int, **state: object) -> Record:
    return _record(partition, name, second, json.dumps(state).encode())


FIRST = (
    _event(0, "a", 1, state="new", amount=1.5),
    _event(0, "b", 2, state="new"),
    _event(0, "a", 3, state="paid", amount=2),
    _event(1, "c", 4, state="new", amount=3),
    _event(1, "x", 5, state=7),
    _event(1, "d", 5, state="new"),
)
REST = (
    _event(0, "b", 1, state="late"),
    _event(0, "c", 8, state="sent", amount=4),
    _record(1, "d", 9, None),
    _record(1, "y", 9, b"{"),
    _event(1, "e", 10, state="new", amount=99),
)
ROWS = {
    ("a", "paid", "2.00", 0, 2, False),
    ("b", "new", None, 0, 1, False),
    ("c", "sent", "4.00", 0, 4, False),
    ("d", None, None, 1, 3, True),
    ("e", "new", "99.00", 1, 5, False),
}
"""event_id, state, amount, partition, offset, deleted: what both tables have in the end."""
QUARANTINE = {(1, 1, FIRST[4].value), (1, 4, REST[3].value)}


def write_pipeline(folder: Path, left: Left, topic: str) -> Path:
    """The file of a pipeline."""
    path = folder / f"{left.name}.yaml"
    path.write_text(PIPELINE.format(name=left.name, topic=topic))
    return path
