"""What librdkafka says while its broker is gone, where no verb of this package has set up the log."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

READ = """
import logging
from offset_ledger.outside.connections import Connection
from offset_ledger.errors import BrokerUnavailable
from offset_ledger.outside.kafka.bulk_reader import bulk_reader
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.base.retry import retrying_for

{log}
connection = Connection("k", "kafka", extra={{"bootstrap.servers": "127.0.0.1:{port}"}})
with retrying_for(1), bulk_reader(connection) as read:
    try:
        list(read("t", OffsetRange(0, 0, 1)))
    except BrokerUnavailable as error:
        print(error)
"""


@pytest.mark.parametrize("log", ["", "logging.basicConfig()"], ids=["a Python worker of Spark", "the command line"])
def test_a_reader_whose_broker_is_gone_says_it_once(log: str) -> None:
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        code = READ.format(log=log, port=taken.getsockname()[1])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "was read up to 0 and no further within 1 s" in done.stdout
    assert "_TRANSPORT" in done.stdout or "_ALL_BROKERS_DOWN" in done.stdout
