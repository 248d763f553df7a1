"""Lab: what acks and min.insync.replicas keep when one and then two of three brokers die, and then the last copy."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer

from offset_ledger.errors import StackError
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger_kit.labs.trial import (
    BROKERS,
    Sent,
    Trial,
    TrialPlan,
    TrialStep,
    close_producer,
    read_ends,
    read_values,
)
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import Ports, free_ports
from offset_ledger_kit.sandbox.process import Launch

# The topics whose answers come soonest are the last: with acks=0 nothing would show that a leader is not ready.
ACKS: tuple[int | str, ...] = ("all", 1, 0)
MIN_INSYNC = (1, 2, 3)
_FLUSH = "flush"
_UNCLEAN = 1
_SECONDS = 60.0
# A broker is out of sync 5 s after its last heartbeat, and that may be 1 s old.
_FROZEN_SECONDS = 2.5
_ATTEMPTS = 5
# Records that can still be acknowledged are waited for; with 3 in sync of 2 none can.
_ANSWER_SECONDS = {1: 60.0, 2: 60.0, 3: 10.0}
# Behind a record that expired between two attempts kafka-python, which forgets its producer id then, may not answer.
_SILENT_SECONDS = 5.0

Pending = Sequence[tuple[Trial, Sent]]


@dataclass(frozen=True, slots=True)
class _Lab:
    """The cluster, the topics and what the seed drew."""

    kafka: Kafka
    trials: Sequence[Trial]
    plan: TrialPlan
    say: Callable[[str], None]

    @property
    def extra(self) -> dict[str, str]:
        """A connection to the brokers that run."""
        running = [each.address for each in self.kafka.brokers if each.daemon.pid()]
        return {"bootstrap.servers": ",".join(running)}

    def producer(self, acks: int | str, **more: Any) -> KafkaProducer:
        """One with a short request timeout, so that each record is answered soon."""
        settings = {"enable_idempotence": acks == "all", "request_timeout_ms": 5_000, **more}
        servers = self.extra["bootstrap.servers"].split(",")
        return KafkaProducer(bootstrap_servers=servers, acks=acks, retry_backoff_ms=200, **settings)

    def settle(self, wanted: Callable[[Mapping[str, Any]], bool], nudge: Callable[[Any], object] | None = None) -> None:
        """Wait until every topic's partition is as wanted; ``nudge`` is called with a client until then.

        Raises:
            StackError: that was not so within a minute.
        """
        names, deadline = [trial.topic for trial in self.trials], time.monotonic() + _SECONDS
        with connect_kafka(Connection("lab", "kafka", extra=self.extra)) as cluster:
            while True:
                topics = cluster.ask(lambda admin: admin.client.describe_topics(names))
                partitions = [p for topic in topics for p in topic["partitions"]]
                if len(partitions) == len(names) and all(map(wanted, partitions)):
                    return
                if time.monotonic() > deadline:
                    raise StackError(f"the brokers did not settle within {_SECONDS:.0f} s; they say {partitions[:1]}")
                if nudge:
                    cluster.ask(lambda admin: nudge(admin.client))
                time.sleep(0.2)


def replication(plan: TrialPlan, folder: Path, say: Callable[[str], None]) -> tuple[Trial, ...]:
    """Kill the leader, the next one and the last one, then make a copy the leader that lacks records."""
    ports = free_ports(7)
    settings = {"auto.leader.rebalance.enable": "false"}
    kafka = Kafka(folder, 1 + len(BROKERS), Ports(tuple(ports[:4]), *ports[4:]), settings)
    lab = _Lab(kafka, [Trial(acks, min_insync) for acks in ACKS for min_insync in MIN_INSYNC], plan, say)
    try:
        kafka.up(find_java(), Launch(say))
        say(f"brokers {plan.order} run, with node 1, the controller, which has no copy and stays")
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap.split(","))) as admin:
            min_insync = {_FLUSH: 1} | {trial.topic: trial.min_insync for trial in lab.trials}
            admin.create_topics(
                {
                    topic: {
                        "assignments": {0: list(plan.order)},
                        "configs": {"min.insync.replicas": str(count), "unclean.leader.election.enable": "false"},
                    }
                    for topic, count in min_insync.items()
                }
            )
        _run(lab)
    finally:
        kafka.kill()
    return tuple(sorted(lab.trials, key=lambda t: (str(t.acks), t.min_insync)))


def _run(lab: _Lab) -> None:
    _, second, third = lab.plan.order
    timeouts = {min_insync: int(seconds * 1000) for min_insync, seconds in _ANSWER_SECONDS.items()}
    producers = {t.topic: lab.producer(t.acks, delivery_timeout_ms=timeouts[t.min_insync]) for t in lab.trials}
    try:
        _send_in_sync(lab, producers)
        pending = _lose_the_leader(lab, producers)
        lab.settle(lambda p: p["leader_id"] == second and set(p["isr_nodes"]) == {second, third})
        _send_with_few_retries(lab, TrialStep.ONE_AWAY)
        for trial, sent in pending:
            trial.record_answers(TrialStep.ALONE, sent, _ANSWER_SECONDS[trial.min_insync] + _SILENT_SECONDS)
    finally:
        for producer in producers.values():
            close_producer(producer, _SILENT_SECONDS)
    lab.kafka.broker(second).kill()
    lab.say(f"broker {second}, which leads now, is killed")
    lab.settle(lambda p: p["leader_id"] == third and set(p["isr_nodes"]) == {third})
    _send_with_few_retries(lab, TrialStep.TWO_AWAY)
    for trial in lab.trials:
        trial.readable = {value.decode() for value in read_values(lab.extra, trial.topic)}
    _lose_the_last(lab)
    for trial in lab.trials:
        trial.stored = {value.decode() for value in read_values(lab.extra, trial.topic)}


def _send_in_sync(lab: _Lab, producers: Mapping[str, KafkaProducer]) -> None:
    """Return when every copy has them, also those that nobody acknowledged."""
    topics = [trial.topic for trial in lab.trials]
    read_ends(lab.extra, topics)  # their leaders answer: acks=0 would lose records sent before
    for trial in lab.trials:
        trial.record_answers(TrialStep.IN_SYNC, _send(producers[trial.topic], lab, trial, TrialStep.IN_SYNC), _SECONDS)
    wanted, deadline = {len(lab.plan.values[TrialStep.IN_SYNC])}, time.monotonic() + _SECONDS
    while set(read_ends(lab.extra, topics)) != wanted:
        if time.monotonic() > deadline:
            raise StackError(f"three healthy brokers did not copy {wanted} records within {_SECONDS:.0f} s")


def _lose_the_leader(lab: _Lab, producers: Mapping[str, KafkaProducer]) -> Pending:
    """Send while the followers are frozen, and kill the leader; returns the records without an answer yet.

    Raises:
        StackError: sending took so long, several times, that the followers may have fallen out of sync.
    """
    first, *followers = lab.plan.order
    with closing(lab.producer(1)) as flush:
        flush.send(_FLUSH, b"", partition=0).get(_SECONDS)  # connected, while everybody answers
        for attempt in range(_ATTEMPTS):
            with _frozen(lab.kafka, followers):
                began = time.monotonic()
                # A follower's fetch that waits at the leader takes along the next records: these.
                for number in range(2):
                    flush.send(_FLUSH, b"%d" % number, partition=0).get(_SECONDS)
                mark = f" again {attempt}" if attempt else ""
                sent = [(each, _send(producers[each.topic], lab, each, TrialStep.ALONE, mark)) for each in lab.trials]
                for trial, answered in sent:
                    if trial.acks != "all":
                        trial.record_answers(TrialStep.ALONE, answered, _SECONDS)
                if time.monotonic() - began < _FROZEN_SECONDS:
                    lab.kafka.broker(first).kill()
                    lab.say(f"broker {first}, the leader, is killed before the others have copied its last records")
                    return [each for each in sent if each[0].acks == "all"]
            lab.say("the machine is slow: the followers may have fallen out of sync; trying again")
            for trial, unanswered in sent:
                trial.record_answers(TrialStep.ALONE, unanswered, _ANSWER_SECONDS[trial.min_insync] + _SILENT_SECONDS)
                for answers in (trial.acknowledged, trial.refused, trial.unanswered):
                    answers[TrialStep.ALONE] = set()
            lab.settle(lambda p: p["leader_id"] == first and set(p["isr_nodes"]) == set(lab.plan.order))
    raise StackError(
        f"sending took longer than {_FROZEN_SECONDS} s {_ATTEMPTS} times; run the lab on a quieter machine"
    )


def _lose_the_last(lab: _Lab) -> None:
    """Kill the only copy in sync and let an older one lead: what an operator does if it will not come back.

    It does not come back before: it would bring its log along, and nothing would be lost.
    """
    first, second, third = lab.plan.order
    lab.kafka.broker(third).kill()
    lab.kafka.broker(second).start()
    lab.say(f"broker {third}, the last one, is killed, and broker {second} comes back")
    lab.settle(lambda p: p["leader_id"] == -1)
    lab.say(f"nobody leads: broker {second} lacks records; it is made leader all the same (unclean election)")
    every = {trial.topic: [0] for trial in lab.trials}
    elect = partial(KafkaAdminClient.elect_leaders, election_type=_UNCLEAN, topic_partitions=every, raise_errors=False)
    lab.settle(lambda p: p["leader_id"] == second, elect)
    for node in (first, third):
        lab.kafka.broker(node).start()
    lab.kafka.wait()
    lab.say("the others come back and follow it")
    lab.settle(lambda p: set(p["isr_nodes"]) == set(lab.plan.order))


@contextmanager
def _frozen(kafka: Kafka, nodes: Sequence[int]) -> Iterator[None]:
    for node in nodes:
        kafka.broker(node).pause()
    try:
        yield
    finally:
        for node in nodes:
            kafka.broker(node).resume()


def _send(producer: KafkaProducer, lab: _Lab, trial: Trial, step: TrialStep, mark: str = "") -> Sent:
    values = [f"{value}{mark}" for value in lab.plan.values[step]]
    return [(value, producer.send(trial.topic, value.encode(), partition=0)) for value in values]


def _send_with_few_retries(lab: _Lab, step: TrialStep) -> None:
    """Send with few retries, so that a refusal is reported by its name and not as a delivery timeout."""
    for trial in lab.trials:
        settings = {"retries": 5, "enable_idempotence": False, "delivery_timeout_ms": 60_000}
        with closing(lab.producer(trial.acks, **settings)) as producer:
            trial.record_answers(step, _send(producer, lab, trial, step), _SECONDS)
