"""Lab: what retries and successors do to order and number, without idempotence, with it, and in a transaction."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Self

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from offset_ledger.errors import ProducerFenced, UnexpectedError
from offset_ledger.outside.producer.publisher import Publisher, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.labs.lossy import Loss, LossyProxy
from offset_ledger_kit.labs.trial import Report, close_producer, read_values, table
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import HOST, PortChoice, Ports
from offset_ledger_kit.sandbox.process import Launch

_VALUE_BYTES = (200, 800)
_BATCH_BYTES = 4096


class Producer(StrEnum):
    """The protection of a producer against its own retries."""

    PLAIN = "not idempotent"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


class Fault(StrEnum):
    """The fault: the network loses a frame, or another producer takes over and sends everything again."""

    REQUEST = "request lost"
    ACKNOWLEDGEMENT = "acknowledgement lost"
    REPLACED = "taken for dead, all sent again"


_LOSSES = {Fault.REQUEST: Loss.REQUEST, Fault.ACKNOWLEDGEMENT: Loss.ACKNOWLEDGEMENT}
CASES = (
    (Producer.PLAIN, Fault.REQUEST),
    (Producer.IDEMPOTENT, Fault.REQUEST),
    (Producer.PLAIN, Fault.ACKNOWLEDGEMENT),
    (Producer.IDEMPOTENT, Fault.ACKNOWLEDGEMENT),
    (Producer.IDEMPOTENT, Fault.REPLACED),
    (Producer.TRANSACTIONAL, Fault.REPLACED),
)


@dataclass(frozen=True, slots=True)
class OrderingPlan:
    """The draw of a seed: which produce request, or behind how many records, each case breaks; values, number first."""

    breaks: Mapping[tuple[Producer, Fault], int]
    values: tuple[bytes, ...]

    @classmethod
    def draw(cls, seed: int, records: int = 400) -> Self:
        """Draw from the seed alone."""
        random = Random(seed)
        breaks = {
            case: random.randrange(3, 9) if case[1] in _LOSSES else random.randrange(records // 4, records // 2)
            for case in CASES
        }
        padding = (b"x" * random.randint(*_VALUE_BYTES) for _ in range(records))
        return cls(breaks, tuple(b"%d %s" % each for each in enumerate(padding)))

    def as_dict(self) -> dict[str, Any]:
        """Return it as data: where each case breaks."""
        return {
            f"{producer}, {fault}": f"produce request {number}" if fault in _LOSSES else f"after {number} records"
            for (producer, fault), number in self.breaks.items()
        }


@dataclass(frozen=True, slots=True)
class Ordering:
    """The records of one case in the end, known by their numbers.

    ``duplicated`` has a number once for each copy too many; ``reordered`` first appear behind a later one.
    """

    producer: Producer
    fault: Fault
    sent: int
    acknowledged: frozenset[int]
    lost: tuple[int, ...]
    duplicated: tuple[int, ...]
    reordered: tuple[int, ...]

    def counts(self) -> dict[str, Any]:
        """Return it as data: how many there are of each."""
        named = {"producer": str(self.producer), "what_went_wrong": str(self.fault), "sent": self.sent}
        return named | {name: len(getattr(self, name)) for name in ("acknowledged", "lost", "duplicated", "reordered")}


def ordering(plan: OrderingPlan, folder: Path, say: Callable[[str], None]) -> tuple[Ordering, ...]:
    """Start one broker behind a faulty proxy, and publish through each fault."""
    ports = Ports.choose(PortChoice.any_free())
    with closing(LossyProxy(ports.kafka[0])) as proxy:
        # Clients go where the broker says it is: to the proxy.
        kafka = Kafka(folder, 1, ports, {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"})
        try:
            kafka.up(find_java(), Launch(say))
            say(f"one broker runs behind a proxy on {HOST}:{proxy.port}")
            return tuple(_case(proxy, plan, *case, say) for case in CASES)
        finally:
            kafka.kill()


def report(plan: OrderingPlan, results: Sequence[Ordering]) -> Report:
    """One row a case."""
    rows = [row.counts() for row in results]
    return Report(plan.as_dict(), rows, table(rows))


def _case(
    proxy: LossyProxy, plan: OrderingPlan, producer: Producer, fault: Fault, say: Callable[[str], None]
) -> Ordering:
    extra = {"bootstrap.servers": f"{HOST}:{proxy.port}"}
    number, topic = plan.breaks[producer, fault], f"ordering-{producer.name}-{fault.name}".lower()
    create_topic(extra, topic, 1, 1)
    say(f"{producer}: {fault} ({plan.as_dict()[f'{producer}, {fault}']})")
    if fault in _LOSSES:
        acknowledged = _through_loss(proxy, extra, topic, plan, producer is Producer.IDEMPOTENT, _LOSSES[fault], number)
    else:
        acknowledged = _replaced(extra, topic, plan, topic if producer is Producer.TRANSACTIONAL else None, number)
    log = [int(value.split()[0]) for value in read_values(extra, topic, "read_committed")]
    return compare(producer, fault, len(plan.values), acknowledged, log)


def _through_loss(
    proxy: LossyProxy, extra: dict[str, str], topic: str, plan: OrderingPlan, idempotence: bool, loss: Loss, number: int
) -> frozenset[int]:
    """Send while the proxy loses a frame; return the numbers of those that were acknowledged."""
    producer = KafkaProducer(
        bootstrap_servers=extra["bootstrap.servers"],
        acks="all",
        enable_idempotence=idempotence,
        max_in_flight_requests_per_connection=5,
        batch_size=_BATCH_BYTES,
        request_timeout_ms=4_000,
        delivery_timeout_ms=30_000,
    )
    acknowledged = set()
    try:
        producer.partitions_for(topic)
        proxy.lose(loss, number)
        sent = [producer.send(topic, value, partition=0) for value in plan.values]
        for each, future in enumerate(sent):
            with suppress(kafka_errors.KafkaError):
                future.get(40)
                acknowledged.add(each)
    finally:
        close_producer(producer, 5)
    if not proxy.lost:
        raise UnexpectedError(f"the {loss} of produce request {number} to {topic} should have been lost and was not")
    return frozenset(acknowledged)


def _replaced(
    extra: dict[str, str], topic: str, plan: OrderingPlan, transactional_id: str | None, number: int
) -> frozenset[int]:
    """Have a producer write some, another one everything, and then end the first one; return the second one's numbers.

    Raises:
        UnexpectedError: the first one could commit its transaction all the same.
    """
    records = [Record(None, value, partition=0) for value in plan.values]
    acknowledged: list[Record] = []
    try:
        with Publisher(extra, topic, transactional_id=transactional_id) as zombie:
            for record in records[:number]:
                zombie.send(record)
            zombie.flush()
            publish(
                records, extra, topic, transactional_id=transactional_id, on_ack=lambda r, *_: acknowledged.append(r)
            )
            zombie.finish()
            fenced = False
    except ProducerFenced:
        fenced = True
    if fenced != (transactional_id is not None):
        raise UnexpectedError(f"a producer that another one has replaced should be fenced in {topic} and was not")
    return frozenset(records.index(record) for record in acknowledged)


def compare(producer: Producer, fault: Fault, sent: int, acknowledged: frozenset[int], log: Sequence[int]) -> Ordering:
    """Compare what was acknowledged with the numbers in the order of the log. Pure."""
    copies = Counter(log)
    highest, reordered = -1, list[int]()
    for number in copies:
        if number < highest:
            reordered.append(number)
        highest = max(highest, number)
    return Ordering(
        producer=producer,
        fault=fault,
        sent=sent,
        acknowledged=acknowledged,
        lost=tuple(sorted(acknowledged - set(copies))),
        duplicated=tuple(sorted((copies - Counter(set(copies))).elements())),
        reordered=tuple(reordered),
    )
