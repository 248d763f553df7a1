"""A topic counts as gone when brokers say so, again after a while; not when they are away or refuse to describe it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from offset_ledger.errors import AccessDenied, UnknownTopic
from offset_ledger.outside.kafka import client
from offset_ledger.outside.kafka.client import KafkaClient
from offset_ledger.outside.kafka.topics import describe_topic

UNKNOWN = kafka_errors.UnknownTopicOrPartitionError
DENIED = kafka_errors.TopicAuthorizationFailedError


def answering(monkeypatch: pytest.MonkeyPatch, *errors: type[kafka_errors.KafkaError]) -> tuple[KafkaClient, list[Any]]:
    """A client of brokers that give these answers about a topic in turn, and what they still have to answer."""
    left = [error.errno for error in errors]

    def describe(topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        if topics is None:
            return [{"name": "order", "is_internal": False}, {"name": "__orders", "is_internal": True}]
        return [{"name": topics[0], "error_code": left.pop(0)}]

    admin: Any = SimpleNamespace(client=SimpleNamespace(describe_topics=describe), servers="broker:9092")
    monkeypatch.setattr(client, "take_snapshot", lambda admin, topic: describe_topic(admin, topic)["name"])
    return KafkaClient(admin), left


def test_brokers_that_do_not_know_a_topic_that_was_read_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, left = answering(monkeypatch, UNKNOWN, UNKNOWN, kafka_errors.NoError)
    assert (kafka.snapshot("orders", read_before=True), left) == ("orders", [])
    kafka, left = answering(monkeypatch, UNKNOWN, UNKNOWN)
    with pytest.raises(UnknownTopic) as raised:
        kafka.snapshot("orders")
    meant = "did you mean order?; create it, or correct its name"
    assert str(raised.value) == f"topic 'orders' does not exist on broker:9092; {meant}"
    assert len(left) == 1
    monkeypatch.setattr(client, "_STALE_SECONDS", 0.0)
    with pytest.raises(UnknownTopic):
        kafka.snapshot("orders", read_before=True)


def test_a_topic_that_the_login_may_not_describe_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, _ = answering(monkeypatch, DENIED)
    with pytest.raises(AccessDenied):
        kafka.snapshot("orders", read_before=True)
