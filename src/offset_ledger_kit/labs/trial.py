"""One topic of the replication lab: the records sent at each step, the answers, their fate, and the report."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from tabulate import tabulate

BROKERS = (2, 3, 4)
"""Nodes with the copies; node 1 is the controller, has none and stays."""

Sent = Sequence[tuple[str, Any]]
"""Values, each with kafka-python's future for its answer."""


class TrialStep(StrEnum):
    """The steps at which records are sent."""

    IN_SYNC = "all in sync"
    ALONE = "leader alone, then killed"
    ONE_AWAY = "one away"
    TWO_AWAY = "two away, then the last killed"


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The draw of a seed: who leads and dies first, second and third, and which values are sent at each step."""

    order: tuple[int, int, int]
    values: Mapping[TrialStep, tuple[str, ...]]

    @classmethod
    def draw(cls, seed: int, limit: int = 20) -> Self:
        """Draw from half of ``limit`` to ``limit`` records at each step; the broker dies behind the last of them."""
        random = Random(seed)
        first, second, third = random.sample(BROKERS, 3)
        values = {
            step: tuple(
                f"{step.name} {number} {random.randbytes(random.randrange(1, 100)).hex()}"
                for number in range(random.randint((limit + 1) // 2, limit))
            )
            for step in TrialStep
        }
        return cls((first, second, third), values)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data: the order and the numbers of records."""
        return {"brokers_die": list(self.order), "records": {str(step): len(v) for step, v in self.values.items()}}


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of the records of one step. ``readable``: acknowledged ones that readers got with two away."""

    acknowledged: frozenset[str]
    refused: frozenset[str]
    unanswered: frozenset[str]
    readable: frozenset[str]
    lost: frozenset[str]

    @property
    def sent(self) -> frozenset[str]:
        """Return all of them."""
        return self.acknowledged | self.refused | self.unanswered

    def counts(self) -> dict[str, int]:
        """Return how many there are of each."""
        names = ("sent", "acknowledged", "refused", "unanswered", "readable", "lost")
        return {name: len(getattr(self, name)) for name in names}

    def summary(self) -> str:
        """Such as ``17 kept`` or ``1 kept, 20 lost``."""
        parts = {
            "kept": self.acknowledged - self.lost,
            "LOST": self.lost,
            "refused": self.refused,
            "unanswered": self.unanswered,
        }
        return ", ".join(f"{len(values)} {word}" for word, values in parts.items() if values)


@dataclass(slots=True)
class Trial:
    """One topic of the lab: the answers so far, and what became of its records."""

    acks: int | str
    min_insync: int
    acknowledged: dict[TrialStep, set[str]] = field(default_factory=lambda: {step: set() for step in TrialStep})
    refused: dict[TrialStep, set[str]] = field(default_factory=lambda: {step: set() for step in TrialStep})
    unanswered: dict[TrialStep, set[str]] = field(default_factory=lambda: {step: set() for step in TrialStep})
    readable: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return f"acks-{self.acks}-min-{self.min_insync}"

    def record_answers(self, step: TrialStep, sent: Sent, seconds: float) -> None:
        """Wait at most ``seconds`` for the answers to these records; without one a record is unanswered."""
        deadline = time.monotonic() + seconds
        for value, future in sent:
            try:
                future.get(max(0.0, deadline - time.monotonic()))
            except (kafka_errors.NotEnoughReplicasError, kafka_errors.NotEnoughReplicasAfterAppendError):
                self.refused[step].add(value)
            except kafka_errors.KafkaError:
                self.unanswered[step].add(value)
            else:
                self.acknowledged[step].add(value)

    @property
    def fates(self) -> dict[TrialStep, Fate]:
        """The fates of the records, step by step."""
        fates = {}
        for step in TrialStep:
            acknowledged = frozenset(self.acknowledged[step])
            refused, unanswered = frozenset(self.refused[step]), frozenset(self.unanswered[step])
            lost = acknowledged - self.stored
            fates[step] = Fate(acknowledged, refused, unanswered, acknowledged & self.readable, lost)
        return fates

    def counts(self) -> dict[str, int]:
        """Return how many there are over all steps."""
        counts = [fate.counts() for fate in self.fates.values()]
        return {name: sum(each[name] for each in counts) for name in counts[0]}


@dataclass(frozen=True, slots=True)
class Report:
    """``plan``: what the seed drew; ``rows``: the result, in counts; ``text``: for people."""

    plan: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    text: str


def report(plan: TrialPlan, trials: Iterable[Trial]) -> Report:
    """Two tables: what became of the records of each step, and what that is in all."""
    rows: list[dict[str, Any]] = []
    by_step: list[dict[str, Any]] = []
    in_all: list[dict[str, Any]] = []
    for trial in trials:
        steps = {str(step): fate for step, fate in trial.fates.items()}
        counts = {name: fate.counts() for name, fate in steps.items()}
        rows.append({"acks": trial.acks, "min_insync": trial.min_insync, "steps": counts})
        which: dict[str, Any] = {"acks": trial.acks, "min_in_sync": trial.min_insync}
        by_step.append(which | {name: fate.summary() for name, fate in steps.items()})
        in_all.append(
            which | {"readable, two away" if name == "readable" else name: n for name, n in trial.counts().items()}
        )
    first, second, third = plan.order
    text = (
        f"Brokers {first}, {second} and {third} hold the copies, lead and die in this order. "
        "What became of the records, by the step at which they were sent:\n\n"
        f"{table(by_step)}\n\nIn all (readable: acknowledged, and given to readers while two were away):\n\n"
        f"{table(in_all)}"
    )
    return Report(plan.as_dict(), rows, text)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under their names."""
    return tabulate([{key.replace("_", " "): value for key, value in row.items()} for row in rows], headers="keys")


_SECONDS = 30.0


def read_values(extra: Mapping[str, str], topic: str, isolation: str = "read_uncommitted") -> list[bytes]:
    """The values of every record of a topic of one partition that readers are given now, in the order of the log.

    The end is the high watermark that comes with the records: a leader that has just taken over, and whose copies are
    fewer than min.insync.replicas, does not answer a request for the end (OffsetNotAvailable).
    """
    place = TopicPartition(topic, 0)
    reader = KafkaConsumer(
        bootstrap_servers=extra["bootstrap.servers"].split(","),
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level=isolation,
    )
    values: list[bytes] = []
    with closing(reader):
        reader.assign([place])
        reader.seek(place, 0)
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            values += [bytes(record.value) for record in reader.poll(500).get(place, ())]
            end = reader.highwater(place)
            if end is not None and reader.position(place) >= end:
                break
    return values


def read_ends(extra: Mapping[str, str], topics: Iterable[str]) -> list[int]:
    """The high watermark of each of these topics of one partition."""
    places = [TopicPartition(topic, 0) for topic in topics]
    with closing(KafkaConsumer(bootstrap_servers=extra["bootstrap.servers"].split(","), group_id=None)) as reader:
        ends = reader.end_offsets(places)
    return [int(ends[place]) for place in places]


def close_producer(producer: KafkaProducer, seconds: float) -> None:
    """Close it, and give up what was not answered in time: kafka-python itself leaves it open then, with its thread."""
    try:
        producer.close(timeout=seconds)
    except kafka_errors.KafkaError:  # UnknownError behind a batch that was split
        producer._sender.force_close()
        producer._sender.join(seconds)
        with suppress(kafka_errors.KafkaError):
            producer.close(timeout=seconds)
