"""The folders of brokers, which are copies of one that Kafka's tool has formatted once for the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.publishing.topics import create_topic
from offset_ledger.sandbox import kafka as sandbox_kafka
from offset_ledger.sandbox.jars import kafka_jars, kafka_version
from offset_ledger.sandbox.kafka import META_FILE, Kafka
from offset_ledger.sandbox.layout import PortChoice, Ports
from offset_ledger.sandbox.process import Launch, silent
from offset_ledger.sandbox.stack import Stack


def ids_of(kafka: Kafka) -> list[dict[str, str]]:
    texts = [(broker.directory / "data" / META_FILE).read_text() for broker in kafka.brokers]
    return [dict(line.split("=", 1) for line in text.splitlines()) for text in texts]


@pytest.mark.full
@pytest.mark.parametrize("writable", [True, False], ids=["kept", "in no cache"])
def test_each_cluster_and_each_broker_has_an_id_of_its_own(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    jars = kafka_jars(stack.java)
    monkeypatch.setattr(sandbox_kafka, "kafka_jars", lambda *_: jars)  # which are in the cache of the machine
    cache = tmp_path / "cache"
    monkeypatch.setenv("OFFSET_LEDGER_CACHE", str(cache))
    if not writable:
        cache.write_text("a file where a folder should be")
    found = []
    for name in ("first", "second"):
        made = Kafka(tmp_path / name, 3, Ports.choose(PortChoice.any_free()))
        try:
            made.up(stack.java, Launch(silent))
            create_topic({"bootstrap.servers": made.bootstrap}, "orders", 3, 3)
        finally:
            made.down()
        found.append(ids_of(made))
        assert [each["node.id"] for each in found[-1]] == ["1", "2", "3"]
        assert len({each["cluster.id"] for each in found[-1]}) == 1
    assert len({each["cluster.id"] for of_one in found for each in of_one}) == 2
    assert len({each["directory.id"] for of_one in found for each in of_one}) == 6
    assert [path.name for path in cache.glob("formatted/*")] == ([kafka_version()] if writable else [])
