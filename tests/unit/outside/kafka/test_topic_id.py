"""Topic ids. Brokers without them need ZooKeeper, which is not packaged here: what they answer is written down."""

from __future__ import annotations

from uuid import UUID

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.kafka.topics import topic_id


def test_a_topic_has_its_id() -> None:
    one = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
    assert topic_id({"name": "t", "topic_id": one}, "h:1") == str(one)


@pytest.mark.parametrize("answer", [{}, {"topic_id": None}, {"topic_id": UUID(int=0)}])
def test_brokers_without_topic_ids_are_refused(answer: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"Kafka at h:1 gives topic 't' no id.*Kafka 3\.6 or newer"):
        topic_id({"name": "t", **answer}, "h:1")
