"""A Spark Connect server that answers with an error is not one that is away: what it says is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from offset_ledger.errors import SparkFailed, SparkUnavailable
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.spark.remote_session import remote_session
from offset_ledger_kit.sandbox.layout import free_ports

SAID = "failed to get PySpark version: ModuleNotFoundError: No module named 'pyspark'"


class Refusing(grpc.GenericRpcHandler):  # type: ignore[misc]
    def service(self, _: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda _, context: context.abort(grpc.StatusCode.INVALID_ARGUMENT, SAID)
        )


@pytest.fixture
def server() -> Iterator[int]:
    made = grpc.server(ThreadPoolExecutor(1), handlers=[Refusing()])
    port: int = made.add_insecure_port("127.0.0.1:0")
    made.start()
    yield port
    made.stop(None).wait()


def test_what_a_server_has_against_the_question_is_shown(server: int) -> None:
    there = Connection("spark_default", "spark_connect", "127.0.0.1", server)
    with pytest.raises(SparkFailed) as raised, remote_session(there):
        pass
    assert str(raised.value) == (
        f"the Spark Connect server at sc://127.0.0.1:{server} answers with an error: INVALID_ARGUMENT: {SAID}; nothing "
        "was staged; look into its log, or correct the connection"
    )


def test_a_server_that_is_away_is_named_with_what_grpc_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")
    (port,) = free_ports(1)
    with pytest.raises(SparkUnavailable) as raised, remote_session(Connection("", "", "127.0.0.1", port)):
        pass
    text = rf"start it \(offset-ledger serve spark\), or correct the connection \(UNAVAILABLE: [^<]*:{port}[^<]*\)$"
    assert re.search(text, str(raised.value))
