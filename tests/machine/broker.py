"""The same walks with a real broker: the topics of the model are made there, record by record, and read from there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import zip_longest
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.errors import OffsetLedgerError
from offset_ledger.model.batch import Engine, EngineChoice
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.steps.stage.readers import ProcessReader
from offset_ledger.steps.stage.step import Reader
from tests.machine import kafka as fake
from tests.machine.actors import DELIVERS, reach, stopping
from tests.machine.bench import Bench, Pick
from tests.machine.letters import position_of
from tests.machine.pipelines import HEADER, LETTERS, moment, text_of, topic_name, value_of
from tests.model import failover, kafka, repair
from tests.model.rules import Step, World
from tests.model.state import ABORTED, MARKER, OPEN, Log, Position, Record, State, Topic
from tests.model.worlds import AT_ONCE, PRODUCE, bad, delete, row, to_come

_SECONDS = 120
_LONG = {"transaction.timeout.ms": 900_000}  # the coordinator ends no transaction by itself
BROKER = World(
    "broker",
    "two topics on a real broker: transactions, retention, another partition and topic, decisions, and repairs",
    (
        *PRODUCE,
        kafka.expire,
        kafka.recreate,
        kafka.add_partition,
        kafka.add_topic,
        *AT_ONCE,
        repair.approve,
        repair.abandon,
        repair.skip,
        repair.accept_topic,
        repair.replay,
        repair.redrive,
        repair.dismiss,
        repair.edit,
        repair.prune,
        failover.crash,
    ),
    scripts=(
        (
            to_come(
                [row(0, 1, 2), bad(1, 1), row(0, 2, 1, fate=OPEN), delete(1, 3)],
                [bad(1, 2), row(1, 3)],
                added=[Log(later=(row(0, 3), bad(0, 4)))],
            ),
            to_come([delete(0, 2), row(1, 1, 3), row(0, 1, 4)], there=False),
        ),
    ),
    left={
        **dict.fromkeys(("expire", "replay", "redrive", "dismiss", "prune", "crash"), 2),
        **dict.fromkeys(("recreate", "fix", "abandon"), 1),
    },
    keys=2,
    transactional=True,
    rejects=True,
)


class BrokerBench(Bench):
    """A bench whose topics are those of a cluster."""

    def __init__(self, world: World, first: State, postgres: Connection, cluster: Connection) -> None:
        self.cluster, self.topics = cluster, Topics(cluster)
        super().__init__(world, first, postgres, BrokerLetters(cluster, self.topics))
        if world.letters:
            self.topics.create(LETTERS, 1)
        self.topics.follow(tuple(Topic(0, ()) for _ in first.topics), first.topics)

    def _stopping(self) -> AbstractContextManager[None]:
        return stopping(None, self.letters, self.cluster, self.postgres)

    @contextmanager
    def running(self) -> Iterator[Bench]:
        """As the other one; in the end the topics go."""
        try:
            with super().running():
                yield self
        finally:
            self.topics.delete()

    def _reader(self) -> Reader:
        return ProcessReader(EngineChoice(Engine.PROCESS, "the machine"))

    def take(self, step: Step, pick: Pick[Any]) -> None:
        """Let the broker follow first."""
        self.topics.follow(self.state.topics, step.state.topics)
        super().take(step, pick)

    def query(self, statement: Any, arguments: Any = None) -> list[Any]:
        """The rows, with the topic ids of the model for those of the broker."""
        rows = super().query(statement, arguments)
        for line in rows:
            if line.get("topic_id"):
                line["topic_id"] = self.topics.translated(line["topic_id"])
        return rows


class BrokerLetters:
    """The dead letter topic of a cluster, with one partition, behind the real publisher and reader."""

    def __init__(self, cluster: Connection, topics: Topics) -> None:
        self.cluster, self.topics = cluster, topics
        self._known: dict[int, Position] = {}
        self._published = False

    def publisher(self, extra: Mapping[str, str], topic: str, **options: Any) -> Publisher:
        """The real one."""
        reach(DELIVERS)
        self._published = True
        return Publisher(extra, topic, **options)

    def read(self, connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Any]:
        """As the delivery reads."""
        return read_records(connection, topic, wanted, isolation)

    def positions(self) -> dict[int, Position]:
        """Of which record each letter is, by its offset. Control records and aborted letters take offsets too."""
        if self._published:
            with connect_kafka(self.cluster) as client:
                (partition,) = client.snapshot(LETTERS).partitions
            start = max(self._known, default=-1) + 1
            if start < partition.last_stable:
                unread = OffsetRange(0, start, partition.last_stable)
                for record in read_records(self.cluster, LETTERS, unread, "read_committed"):
                    self._known[record.offset] = position_of(record.headers, self.topics.translated)
        return self._known


class Topics:
    """The topics of the model on a cluster."""

    def __init__(self, cluster: Connection) -> None:
        self.cluster = cluster
        servers = {"bootstrap.servers": cluster.extra["bootstrap.servers"], "log_level": 0}
        self._admin, self._producer = AdminClient(servers), Producer({**servers, "acks": "all"})
        self._servers = servers
        self._open: dict[tuple[int, int], Producer] = {}
        self._ids: dict[str, str] = {}
        self._names: set[str] = set()

    def translated(self, topic_id: str) -> str:
        """The ledger's name of a log, with the model's id for that of the cluster."""
        for real, models in self._ids.items():
            topic_id = topic_id.replace(real, models)
        return topic_id

    def delete(self) -> None:
        """Delete all of them."""
        _done(self._admin.delete_topics(sorted({*self._admin.list_topics(timeout=_SECONDS).topics} & self._names)))

    def follow(self, before: tuple[Topic, ...], after: tuple[Topic, ...]) -> None:
        """Do to the cluster what makes one out of the other."""
        for t, (was, now) in enumerate(zip(before, after, strict=True)):
            if was != now and now.id:
                self._follow(t, was, now)

    def _follow(self, t: int, was: Topic, now: Topic) -> None:
        name = topic_name(t)
        if was.id != now.id:
            self._open = {place: each for place, each in self._open.items() if place[0] != t}
            self.create(name, len(now.logs))
            was = now._replace(logs=())
        elif len(was.logs) < len(now.logs):
            _done(self._admin.create_partitions([NewPartitions(name, len(now.logs))]))
        if len(was.logs) < len(now.logs):  # a producer that knows the topic as it was does not know these partitions
            self._producer = Producer({**self._servers, "acks": "all"})
        for p, (old, new) in enumerate(zip_longest(was.logs, now.logs, fillvalue=Log())):
            for record in new.records[len(old.records) :]:
                if record.what == MARKER:
                    (fate,) = {b.fate for a, b in zip(old.records, new.records, strict=False) if a.fate == OPEN}
                    self._end_transaction(t, p, fate)
                else:
                    self._append(t, p, record)
            if new.start > old.start:
                self._expire(name, p, new.start)
        self._wait(t, now)

    def create(self, name: str, partitions: int) -> None:
        """Create a topic, in the place of the one of that name."""
        self._names.add(name)
        if name in self._admin.list_topics(timeout=_SECONDS).topics:
            _done(self._admin.delete_topics([name]))
            while name in self._admin.list_topics(timeout=_SECONDS).topics:
                time.sleep(0.05)
        _done(self._admin.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1"})]))

    def _end_transaction(self, t: int, p: int, fate: str) -> None:
        producer = self._open.pop((t, p))
        (producer.abort_transaction if fate == ABORTED else producer.commit_transaction)(_SECONDS)

    def _append(self, t: int, p: int, record: Record) -> None:
        producer = self._transaction(t, p) if record.fate == OPEN else self._producer
        producer.produce(
            topic_name(t),
            value_of(record, tombstones=False),
            f"k{record.key}".encode(),
            p,
            timestamp=int(moment(record.timestamp).timestamp() * 1000),
            headers=[(HEADER, text_of(record.bare).encode())],
        )
        assert producer.flush(_SECONDS) == 0

    def _transaction(self, t: int, p: int) -> Producer:
        if (t, p) not in self._open:
            producer = self._open[t, p] = Producer({**self._servers, "transactional.id": f"machine-{t}-{p}", **_LONG})
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
        return self._open[t, p]

    def _expire(self, name: str, partition: int, start: int) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.cluster.extra["bootstrap.servers"])) as admin:
            admin.delete_records({TopicPartition(name, partition): start})

    def _wait(self, t: int, now: Topic) -> None:
        """Until the broker answers as the model's topic is: markers are written after the answer to a commit."""
        wanted = [(log.start, log.stable, len(log.records)) for log in now.logs]
        found: object = None
        deadline = time.monotonic() + _SECONDS
        while found != wanted:
            assert time.monotonic() < deadline, f"{topic_name(t)} is {found}, the model has {wanted}"
            try:
                with connect_kafka(self.cluster) as client:
                    seen = client.snapshot(topic_name(t))
            except OffsetLedgerError as error:
                found = error
            else:
                found = [(p.log_start, p.last_stable, p.high_watermark) for p in seen.partitions]
        self._ids[seen.topic_id] = fake.topic_id(t, now.id)


def _done(futures: Any) -> None:
    for future in futures.values():
        future.result(_SECONDS)
