"""One clock orders the rows and the delete markers of an event, whatever the other clock says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import PipelineFileError
from offset_ledger.ledger.database import Session, connect, rows
from offset_ledger.pipeline.model import Pipeline
from offset_ledger.pipeline.parse import parse_pipeline
from offset_ledger.steps.verify import verify
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.servers import Servers
from tests.fixtures.staged import NOON

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: orders}}
record:
  event_id: key
  publish_at: {publish_at}
  {deletes}
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""
TOMBSTONE = "tombstone: delete"
OPERATION = "delete_when: {path: $.op, equals: d}"
DELETED = None

# (seconds of the producer's clock, seconds of Kafka's timestamp, state), one offset each; both clocks agree on the order.
AHEAD = [(30, 0, "new"), (31, 1, DELETED)]
AGAIN = [(0, 0, "new"), (1, 5, DELETED), (2, 6, "again")]


@pytest.fixture
def session(servers: Servers) -> Iterator[Session]:
    with connect(servers.postgres) as made:
        yield made


def written(folder: Path, publish_at: str, deletes: str) -> Pipeline:
    path = folder / "orders.yaml"
    path.write_text(PIPELINE.format(publish_at=publish_at, deletes=deletes))
    return parse_pipeline(path)


def history(events: list[tuple[int, int, str | None]], tombstones: bool) -> list[Raw]:
    """The records of one event, a delete as a tombstone or as a record that says so."""
    found = []
    for offset, (at, timestamp, state) in enumerate(events):
        moment = (NOON + timedelta(seconds=at)).isoformat()
        body: dict[str, Any] = {"at": moment, "op": "d"} if state is None else {"at": moment, "op": "c", "state": state}
        value = None if state is None and tombstones else json.dumps(body).encode()
        found.append(Raw(0, offset, value, b"e1", timestamp=NOON + timedelta(seconds=timestamp)))
    return found


def table(session: Session) -> set[tuple[Any, ...]]:
    return {
        tuple(row) for row in rows(session, "SELECT event_id, state, _deleted, _partition, _offset FROM public.orders")
    }


@pytest.mark.parametrize("one_batch", [True, False])
@pytest.mark.parametrize(
    ("events", "stands"), [(AHEAD, ("e1", None, True, 0, 1)), (AGAIN, ("e1", "again", False, 0, 2))]
)
@pytest.mark.parametrize("deletes", [TOMBSTONE, OPERATION])
@pytest.mark.parametrize("publish_at", ["$.at", "kafka_timestamp"])
def test_the_last_of_a_row_and_its_delete_stands(
    session: Session,
    tmp_path: Path,
    publish_at: str,
    deletes: str,
    events: list[tuple[int, int, str | None]],
    stands: tuple[Any, ...],
    one_batch: bool,
) -> None:
    try:
        pipeline = written(tmp_path, publish_at, deletes)
    except PipelineFileError as refused:
        assert (publish_at, deletes) == ("$.at", TOMBSTONE)
        assert "kafka_timestamp" in str(refused)
        assert "delete_when" in str(refused)
        return
    records = history(events, deletes == TOMBSTONE)
    for batch in [records] if one_batch else [[record] for record in records]:
        commit_raw(session, pipeline, batch)
    assert table(session) == {stands}
    assert verify(pipeline)[0] == []
