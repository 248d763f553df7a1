"""Records to which Kafka gives no timestamp (-1): that is kept as none, and refused where their order rests on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.pipeline import Pipeline, Quality
from offset_ledger.postgres.ledger import dead_letters
from offset_ledger.postgres.ledger.database import Session, rows
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.report.dead_letters import to_record
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON, a_pipeline
from tests.fixtures.tables import do

NONE = -1  # as librdkafka gives it
MISSING = [{"path": "_timestamp", "code": "missing", "detail": "expected a record timestamp, Kafka has none (-1)"}]


def by_kafkas_time() -> Pipeline:
    made = a_pipeline()
    quality = Quality(max_quarantined_share=1.0, dead_letter_topic="orders.dead")
    return replace(made, record=replace(made.record, publish_at=None), quality=quality)


def value(state: str) -> bytes:
    return b'{"at":"%s","state":"%s"}' % (NOON.isoformat().encode(), state.encode())


def quarantined(session: Session) -> list[list[object]]:
    found = 'SELECT "offset", "timestamp", reasons, resolved_by FROM offset_ledger.quarantine ORDER BY 1'
    return [list(row) for row in rows(session, found)]


def test_without_a_timestamp_there_is_no_publish_at(session: Session) -> None:
    pipeline = by_kafkas_time()
    commit_raw(session, pipeline, [Raw(0, 0, value("a"), b"a", timestamp=NONE), Raw(0, 1, value("b"), b"b")])
    assert rows(session, "SELECT event_id, publish_at, _timestamp FROM public.orders") == [["b", NOON, NOON]]
    assert quarantined(session) == [[0, None, MISSING, None]]
    found = dead_letters.take(session, "orders", "orders.dead", 10)
    (letter,) = (to_record(letter, "orders", 1) for letter in found)
    found.close()
    assert "offset-ledger.timestamp" not in dict(letter.headers)
    assert dict(letter.headers)["offset-ledger.offset"] == b"0"


def test_it_is_still_none_in_a_redrive(session: Session) -> None:
    pipeline = replace(by_kafkas_time(), quality=Quality(max_quarantined_share=1.0))
    commit_raw(session, pipeline, [Raw(0, 0, value("a"), b"a", timestamp=NONE)])
    run_batch(pipeline, plan_redrive(pipeline, RedriveChoice(), ME), ME, lambda _: None)
    assert quarantined(session) == [[0, None, MISSING, None]]
    by_path = replace(a_pipeline(), quality=pipeline.quality)
    done = run_batch(by_path, plan_redrive(by_path, RedriveChoice(), ME), ME, lambda _: None).committed.batch
    assert quarantined(session) == [[0, None, MISSING, done.batch_id]]
    found = rows(session, "SELECT event_id, publish_at, _timestamp, _offset FROM public.orders")
    assert found == [["a", NOON, None, 0]]


def test_a_table_of_an_earlier_release_names_what_to_alter(session: Session) -> None:
    pipeline = a_pipeline()
    commit_raw(session, pipeline, [Raw(0, 0, value("a"), b"a")])
    do(session, "ALTER TABLE public.orders ALTER COLUMN _timestamp SET NOT NULL")
    with pytest.raises(TargetMismatch, match=r"ALTER TABLE public\.orders ALTER COLUMN _timestamp DROP NOT NULL"):
        commit_raw(session, pipeline, [Raw(0, 1, value("b"), b"b", timestamp=NONE), Raw(0, 2, value("c"), b"c")])
    assert rows(session, "SELECT event_id, _offset FROM public.orders") == [["a", 0]]
