"""The audit on three real brokers: each rule found on a topic made wrong for it, and absent on a right one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from offset_ledger import broker
from offset_ledger.audit.facts import ReaderFacts
from offset_ledger.audit.finding import Finding, Severity
from offset_ledger.audit.gather import Reading, read_facts
from offset_ledger.audit.rules import RULES, judge
from offset_ledger.audit.run import audit_pipeline, audit_topic
from offset_ledger.connections import Connection, environment_name
from offset_ledger.errors import UnknownTopic
from offset_ledger.ledger import batches
from offset_ledger.ledger.database import connect, rows, transaction
from offset_ledger.local.java import find_java
from offset_ledger.local.kafka import Kafka, class_path
from offset_ledger.local.layout import PortChoice, Ports
from offset_ledger.local.process import Launch, silent
from offset_ledger.pipeline.parse import parse_pipeline
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic

DAY_MS = 86_400_000
READER = ReaderFacts("orders", event_id_is_key=True, publish_at_is_timestamp=True, newest_wins=True, value_bytes=2**20)
NOT_BY_KEY = ReaderFacts("orders", False, True, True, 2**20)
RIGHT = {"min.insync.replicas": "2", "retention.ms": str(7 * DAY_MS)}

# rule -> the settings of a topic that is wrong in it
SETTINGS = {
    "min-insync-replicas": {"min.insync.replicas": "3"},
    "unclean-election": {"unclean.leader.election.enable": "true"},
    "both-retentions": {"retention.bytes": "1000000000"},
    "message-size": {"max.message.bytes": "2000000"},
    "compaction": {"cleanup.policy": "compact"},
    "timestamp-type": {"message.timestamp.type": "LogAppendTime"},
    "timestamp-range": {"message.timestamp.after.max.ms": str(30 * DAY_MS)},
}
# rule -> days from now of the timestamp of its topic's record; the others have one of an hour ago
TIMES = {"retention-against-lag": -6.5, "timestamp-range": 3}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """Three brokers that bring no leader back by themselves."""
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as folder:
        made = Kafka(Path(folder), 3, Ports.choose(PortChoice.any_free()), {"auto.leader.rebalance.enable": "false"})
        made.up(find_java(), Launch(silent))
        yield made
        made.down()


@pytest.fixture(scope="module")
def connection(kafka: Kafka) -> Connection:
    return Connection("kafka_default", "kafka", extra={"bootstrap.servers": kafka.bootstrap})


@contextmanager
def admin(kafka: Kafka) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap.split(","))) as client:
        yield client


def millis(days: float) -> int:
    return int(time.time() * 1000 + days * DAY_MS)


def records(days: float = -1 / 24) -> list[Record]:
    return [Record(b"k%d" % n, b"v", (), millis(days)) for n in range(4)]


@pytest.fixture(scope="module")
def topics(connection: Connection) -> Callable[[str], str]:
    """The topic that is wrong in a rule, made when first asked for; ``right`` is wrong in none."""
    made: set[str] = set()

    def of(rule: str) -> str:
        name = f"events.{rule}"
        if name not in made:
            factor = 1 if rule == "replication-factor" else 3
            create_topic(connection.extra, name, 2, factor, {**RIGHT, **SETTINGS.get(rule, {})})
            publish(records(TIMES.get(rule, -1 / 24)), connection.extra, name)
            made.add(name)
        return name

    return of


def finding(connection: Connection, topic: str, rule: str, reader: ReaderFacts | None = READER) -> Finding:
    reading = Reading(reader) if reader else None
    (found,) = (each for each in judge(read_facts(connection, topic, reading)) if each.rule == rule)
    return found


def until(ask: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 60) -> Any:
    """What ``ask`` answers once it is as wanted, or last."""
    deadline = time.monotonic() + seconds
    while not wanted(found := ask()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_a_right_topic_has_no_finding(connection: Connection, topics: Callable[[str], str]) -> None:
    facts = read_facts(connection, topics("right"), Reading(READER))
    assert {each.rule: (each.severity, each.found) for each in judge(facts) if each.severity is not Severity.OK} == {}
    assert len(judge(facts)) == len(RULES)
    assert {p.partition: (p.log_start, p.last_stable == p.high_watermark) for p in facts.partitions} == {
        0: (0, True),
        1: (0, True),
    }
    assert sum(p.high_watermark for p in facts.partitions) == 4
    assert all(p.size_bytes > 0 and p.first_at == p.unread_at for p in facts.partitions if p.high_watermark)


@pytest.mark.parametrize(
    ("rule", "severity", "reader"),
    [
        ("replication-factor", Severity.ERROR, READER),
        ("min-insync-replicas", Severity.WARNING, READER),
        ("unclean-election", Severity.ERROR, READER),
        ("both-retentions", Severity.WARNING, READER),
        ("retention-against-lag", Severity.ERROR, READER),
        ("message-size", Severity.WARNING, READER),
        ("compaction", Severity.ERROR, NOT_BY_KEY),
        ("timestamp-type", Severity.ERROR, READER),
        ("timestamp-range", Severity.WARNING, READER),
    ],
)
def test_a_rule_is_found_on_a_topic_made_wrong_for_it(
    connection: Connection, topics: Callable[[str], str], rule: str, severity: Severity, reader: ReaderFacts
) -> None:
    found = finding(connection, topics(rule), rule, reader)
    assert found.severity is severity, found
    assert topics(rule) in (found.remedy or "") or "offset-ledger" in (found.remedy or "")


def test_the_remedy_for_settings_is_a_command_that_mends_them(
    connection: Connection, topics: Callable[[str], str]
) -> None:
    topic, java = topics("both-retentions"), find_java()
    tool, *arguments = shlex.split(finding(connection, topic, "both-retentions").remedy or "")
    assert tool == "kafka-configs"
    command = [java.executable, "-cp", class_path(java), "kafka.admin.ConfigCommand", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    mended = until(lambda: finding(connection, topic, "both-retentions"), lambda found: found.remedy is None)
    assert mended.severity is Severity.OK


def test_the_remedy_for_a_single_copy_is_a_plan_that_mends_it(
    connection: Connection, kafka: Kafka, topics: Callable[[str], str]
) -> None:
    topic = topics("replication-factor")
    planned = re.search(r"^echo '(.*)' > ", finding(connection, topic, "replication-factor").remedy or "")
    assert planned
    moves = {TopicPartition(m["topic"], m["partition"]): m["replicas"] for m in json.loads(planned[1])["partitions"]}
    with admin(kafka) as client:
        client.alter_partition_reassignments(moves)
    rules = {"replication-factor", "replicas-in-sync", "preferred-leaders"}

    def severities() -> set[Severity]:
        return {f.severity for f in judge(read_facts(connection, topic)) if f.rule in rules}

    assert until(severities, lambda found: found == {Severity.OK}) == {Severity.OK}


def test_a_record_older_than_its_retention_is_found(connection: Connection) -> None:
    """Retention looks at the newest record of a segment, so the recent one, which is first, keeps the old one."""
    create_topic(connection.extra, "events.old", 1, 3, RIGHT)
    for days in (0, -400):
        publish([Record(b"k", b"v", (), millis(days))], connection.extra, "events.old")
    found = finding(connection, "events.old", "timestamp-range")
    assert (found.severity, "400 days old" in found.found) == (Severity.WARNING, True)


def test_the_open_segment_of_a_quiet_topic_is_deleted_like_any_other(connection: Connection) -> None:
    create_topic(connection.extra, "events.quiet", 1, 3, {**RIGHT, "retention.ms": "1000"})
    publish(records(), connection.extra, "events.quiet")
    (left,) = until(lambda: read_facts(connection, "events.quiet").partitions, lambda found: found[0].log_start == 4)
    assert (left.log_start, left.high_watermark, left.first_at) == (4, 4, None)


def test_an_old_open_transaction_is_found_until_it_ends(connection: Connection, kafka: Kafka) -> None:
    topic, hour_ago = "events.open", millis(-1 / 24)
    create_topic(connection.extra, topic, 1, 3, RIGHT)
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id="audit-open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v", timestamp_ms=hour_ago).get(30)
        found = finding(connection, topic, "hanging-transactions")
        facts = read_facts(connection, topic)
        producer.abort_transaction()
    (opened,) = facts.partitions[0].transactions
    assert (opened.start_offset, opened.known, facts.partitions[0].last_stable) == (0, True, 0)
    assert (found.severity, "--start-offset 0" in (found.remedy or "")) == (Severity.ERROR, True)
    after = until(
        lambda: finding(connection, topic, "hanging-transactions"), lambda found: found.severity is Severity.OK
    )
    assert after.found == "no transaction is open"


def test_an_idle_group_is_found(connection: Connection, topics: Callable[[str], str]) -> None:
    create_topic(connection.extra, "events.group", 1, 3, RIGHT)
    offsets = {TopicPartition("events.group", 0): OffsetAndMetadata(0, "", -1)}
    with broker.connect(connection) as cluster:
        # A coordinator that is still loading answers with an error for the partition, which is not raised.
        answers = until(
            lambda: cluster.ask(lambda client: client.alter_group_offsets("audit-idle", offsets)),
            lambda found: all(error is NoError for error in found.values()),
        )
    assert set(answers.values()) == {NoError}
    found = finding(connection, "events.group", "group-offsets")
    assert (found.severity, "audit-idle" in found.found) == (Severity.INFO, True)
    assert finding(connection, topics("right"), "group-offsets").severity is Severity.OK


def test_a_rack_at_the_reader_only_is_found(connection: Connection, topics: Callable[[str], str]) -> None:
    racked = Connection("kafka_default", "kafka", extra={**connection.extra, "client.rack": "a"})
    found = finding(racked, topics("right"), "closest-replica")
    assert (found.severity, "brokers lack broker.rack" in found.found) == (Severity.WARNING, True)


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
    path.write_text(PIPELINE.format(topic=topics("compaction")))
    return path


def test_results_are_kept_and_changes_are_told(
    connection: Connection, kafka: Kafka, postgres: Connection, pipeline: Path
) -> None:
    first = audit_pipeline(parse_pipeline(pipeline))
    assert ([each.rule for each in first.failing(Severity.ERROR)], first.changes) == (["compaction"], ())
    with admin(kafka) as client:
        client.alter_configs(_setting(first.topic, "cleanup.policy", "delete"))
    second = audit_pipeline(parse_pipeline(pipeline))
    with admin(kafka) as client:
        client.alter_configs(_setting(first.topic, "cleanup.policy", "compact"))
    assert [str(change) for change in second.changes] == ["gone: compaction (error -> ok)"]
    alone = audit_topic(connection, first.topic, ledger=postgres)
    with connect(postgres) as session:
        kept = rows(
            session,
            "SELECT pipeline, audited_at, rule, severity, found, risk, remedy FROM offset_ledger.topic_audit",
        )
    assert {tuple(row) for row in kept} == {
        (done.pipeline, done.audited_at, f.rule, f.severity.value, f.found, f.risk, f.remedy)
        for done in (first, second, alone)
        for f in done.findings
    }


def test_lag_is_counted_from_the_cursors_of_the_ledger(
    connection: Connection, postgres: Connection, pipeline: Path, topics: Callable[[str], str]
) -> None:
    topic = topics("retention-against-lag")
    pipeline.write_text(PIPELINE.format(topic=topic))
    read = parse_pipeline(pipeline)

    def lag() -> Severity:
        return next(f.severity for f in audit_pipeline(read).findings if f.rule == "retention-against-lag")

    assert lag() is Severity.ERROR
    with broker.connect(connection) as cluster:
        snapshot = cluster.snapshot(topic)
    ends = {p.partition: p.last_stable for p in snapshot.partitions}
    with connect(postgres) as session, transaction(session) as cursor:
        batches.register(cursor, read, snapshot)
        batches.record_beginnings(cursor, read.name, snapshot.topic_id, ends)
    assert lag() is Severity.OK


def _setting(topic: str, name: str, value: str) -> list[ConfigResource]:
    return [ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "offset_ledger.cli", *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_line_fails_by_severity(pipeline: Path, topics: Callable[[str], str]) -> None:
    done = run("audit", str(pipeline), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["findings"][0]["rule"]) == (1, "compaction"), done.stderr
    right = run("audit", "--topic", topics("right"), "--fail-on", "warning")
    assert (right.returncode, right.stderr) == (0, ""), right.stdout
    both = run("audit", str(pipeline), "--topic", "x")
    assert (both.returncode, "one of the two" in both.stderr) == (1, True)


_TASK = """
import runpy
from airflow.sdk.exceptions import AirflowFailException
(task,) = runpy.run_path("dags/audit_topics.py")["dag"].tasks
try:
    print(task.python_callable())
except AirflowFailException as error:
    print("failed:", error)
"""


@pytest.mark.usefixtures("pipeline")
def test_the_task_of_the_dag_fails_on_an_error_alone(connection: Connection, kafka: Kafka, tmp_path: Path) -> None:
    unclean = {"unclean.leader.election.enable": "true", "retention.bytes": "1000000000"}
    create_topic(connection.extra, "flights.events", 2, 3, {**RIGHT, **unclean})

    def said() -> str:
        done = subprocess.run(
            [sys.executable, "-c", _TASK],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()[-1]

    assert said().startswith("failed: topic flights.events: unclean-election: ")
    with admin(kafka) as client:
        client.alter_configs(_setting("flights.events", "unclean.leader.election.enable", "false"))
    assert said() == f"{{'error': 0, 'warning': 1, 'info': 0, 'ok': {len(RULES) - 1}}}"


@pytest.mark.usefixtures("pipeline")
def test_a_topic_is_planned_made_and_described() -> None:
    made = run(
        "topic", "create", "events.made", "--volume", "100MB", "--partitions", "2", "--set", "segment.ms=3600000"
    )
    assert (made.returncode, made.stdout.splitlines()[0]) == (0, "topic events.made is made:"), made.stderr
    described = run("topic", "describe", "events.made", "--volume", "100MB")
    assert made.stdout.splitlines()[1:] == described.stdout.splitlines()[1:]
    assert "3600000" in described.stdout
    assert "2 copies can be lost" in described.stdout
    audited = run("audit", "--topic", "events.made", "--fail-on", "warning", "--json")
    assert {f["rule"] for f in json.loads(audited.stdout)["findings"] if f["severity"] != "ok"} == set()


def test_a_lost_broker_and_its_return(connection: Connection, kafka: Kafka, topics: Callable[[str], str]) -> None:
    """In one test, because a broker that goes and comes takes ten seconds."""
    right = topics("right")
    with admin(kafka) as client:
        client.create_topics({"events.alone": {"assignments": {0: [3], 1: [1]}, "configs": RIGHT}})
        client.create_topics({"events.led": {"assignments": {0: [3, 1, 2]}, "configs": RIGHT}})
    led = until(lambda: read_facts(connection, "events.led").partitions[0].leader, lambda leader: leader == 3)
    assert led == 3
    third = kafka.broker(3)
    third.kill()

    def down(topic: str, rule: str) -> Finding:
        return until(lambda: finding(connection, topic, rule), lambda found: found.severity is not Severity.OK)

    alone = down("events.alone", "offline-partitions")
    assert (alone.severity, alone.found) == (Severity.ERROR, "partitions 0 have no leader")
    behind = down(right, "replicas-in-sync")
    assert (behind.severity, "brokers 3" in behind.found) == (Severity.WARNING, True)
    above = down(right, "replication-factor")
    assert (above.severity, above.found) == (Severity.ERROR, "replication factor 3 on 2 brokers")
    assert finding(connection, right, "auto-created").severity is Severity.OK

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
    assert back.severity is Severity.OK
    assert finding(connection, right, "auto-created").severity is Severity.WARNING
    assert finding(connection, right, "closest-replica").severity is Severity.INFO
    moved = finding(connection, "events.led", "preferred-leaders")
    assert (moved.severity, "not 3" in moved.found) == (Severity.WARNING, True)
    elected = audit_topic(connection, "events.led", elect=True)
    assert {f.rule: f.severity for f in elected.findings}["preferred-leaders"] is Severity.OK
