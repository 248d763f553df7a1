"""The audit on three real brokers: each rule found on a topic made wrong for it, and absent on a right one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import NoError
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndMetadata

from offset_ledger.errors import UnknownTopic
from offset_ledger.model.snapshot import Boundary
from offset_ledger.operations.audit.facts import ReaderFacts
from offset_ledger.operations.audit.finding import AuditFinding, Severity
from offset_ledger.operations.audit.rules import RULES, check_topic
from offset_ledger.operations.audit.run import Audit, audit_pipeline, audit_topic, read_facts
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import connect, rows, transaction
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch, silent
from tests.fixtures.kafka_tools import commands, paste
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

DAY_MS = 86_400_000
READER = ReaderFacts("orders", event_id_is_key=True, publish_at_is_timestamp=True, newest_wins=True, value_bytes=2**20)
NOT_BY_KEY = ReaderFacts("orders", False, True, True, 2**20)
DAILY = replace(READER, deletes_by_tombstone=True, runs_every=timedelta(days=1))
RIGHT = {"min.insync.replicas": "2", "retention.ms": str(7 * DAY_MS)}

# name -> what makes that topic another than the right one
SETTINGS = {
    "min-insync-1": {"min.insync.replicas": "1"},
    "min-insync-3": {"min.insync.replicas": "3"},
    "min-insync-4": {"min.insync.replicas": "4"},
    "unclean": {"unclean.leader.election.enable": "true"},
    "both-retentions": {"retention.bytes": "1000000000"},
    "large": {"max.message.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact"},
    "log-append-time": {"message.timestamp.type": "LogAppendTime"},
    "future": {"message.timestamp.after.max.ms": str(30 * DAY_MS)},
    "refusing": {"message.timestamp.before.max.ms": str(DAY_MS)},
}
# name -> days from now of the timestamp of its records; the others have one of an hour ago
TIMES = {"unread-6.5": -6.5, "unread-5": -5, "future": 3}


@dataclass(frozen=True)
class Case:
    """A topic, and what a rule says about it to that reader."""

    topic: str
    rule: str
    severity: Severity
    found: str
    reader: ReaderFacts | None = READER
    client: Mapping[str, str] = field(default_factory=dict)


ERROR, WARNING, INFO, OK = Severity
LARGE = "records of up to 2,000,000 bytes are taken (max.message.bytes), and the brokers' replica.fetch.max.bytes is "
ARRIVAL = "a record's timestamp is when it arrived (message.timestamp.type=LogAppendTime)"
CASES = [
    Case("one-copy", "replication-factor", ERROR, "replication factor 1, and 3 brokers up"),
    Case("min-insync-1", "min-insync-replicas", ERROR, "min.insync.replicas 1 of 3 copies"),
    Case("min-insync-3", "min-insync-replicas", WARNING, "min.insync.replicas 3 of 3 copies"),
    Case("min-insync-4", "min-insync-replicas", WARNING, "min.insync.replicas 4 of 3 copies"),
    Case("unclean", "unclean-election", ERROR, "a copy that is not in sync may become the leader"),
    Case("right", "closest-replica", WARNING, "client.rack is a, but broker.rack is", client={"client.rack": "a"}),
    Case("both-retentions", "both-retentions", WARNING, "retention.ms (7 days) and retention.bytes (1 GB a partition)"),
    Case("unread-6.5", "retention-against-lag", ERROR, "unread record is 6.5 days old and is deleted in 12 hours"),
    Case("unread-5", "retention-against-lag", WARNING, "unread record is 5 days old and is deleted in 48 hours"),
    Case("unread-6.5", "retention-against-lag", OK, "no pipeline was named", None),
    Case("large", "message-size", WARNING, LARGE),
    Case(
        "right", "message-size", WARNING, "partition.fetch.bytes is 5,000", client={"max.partition.fetch.bytes": "5000"}
    ),
    Case("right", "message-size", INFO, "limits.value_bytes is 1,000", replace(READER, value_bytes=1000)),
    Case("compacted", "compaction", ERROR, "and the event id is not the key", NOT_BY_KEY),
    Case("compacted", "compaction", INFO, "no pipeline was named", None),
    Case("compacted", "compaction", INFO, "written last stays", replace(READER, publish_at_is_timestamp=False)),
    Case("compacted", "compaction", OK, "compacted by key, which is the event id"),
    Case("compacted", "tombstones-against-lag", ERROR, "up to 24 hours pass between two runs, and", DAILY),
    Case(
        "compacted", "tombstones-against-lag", OK, "no record is known to wait unread", replace(DAILY, runs_every=None)
    ),
    Case("log-append-time", "timestamp-type", ERROR, f"{ARRIVAL}, and the pipeline takes publish_at from"),
    Case("log-append-time", "timestamp-type", WARNING, ARRIVAL, None),
    Case("future", "timestamp-range", WARNING, "a record is 3 days in the future"),
    Case("refusing", "timestamp-range", INFO, "records older than 24 hours are refused"),
]


@pytest.fixture(scope="module")
def kafka(three_brokers: Kafka) -> Iterator[Kafka]:
    """They end with this file, which comes last, and whoever wants them again has new ones: these tests spoil them."""
    three_brokers.up(find_java(), Launch(silent))
    yield three_brokers
    three_brokers.kill()
    shutil.rmtree(three_brokers.directory)


@pytest.fixture(scope="module")
def connection(kafka: Kafka) -> Connection:
    return Connection("kafka_default", "kafka", extra={"bootstrap.servers": kafka.bootstrap})


@contextmanager
def admin(kafka: Kafka) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap.split(","))) as client:
        yield client


def ask_each(client: KafkaAdminClient, kafka: Kafka, request: Any) -> list[Any]:
    """Every broker's answer: each learns of a topic and its settings by itself, a moment after the controller."""

    async def ask() -> list[Any]:
        return [await client._manager.send(request, node_id=broker.node) for broker in kafka.brokers]

    return list(client._manager.run(ask))


def wait_until_known(kafka: Kafka, topic: str) -> None:
    """Return when every broker knows the topic and its leaders."""
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with admin(kafka) as client:

        def known() -> bool:
            found = [each for answer in ask_each(client, kafka, asked) for each in answer.topics]
            return all(not t.error_code and all(p.leader_id >= 0 for p in t.partitions) for t in found)

        assert until(known, bool)


def make(kafka: Kafka, topic: str, settings: Mapping[str, str], partitions: int = 1, factor: int = 3) -> None:
    """The topic, known to every broker."""
    create_topic({"bootstrap.servers": kafka.bootstrap}, topic, partitions, factor, settings)
    wait_until_known(kafka, topic)


def change(kafka: Kafka, topic: str, name: str, value: str) -> None:
    """Set it, and return when every broker says so."""
    with admin(kafka) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
        asked = client._describe_configs_request([ConfigResource(ConfigResourceType.TOPIC, topic)])

        def values() -> set[str]:
            answers = ask_each(client, kafka, asked)
            found = [client._describe_configs_process_responses([each], "all") for each in answers]
            return {each["topic"][topic][name]["value"] for each in found}

        assert until(values, lambda found: found == {value}) == {value}


def millis(days: float) -> int:
    return int(time.time() * 1000 + days * DAY_MS)


def records(days: float = -1 / 24) -> list[Record]:
    return [Record(b"k%d" % n, b"v", (), millis(days)) for n in range(4)]


@pytest.fixture(scope="module")
def topics(connection: Connection, kafka: Kafka) -> Callable[[str], str]:
    """The topic of that name, made when first asked for; nothing is wrong with ``right``."""
    made: set[str] = set()

    def of(short: str) -> str:
        name = f"events.{short}"
        if name not in made:
            factor = 1 if short == "one-copy" else 3
            make(kafka, name, {**RIGHT, **SETTINGS.get(short, {})}, 2, factor)
            publish(records(TIMES.get(short, -1 / 24)), connection.extra, name)
            made.add(name)
        return name

    return of


def finding(connection: Connection, topic: str, rule: str, reader: ReaderFacts | None = READER) -> AuditFinding:
    (found,) = (each for each in check_topic(read_facts(connection, topic, reader)) if each.rule == rule)
    return found


def until(ask: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 60) -> Any:
    """What ``ask`` answers once it is as wanted, or last."""
    deadline = time.monotonic() + seconds
    while not wanted(found := ask()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_a_right_topic_has_no_finding(connection: Connection, topics: Callable[[str], str]) -> None:
    facts = read_facts(connection, topics("right"), READER)
    assert {each.rule: (each.severity, each.found) for each in check_topic(facts) if each.severity is not OK} == {}
    assert len(check_topic(facts)) == len(RULES)
    assert {p.partition: (p.log_start, p.last_stable == p.high_watermark) for p in facts.partitions} == {
        0: (0, True),
        1: (0, True),
    }
    assert sum(p.high_watermark for p in facts.partitions) == 4
    assert all(p.size_bytes > 0 and p.first_at == p.unread_at for p in facts.partitions if p.high_watermark)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.topic}-{case.severity}")
def test_a_rule_is_found_on_a_topic_made_wrong_for_it(
    connection: Connection, topics: Callable[[str], str], case: Case
) -> None:
    reader = replace(connection, extra={**connection.extra, **case.client})
    found = finding(reader, topics(case.topic), case.rule, case.reader)
    assert (found.severity, found.remedy is None) == (case.severity, case.severity is OK)
    assert case.found in found.found


def test_the_remedy_for_settings_is_a_command_that_fixes_them(
    connection: Connection, topics: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics("both-retentions")
    paste(tmp_path, commands(finding(connection, topic, "both-retentions").remedy)[0])
    mended = until(lambda: finding(connection, topic, "both-retentions"), lambda found: found.remedy is None)
    assert (mended.severity, mended.found) == (OK, "one retention: 7 days")


def test_the_remedy_for_a_single_replica_is_a_plan_that_adds_more(
    connection: Connection, topics: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics("one-copy")
    (command,) = commands(finding(connection, topic, "replication-factor").remedy)
    paste(tmp_path, command)
    rules = {"replication-factor", "replicas-in-sync", "preferred-leaders"}

    def severities() -> set[Severity]:
        return {f.severity for f in check_topic(read_facts(connection, topic)) if f.rule in rules}

    assert until(severities, lambda found: found == {OK}) == {OK}


def test_a_record_older_than_its_retention_is_found(connection: Connection, kafka: Kafka) -> None:
    """Retention looks at the newest record of a segment, so the recent one, which is first, keeps the old one."""
    make(kafka, "events.old", RIGHT)
    for days in (0, -400):
        publish([Record(b"k", b"v", (), millis(days))], connection.extra, "events.old")
    found = finding(connection, "events.old", "timestamp-range")
    assert (found.severity, "400 days old" in found.found) == (WARNING, True)


def test_spans_and_timestamps_beyond_every_calendar_are_shown(connection: Connection, kafka: Kafka) -> None:
    most = str(2**63 - 1)
    for_ever = {"retention.ms": most, "segment.ms": most, "message.timestamp.after.max.ms": most}
    make(kafka, "events.for-ever", {**RIGHT, **for_ever})
    in_microseconds = Record(b"k", b"v", (), millis(0) * 1000)
    publish([in_microseconds], connection.extra, "events.for-ever")
    found = finding(connection, "events.for-ever", "timestamp-range")
    assert (found.severity, "days in the future" in found.found) == (WARNING, True)
    kept = finding(connection, "events.for-ever", "both-retentions")
    assert (kept.severity, kept.found) == (OK, "no retention deletes records")


def test_the_open_segment_of_a_quiet_topic_is_deleted_like_any_other(connection: Connection, kafka: Kafka) -> None:
    make(kafka, "events.quiet", {**RIGHT, "retention.ms": "1000"})
    publish(records(), connection.extra, "events.quiet")
    (left,) = until(lambda: read_facts(connection, "events.quiet").partitions, lambda found: found[0].log_start == 4)
    assert (left.log_start, left.high_watermark, left.first_at) == (4, 4, None)


def test_unread_bytes_are_compared_with_the_retained_bytes(connection: Connection, kafka: Kafka) -> None:
    topic, unlimited = "events.size", {**RIGHT, "retention.ms": "-1"}
    make(kafka, topic, unlimited)
    publish(records(), connection.extra, topic)
    (partition,) = read_facts(connection, topic).partitions
    for share, severity in ((0.95, ERROR), (0.8, WARNING), (0.5, OK)):
        kept = int(partition.size_bytes / share)
        change(kafka, topic, "retention.bytes", str(kept))
        found = finding(connection, topic, "retention-against-lag")
        assert (found.severity, found.found) == (
            severity,
            f"partition 0: about {partition.size_bytes} bytes unread, of {kept} bytes kept",
        )


def test_an_idle_group_is_found_until_it_is_deleted(connection: Connection, kafka: Kafka, tmp_path: Path) -> None:
    make(kafka, "events.group", RIGHT)
    offsets = {TopicPartition("events.group", 0): OffsetAndMetadata(0, "", -1)}
    with connect_kafka(connection) as cluster:
        # A coordinator that is still loading answers with an error for the partition, which is not raised.
        answers = until(
            lambda: cluster.ask(lambda admin: admin.client.alter_group_offsets("audit-idle", offsets)),
            lambda found: all(error is NoError for error in found.values()),
        )
    assert set(answers.values()) == {NoError}
    found = finding(connection, "events.group", "group-offsets")
    assert (found.severity, found.found) == (
        INFO,
        "no consumer runs in audit-idle, which has offsets here; they expire 7 days after the last one left",
    )
    look, delete = commands(found.remedy)
    assert "audit-idle" in paste(tmp_path, look)
    paste(tmp_path, delete)
    assert finding(connection, "events.group", "group-offsets").severity is OK


def test_a_topic_that_is_not_there_is_named(connection: Connection) -> None:
    with pytest.raises(UnknownTopic, match=r"'events.nowhere' does not exist"):
        read_facts(connection, "events.nowhere")


PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


@pytest.fixture
def pipeline(
    connection: Connection,
    postgres: Connection,
    topics: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Path:
    """A pipeline file that reads the compacted topic, with both connections in the environment."""
    for each in (connection, postgres):
        monkeypatch.setenv(environment_name(each.conn_id), each.to_json())
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE.format(topic=topics("compacted")))
    return path


def test_results_are_kept_and_changes_are_reported(
    connection: Connection, kafka: Kafka, postgres: Connection, pipeline: Path
) -> None:
    first = audit_pipeline(parse_pipeline(pipeline))
    assert ([each.rule for each in first.failing(ERROR)], first.changes) == (["compaction"], ())
    change(kafka, first.topic, "cleanup.policy", "delete")
    second = audit_pipeline(parse_pipeline(pipeline))
    change(kafka, first.topic, "cleanup.policy", "compact")
    third = audit_pipeline(parse_pipeline(pipeline))
    fourth = audit_pipeline(parse_pipeline(pipeline))
    told = [[str(change) for change in done.changes] for done in (second, third, fourth)]
    assert told == [
        ["gone: compaction (error -> ok)"],
        ["new: compaction (ok -> error)"],
        ["still: compaction (error)"],
    ]
    assert fourth.previous_at == third.audited_at
    alone = audit_topic(connection, first.topic, ledger=postgres)
    assert alone.previous_at is None  # the topic's own audits are not the pipeline's
    with connect(postgres) as session:
        kept = rows(
            session,
            "SELECT pipeline, audited_at, rule, severity, found, risk, remedy FROM offset_ledger.topic_audit",
        )
    assert {tuple(row) for row in kept} == {
        (done.pipeline, done.audited_at, f.rule, f.severity.value, f.found, f.risk, f.remedy)
        for done in (first, second, third, fourth, alone)
        for f in done.findings
    }


def test_lag_is_counted_from_the_cursors_of_the_ledger(
    connection: Connection, kafka: Kafka, postgres: Connection, pipeline: Path
) -> None:
    topic = "events.lag"
    make(kafka, topic, RIGHT)
    publish(records(-6.5), connection.extra, topic)
    pipeline.write_text(PIPELINE.format(topic=topic))
    read = parse_pipeline(pipeline)

    def lag() -> AuditFinding:
        return next(f for f in audit_pipeline(read).findings if f.rule == "retention-against-lag")

    def begin_at(offset: int) -> None:
        with connect_kafka(connection) as cluster:
            snapshot = cluster.snapshot(topic)
        with connect(postgres) as session, transaction(session) as cursor:
            pipelines.register(cursor, read, snapshot)
            cursor.execute("DELETE FROM offset_ledger.beginning")
            pipelines.record_start_offsets(cursor, read.name, snapshot.topic_id, [Boundary(0, offset)])

    assert lag().severity is ERROR
    begin_at(4)
    assert (lag().severity, lag().found) == (OK, "every record is committed, or retention deletes none")
    begin_at(1)
    with admin(kafka) as client:
        client.delete_records({TopicPartition(topic, 0): 3})
    lost = until(lag, lambda found: "deleted before" in found.found)
    assert (lost.severity, lost.found) == (
        ERROR,
        "deleted before they were committed: 2 offsets, 1 to 2 of partition 0",
    )


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "offset_ledger_kit.cli", *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_line_fails_by_severity(
    pipeline: Path, topics: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    def audit(*arguments: str) -> tuple[int, str, str]:
        code = main(["kafka", "audit", *arguments])
        return code, *capsys.readouterr()

    code, out, _ = audit(str(pipeline), "--json")
    first = json.loads(out)
    assert (code, first["findings"][0]["rule"], first["changes"]) == (1, "compaction", [])
    code, out, _ = audit(str(pipeline))
    assert code == 1
    assert f"\nsince the audit of {first['audited_at'][:10]} " in out
    assert " UTC:\n  still: compaction (error)\n" in out
    words, command = finding_lines(out, "compaction")
    assert words.endswith("delete by age instead (after 7 days):")
    assert command.startswith("kafka-configs.sh --bootstrap-server ")
    for topic, codes in (("right", (0, 0)), ("min-insync-3", (0, 1)), ("min-insync-1", (1, 1))):
        named = ("--topic", topics(topic))
        assert (audit(*named)[0], audit(*named, "--fail-on", "warning")[0]) == codes
    code, _, err = audit(str(pipeline), "--topic", "x")
    assert (code, "one of the two" in err) == (1, True)
    code, _, err = audit("--topic", "events.nowhere")
    assert (code, err.startswith("offset-ledger: UnknownTopic: topic 'events.nowhere' does not exist")) == (1, True)


def test_without_brokers_nothing_is_audited(
    pipeline: Path, postgres: Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = Connection("kafka_default", "kafka", extra={"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    assert main(["kafka", "audit", str(pipeline), "--fail-on", "warning"]) == 75
    assert "did not answer" in capsys.readouterr().err
    with connect(postgres) as session:
        assert rows(session, "SELECT FROM offset_ledger.topic_audit") == []


def finding_lines(out: str, rule: str) -> list[str]:
    """The lines of the rule's remedy, as shown."""
    _, _, after = out.partition(f" {rule}\n  risk:")
    return [line.strip() for line in after.split("\n\n")[0].splitlines()[1:]]


# Airflow takes long to import, so that one process runs the task each time that it is told to.
_TASK = """
import runpy, sys
from airflow.sdk.exceptions import AirflowFailException
(task,) = runpy.run_path("dags/audit_topics.py")["audit_topics"].tasks
for _ in sys.stdin:
    try:
        print("said:", task.python_callable(), flush=True)
    except AirflowFailException as error:
        print("said: failed:", error, flush=True)
"""


@contextmanager
def limited(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Kill the process if it is not done in time: who reads from it then meets its end."""
    watch = Timer(seconds, process.kill)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


@pytest.mark.usefixtures("pipeline")
def test_the_task_of_the_dag_fails_on_an_error_alone(kafka: Kafka, tmp_path: Path) -> None:
    unclean = {"unclean.leader.election.enable": "true", "retention.bytes": "1000000000"}
    make(kafka, "flights.events", {**RIGHT, **unclean}, 2)
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _TASK],
            cwd=ROOT,
            env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def said() -> str:
        assert process.stdin
        assert process.stdout
        process.stdin.write("again\n")
        process.stdin.flush()
        found = next((line for line in process.stdout if line.startswith("said: ")), "")
        assert found, (tmp_path / "errors").read_text()[-2000:]
        return found.removeprefix("said: ").strip()

    with limited(process, 240), process:
        assert said().startswith("failed: topic flights.events: unclean-election: ")
        change(kafka, "flights.events", "unclean.leader.election.enable", "false")
        assert said() == f"{{'error': 0, 'warning': 1, 'info': 0, 'ok': {len(RULES) - 1}}}"


@pytest.mark.usefixtures("pipeline")
def test_a_topic_is_planned_made_and_described() -> None:
    made = run(
        "kafka",
        "topic",
        "create",
        "events.made",
        "--volume",
        "100MB",
        "--partitions",
        "2",
        "--set",
        "segment.ms=3600000",
    )
    assert (made.returncode, made.stdout.splitlines()[0]) == (0, "created topic events.made:"), made.stderr
    described = run("kafka", "topic", "describe", "events.made", "--volume", "100MB")
    assert made.stdout.splitlines()[1:] == described.stdout.splitlines()[1:]
    assert "3600000" in described.stdout
    assert "2 copies can be lost" in described.stdout
    audited = run("kafka", "audit", "--topic", "events.made", "--fail-on", "warning", "--json")
    assert {f["rule"] for f in json.loads(audited.stdout)["findings"] if f["severity"] != "ok"} == set()


def preferred(done: Audit) -> Severity:
    return next(each.severity for each in done.findings if each.rule == "preferred-leaders")


def leave_open(kafka: Kafka, topic: str) -> None:
    """A transaction whose producer is gone, and then all of its coordinators but broker 3."""
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id="audit-left", transaction_timeout_ms=900_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"v").get(30)
    producer.close(timeout=0)
    with admin(kafka) as client:
        (states,) = client.describe_topics(["__transaction_state"])
        places = [TopicPartition("__transaction_state", p["partition_index"]) for p in states["partitions"]]
        client.alter_partition_reassignments({place: [3] for place in places})

        def replicas() -> list[tuple[list[int], int]]:
            (states,) = client.describe_topics(["__transaction_state"])
            return [(p["replica_nodes"], p["leader_id"]) for p in states["partitions"]]

        assert until(replicas, lambda found: all(each == ([3], 3) for each in found)) == [([3], 3)] * len(places)


def test_a_lost_broker_and_its_return(
    connection: Connection,
    kafka: Kafka,
    topics: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one test, because a broker that goes and comes takes ten seconds."""
    monkeypatch.setenv(environment_name(connection.conn_id), connection.to_json())
    right = topics("right")
    topics("min-insync-3")
    with admin(kafka) as client:
        client.create_topics({"events.alone": {"assignments": {0: [3], 1: [1]}, "configs": RIGHT}})
        client.create_topics({"events.led": {"assignments": {0: [3, 1, 2]}, "configs": RIGHT}})
    for each in ("events.alone", "events.led"):
        wait_until_known(kafka, each)
    led = until(lambda: read_facts(connection, "events.led").partitions[0].leader, lambda leader: leader == 3)
    assert led == 3
    leave_open(kafka, "events.led")
    (known,) = until(
        lambda: read_facts(connection, "events.led").partitions[0].transactions,
        lambda found: found and found[0].owner is not None,  # a coordinator that has just moved is not heard yet
    )
    assert (known.hanging, known.owner and known.owner.transactional_id) == (False, "audit-left")
    third = kafka.broker(3)
    third.kill()

    def down(topic: str, rule: str, told: str) -> AuditFinding:
        """The finding once it is told so: a lost broker is noticed after its session, and not by all at once."""
        found = until(lambda: finding(connection, topic, rule), lambda found: found.found == told)
        assert found.found == told
        return found

    alone = down("events.alone", "offline-partitions", "no leader: partition 0")
    assert (alone.severity, "Leader: none" in paste(tmp_path, commands(alone.remedy)[0])) == (ERROR, True)
    lagging = "not in sync: the copies of partitions 0, 1 on broker 3"
    behind = down(right, "replicas-in-sync", lagging)
    assert (behind.severity, f"Topic: {right}" in paste(tmp_path, commands(behind.remedy)[0])) == (WARNING, True)
    less = f"{lagging}; partitions 0, 1 below min.insync.replicas (3)"
    assert down(topics("min-insync-3"), "replicas-in-sync", less).severity is ERROR
    assert down(right, "replication-factor", "replication factor 3, and 2 brokers up").severity is ERROR
    assert finding(connection, right, "auto-created").severity is OK
    # A preferred broker that is away is waited for by nobody.
    assert preferred(audit_topic(connection, "events.led", elect=True)) is WARNING
    # What the coordinator that is away knows is in nobody's list, and that does not make it hanging.
    (unheard,) = read_facts(connection, "events.led").partitions[0].transactions
    assert (unheard.hanging, unheard.owner) == (False, None)
    assert finding(connection, "events.led", "hanging-transactions").severity is OK

    # It comes back as a broker that makes topics for whoever names one, and in a rack that nobody asks for.
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with (third.directory / "server.properties").open("a") as properties:
        properties.write(f"auto.create.topics.enable=true\nbroker.rack=a\nreplica.selector.class={selector}\n")
    third.start()
    kafka.wait()
    synced = until(
        lambda: read_facts(connection, "events.led").partitions[0].in_sync, lambda nodes: set(nodes) == {1, 2, 3}
    )
    assert set(synced) == {1, 2, 3}
    back = until(lambda: finding(connection, "events.alone", "offline-partitions"), lambda found: found.remedy is None)
    assert back.severity is OK
    assert finding(connection, right, "auto-created").severity is WARNING
    assert finding(connection, right, "closest-replica").severity is INFO
    racked = replace(connection, extra={**connection.extra, "client.rack": "a"})
    halfway = finding(racked, right, "closest-replica")
    assert (halfway.severity, "broker.rack is missing on brokers 1, 2 and" in halfway.found) == (WARNING, True)
    moved = finding(connection, "events.led", "preferred-leaders")
    assert moved.severity is WARNING
    assert re.fullmatch(r"not led by the preferred broker: partition 0 \(by broker [12], not 3\)", moved.found)
    (command,) = commands(moved.remedy)
    assert command == "offset-ledger kafka audit orders --elect"
    (command,) = commands(finding(connection, "events.led", "preferred-leaders", None).remedy)
    assert "every partition is led by its preferred broker" in paste(tmp_path, command)
    assert read_facts(connection, "events.led").partitions[0].leader == 3
