"""The audit on one real broker that is set up as no good one is: what three usual brokers cannot be made to show."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from offset_ledger.errors import AccessDenied
from offset_ledger.model.snapshot import Boundary
from offset_ledger.operations.audit.finding import AuditFinding, Severity
from offset_ledger.operations.audit.rules import check_topic
from offset_ledger.operations.audit.run import audit_pipeline, read_facts
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger.steps.report.consumer_group import mirror
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import PortChoice, Ports
from offset_ledger_kit.sandbox.process import Launch, silent
from tests.fixtures.kafka_tools import commands, paste
from tests.fixtures.topic_reader import values

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "true",
    "broker.rack": "a",
    "num.partitions": "2",
    "offsets.retention.check.interval.ms": "3600000",
    "offsets.retention.minutes": "1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Its coordinator ends nothing by itself, and its partitions take late records, as before Kafka 3.6.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "transaction.partition.verification.enable": "false",
}
RIGHT = {"retention.ms": "604800000"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as folder:
        made = Kafka(Path(folder), 1, Ports.choose(PortChoice.any_free()), SETTINGS)
        made.up(find_java(), Launch(silent))
        yield made
        made.kill()


@pytest.fixture(scope="module")
def connection(kafka: Kafka) -> Connection:
    return Connection("kafka_default", "kafka", extra={"bootstrap.servers": kafka.bootstrap})


def finding(connection: Connection, topic: str, rule: str) -> AuditFinding:
    (found,) = (each for each in check_topic(read_facts(connection, topic)) if each.rule == rule)
    return found


def until(ask: Callable[[], AuditFinding], severity: Severity) -> AuditFinding:
    """What ``ask`` finds, once it is that bad or after a minute."""
    wait(lambda: ask().severity is severity)
    return ask()


def wait(done: Callable[[], bool]) -> None:
    """Until it is done, or for a minute."""
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)


# -- transactions ----------------------------------------------------------------------------------------------


def begin(kafka: Kafka, name: str, **settings: Any) -> KafkaProducer:
    """A producer within a transaction."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name, **settings)
    producer.init_transactions()
    producer.begin_transaction()
    return producer


def write_late(kafka: Kafka, producer: KafkaProducer, topic: str) -> None:
    """A record of the producer's finished transaction that was long on its way; it is the second of partition 0."""
    who = producer._transaction_manager.producer_id_and_epoch
    batch = MemoryRecordsBuilder(2, 0, 10_000, 0, True, who.producer_id, who.epoch, 1)
    batch.append(int(time.time() * 1000), None, b"late")
    batch.close()
    place = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=bytes(batch.buffer()))
    data = [ProduceRequest.TopicProduceData(name=topic, partition_data=[place])]
    # Version 12 and later have the broker put the partition into the transaction itself (KIP-890).
    request = ProduceRequest(transactional_id="audit", acks=-1, timeout_ms=30_000, topic_data=data, max_version=11)
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as client:

        async def send() -> Any:
            return await client._manager.send(request, node_id=1)

        (answer,) = client._manager.run(send).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (0, 2)


def test_a_transaction_that_no_coordinator_knows_is_found_and_aborted(
    connection: Connection, kafka: Kafka, tmp_path: Path
) -> None:
    topic = "events.hanging"
    create_topic(connection.extra, topic, 2, 1, RIGHT)
    with closing(begin(kafka, "audit")) as producer:
        producer.send(topic, b"first", partition=0).get(30)
        producer.commit_transaction()
        wait(lambda: read_facts(connection, topic).partitions[0].last_stable == 2)  # its marker comes a little later
        write_late(kafka, producer, topic)
        publish([Record(None, b"behind", partition=0)], connection.extra, topic)
        # The coordinator does know the producer: it is in its next transaction, in the other partition.
        producer.begin_transaction()
        producer.send(topic, b"next", partition=1).get(30)
        facts = read_facts(connection, topic)
        (hanging,), (known,) = (p.transactions for p in facts.partitions)
        producer.commit_transaction()
    assert (hanging.hanging, hanging.owner, hanging.start_offset) == (True, None, 2)
    assert (known.hanging, known.owner and known.owner.transactional_id, known.start_offset) == (False, "audit", 0)
    assert (known.producer_id, facts.partitions[0].last_stable) == (hanging.producer_id, 2)

    found = finding(connection, topic, "hanging-transactions")
    assert (found.severity, found.found) == (
        Severity.ERROR,
        f"partition 0: the transaction of producer {hanging.producer_id} from offset 2 on (2 offsets) is open, and no "
        "coordinator knows of it: nobody will end it",
    )
    (abort,) = commands(found.remedy)
    paste(tmp_path, abort)
    after = until(lambda: finding(connection, topic, "hanging-transactions"), Severity.OK)
    assert (after.severity, after.found) == (Severity.OK, "no transaction is open")
    assert values(connection.extra, topic) == [b"first", b"behind", b"next"]


def test_a_transaction_past_its_timeout_is_found_and_ended(
    connection: Connection, kafka: Kafka, tmp_path: Path
) -> None:
    topic = "events.overdue"
    create_topic(connection.extra, topic, 1, 1, RIGHT)
    producer = begin(kafka, "audit-overdue", transaction_timeout_ms=1000)
    producer.send(topic, b"v").get(30)
    found = until(lambda: finding(connection, topic, "hanging-transactions"), Severity.WARNING)
    assert "(transactional id audit-overdue, Ongoing, timeout 1 second): its coordinator should" in found.found
    look, force = commands(found.remedy)
    assert f"{topic}-0" in paste(tmp_path, look)
    paste(tmp_path, force)
    producer.close(timeout=0)
    assert until(lambda: finding(connection, topic, "hanging-transactions"), Severity.OK).severity is Severity.OK


def test_a_young_transaction_with_old_records_is_no_finding(connection: Connection, kafka: Kafka) -> None:
    topic = "events.republished"
    create_topic(connection.extra, topic, 1, 1, RIGHT)
    with closing(begin(kafka, "audit-republished", transaction_timeout_ms=600_000)) as producer:
        producer.send(topic, b"v", timestamp_ms=int(time.time() * 1000) - 86_400_000).get(30)
        found = finding(connection, topic, "hanging-transactions")
        (partition,) = read_facts(connection, topic).partitions
        producer.abort_transaction()
    assert (found.severity, found.found) == (Severity.OK, "1 transaction under way")
    assert (partition.last_stable, partition.high_watermark) == (0, 1)


# -- groups ----------------------------------------------------------------------------------------------------

PIPELINE = """
pipeline: mirrored
source: {connection: kafka_default, topic: events.mirrored}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.mirrored}
"""

# As it would stand afterwards: the trigger that watches over the way there is off.
COMMITTED = """
ALTER TABLE offset_ledger.batch DISABLE TRIGGER USER;
INSERT INTO offset_ledger.batch (pipeline, kind, state, epoch, topic_id, config_hash, code_version, verdict,
    committed_xid, changed_by, ended_at)
VALUES ('mirrored', %(kind)s, 'committed', 1, %(topic_id)s, 'c', 'v', '{}', '1', 'test',
    now() - %(seconds)s * interval '1 s');
ALTER TABLE offset_ledger.batch ENABLE TRIGGER USER;
"""


@pytest.fixture
def pipeline(connection: Connection, postgres: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pipeline:
    """A pipeline that begins with its topic."""
    for each in (connection, postgres):
        monkeypatch.setenv(environment_name(each.conn_id), each.to_json())
    create_topic(connection.extra, "events.mirrored", 1, 1, RIGHT)
    (tmp_path / "mirrored.yaml").write_text(PIPELINE)
    made = parse_pipeline(tmp_path / "mirrored.yaml")
    with connect_kafka(connection) as cluster:
        snapshot = cluster.snapshot("events.mirrored")
    with connect(postgres) as session, transaction(session) as cursor:
        pipelines.register(cursor, made, snapshot)
        pipelines.record_start_offsets(cursor, made.name, snapshot.topic_id, [Boundary(0, 0)])
    return made


def committed(postgres: Connection, pipeline: Pipeline, kind: str, seconds: int) -> None:
    """A batch that committed so long ago."""
    with connect(postgres) as session, transaction(session) as cursor:
        known = pipelines.read_cursors(cursor, pipeline.name)
        assert known
        cursor.execute(COMMITTED, {"kind": kind, "topic_id": known.topic_id, "seconds": seconds})


def test_a_mirror_that_is_about_to_expire_is_found(
    connection: Connection, postgres: Connection, pipeline: Pipeline, tmp_path: Path
) -> None:
    """The broker keeps offsets for a minute, so forty seconds are two thirds."""

    def audited() -> AuditFinding:
        return next(each for each in audit_pipeline(pipeline).findings if each.rule == "group-offsets")

    assert audited().severity is Severity.OK
    committed(postgres, pipeline, "head", 50)
    missing = audited()
    assert missing.severity is Severity.WARNING
    assert re.fullmatch(
        r"offset-ledger\.mirrored has no offsets here, although mirrored committed \S+ \w+ ago", missing.found
    )

    assert mirror(pipeline) == {0: 0}
    expiring = until(audited, Severity.WARNING)
    assert expiring.severity is Severity.WARNING
    assert re.fullmatch(
        r"offset-ledger\.mirrored was last set \S+ \w+ ago; its offsets expire in \d+ seconds?", expiring.found
    )
    *_, again = commands(expiring.remedy)
    assert re.search(r"offset-ledger\.mirrored\s+events\.mirrored\s+0\s+0", paste(tmp_path, again))
    with connect_kafka(connection) as cluster:
        assert cluster.group_offsets("offset-ledger.mirrored", "events.mirrored") == {0: 0}

    committed(postgres, pipeline, "replay", 0)  # it moves no cursor, so the mirror is not set
    assert audited().severity is Severity.WARNING
    committed(postgres, pipeline, "head", 0)
    assert audited().severity is Severity.OK


# -- settings of brokers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "severity", "found"),
    [
        ({}, Severity.INFO, "the brokers offer the closest copy (racks a), and the connection has no client.rack"),
        ({"client.rack": "b"}, Severity.WARNING, "client.rack is b, and no broker is there (a)"),
        ({"client.rack": "a"}, Severity.OK, "readers in rack a use the copies there"),
    ],
)
def test_racks_are_held_against_the_rack_of_the_reader(
    connection: Connection, client: dict[str, str], severity: Severity, found: str
) -> None:
    create_topic(connection.extra, "events.right", 1, 1, RIGHT)
    reader = Connection("kafka_default", "kafka", extra={**connection.extra, **client})
    judged = finding(reader, "events.right", "closest-replica")
    assert (judged.severity, judged.found) == (severity, found)


def test_an_automatically_created_topic_differs_from_one_created_on_purpose(
    connection: Connection, kafka: Kafka
) -> None:
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer:
        producer.send("events.misspelt", b"v").get(60)
    create_topic(connection.extra, "events.right", 1, 1, RIGHT)
    made = "whoever names a topic creates it (auto.create.topics.enable=true on broker 1)"
    doubt = "; this one has the brokers' defaults in everything, as a topic created so would"
    for topic, found in (("events.misspelt", made + doubt), ("events.right", made)):
        judged = finding(connection, topic, "auto-created")
        assert (judged.severity, judged.found) == (Severity.WARNING, found)


def test_one_copy_on_the_only_broker_is_a_warning(connection: Connection) -> None:
    create_topic(connection.extra, "events.right", 1, 1, RIGHT)
    judged = finding(connection, "events.right", "replication-factor")
    assert (judged.severity, judged.found) == (Severity.WARNING, "replication factor 1, and 1 broker up")


# -- samples ---------------------------------------------------------------------------------------------------


def test_every_one_of_many_partitions_is_sampled(connection: Connection) -> None:
    topic, every = "events.many", range(50)
    create_topic(connection.extra, topic, len(every), 1, RIGHT)
    # More than a consumer takes at once: then it stops within a partition.
    publish([Record(b"k", b"v", partition=n) for n in every for _ in range(20)], connection.extra, topic)
    publish([Record(b"k", b"v", partition=n) for n in every], connection.extra, topic, transactional_id="many")
    found = read_facts(connection, topic).partitions
    assert [p.partition for p in found if p.first_at and p.unread_at and p.last_at] == list(every)


# -- rights ----------------------------------------------------------------------------------------------------


def test_a_topic_that_the_user_may_not_describe_is_reported_as_that(connection: Connection) -> None:
    topic = "events.denied"
    create_topic(connection.extra, topic, 1, 1)
    hidden = ACL(
        "User:ANONYMOUS",
        "*",
        ACLOperation.DESCRIBE,
        ACLPermissionType.DENY,
        ResourcePattern(ResourceType.TOPIC, topic),
    )
    with closing(KafkaAdminClient(bootstrap_servers=connection.extra["bootstrap.servers"])) as admin:
        admin.create_acls([hidden])
    refusals: list[str] = []

    def refused() -> bool:
        try:
            read_facts(connection, topic)
        except AccessDenied as error:
            refusals.append(str(error))
        return bool(refusals)

    wait(refused)  # the broker learns of it a moment later
    assert "does not let this login do it (TopicAuthorizationFailedError" in refusals[0]
