"""What is completely staged stays usable: retention may pass, the pipeline file may change, nothing is read again."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.errors import OffsetExpired, StateConflict, TopicRecreated
from offset_ledger.model.batch import Batch, EngineChoice
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.spark import session as spark_session
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.decide.accept_topic import accept_topic
from offset_ledger.steps.decide.answers import loss_question, skip_lost
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger.steps.stage.claim import Written
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import StagedBatch, next_stage, stage, stage_with
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.engines import BY_PROCESS, SlicesBy
from tests.fixtures.raw import Raw, arrow, write_slices
from tests.fixtures.staged import ME
from tests.fixtures.tables import do
from tests.fixtures.topic_bench import TopicBench

MILLIS = 1_767_268_800_000
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest, on_expired: earliest_after_approval}}
record:
  event_id: key
  publish_at: $.at
  columns: {{state: {state}}}
target: {{connection: postgres_default, table: public.orders}}
stage: {{engine: spark}}
quality: {{max_quarantined_share: {share}}}
{note}"""
BAD = b"{"


def value(state: str) -> bytes:
    return json.dumps({"at": "2026-01-01T12:00:00Z", "state": state}).encode()


class Bench(TopicBench):
    """A topic of one partition whose records a test knows, and a pipeline that reads it without Spark."""

    TEMPLATE = PIPELINE
    DEFAULTS = MappingProxyType({"state": "text", "share": 1.0, "note": ""})
    values: tuple[bytes, ...] = ()

    def send(self, *values: bytes) -> None:
        places = enumerate(values, len(self.values))
        self.publish(*(Record(b"%d" % n, each, (), MILLIS, 0) for n, each in places))
        self.values += values

    def read(self, session: Session, batch: Batch, tables: StagingTables) -> Written:
        """What Spark would do, with the records as the test knows them."""
        task = SliceTask.of(session, self.pipeline, tables)
        found = (
            [Raw(0, n, self.values[n], b"%d" % n) for n in range(r.from_offset, r.until_offset)] for r in batch.ranges
        )
        write_slices(task, *([arrow(each)] for each in found))
        return Written(len(batch.ranges))

    def staged(self) -> int:
        """Plan a batch of all that is new and stage it."""
        batch = plan(self.pipeline, ME).batch
        assert batch is not None
        stage_with(SlicesBy(self.read), self.pipeline, batch.batch_id, ME)
        return batch.batch_id

    def empty(self, batch_id: int) -> None:
        """What a Postgres that stops does."""
        with transaction(self.session) as cursor:
            cursor.execute(f"TRUNCATE offset_ledger_staging.b{batch_id}_e1")

    def ids(self) -> list[int]:
        """Ingest all that is new, and return the batches that did it."""
        return [each.batch.batch_id for each in self.ingest()]

    def table(self) -> set[tuple[str, str, int, int]]:
        found = rows(self.session, "SELECT event_id, state, _partition, _offset FROM public.orders")
        return {tuple(row) for row in found}

    def states(self) -> list[tuple[int, str, int]]:
        return [
            tuple(r) for r in rows(self.session, "SELECT batch_id, state, epoch FROM offset_ledger.batch ORDER BY 1")
        ]


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(**_: object) -> None:
        raise AssertionError("a Spark session was started")

    monkeypatch.setattr(spark_session, "local_session", started)


THREE = (value("x"), value("y"), value("z"))
TABLE = {("0", "x", 0, 0), ("1", "y", 0, 1), ("2", "z", 0, 2)}


@pytest.mark.parametrize("judged", [False, True], ids=["staged", "validated"])
@pytest.mark.parametrize("expired", [0, 2, 3])
def test_a_staged_batch_commits_whatever_retention_deletes_afterwards_and_starts_no_spark(
    bench: Bench, judged: bool, expired: int
) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    if judged:
        validate_or_raise(bench.pipeline, batch_id, ME)
    bench.delete_below(0, expired)
    assert bench.ids() == [batch_id]
    assert bench.table() == TABLE
    assert bench.states() == [(batch_id, "committed", 1)]
    assert verify(bench.pipeline)[0] == []


@pytest.mark.parametrize("judged", [False, True], ids=["staged", "validated"])
def test_offsets_that_are_staged_are_not_asked_about_and_not_skipped(bench: Bench, judged: bool) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    if judged:
        validate_or_raise(bench.pipeline, batch_id, ME)
    bench.send(value("v"), value("w"))
    bench.delete_below(0, 4)
    assert loss_question(bench.pipeline) is None
    with pytest.raises(StateConflict, match=rf"all offsets of batch {batch_id} .* are staged.*offset-ledger ingest"):
        skip_lost(bench.pipeline, ME, "gone")
    assert bench.states() == [(batch_id, "validated" if judged else "staged", 1)]
    with pytest.raises(OffsetExpired, match=r"offsets \[3, 4\) are gone"):
        bench.ids()
    assert bench.table() == TABLE
    question = loss_question(bench.pipeline)
    assert question is not None
    assert question.details == {"ranges": [[0, 3, 4]]}
    assert skip_lost(bench.pipeline, ME, "gone").total.skipped == 1


def test_a_staged_batch_of_a_recreated_topic_is_committed_before_the_new_one_is_accepted(bench: Bench) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    delete_topic(dict(bench.servers.kafka.extra), bench.topic)
    create_topic(dict(bench.servers.kafka.extra), bench.topic, 1, 1, {"retention.ms": "-1"})
    with pytest.raises(StateConflict, match=rf"all offsets of batch {batch_id} .* are staged.*offset-ledger ingest"):
        accept_topic(bench.pipeline, ME, "moved")
    with pytest.raises(TopicRecreated):
        bench.ids()
    assert bench.table() == TABLE
    accept_topic(bench.pipeline, ME, "moved")
    assert bench.states() == [(batch_id, "committed", 1)]


def test_staging_that_cannot_be_read_again_is_not_dropped(bench: Bench) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    bench.delete_below(0, 2)
    do(bench.session, f"DELETE FROM offset_ledger_staging.b{batch_id}_e1 WHERE _offset = 1")
    with pytest.raises(OffsetExpired, match="2 offsets are gone"):
        stage(BY_PROCESS, bench.pipeline, batch_id, ME)
    assert bench.states() == [(batch_id, "staged", 1)]
    left = rows(bench.session, f"SELECT _offset FROM offset_ledger_staging.b{batch_id}_e1 ORDER BY 1")
    assert [row[0] for row in left] == [0, 2]
    question = loss_question(bench.pipeline)
    assert question is not None
    assert question.details == {"ranges": [[0, 0, 2]], "abandons": batch_id}
    skip_lost(bench.pipeline, ME, "gone")
    assert bench.states() == [(batch_id, "abandoned", 1), (batch_id + 1, "committed", 1)]


def test_what_was_staged_by_another_file_is_staged_again_only_while_the_topic_has_it(bench: Bench) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    bench.settings["note"] = "description: other words\n"
    assert isinstance(next_stage(bench.session, bench.pipeline, batch_id), EngineChoice)
    assert not stage_with(SlicesBy(bench.read), bench.pipeline, batch_id, ME).done
    assert isinstance(next_stage(bench.session, bench.pipeline, batch_id), StagedBatch)
    bench.settings["note"] = "description: and again\n"
    bench.delete_below(0, 3)
    assert stage(BY_PROCESS, bench.pipeline, batch_id, ME).done
    assert bench.states() == [(batch_id, "staged", 2)]


def test_staging_with_other_columns_waits_for_the_file_where_the_topic_has_the_records_no_longer(
    bench: Bench,
) -> None:
    bench.send(*THREE)
    batch_id = bench.staged()
    bench.delete_below(0, 1)
    bench.settings["state"] = "integer"
    with pytest.raises(OffsetExpired, match=rf"All of it is staged, with other columns .* to commit batch {batch_id}"):
        stage(BY_PROCESS, bench.pipeline, batch_id, ME)
    with pytest.raises(StateConflict, match="all offsets of"):
        skip_lost(bench.pipeline, ME, "gone")
    bench.settings["state"] = "text"
    assert bench.ids() == [batch_id]
    assert bench.table() == TABLE


def test_a_log_that_starts_later_after_every_offset_was_read_is_no_loss(
    bench: Bench,
) -> None:
    bench.send(*THREE)
    batch = plan(bench.pipeline, ME).batch
    assert batch is not None

    class ReadsAndExpires:
        choice, transient = BY_PROCESS.choice, BY_PROCESS.transient

        def read(self, _: object, batch: Batch, *given: Any) -> int:
            bench.delete_below(0, 2)
            task: SliceTask = given[-1]
            return bench.read(bench.session, batch, task.tables).slices

    stage(ReadsAndExpires(), bench.pipeline, batch.batch_id, ME)
    assert bench.ids() == [batch.batch_id]
    assert bench.table() == TABLE


@pytest.mark.parametrize("same", [True, False])
def test_an_approval_is_for_what_was_validated_and_not_for_its_text(bench: Bench, same: bool) -> None:
    bench.settings["share"] = 0.0
    bench.send(value("x"), BAD)
    batch_id = bench.staged()
    assert validate(bench.pipeline, batch_id, ME)[0].state is State.REJECTED
    decide(bench.session, batch_id, State.VALIDATED, ME, "known")
    bench.empty(batch_id)
    if not same:  # still one of two records is refused, for another reason
        bench.values = (bench.values[0], value("\0"))
    stage_with(SlicesBy(bench.read), bench.pipeline, batch_id, ME)
    texts = rows(bench.session, "SELECT why FROM offset_ledger.batch_event WHERE to_state = 'rejected'")
    again, _ = validate(bench.pipeline, batch_id, ME)
    assert again.reasons == texts[0][0]
    assert (again.state, again.epoch) == (State.VALIDATED if same else State.REJECTED, 2)
