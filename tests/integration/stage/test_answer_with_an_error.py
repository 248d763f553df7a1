"""A Spark Connect server that answers with an error is not one that is away: what it says is shown."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from offset_ledger.connections import Connection
from offset_ledger.errors import SparkFailed
from offset_ledger.stage.remote_session import remote_session

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
    said = rf"^the Spark Connect server at sc://127\.0\.0\.1:{server} answers with an error: .*{SAID}"
    with pytest.raises(SparkFailed, match=said), remote_session(there):
        pass
