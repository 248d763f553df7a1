"""A script that uses the public names only: it checks a file, ingests, replays, and asks for status and proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offset_ledger import (
    ConfigurationError,
    OffsetExpired,
    OffsetRange,
    PipelineFileError,
    check,
    ingest,
    replay,
    status,
    verify,
)
from offset_ledger.publishing.record import Record
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns: {{state: text}}
target: {{connection: postgres_default, table: orders}}
"""


class Bench(TopicBench):
    TEMPLATE = PIPELINE


def order(event_id: str, state: str) -> Record:
    return Record(b"k", json.dumps({"id": event_id, "state": state}).encode(), partition=0)


@pytest.fixture
def bench(servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    with Bench.open(servers, topic_name(), tmp_path, 1, {}) as made:
        yield made


def test_a_script_needs_the_public_names_only(bench: Bench) -> None:
    bench.publish(order("a", "new"), order("b", "new"), order("a", "paid"))
    said: list[str] = []
    assert "orders" in check(bench.path)

    (first,) = ingest(bench.path, until_drained=True, say=said.append)
    assert {p: (sheet.inserted, sheet.superseded + sheet.duplicate) for p, sheet in first.committed.sheet.items()} == {
        0: (2, 1)
    }
    assert sorted(bench.rows("event_id, state, _partition, _offset")) == [("a", "paid", 0, 2), ("b", "new", 0, 1)]
    assert any(line.startswith("planned") for line in said)
    assert ingest(bench.path) == ()

    again = replay(bench.path, [OffsetRange(0, 0, 2)], why="to be sure")
    assert again.committed.total.inserted + again.committed.total.updated == 0
    assert [(p.cursor, p.lag) for p in status(bench.path).partitions] == [(3, 0)]
    proved = verify(bench.path, against_topic=True)
    assert (proved.holds, proved.violations) == (True, ())


def test_mistakes_are_errors_of_the_package(bench: Bench) -> None:
    bench.publish(order("a", "new"), order("b", "new"))
    with pytest.raises(ConfigurationError, match="give one of the two"):
        replay(bench.path)
    bench.delete_below(0, 1)
    with pytest.raises(OffsetExpired, match="the log starts at 1"):
        replay(bench.path, [OffsetRange(0, 0, 2)])
    broken = bench.folder / "broken.yaml"
    broken.write_text("pipeline: 1\n")
    with pytest.raises(PipelineFileError):
        check(broken)
