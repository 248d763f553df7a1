"""Lab: what a retry does to order and number, with and without idempotence, when the network loses something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from offset_ledger.labs.log import read_values
from offset_ledger.labs.lossy import Loss, LossyProxy
from offset_ledger.local.java import find_java
from offset_ledger.local.kafka import Kafka
from offset_ledger.local.layout import HOST, PortChoice, Ports
from offset_ledger.local.process import Launch
from offset_ledger.publishing.topics import create_topic

_VALUE_BYTES = 512
_BATCH_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ordering:
    """What one producer's records came to after one loss; ``reordered`` first appear behind a later one."""

    idempotence: bool
    loss: Loss
    sent: int
    acknowledged: int
    lost: int
    duplicated: int
    reordered: int


def ordering(folder: Path, seed: int, say: Callable[[str], None], records: int = 400) -> tuple[Ordering, ...]:
    """Start one broker behind a faulty proxy, and publish through each loss with and without idempotence."""
    ports = Ports.choose(PortChoice.any_free())
    with closing(LossyProxy(ports.kafka[0])) as proxy:
        # Clients go where the broker says it is: to the proxy.
        kafka = Kafka(folder, 1, ports, {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"})
        launch = Launch(say)
        try:
            kafka.up(find_java(), launch)
            say(f"one broker runs behind a proxy on {HOST}:{proxy.port}")
            random = Random(seed)
            cases = [(idempotence, loss) for loss in Loss for idempotence in (False, True)]
            return tuple(_case(proxy, *case, records, random.randrange(3, 9), say) for case in cases)
        finally:
            kafka.down()


def _case(
    proxy: LossyProxy, idempotence: bool, loss: Loss, records: int, number: int, say: Callable[[str], None]
) -> Ordering:
    extra = {"bootstrap.servers": f"{HOST}:{proxy.port}"}
    topic = f"ordering-{loss}-{'on' if idempotence else 'off'}"
    create_topic(extra, topic, 1, 1)
    say(f"{topic}: the {loss} of produce request {number} gets lost")
    acknowledged = _publish(proxy, extra, topic, idempotence, loss, number, records)
    found = read_values(extra, topic)
    return weigh(idempotence, loss, records, acknowledged, [int(value) for value in found])


def _publish(
    proxy: LossyProxy, extra: dict[str, str], topic: str, idempotence: bool, loss: Loss, number: int, records: int
) -> set[int]:
    producer = KafkaProducer(
        bootstrap_servers=extra["bootstrap.servers"],
        acks="all",
        enable_idempotence=idempotence,
        max_in_flight_requests_per_connection=5,
        batch_size=_BATCH_BYTES,
        request_timeout_ms=4_000,
        delivery_timeout_ms=30_000,
    )
    with closing(producer):
        producer.partitions_for(topic)
        proxy.lose(loss, number)
        sent = [(n, producer.send(topic, b"%0*d" % (_VALUE_BYTES, n), partition=0)) for n in range(records)]
        acknowledged = set()
        for n, future in sent:
            with suppress(kafka_errors.KafkaError):
                future.get(40)
                acknowledged.add(n)
    return acknowledged


def weigh(idempotence: bool, loss: Loss, records: int, acknowledged: set[int], log: Sequence[int]) -> Ordering:
    """Count, from the numbers of the records in the order of the log. Pure."""
    copies = Counter(log)
    highest, reordered = -1, 0
    for number in dict.fromkeys(log):
        reordered += number < highest
        highest = max(highest, number)
    return Ordering(
        idempotence=idempotence,
        loss=loss,
        sent=records,
        acknowledged=len(acknowledged),
        lost=len(acknowledged - set(copies)),
        duplicated=sum(copies.values()) - len(copies),
        reordered=reordered,
    )
