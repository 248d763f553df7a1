"""Lab: what acks and min.insync.replicas keep when one and then two of three brokers die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka import errors as kafka_errors

from offset_ledger import broker
from offset_ledger.connections import Connection
from offset_ledger.errors import StackError
from offset_ledger.labs.log import read_values
from offset_ledger.local.java import find_java
from offset_ledger.local.kafka import Kafka
from offset_ledger.local.layout import PortChoice, Ports
from offset_ledger.local.process import Launch

ACKS: tuple[int | str, ...] = (0, 1, "all")
MIN_INSYNC = (1, 2, 3)
# Broker 2 leads and dies first, then 3; broker 1 is the controller and stays.
_REPLICAS = [2, 3, 1]
_SECONDS = 60.0


@dataclass(slots=True)
class Trial:
    """One topic with its records: what the producer was told of each, by stage."""

    acks: int | str
    min_insync: int
    acknowledged: dict[str, set[bytes]] = field(default_factory=dict)
    refused: dict[str, set[bytes]] = field(default_factory=dict)
    unanswered: set[bytes] = field(default_factory=set)
    readable: set[bytes] = field(default_factory=set)
    stored: set[bytes] = field(default_factory=set)

    @property
    def topic(self) -> str:
        """Its topic."""
        return f"acks-{self.acks}-min-{self.min_insync}"

    def told(self, stage: str, value: bytes, future: Any) -> None:
        """Wait for the answer to one record and enter it."""
        try:
            future.get(_SECONDS)
        except (kafka_errors.NotEnoughReplicasError, kafka_errors.NotEnoughReplicasAfterAppendError):
            self.refused.setdefault(stage, set()).add(value)
        except kafka_errors.KafkaError:
            self.unanswered.add(value)
        else:
            self.acknowledged.setdefault(stage, set()).add(value)


@dataclass(frozen=True, slots=True)
class Replication:
    """What became of one topic's records. ``readable``: of the acknowledged ones, while two brokers were away."""

    acks: int | str
    min_insync: int
    sent: int
    acknowledged: int
    refused_one_away: int
    refused_two_away: int
    unanswered: int
    readable: int
    lost: int


def replication(folder: Path, say: Callable[[str], None], records: int = 20) -> tuple[Replication, ...]:
    """Three brokers: freeze the followers, kill the leader, kill the next one, bring both back, and read."""
    kafka = Kafka(folder, 3, Ports.choose(PortChoice.any_free()), {"auto.leader.rebalance.enable": "false"})
    trials = [Trial(acks, least) for acks in ACKS for least in MIN_INSYNC]
    try:
        kafka.up(find_java(), Launch(say))
        say(f"three brokers run on {kafka.bootstrap}")
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap.split(","))) as admin:
            _create(admin, trials)
        _run(kafka, trials, records, say)
    finally:
        for each in kafka.brokers:
            each.resume()
        kafka.down()
    return tuple(_count(trial) for trial in trials)


def _run(kafka: Kafka, trials: list[Trial], records: int, say: Callable[[str], None]) -> None:
    patient = {trial.topic: _producer(kafka, trial.acks) for trial in trials}
    try:
        pending = _lose_the_leader(kafka, trials, patient, records)
        say("the leader, broker 2, is killed before the others have copied its last records")
        _await(kafka, trials, lambda p: p["leader_id"] in (1, 3) and set(p["isr_nodes"]) == {1, 3})
        _impatient(kafka, trials, "one away", records)
        kafka.broker(3).kill()
        say("broker 3 is killed too")
        _await(kafka, trials, lambda p: p["leader_id"] == 1 and set(p["isr_nodes"]) == {1})
        _impatient(kafka, trials, "two away", records)
        for trial in trials:
            trial.readable = set(read_values(_extra(kafka), trial.topic))
        say("both come back")
        for node in (2, 3):
            kafka.broker(node).start()
        kafka.wait()
        _await(kafka, trials, lambda p: set(p["isr_nodes"]) == set(_REPLICAS))
        for trial, value, future in pending:
            trial.told("leader lost", value, future)
        for trial in trials:
            trial.stored = set(read_values(_extra(kafka), trial.topic))
    finally:
        for producer in patient.values():
            producer.close(timeout=_SECONDS)  # every delivery has timed out by then


def _lose_the_leader(
    kafka: Kafka, trials: list[Trial], patient: Mapping[str, KafkaProducer], records: int
) -> list[tuple[Trial, bytes, Any]]:
    """Acknowledge some while all is well, some while the followers are frozen, and kill the leader.

    Returns the records whose answers are still to come.
    """
    for trial in trials:
        for value, future in _send(patient[trial.topic], trial, "healthy", records):
            trial.told("healthy", value, future)
    with _frozen(kafka, 3, 1):
        pending = []
        for trial in trials:
            # A follower's waiting fetch still takes the first record with it.
            for part, count in (("first", 1), ("rest", records)):
                sent = _send(patient[trial.topic], trial, part, count)
                if trial.acks == "all":
                    pending += [(trial, value, future) for value, future in sent]
                    continue
                for value, future in sent:
                    trial.told("leader lost", value, future)
        kafka.broker(2).kill()
    return pending


@contextmanager
def _frozen(kafka: Kafka, *nodes: int) -> Iterator[None]:
    for node in nodes:
        kafka.broker(node).pause()
    try:
        yield
    finally:
        for node in nodes:
            kafka.broker(node).resume()


def _impatient(kafka: Kafka, trials: list[Trial], stage: str, records: int) -> None:
    """Send with few retries, so that a refusal is told by its name and not as a delivery timeout."""
    for trial in trials:
        with closing(_producer(kafka, trial.acks, retries=5, enable_idempotence=False)) as producer:
            for value, future in _send(producer, trial, stage, records):
                trial.told(stage, value, future)


def _send(producer: KafkaProducer, trial: Trial, stage: str, records: int) -> list[tuple[bytes, Any]]:
    values = [f"{stage} {number}".encode() for number in range(records)]
    return [(value, producer.send(trial.topic, value, partition=0)) for value in values]


def _producer(kafka: Kafka, acks: int | str, **more: Any) -> KafkaProducer:
    settings = {"enable_idempotence": acks == "all", "request_timeout_ms": 5_000, "delivery_timeout_ms": 25_000, **more}
    running = _extra(kafka)["bootstrap.servers"].split(",")
    return KafkaProducer(bootstrap_servers=running, acks=acks, retry_backoff_ms=200, **settings)


def _create(admin: KafkaAdminClient, trials: Iterable[Trial]) -> None:
    admin.create_topics(
        {
            trial.topic: {
                "assignments": {0: _REPLICAS},
                "configs": {"min.insync.replicas": str(trial.min_insync), "unclean.leader.election.enable": "false"},
            }
            for trial in trials
        }
    )


def _await(kafka: Kafka, trials: list[Trial], wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """Return when every topic's partition is as wanted, as its surviving brokers tell.

    Raises:
        StackError: that was not so within a minute.
    """
    names, deadline = [trial.topic for trial in trials], time.monotonic() + _SECONDS
    with broker.connect(Connection("lab", "kafka", extra=_extra(kafka))) as cluster:
        while True:
            topics = cluster.ask(lambda client: client.describe_topics(names))
            found = [p for topic in topics for p in topic["partitions"]]
            if len(found) == len(names) and all(map(wanted, found)):
                return
            if time.monotonic() > deadline:
                raise StackError(f"the brokers did not settle within {_SECONDS:.0f} s; they say {found[:1]}")
            time.sleep(0.2)


def _extra(kafka: Kafka) -> dict[str, str]:
    running = [each.address for each in kafka.brokers if each.daemon.pid()]
    return {"bootstrap.servers": ",".join(running)}


def _count(trial: Trial) -> Replication:
    acknowledged = set().union(*trial.acknowledged.values())
    refused = {stage: len(values) for stage, values in trial.refused.items()}
    return Replication(
        acks=trial.acks,
        min_insync=trial.min_insync,
        sent=len(acknowledged) + sum(refused.values()) + len(trial.unanswered),
        acknowledged=len(acknowledged),
        refused_one_away=refused.get("one away", 0),
        refused_two_away=refused.get("two away", 0),
        unanswered=len(trial.unanswered),
        readable=len(acknowledged & trial.readable),
        lost=len(acknowledged - trial.stored),
    )
