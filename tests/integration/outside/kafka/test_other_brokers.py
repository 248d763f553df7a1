"""Brokers that speak Kafka's protocol and leave some of it out: the question that they do not answer is named."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.audit.run import audit_topic
from offset_ledger.operations.status.brokers import ask_topic
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.labs.lossy import LossyProxy
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers

LIST_OFFSETS, DESCRIBE_CONFIGS = 2, 32
FILE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


class OtherBroker(LossyProxy):
    """A broker that closes the connection at questions of one kind; it calls itself by the address of this proxy."""

    def __init__(self, port: int, closes_at: int) -> None:
        self._closes_at, self._names = closes_at, [b"127.0.0.1" + struct.pack(">i", port)]
        super().__init__(port)
        self._names.append(b"127.0.0.1" + struct.pack(">i", self.port))

    def read(self, source: socket.socket) -> bytes:
        """One frame, with the address of the proxy for that of the broker."""
        return super().read(source).replace(*self._names)

    def passes(self, data: bytes, client: socket.socket, to_server: bool) -> bool:
        """False, and the connection ends, at the question that it does not know."""
        if not to_server or struct.unpack_from(">h", data, 4)[0] != self._closes_at:
            return True
        client.shutdown(socket.SHUT_RDWR)
        return False


@pytest.fixture
def topic(servers: Servers, topic_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    name = topic_name()
    create_topic(dict(servers.kafka.extra), name, 1, 1)
    return name


@pytest.mark.parametrize(("key", "named"), [(LIST_OFFSETS, "ListOffsets"), (DESCRIBE_CONFIGS, "DescribeConfigs")])
def test_a_broker_that_closes_at_a_question_is_not_away(servers: Servers, topic: str, key: int, named: str) -> None:
    port = int(servers.bootstrap.partition(":")[2])
    with closing(OtherBroker(port, key)) as proxy:
        other = replace(servers.kafka, extra={"bootstrap.servers": f"127.0.0.1:{proxy.port}"})
        with connect_kafka(other) as kafka:
            assert kafka.describe(topic)["name"] == topic
            text = rf"^Kafka at 127\.0\.0\.1:{proxy.port} does not answer {named}: it closes the connection"
            with pytest.raises(ConfigurationError, match=text):
                kafka.snapshot(topic)


def test_a_broker_that_does_not_say_what_a_login_may_do_is_no_problem_of_the_doctor(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described = KafkaAdminClient.describe_topics

    def without_operations(*arguments: Any) -> list[dict[str, Any]]:
        return [{**each, "authorized_operations": None} for each in described(*arguments)]

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", without_operations)
    monkeypatch.chdir(tmp_path)
    Path("orders.yaml").write_text(FILE.format(topic=topic))
    main(["check", "orders.yaml", "--system", "--json"])
    found = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}
    rights = found[f"orders: topic {topic}: rights"]
    assert (rights["level"], rights["found"]) == ("warning", "the brokers do not say what the login may do")


@pytest.mark.parametrize("left_out", ["cleanup.policy", "retention.ms"])
def test_a_setting_that_a_broker_leaves_out_is_named(
    servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    described = KafkaAdminClient.describe_configs

    def without(*arguments: Any, **more: Any) -> dict[str, dict[str, dict[str, Any]]]:
        return {
            kind: {
                name: {key: each for key, each in configs.items() if key != left_out} for name, configs in of.items()
            }
            for kind, of in described(*arguments, **more).items()
        }

    monkeypatch.setattr(KafkaAdminClient, "describe_configs", without)
    text = rf"^Kafka at {servers.bootstrap} does not answer DescribeConfigs with {left_out} of topic '{topic}'; brokers"
    with connect_kafka(servers.kafka) as kafka, pytest.raises(ConfigurationError, match=text):
        ask_topic(kafka, topic)
    with pytest.raises(ConfigurationError, match=text):
        audit_topic(servers.kafka, topic)
