"""The folders of brokers, which are copies of one that Kafka's tool has formatted once for the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox import kafka as sandbox_kafka
from offset_ledger_kit.sandbox.jars import kafka_jars, kafka_version
from offset_ledger_kit.sandbox.kafka import META_FILE, Kafka
from offset_ledger_kit.sandbox.layout import PortChoice, Ports
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.stack import Stack


def ids_of(kafka: Kafka) -> list[dict[str, str]]:
    texts = [(broker.directory / "data" / META_FILE).read_text() for broker in kafka.brokers]
    return [dict(line.split("=", 1) for line in text.splitlines()) for text in texts]


def formatted(stack: Stack, folder: Path, brokers: int) -> list[dict[str, str]]:
    """The ids of a cluster that has run and taken a topic."""
    made = Kafka(folder, brokers, Ports.choose(PortChoice.any_free()))
    try:
        made.up(stack.java, Launch(silent))
        create_topic({"bootstrap.servers": made.bootstrap}, "orders", 3, brokers)
    finally:
        made.kill()
    return ids_of(made)


@pytest.fixture
def cache(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is not there yet; the jars are in that of the machine."""
    jars = kafka_jars(stack.java)
    monkeypatch.setattr(sandbox_kafka, "kafka_jars", lambda *_: jars)
    monkeypatch.setenv("OFFSET_LEDGER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.full
def test_each_cluster_and_each_broker_has_an_id_of_its_own(stack: Stack, tmp_path: Path, cache: Path) -> None:
    first, copied = (formatted(stack, tmp_path / f"{brokers}", brokers) for brokers in (1, 3))
    assert [each["node.id"] for each in copied] == ["1", "2", "3"]
    (cluster_id,) = {each["cluster.id"] for each in copied}
    assert cluster_id != first[0]["cluster.id"]
    assert len({each["directory.id"] for each in (*first, *copied)}) == 4
    assert [path.name for path in cache.glob("formatted/*")] == [kafka_version()]


@pytest.mark.full
def test_without_a_cache_the_folder_itself_is_formatted(stack: Stack, tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where a folder should be")
    found = formatted(stack, tmp_path / "kafka", 2)
    assert [each["node.id"] for each in found] == ["1", "2"]
    assert len({each["cluster.id"] for each in found}) == 1
    assert len({each["directory.id"] for each in found}) == 2
