"""200,000 records of 200 bytes to three brokers, idempotent, by three clients in one run.

    python benchmarks/publish.py [--records 200000] [--rounds 3] [--json]

The publishing kit, bare kafka-python and bare confluent-kafka take turns, each round in another
order, with the same linger, batch size and acknowledgements. Every record has its own key, and each client answers for
every record. The client is connected and knows the topic before the clock starts. The best round of each counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.partitioner import DefaultPartitioner
from tabulate import tabulate

from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.producer.settings import ProducerSettings
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import PortChoice, Ports
from offset_ledger_kit.sandbox.process import Launch

PARTITIONS = 6
BYTES = 200
SETTINGS = ProducerSettings()

Parts = list[tuple[bytes, bytes]]
Run = Callable[[str, str, Parts], float]


def kit(servers: str, topic: str, parts: Parts) -> float:
    """Seconds of the publishing kit, the making of its records included."""
    acknowledged: list[int] = []
    with Publisher({"bootstrap.servers": servers}, topic, on_progress=acknowledged.append) as publisher:
        publisher.send_and_wait(Record(b"first", b"first"))
        began = time.monotonic()
        for key, value in parts:
            publisher.send(Record(key, value))
        publisher.finish()
        seconds = time.monotonic() - began
    assert sum(acknowledged) == len(parts) + 1
    return seconds


def kafka_python(servers: str, topic: str, parts: Parts) -> float:
    """Seconds of kafka-python alone, each record's future looked at in the end."""
    producer = KafkaProducer(
        bootstrap_servers=servers.split(","),
        acks="all",
        enable_idempotence=True,
        linger_ms=SETTINGS.linger_ms,
        batch_size=SETTINGS.batch_size,
        max_request_size=SETTINGS.max_request_size,
        partitioner=DefaultPartitioner(),
    )
    producer.send(topic, b"first", b"first").get(30)
    began = time.monotonic()
    futures = [producer.send(topic, value, key) for key, value in parts]
    producer.flush()
    assert all(future.succeeded() for future in futures)
    seconds = time.monotonic() - began
    producer.close()
    return seconds


def confluent_kafka(servers: str, topic: str, parts: Parts) -> float:
    """Seconds of confluent-kafka, with a callback for each record."""
    failed, acknowledged = [], 0

    def answered(error: object, _message: object) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if error:
            failed.append(error)

    settings = {"linger.ms": SETTINGS.linger_ms, "batch.size": SETTINGS.batch_size, "partitioner": "murmur2_random"}
    producer = Producer(
        {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True,
         "queue.buffering.max.messages": len(parts) + 10, **settings}
    )  # fmt: skip
    producer.produce(topic, b"first", b"first", on_delivery=answered)
    producer.flush()
    began = time.monotonic()
    for key, value in parts:
        producer.produce(topic, value, key, on_delivery=answered)
        producer.poll(0)
    producer.flush()
    seconds = time.monotonic() - began
    assert (acknowledged, failed) == (len(parts) + 1, [])
    return seconds


def measure(servers: str, parts: Parts, rounds: int) -> dict[str, list[float]]:
    """Seconds by client, one for each round."""
    clients: list[Run] = [kit, kafka_python, confluent_kafka]
    found: dict[str, list[float]] = {client.__name__: [] for client in clients}
    for turn in range(rounds):
        first = turn % len(clients)
        for client in clients[first:] + clients[:first]:
            topic = f"bench-{client.__name__}-{turn}"
            create_topic({"bootstrap.servers": servers}, topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
            gc.collect()
            found[client.__name__].append(client(servers, topic, parts))
    return found


def main() -> None:
    """Start brokers, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    parts = [(b"key-%d" % n, (b"%d " % n).ljust(BYTES, b"x")) for n in range(arguments.records)]
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-bench-"))
    kafka = Kafka(home, 3, Ports.choose(PortChoice.any_free()))
    try:
        kafka.up(find_java(), Launch(lambda _: None))
        found = measure(kafka.bootstrap, parts, arguments.rounds)
    finally:
        kafka.down()
        shutil.rmtree(home)
    if arguments.json:
        print(json.dumps(found))
        return
    bare = min(found["kafka_python"])
    rows = [
        (
            name,
            min(seconds),
            arguments.records / min(seconds),
            min(seconds) / bare,
            " ".join(f"{s:.2f}" for s in seconds),
        )
        for name, seconds in found.items()
    ]
    headers = ["client", "seconds, best", "records a second", "x kafka-python", "every round"]
    print(tabulate(rows, headers, floatfmt=("g", ".2f", ",.0f", ".2f")))


if __name__ == "__main__":
    main()
