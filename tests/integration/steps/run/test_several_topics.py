"""Several topics into one table: a pipeline for each, one order for all rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger import pipelines_of
from offset_ledger.base.ids import consumer_group
from offset_ledger.errors import (
    BatchRejected,
    ConfigurationError,
    OffsetExpired,
    StateConflict,
    TargetMismatch,
    TopicRecreated,
    UnknownTopic,
)
from offset_ledger.interfaces.exporter.collector import LedgerCollector
from offset_ledger.interfaces.page.answers import overview as page_overview
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import State
from offset_ledger.operations.doctor.servers import check_topics
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.overview import overview
from offset_ledger.operations.status.status import status
from offset_ledger.outside.kafka import client
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_named
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import decisions
from offset_ledger.postgres.ledger.database import Session, application_name, connect, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.pipelines import read_retirement
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.accept_topic import accept_table, accept_topic
from offset_ledger.steps.decide.answers import answer_question, loss_question, record_question
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.plan.topics import find_pipelines, known_pipelines, with_backlog
from offset_ledger.steps.run.ingest import ingest, run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from offset_ledger.steps.run.requests import plan_request, requested_topics
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import quiet

pytestmark = pytest.mark.minutes(2)

ME = Origin("test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEEP = {"retention.ms": "-1"}  # the records are older than a week

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, {topics}, start: {start}}}
record:
  event_id: $.id
  publish_at: {publish_at}
  {deletes}
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders, merge: {merge}}}
quality: {{max_quarantined_share: {share}}}
limits: {{records_per_batch: {limit}}}
"""
DEFAULTS = {
    **{"start": "earliest", "publish_at": "$.at", "deletes": "tombstone: quarantine", "merge": "newest_wins"},
    **{"share": 1.0, "limit": 100_000},
}

Place = tuple[str, int, int]


def order(event_id: str, at: int, state: str = "new") -> bytes:
    return json.dumps({"id": event_id, "at": (NOON + timedelta(seconds=at)).isoformat(), "state": state}).encode()


@dataclass
class Bench:
    """Topics with a common prefix, and one pipeline file for them."""

    servers: Servers
    prefix: str
    folder: Path
    session: Session
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def create(self, *names: str) -> list[str]:
        topics = [f"{self.prefix}.{name}" for name in names]
        for topic in topics:
            create_topic(dict(self.servers.kafka.extra), topic, 2, 1, KEEP)
        return topics

    def publish(self, topic: str, *values: bytes, partition: int = 0, seconds: int | None = None) -> None:
        """Publish to a partition, with Kafka's timestamp of now or of so many seconds after noon."""
        at = None if seconds is None else int((NOON + timedelta(seconds=seconds)).timestamp() * 1000)
        records = (Record(key=b"k", value=value, timestamp_ms=at, partition=partition) for value in values)
        publish(records, dict(self.servers.kafka.extra), topic)

    def file(self, topics: str, **settings: Any) -> Pipeline:
        path = self.folder / "orders.yaml"
        path.write_text(PIPELINE.format(**{**DEFAULTS, **settings}, topics=topics))
        return parse_named(str(path))

    def listed(self, *topics: str, **settings: Any) -> Pipeline:
        return self.file(f"topics: [{', '.join(topics)}]", **settings)

    def matching(self, **settings: Any) -> Pipeline:
        return self.file(f"topic_pattern: '{self.prefix}[.].+'", **settings)

    def table(self) -> dict[str, tuple[str, Place]]:
        found = rows(self.session, "SELECT event_id, state, _topic, _partition, _offset FROM public.orders")
        return {row[0]: (row[1], (row[2], row[3], row[4])) for row in found}

    def everything(self) -> list[tuple[str, str]]:
        """Every row with the transaction that wrote it."""
        return [tuple(row) for row in rows(self.session, "SELECT xmin::text, t::text FROM public.orders t ORDER BY 2")]


@pytest.fixture
def bench(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    monkeypatch.setattr(client, "_STALE_SECONDS", 0.0)
    with connect(servers.postgres) as session:
        yield Bench(servers, topic_name(), tmp_path, session)


def ingest_all(pipeline: Pipeline, until_drained: bool = True) -> list[str]:
    return [done.committed.batch.pipeline for done in ingest(pipeline, ME, until_drained, quiet)]


def check_all(pipeline: Pipeline) -> None:
    """Every invariant of every topic, and every row against its record."""
    for each in known_pipelines(pipeline):
        assert verify(each) == ([], 12)
        assert compare_with_topic(each).violations == ()


def topic_id(bench: Bench, topic: str) -> str:
    with connect_kafka(bench.servers.kafka) as kafka:
        return kafka.snapshot(topic).topic_id


def topic_of(pipelines: Sequence[Pipeline], topic: str) -> Pipeline:
    (found,) = [each for each in pipelines if each.source.topic == topic]
    return found


def validated(pipeline: Pipeline) -> Batch:
    """The next batch, ready to be committed."""
    batch = plan(pipeline, ME).batch
    assert batch is not None
    stage(BY_PROCESS, pipeline, batch.batch_id, ME)
    return validate(pipeline, batch.batch_id, ME)[0]


# -- one order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_topics_the_newest_row_stays_whichever_is_read_first(bench: Bench, first: int) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1, "eu"), order("b", 9, "eu"), order("same", 5, "eu"))
    bench.publish(us, order("a", 2, "us"), order("b", 8, "us"), order("same", 5, "us"))
    both = find_pipelines(bench.listed(eu, us))
    for each in both if first == 0 else reversed(both):
        ingest_all(each)
    assert bench.table() == {"a": ("us", (us, 0, 0)), "b": ("eu", (eu, 0, 1)), "same": ("us", (us, 0, 2))}
    check_all(bench.listed(eu, us))
    before = bench.everything()
    assert ingest_all(bench.listed(eu, us)) == []
    assert bench.everything() == before


def test_random_events_of_three_topics_end_as_their_order_says(bench: Bench) -> None:
    random.seed(4)
    topics = bench.create("c", "a", "b")
    sent: list[tuple[tuple[int, str, int, int], str]] = []
    for round_no in range(3):
        for topic in topics:
            for partition in (0, 1):
                events = [(f"e{random.randrange(30)}", random.randrange(5)) for _ in range(20)]
                values = [order(event_id, at, f"{topic}-{partition}") for event_id, at in events]
                bench.publish(topic, *values, partition=partition)
                places = range(round_no * 20, round_no * 20 + 20)
                sent += [((at, topic, partition, o), e) for (e, at), o in zip(events, places, strict=True)]
        ingest_all(bench.listed(*topics, limit=29), until_drained=round_no == 2)
    newest: dict[str, tuple[int, str, int, int]] = {}
    for place, event_id in sent:
        newest[event_id] = max(place, newest.get(event_id, place))
    assert {event: place for event, (_, place) in bench.table().items()} == {e: p[1:] for e, p in newest.items()}
    check_all(bench.listed(*topics))
    before = bench.everything()
    for each in known_pipelines(bench.listed(*topics)):
        run_batch(each, plan_replay(each, [OffsetRange(0, 0, 60), OffsetRange(1, 0, 60)], ME), ME, quiet)
    assert bench.everything() == before


def test_with_skip_existing_the_first_committed_row_stays(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1, "eu"))
    bench.publish(us, order("a", 2, "us"), order("b", 1, "us"))
    ingest_all(bench.listed(eu, us, merge="skip_existing"))
    assert bench.table() == {"a": ("eu", (eu, 0, 0)), "b": ("us", (us, 0, 1))}
    check_all(bench.listed(eu, us, merge="skip_existing"))


def test_two_topics_may_commit_at_the_same_time(bench: Bench) -> None:
    topics = bench.create("a", "b", "c", "d")
    for topic in topics:
        bench.publish(topic, *(order(f"e{n}", n, topic) for n in range(200)))
    pipeline = bench.listed(*topics)
    ready = [(each, validated(each)) for each in find_pipelines(pipeline)]
    with ThreadPoolExecutor() as pool:
        sheets = list(pool.map(lambda one: commit(one[0], one[1].batch_id, ME).total, ready))
    assert bench.table() == {f"e{n}": (topics[3], (topics[3], 0, n)) for n in range(200)}
    assert sum(sheet.inserted for sheet in sheets) == 200
    check_all(pipeline)


def test_a_paused_commit_of_one_topic_does_not_hold_the_table_from_the_others(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1))
    batches = [validated(each) for each in find_pipelines(bench.listed(eu, us))]
    of_eu, of_us = known_pipelines(bench.listed(eu, us))
    with connect(bench.servers.postgres, application_name(batches[0].attempt, "commit")) as paused:
        with paused.cursor() as cursor:
            cursor.execute("SELECT FROM offset_ledger.target_table FOR UPDATE")
        assert commit(of_us, batches[1].batch_id, ME).total.inserted == 1
    assert commit(of_eu, batches[0].batch_id, ME).total.inserted == 1
    check_all(bench.listed(eu, us))


def test_the_order_of_the_rows_belongs_to_the_table(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    eu, us = bench.create("eu", "us")
    for topic, first, second in ((eu, "ahead", "late"), (us, "ahead", "late")):
        bench.publish(topic, order(topic, 9, first), seconds=0)
        bench.publish(topic, order(topic, 1, second), seconds=5)
    by_record = bench.listed(eu, us)
    ingest_all(by_record)
    assert {state for state, _ in bench.table().values()} == {"ahead"}

    bench.publish(us, order("open", 1), seconds=6)
    open_batch = plan(topic_of(find_pipelines(by_record), us), ME).batch
    assert open_batch is not None
    path = str(bench.listed(eu, us, publish_at="kafka_timestamp").path)
    code, refused = run(capsys, "remerge", f"{path}@{eu}", "--why", "one clock")
    assert (code != 0, refused["error"]) == (True, "StateConflict")
    assert f"offset-ledger batch abandon {open_batch.batch_id} --why" in refused["message"]
    decide(bench.session, open_batch.batch_id, State.ABANDONED, ME, "remerge")

    assert run(capsys, "remerge", f"{path}@{eu}", "--why", "one clock")[0] == 0
    assert [bench.table()[topic][0] for topic in (eu, us)] == ["late", "ahead"]
    remerge = status(parse_named(f"{path}@{us}")).remerge
    assert remerge is not None
    assert "2 offsets in 1 batch still to replay" in remerge
    with pytest.raises(TargetMismatch, match=r"rows that are ordered by kafka_timestamp"):
        plan(topic_of(known_pipelines(bench.listed(eu, us)), us), ME)
    bench.listed(eu, us, publish_at="kafka_timestamp")
    assert run(capsys, "remerge", path, "--why", "the other topic")[0] == 0
    ingest_all(parse_named(path))
    assert {event: state for event, (state, _) in bench.table().items()} == {eu: "late", us: "late", "open": "new"}
    check_all(parse_named(path))


def test_a_delete_marker_of_one_topic_keeps_no_other_from_the_table(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    deleted = json.dumps({"id": "a", "at": NOON.isoformat(), "op": "d"}).encode()
    bench.publish(eu, deleted)
    delete_when = "delete_when: {path: $.op, equals: d}"
    ingest_all(bench.listed(eu, deletes=delete_when))
    bench.publish(us, order("b", 1))
    both = bench.listed(eu, us, deletes=delete_when)
    assert ingest_all(both) == [f"orders@{us}"]
    check_all(both)


# -- each topic by itself --------------------------------------------------------------------------------------


def test_a_topic_that_cannot_go_on_does_not_keep_the_others_from_it(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    pipeline = bench.listed(eu, us)
    bench.publish(eu, order("a", 1))
    ingest_all(pipeline)
    bench.publish(eu, order("a", 2), order("b", 2))
    bench.publish(us, order("c", 1))
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.delete_records({TopicPartition(eu, 0): 2})
    admin.close()
    with pytest.raises(OffsetExpired, match=eu):
        ingest_all(pipeline)
    assert set(bench.table()) == {"a", "c"}


def test_the_gate_judges_each_topic(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, b"{", order("a", 1))
    bench.publish(us, order("b", 1))
    with pytest.raises(BatchRejected, match="orders@"):
        ingest_all(bench.listed(eu, us, share=0.1))
    assert set(bench.table()) == {"b"}


def test_quarantine_and_redrive_are_of_a_topic(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, b'{"id": "a", "at": "2026-01-01T12:00:00Z"}')
    bench.publish(us, b'{"id": "b", "at": "2026-01-01T12:00:00Z"}')
    ingest_all(bench.listed(eu, us))
    nullable = PIPELINE.replace("{{state: text}}", "{{state: {{type: text, nullable: true}}}}")
    path = bench.folder / "orders.yaml"
    path.write_text(nullable.format(topics=f"topics: [{eu}, {us}]", **DEFAULTS))
    bench.session.cursor().execute("ALTER TABLE public.orders ALTER COLUMN state DROP NOT NULL")
    bench.session.commit()
    of_us = parse_named(f"{path}@{us}")
    run_batch(of_us, plan_redrive(of_us, RedriveChoice(), ME, None), ME, quiet)
    assert bench.table() == {"b": (None, (us, 0, 0))}
    resolved = rows(bench.session, "SELECT pipeline, resolved_by IS NOT NULL FROM offset_ledger.quarantine ORDER BY 1")
    assert [tuple(row) for row in resolved] == [(f"orders@{eu}", False), (f"orders@{us}", True)]
    check_all(parse_named(str(path)))


def test_verify_finds_what_was_put_into_the_rows_of_a_topic(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1))
    pipeline = bench.listed(eu, us)
    ingest_all(pipeline)
    with bench.session.cursor() as cursor:
        cursor.execute("UPDATE public.orders SET _offset = 7 WHERE _topic = %s", [us])
    bench.session.commit()
    of_eu, of_us = known_pipelines(pipeline)
    assert verify(of_eu) == ([], 12)
    assert [line.split(":")[0] for line in verify(of_us)[0]] == ["invariant 9 rows come from committed ranges"]
    with bench.session.cursor() as cursor:
        cursor.execute("DELETE FROM public.orders WHERE _topic = %s", [us])
    bench.session.commit()
    for each in (of_eu, of_us):  # the table is theirs together
        assert [line[:12] for line in verify(each)[0]] == ["invariant 11"]
    assert accept_table(pipeline, ME, "removed on purpose") == 1
    assert verify(of_eu) == ([], 12)


def test_one_consumer_group_mirrors_all_topics(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1), order("c", 1))
    ingest_all(bench.listed(eu, us))
    with connect_kafka(bench.servers.kafka) as kafka:
        mirrored = {topic: kafka.group_offsets(consumer_group("orders"), topic) for topic in (eu, us)}
    assert mirrored == {eu: {0: 1, 1: 0}, us: {0: 2, 1: 0}}


# -- which topics ----------------------------------------------------------------------------------------------


def test_a_topic_that_comes_to_match_later_is_read_from_its_first_offset(bench: Bench) -> None:
    (eu,) = bench.create("eu")
    bench.publish(eu, order("before", 1))
    pipeline = bench.matching(start="latest")
    assert ingest_all(pipeline) == []
    (us,) = bench.create("us")
    bench.publish(us, order("first of a new topic", 1))
    bench.publish(eu, order("after", 1))
    assert ingest_all(pipeline) == [f"orders@{eu}", f"orders@{us}"]
    assert set(bench.table()) == {"first of a new topic", "after"}
    assert [each.name for each in pipelines_of(pipeline)] == [f"orders@{eu}", f"orders@{us}"]
    check_all(pipeline)


def test_a_pattern_without_a_topic_is_a_mistake(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="no topic matches"):
        ingest_all(bench.matching())


def test_a_run_leaves_out_topics_that_have_nothing_new(bench: Bench) -> None:
    eu, us, uk = bench.create("eu", "us", "uk")
    pipeline = bench.listed(eu, us, uk)
    found = find_pipelines(pipeline)
    assert with_backlog(found) == found  # their start offsets are not known yet
    ingest_all(pipeline)
    assert with_backlog(found) == ()
    bench.publish(eu, order("a", 1))
    assert [each.source.topic for each in requested_topics(pipeline, Request())] == [eu]
    assert requested_topics(pipeline, Request(dry_run=True)) == found
    plan(topic_of(found, eu), ME)
    delete_topic(dict(bench.servers.kafka.extra), us)
    create_topic(dict(bench.servers.kafka.extra), us, 2, 1, KEEP)
    delete_topic(dict(bench.servers.kafka.extra), uk)
    assert {each.source.topic for each in with_backlog(found)} == {eu, us, uk}  # open, recreated, gone


def test_another_file_does_not_get_the_table(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1))
    ingest_all(bench.listed(eu))
    path = bench.folder / "others.yaml"
    path.write_text((bench.folder / "orders.yaml").read_text().replace("pipeline: orders", "pipeline: others"))
    with pytest.raises(ConfigurationError, match="one table takes one pipeline file"):
        ingest_all(parse_named(str(path)))
    assert ingest_all(bench.listed(eu, us)) == [f"orders@{us}"]


def test_a_name_says_which_topic(bench: Bench) -> None:
    pipeline = bench.listed("eu", "us")
    assert parse_named(f"{pipeline.path}@us") == pipeline.of_topic("us")
    with pytest.raises(ConfigurationError, match="pipeline orders does not read topic uk; it reads eu, us"):
        parse_named(f"{pipeline.path}@uk")


# -- a topic that is gone --------------------------------------------------------------------------------------


@dataclass
class Gone:
    """A file that has read two topics, of which ``us`` was deleted since."""

    bench: Bench
    pipeline: Pipeline
    eu: str
    us: str

    @property
    def of_us(self) -> Pipeline:
        return self.pipeline.of_topic(self.us)

    def question(self) -> Question:
        question = loss_question(self.of_us)
        assert question is not None
        return question

    def batches(self) -> dict[int, str]:
        query = "SELECT batch_id, state FROM offset_ledger.batch WHERE pipeline = %(pipeline)s"
        return {row[0]: row[1] for row in rows(self.bench.session, query, {"pipeline": self.of_us.name})}

    def decisions(self) -> list[tuple[str, ...]]:
        query = "SELECT kind, answer, who, why FROM offset_ledger.decision ORDER BY decision_id"
        return [tuple(row) for row in rows(self.bench.session, query)]


def delete(bench: Bench, topic: str) -> None:
    delete_topic(dict(bench.servers.kafka.extra), topic)


@pytest.fixture(params=["topic_pattern", "topics"])
def gone(bench: Bench, request: pytest.FixtureRequest) -> Gone:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1), order("c", 1))
    pipeline = bench.matching() if request.param == "topic_pattern" else bench.listed(eu, us)
    ingest_all(pipeline)
    delete(bench, us)
    return Gone(bench, pipeline, eu, us)


def test_a_topic_that_is_gone_is_a_question_until_somebody_has_settled_it(gone: Gone) -> None:
    gone.bench.publish(gone.eu, order("d", 1))
    advice = f"if it was deleted for good: offset-ledger accept topic orders@{gone.us} --why ...$"
    with pytest.raises(UnknownTopic, match=advice):
        ingest_all(gone.pipeline)
    assert set(gone.bench.table()) == {"a", "b", "c", "d"}
    asked = gone.question()
    assert (asked.kind, asked.pipeline) == ("topic_gone", gone.of_us.name)
    assert f"Topic {gone.us} is gone" in asked.text
    shown = {name: asked.details[name] for name in ("cursors", "committed", "open_batches")}
    assert shown == {"cursors": {"0": 2, "1": 0}, "committed": "2", "open_batches": None}

    no = record_question(gone.of_us, asked)
    assert answer_question(gone.of_us, no, QuestionAnswer.REJECT, ME, "not yet") == "reject"
    with pytest.raises(UnknownTopic):
        ingest_all(gone.pipeline)
    yes = record_question(gone.of_us, gone.question())
    assert answer_question(gone.of_us, yes, QuestionAnswer.APPROVE, Origin("ann"), "closed") == "approve"
    assert loss_question(gone.of_us) is None
    assert gone.decisions() == [("topic_gone", "reject", "test", "not yet"), ("topic_gone", "approve", "ann", "closed")]

    gone.bench.publish(gone.eu, order("e", 1))
    assert [each.source.topic for each in requested_topics(gone.pipeline, Request())] == [gone.eu]
    assert ingest_all(gone.pipeline) == [f"orders@{gone.eu}"]
    assert set(gone.bench.table()) == {"a", "b", "c", "d", "e"}
    nothing = plan(gone.of_us, ME)
    assert nothing.batch is None
    assert f"topic {gone.us} is gone; retired since" in nothing.message
    assert [each.source.topic for each in known_pipelines(gone.pipeline)] == [gone.eu, gone.us]
    check_all(gone.pipeline)


def test_the_form_and_the_verb_settle_it_too(gone: Gone, capsys: pytest.CaptureFixture[str]) -> None:
    waits = record_question(gone.of_us, gone.question())
    path = str(gone.pipeline.path)
    form = Request(RunAction.SKIP, topic=gone.us, why="closed")
    (of_us,) = requested_topics(gone.pipeline, form)
    assert "accepted that its topic is gone" in plan_request(of_us, form, Origin("bob")).message
    assert gone.decisions() == [("topic_gone", "approve", "bob", "closed")]
    assert answer_question(of_us, waits, QuestionAnswer.REJECT, ME, "no answer in time") == "approve"
    code, refused = run(capsys, "accept", "topic", f"{path}@{gone.us}", "--why", "again")
    assert (code != 0, "was retired before" in refused["message"]) == (True, True)

    code, found = run(capsys, "status", path)
    assert (code, found[of_us.name]["partitions"]) == (0, [])
    assert found[of_us.name]["retired"].endswith("UTC by bob: closed")
    code, verified = run(capsys, "verify", path, "--against-topic")
    assert (code, verified[of_us.name]["violations"]) == (0, [])
    assert "retired since" in verified[of_us.name]["notes"][0]
    code, audited = run(capsys, "kafka", "audit", path, "--fail-on", "error")
    assert "retired since" in audited[of_us.name]["retired"]
    assert [each.text for each in check_topics(gone.pipeline) if gone.us in each.subject] == [
        found[of_us.name]["retired"]
    ]

    delete(gone.bench, gone.eu)
    code, accepted = run(capsys, "accept", "topic", f"{path}@{gone.eu}", "--why", "closed too")
    assert (code, accepted["starts"]) == (0, {})
    assert ingest_all(gone.pipeline) == []
    assert requested_topics(gone.pipeline, Request()) == ()


def test_what_is_staged_of_a_topic_that_is_gone_is_committed_first(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(us, order("b", 1))
    pipeline = bench.listed(eu, us)
    ingest_all(pipeline)
    gone = Gone(bench, pipeline, eu, us)
    bench.publish(us, order("c", 1))
    staged = validated(gone.of_us)
    replays = [plan_replay(gone.of_us, [OffsetRange(0, 0, end)], ME).batch for end in (1, 2)]
    assert all(replays)
    stage(BY_PROCESS, gone.of_us, replays[1].batch_id, ME)
    delete(bench, us)
    assert loss_question(gone.of_us) is None
    with pytest.raises(StateConflict, match="all offsets of batch"):
        accept_topic(gone.of_us, ME, "closed")
    with pytest.raises(UnknownTopic):  # not of the batch: that is committed
        ingest_all(pipeline)
    assert set(bench.table()) == {"b", "c"}
    assert gone.question().details["open_batches"] == [each.batch_id for each in replays]
    accept_topic(gone.of_us, ME, "closed", gone.question())
    assert [gone.batches()[each.batch_id] for each in (staged, *replays)] == ["committed", "abandoned", "staged"]
    assert ingest_all(pipeline) == []


def test_a_batch_that_cannot_be_read_any_more_is_abandoned(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    pipeline = bench.listed(eu, us)
    bench.publish(us, order("b", 1))
    planned = plan(pipeline.of_topic(us), ME).batch
    assert planned is not None
    delete(bench, us)
    gone = Gone(bench, pipeline, eu, us)
    asked = record_question(gone.of_us, gone.question())
    answer_question(gone.of_us, asked, QuestionAnswer.APPROVE, ME, "closed")
    assert gone.batches() == {planned.batch_id: "abandoned"}
    assert ingest_all(pipeline) == []


def test_a_topic_that_is_created_again_ends_the_retirement(gone: Gone) -> None:
    accept_topic(gone.of_us, ME, "closed")
    gone.bench.create("us")
    gone.bench.publish(gone.us, order("z", 1))
    assert [each.source.topic for each in requested_topics(gone.pipeline, Request())] == [gone.us]
    with pytest.raises(TopicRecreated):
        ingest_all(gone.pipeline)
    asked = gone.question()
    assert asked.kind == "recreated_topic"
    accept_topic(gone.of_us, ME, "open again", asked)
    assert status(gone.of_us).retired is None
    assert ingest_all(gone.pipeline) == [gone.of_us.name]
    assert set(gone.bench.table()) == {"a", "b", "c", "z"}
    check_all(gone.pipeline)
    delete(gone.bench, gone.us)
    with pytest.raises(UnknownTopic):
        ingest_all(gone.pipeline)
    assert gone.question().kind == "topic_gone"


def test_a_retired_topic_that_is_there_is_read_and_asked_about_when_it_is_gone(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    pipeline = bench.listed(eu, us)
    bench.publish(us, order("b", 1))
    ingest_all(pipeline)
    gone = Gone(bench, pipeline, eu, us)
    question = Question(gone.of_us.name, QuestionKind.TOPIC_GONE, topic_id(bench, us), "gone?", {})
    with transaction(bench.session) as cursor:  # as after answers of brokers that were wrong
        decisions.approve(cursor, question, None, ME, "by mistake")
    assert read_retirement(gone.of_us) is not None
    bench.publish(us, order("c", 1))
    assert ingest_all(pipeline) == [gone.of_us.name]
    delete(bench, us)
    assert gone.question().kind == "topic_gone"


def metrics(folder: Path) -> dict[tuple[str, str], float]:
    """By metric and topic, of those that there is one of for each."""
    families = LedgerCollector(folder, timeout=20).collect()
    samples = [
        sample for family in families for sample in family.samples if set(sample.labels) == {"pipeline", "topic"}
    ]
    return {(each.name.removeprefix("offset_ledger_"), each.labels["topic"]): each.value for each in samples}


def test_a_retired_topic_is_shown_as_such_without_lag_and_times(gone: Gone) -> None:
    path = gone.bench.folder
    (line,) = [each for each in overview(path) if each.pipeline == gone.of_us.name]
    assert (line.state, line.lag, line.retired) == ("not known", None, None)
    (shown,) = page_overview([gone.of_us], Rights(), BrokerCache(timeout=20))
    assert (shown["condition"]["text"], shown["retired"], shown["topic_gone"]) == ("the topic is gone", None, True)
    assert metrics(path)["topic_readable", gone.us] == 0

    accept_topic(gone.of_us, Origin("ann"), "closed")
    (line,) = [each for each in overview(path) if each.pipeline == gone.of_us.name]
    assert (line.state, line.lag, line.blocked_by, line.error) == ("retired", None, None, None)
    assert line.retired is not None
    assert line.retired.endswith("UTC by ann: closed")
    (shown,) = page_overview([gone.of_us], Rights(), BrokerCache(timeout=20))
    assert shown["condition"] == {"level": "plain", "text": "retired: the topic is gone"}
    assert (shown["retired"], shown["totals"]["lag"], shown["totals"]["complete_to"]) == (line.retired, None, None)
    found = metrics(path)
    assert (found["topic_retired", gone.us], found["topic_retired", gone.eu], found["topic_readable", gone.eu]) == (
        1,
        0,
        1,
    )
    absent = ("topic_readable", "lag_seconds", "last_commit_timestamp_seconds", "newest_record_timestamp_seconds")
    assert [name for name in absent if (name, gone.us) in found] == []


def test_a_topic_that_is_gone_wakes_a_run_that_asks_and_keeps_no_other_topic_from_it(gone: Gone) -> None:
    from offset_ledger.interfaces.airflow.triggers import _lagging

    assert _lagging(gone.of_us) == {gone.us: (None, 0)}
    accept_topic(gone.of_us, ME, "closed")
    assert _lagging(gone.of_us) == {}
    with pytest.raises(UnknownTopic):
        _lagging(gone.pipeline.of_topic(f"{gone.us}.misspelt"))


def test_a_topic_of_another_cluster_is_not_gone(gone: Gone) -> None:
    with gone.bench.session.cursor() as cursor:
        cursor.execute("UPDATE offset_ledger.pipeline SET cluster_id = 'another'")
    gone.bench.session.commit()
    with pytest.raises(UnknownTopic, match="cursors belong to cluster another; correct the connection"):
        loss_question(gone.of_us)
    with pytest.raises(UnknownTopic, match="correct the connection"):
        accept_topic(gone.of_us, ME, "closed")


def test_a_topic_that_was_never_read_is_no_question(bench: Bench) -> None:
    (eu,) = bench.create("eu")
    pipeline = bench.listed(eu, f"{bench.prefix}.misspelt")
    with pytest.raises(UnknownTopic, match="misspelt"):
        ingest_all(pipeline)
    with pytest.raises(UnknownTopic, match="misspelt"):
        loss_question(pipeline.of_topic(f"{bench.prefix}.misspelt"))


def test_a_pattern_may_leave_out_a_topic_that_is_gone(bench: Bench) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(us, order("b", 1))
    ingest_all(bench.matching())
    delete(bench, us)
    left = bench.file(f"topic_pattern: '{bench.prefix}[.](?!us$).+'")
    assert ingest_all(left) == []
    assert [each.source.topic for each in known_pipelines(left)] == [eu]


# -- the command line ------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_verbs_answer_for_each_topic_or_ask_for_one(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    eu, us = bench.create("eu", "us")
    bench.publish(eu, order("a", 1))
    bench.publish(us, order("b", 1), order("c", 1))
    path = str(bench.listed(eu, us).path)
    code, planned = run(capsys, "ingest", path, "--dry-run")
    assert code == 0
    assert {name: sum(each["offsets"] for each in shown["ranges"]) for name, shown in planned.items()} == {
        f"orders@{eu}": 1,
        f"orders@{us}": 2,
    }
    assert run(capsys, "ingest", path)[0] == 0
    code, found = run(capsys, "status", path)
    assert code == 0
    assert {name: [p["cursor"] for p in shown["partitions"]] for name, shown in found.items()} == {
        f"orders@{eu}": [1, 0],
        f"orders@{us}": [2, 0],
    }
    code, verified = run(capsys, "verify", path, "--against-topic")
    assert (code, [each["violations"] for each in verified.values()]) == (0, [[], []])
    assert run(capsys, "check", path)[0] == 0
    ranges = ("--partition", "0", "--from-offset", "0", "--until-offset", "1")
    for verb in (["replay", path, *ranges], ["quarantine", "list", path, "--export", "one file"]):
        code, refused = run(capsys, *verb)
        assert (code != 0, refused["message"]) == (
            True,
            f"pipeline orders reads several topics; name one of orders@{eu}, orders@{us}",
        )
    one = run(capsys, "replay", f"{path}@{us}", *ranges)
    assert one[0] == 0
    delete_topic(dict(bench.servers.kafka.extra), us)
    code, found = run(capsys, "status", path)
    assert (code != 0, found[f"orders@{us}"]["error"]) == (True, "UnknownTopic")
    assert found[f"orders@{eu}"]["pipeline"] == f"orders@{eu}"
