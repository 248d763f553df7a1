"""One pipeline under test: its topic, its journal, the workers that run its steps, and what breaks between them."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psycopg2
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from offset_ledger.errors import PublishFailed, TransactionOutcomeUnknown
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.process import Daemon
from tests.chaos import oracle
from tests.chaos.added_columns import PREFIX, AddedColumns
from tests.chaos.lab import Answer, Lab, Worker
from tests.chaos.oracle import SPAN, Journal, Kind, Place, Produced
from tests.chaos.schemas import HEAD, Schemas
from tests.witness.__main__ import witness_of
from tests.witness.replay import Counts, NotAllowedError

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
PLAIN = {"acks": "all", "retries": 0, "enable_idempotence": False, "linger_ms": 0}
STEPS = ("plan", "stage", "validate", "commit", "report")

# What orders the records of an event: their timestamps in Kafka, or the producer's clock. Where that clock orders, a
# delete is a record with a moment of its own, which a tombstone lacks. A remerge leads from the clock to them. Where
# the key is composite, rows are known by two columns of the Kafka key, their bookkeeping is beside the table, deleted
# ones go, and a record without a note leaves the one that is there.
_DELETES = 'delete_when: {path: $.op, equals: "d"}'
ORDERS = {
    "timestamp": "publish_at: kafka_timestamp\n  tombstone: delete",
    "clock": f"publish_at: $.at\n  {_DELETES}",
    "remerged": f"publish_at: kafka_timestamp\n  {_DELETES}",
    "composite": "publish_at: kafka_timestamp\n  tombstone: delete",
}
_PLAIN_KEY = "event_id: key"
_NOTE = "    note: {type: text, nullable: true, absent: keep}\n"
_COMPOSITE_KEY = "key: {tenant: {type: text, key: $.tenant}, number: {type: integer, key: $.number}}"

HOUR, DAY = 3_600_000, 86_400_000
FIRST, LAST = -62_135_596_800_000, 253_402_300_799_000  # the first and the last second that a calendar has
ENDS = FIRST, LAST
LATE_OR_EARLY = (-400 * DAY, -HOUR, HOUR)
UNTIL = (None, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-03-29T01:30:00Z")
DAYS = (None, "9999-12-31", "0001-01-01", "2026-02-01")
# Moments and dates are read and written in it otherwise than in the server's own settings.
ELSEWHERE = "SET timezone = 'Asia/Kolkata'", "SET datestyle = 'SQL, DMY'"

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, {topics}, start: {start}, transactional: {transactional}{format}{key_format}}}
record:
  {key}
  {order}
  columns:
    state: text
    until: {{type: timestamptz, nullable: true}}
    day: {{type: date, nullable: true}}
{columns}target: {{connection: postgres_default, table: public.orders, evolve: widen{target}}}
quality: {{max_quarantined_share: {share}}}
limits: {{records_per_batch: {batch}, records_per_slice: {slice}}}
"""


@dataclass
class Bench:
    """One topic and one database, with the journal of what was produced. ``cluster``: other brokers than the lab's.

    With a ``neighbour`` the pipeline file reads two topics, of which the neighbour's name sorts last.
    """

    lab: Lab
    database: Connection
    folder: Path
    topic: str
    settings: dict[str, Any] = field(
        default_factory=lambda: {
            "start": "earliest",
            "transactional": "true",
            "batch": 1_000_000,
            "slice": 100_000,
            "share": 1.0,
            "format": "",
        }
    )
    partitions: int = 3
    journal: Journal = field(default_factory=Journal)
    serial: int = 0
    cluster: Kafka | None = None
    order: str = "timestamp"
    without_spark: bool = False
    schemas: Schemas | None = None
    added: AddedColumns = field(default_factory=AddedColumns)
    neighbour: str = ""
    topic_of_batch: dict[int, int] = field(default_factory=dict)
    replayed: Counts = field(default_factory=Counts)

    @property
    def topics(self) -> list[str]:
        """The topics; the journal has the partitions of the second one from SPAN on."""
        return [self.topic, self.neighbour] if self.neighbour else [self.topic]

    @property
    def kafka(self) -> Kafka:
        """The brokers."""
        return self.cluster or self.lab.stack.kafka

    @property
    def servers(self) -> str:
        """The addresses of all brokers."""
        return self.kafka.bootstrap

    def alive(self, *nodes: int) -> str:
        """The addresses of these brokers only: a client that begins at a stopped one waits for long."""
        return ",".join(self.kafka.broker(node).address for node in nodes)

    @property
    def extra(self) -> dict[str, str]:
        """The Kafka connection's settings."""
        return {"bootstrap.servers": self.servers}

    @property
    def path(self) -> Path:
        """The pipeline file."""
        path = self.folder / "orders.yaml"
        added = "".join(self.added.lines())
        topics = f"topics: [{', '.join(self.topics)}]" if self.neighbour else f"topic: {self.topic}"
        key, key_format, target = _PLAIN_KEY, "", ""
        if self.order == "composite":
            key, key_format, target = _COMPOSITE_KEY, ", key_format: json", ", bookkeeping: beside"
            added = _NOTE + added
        order = ORDERS[self.order]
        text = PIPELINE.format(
            topics=topics, key=key, key_format=key_format, target=target, order=order, columns=added, **self.settings
        )
        if not path.exists() or path.read_text() != text:
            draft = path.with_suffix(f".{threading.get_ident()}")
            draft.write_text(text)
            draft.replace(path)  # two attempts may begin at once
        return path

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as the steps take it."""
        return parse_pipeline(self.path)

    # -- producing ---------------------------------------------------------------------------------------------

    def create(self, configs: dict[str, str] | None = None) -> None:
        """Make the topics."""
        configs = {"retention.ms": "-1", **(configs or {})}
        for topic in self.topics:
            create_topic(self.extra, topic, self.partitions, self.kafka.count, configs)

    def record(self, random: Random, kind: Kind = Kind.EVENT, ids: int = 90) -> tuple[Record, Produced]:
        """One record: late, early or at the same moment as another one of its event, on any partition.

        The producer's clock and the record's timestamp know nothing of each other; either may jump.
        """
        self.serial += 1
        identity, mark = random.randrange(ids), f"m{self.serial}"
        event_id = key = f"e{identity}"
        note: tuple[str | None] | None = None
        if self.order == "composite":
            tenant, number = f"t{identity % 3}", identity // 3
            event_id, key = f"{tenant}, {number}", json.dumps({"number": number, "tenant": tenant})
            note = random.choice((None, (None,), (f"note {mark}",)))
        sent_at, at = (NOON + 1000 * random.randrange(50) for _ in range(2))
        if random.random() < 0.1:
            sent_at += random.choice(LATE_OR_EARLY)
            at = random.choice((*ENDS, at - 400 * DAY, at - HOUR, at + HOUR, at + 400 * DAY))
        if kind is Kind.ABORTED:
            sent_at, at = NOON + DAY, LAST  # it would win over everything
        values = (random.choice(UNTIL), random.choice(DAYS))
        more = self.added.draw(random)
        value = _value(random, kind, at, mark, values, more, note)
        if self.schemas:
            value = self.schemas.framed(random, kind, value)
        if kind is Kind.TOMBSTONE:
            if "tombstone" in ORDERS[self.order]:
                value = None
            mark, values, more, note = None, (None, None), (), (None,)
        sent = Record(key.encode(), value, (), sent_at, random.randrange(self.partitions))
        orders = at if self.order == "clock" else sent_at
        texts = tuple(None if each is None else str(each) for each in (*values, *more))
        return sent, Produced(event_id, orders, mark, kind, value, texts, sent_at, note)

    def publish(
        self,
        drawn: list[tuple[Record, Produced]],
        transaction: str | None = None,
        commit: bool = True,
        number: int = 0,
    ) -> None:
        """Send records and enter them in the journal; what nobody answered for becomes unknown."""
        kinds = {id(record): produced for record, produced in drawn}
        try:
            noted = self.journal.on_ack(kinds, SPAN * number)
            with Publisher(self.extra, self.topics[number], transactional_id=transaction, on_ack=noted) as publisher:
                for record, _ in drawn:
                    publisher.send(record)
                publisher.finish(commit)
        except PublishFailed as failed:
            for record in failed.unconfirmed:
                produced = kinds[id(record)]
                self.journal.unknown[produced.mark] = produced
        except TransactionOutcomeUnknown:
            for produced in kinds.values():
                self.journal.unknown[produced.mark] = produced

    def send_plainly(self, drawn: list[tuple[Record, Produced]], servers: str) -> None:
        """Send and enter records without a producer id, for which a stopped broker might be asked."""
        producer = KafkaProducer(bootstrap_servers=servers.split(","), **PLAIN)
        try:
            for record, produced in drawn:
                sent = self._send(producer, record).get(30)
                self.journal.acknowledged[sent.partition, sent.offset] = produced
        finally:
            producer.close(timeout=5)

    def publish_unanswered(self, drawn: list[tuple[Record, Produced]], node: int) -> None:
        """Send records to the partitions that this node leads; it takes them in, and nobody learns that it did.

        It is stopped before it has read them and goes on when their producer is gone. They travel in one request: a
        broker reads the next one of a connection only when it has answered, and here it cannot answer.
        """
        bounds = {"request_timeout_ms": 1500, "delivery_timeout_ms": 3000, "linger_ms": 1000}
        producer = KafkaProducer(bootstrap_servers=self.servers.split(","), **{**PLAIN, **bounds})
        try:
            for partition in sorted({record.partition for record, _ in drawn}, key=str):
                warm, produced = self.record(Random(self.serial))  # so that the connections stand
                sent = self._send(producer, msgspec.structs.replace(warm, partition=partition)).get(30)
                self.journal.acknowledged[sent.partition, sent.offset] = produced
            self.broker(node).pause()
            for record, produced in drawn:
                self.journal.unknown[produced.mark] = produced
                self._send(producer, record)
            with suppress(KafkaError):
                producer.flush(timeout=5)
        finally:
            with suppress(KafkaError):
                producer.close(timeout=0)
            self.broker(node).resume()

    def _send(self, producer: KafkaProducer, record: Record) -> Any:
        return producer.send(self.topic, record.value, record.key, [], record.partition, record.timestamp_ms)

    def produce(self, random: Random, records: int) -> None:
        """Plain, committed and aborted records of every kind, the last of them sometimes a control record."""
        markers = [Kind.TOMBSTONE] * 6 if "delete" in ORDERS[self.order] else []
        kinds = [Kind.EVENT] * 14 + [Kind.MALFORMED] + markers
        parts = [(records // 2, None, True), (records // 3, "t", True), (records // 6, "a", False)]
        random.shuffle(parts)
        for number, name, commit in parts:
            drawn = [self.record(random, random.choice(kinds) if commit else Kind.ABORTED) for _ in range(number)]
            transaction = f"{self.topic}-{name}-{self.serial}" if name else None
            self.publish(drawn, transaction, commit, self.any_topic(random))

    def any_topic(self, random: Random) -> int:
        """The number of one of the topics."""
        return random.randrange(2) if self.neighbour else 0

    # -- running -----------------------------------------------------------------------------------------------

    def submit(self, worker: Worker, do: str, **more: Any) -> Future[Answer]:
        """Ask a worker and come back for the answer later."""
        through = replace(self.database, port=self.lab.proxy.port)
        kafka = Connection("kafka_default", "kafka", extra=self.extra)
        asked = {"pipeline": str(self.path), "database": through.to_json(), "kafka": kafka.to_json(), **more}
        return worker.submit(do, **asked)

    def ask(self, worker: Worker, do: str, seconds: float = 90, number: int = 0, **more: Any) -> Answer:
        """Ask and wait; ``Silent`` if no answer came in time. ``number``: the topic's, where no batch is named."""
        if self.neighbour and do != "remerge":
            more["topic"] = self.topics[self.topic_of_batch.get(more.get("batch", 0), number)]
        with suppress(FutureTimeout, TimeoutError):
            answer = self.submit(worker, do, **more).result(seconds)
            if batch := answer.found.get("batch"):
                self.topic_of_batch[batch] = number
            return answer
        return Answer({"error": "Silent", "message": f"{do} did not answer within {seconds:.0f} s"})

    def attempt(self, light: Worker | None = None, seconds: float = 60) -> list[Answer]:
        """One attempt at one head batch, plan to report; it ends at the first error. The answers, in order.

        Of two topics the first one that has something new.
        """
        light = light or self.lab.light
        for number in range(len(self.topics)):
            planned = self.ask(light, "plan", seconds, number)
            batch = planned.found.get("batch")
            if planned.error or batch is not None:
                break
        return [planned] if planned.error or batch is None else [planned, *self.run(batch, light, seconds)]

    def run(self, batch: int, light: Worker | None = None, seconds: float = 60, skip: int = 0) -> list[Answer]:
        """The steps after the plan, and after ``skip`` more; they end at the first error."""
        answers: list[Answer] = []
        for step in STEPS[1 + skip :]:
            worker = self.lab.heavy if step == "stage" else light or self.lab.light
            answers.append(self.ask(worker, step, seconds, batch=batch, without_spark=self.without_spark))
            if answers[-1].error:
                break
        return answers

    def drain(self, seconds: float = 150) -> list[Answer]:
        """Attempts until every acknowledged record is committed; the errors on the way.

        Raises:
            TimeoutError: that was not so in time.
        """
        errors, deadline = [], time.monotonic() + seconds
        while True:
            answers = self.attempt()
            errors += [answer for answer in answers if answer.error]
            if answers[-1].found.get("batch", 0) is None and not self.waiting():
                return errors
            if time.monotonic() > deadline:
                raise TimeoutError(f"not drained after {seconds:.0f} s; waiting: {self.waiting()}; {errors[-3:]}")

    def remerge(self, seconds: float = 240) -> list[Answer]:
        """Order the table by Kafka's timestamps, and the journal; open batches are given up. The errors on the way.

        Raises:
            TimeoutError: that was not so in time.
        """
        errors, deadline = [], time.monotonic() + seconds
        while (answer := self.ask(self.lab.light, "remerge")).error:
            errors.append(answer)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not remerged after {seconds:.0f} s; {errors[-3:]}")
            if answer.error == "StateConflict":
                for batch, state, _ in self.states():
                    if state not in ("committed", "abandoned"):
                        self.ask(self.lab.light, "abandon", batch=batch)
        self.journal.order_by_timestamps()
        return errors

    def cursors(self, number: int | None = None) -> dict[int, int]:
        """Partition -> next offset; of one topic its own partitions, of all as the journal has them."""
        names = [each.name for each in oracle.pipelines(self.pipeline)]
        found = self.query("SELECT pipeline, partition, next_offset FROM offset_ledger.cursor")
        if number is not None:
            return {row[1]: row[2] for row in found if names.index(row[0]) == number}
        return {SPAN * names.index(row[0]) + row[1]: row[2] for row in found}

    def waiting(self) -> dict[int, int]:
        """Partition -> records acknowledged, not aborted, and not below its cursor."""
        cursors = self.cursors()
        left: dict[int, int] = {}
        for (partition, offset), record in self.journal.acknowledged.items():
            if record.kind is not Kind.ABORTED and offset >= cursors.get(partition, 0):
                left[partition] = left.get(partition, 0) + 1
        return left

    # -- looking -----------------------------------------------------------------------------------------------

    def query(self, text: str, *arguments: Any) -> list[Any]:
        """Rows of a query, over a session of its own that goes past the proxy."""
        with connect(self.database, "chaos oracle") as session:
            return rows(session, text, arguments)

    def check(self, drained: bool = True) -> list[str]:
        """What the oracle says, and what in the ledger's history the model does not allow."""
        with connect(self.database, "chaos oracle") as session:
            return [*oracle.check(session, self.pipeline, self.journal, drained), *self.replay()]

    def replay(self) -> list[str]:
        """What in the ledger's history the model does not allow."""
        try:
            self.replayed = witness_of(self.database)
        except NotAllowedError as story:
            return [f"the model does not allow it: {story}"]
        return []

    def settle(self) -> int:
        """Read the topic back for records of unknown outcome; how many of them became acknowledged ones by that."""
        found = {p: m for p, m in self.marks().items() if m in self.journal.unknown} if self.journal.unknown else {}
        for place, mark in found.items():
            self.journal.acknowledged[place] = self.journal.unknown[mark]
        for mark in found.values():
            self.journal.unknown.pop(mark, None)
        return len(found)

    def note_copies(self) -> int:
        """Enter the records that the topic has twice, of which the producer knows one place; how many.

        A broker that restarts forgets the producers of records with timestamps as old as these, and takes a retry for
        new records (test_forgotten_producers.py).
        """
        by_mark = {record.mark: record for record in self.journal.acknowledged.values() if record.mark}
        twice = {p: by_mark[m] for p, m in self.marks().items() if p not in self.journal.acknowledged and m in by_mark}
        self.journal.acknowledged |= twice
        return len(twice)

    def marks(self) -> dict[Place, str]:
        """The mark of each well-formed record that a plain consumer finds up to the log's end now."""
        places = [TopicPartition(topic, p) for topic in self.topics for p in range(self.partitions)]
        marks: dict[Place, str] = {}
        consumer = KafkaConsumer(bootstrap_servers=self.servers.split(","), isolation_level="read_committed")
        try:
            consumer.assign(places)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < end for place, end in ends.items()):
                for each in (each for found in consumer.poll(500).values() for each in found):
                    with suppress(ValueError, TypeError, KeyError):  # malformed, or a delete
                        value = json.loads(each.value[HEAD if self.schemas else 0 :])
                        marks[SPAN * self.topics.index(each.topic) + each.partition, each.offset] = value["state"]
        finally:
            consumer.close()
        return marks

    def fingerprint(self) -> set[tuple[str, str]]:
        """Every row with the transaction that wrote it."""
        with connect(self.database, "chaos oracle") as session:
            return oracle.fingerprint(session, self.pipeline)

    def states(self) -> list[tuple[int, str, int]]:
        """(batch, state, epoch) of every batch."""
        return [tuple(row) for row in self.query("SELECT batch_id, state, epoch FROM offset_ledger.batch ORDER BY 1")]

    # -- breaking ----------------------------------------------------------------------------------------------

    def broker(self, node: int = 1) -> Daemon:
        """A broker's process."""
        return self.kafka.broker(node).daemon

    def start_broker(self, node: int) -> None:
        """Let a stopped broker go on, start one that does not run; returns before it is ready."""
        self.broker(node).resume()
        if self.broker(node).pid() is None:
            self.kafka.broker(node).start(self.lab.stack.java)

    def start_brokers(self) -> None:
        """Start or continue all brokers and return when the cluster has them."""
        for broker in self.kafka.brokers:
            self.start_broker(broker.node)
        self.kafka.wait()

    def terminate_sessions(self) -> int:
        """End every session in the database but this one."""
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return int(self.query(query)[0][0])

    def superuser(self, statement: str) -> None:
        """Run one statement as the server's superuser."""
        session = psycopg2.connect(**postgres_arguments(self.lab.stack.postgres.superuser(str(self.database.schema))))
        try:
            session.autocommit = True
            with session.cursor() as cursor:
                cursor.execute(statement)
        finally:
            session.close()


def _value(
    random: Random,
    kind: Kind,
    at: int,
    mark: str,
    values: tuple[str | None, str | None],
    more: tuple[int | None, ...],
    note: tuple[str | None] | None,
) -> bytes:
    """The JSON of an event or of its delete marker; of a malformed record what cannot be read."""
    moment = (datetime(1970, 1, 1) + timedelta(milliseconds=at)).isoformat() + "Z"
    if kind is Kind.MALFORMED:
        spoilt = (b"{" + mark.encode(), b"\xff\x00" + mark.encode(), f'{{"at":"{moment}","state":1}}'.encode())
        return random.choice(spoilt)
    if kind is Kind.TOMBSTONE:
        return json.dumps({"at": moment, "op": "d"}).encode()
    added: dict[str, object] = {f"{PREFIX}{number}": value for number, value in enumerate(more)}
    if note is not None:
        added["note"] = note[0]
    return json.dumps({"at": moment, "op": "u", "state": mark, "until": values[0], "day": values[1], **added}).encode()
