"""What an ingest leaves behind on the machine, and what its last line says, when it fails and when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offset_ledger.base.failpoints import VARIABLE, Failpoint
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers

pytestmark = pytest.mark.full

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
stage: {{engine: spark}}
"""


def ingest(file: Path, cwd: Path, shared: Path, failpoint: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(file)],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(shared), VARIABLE: failpoint},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_ingest_leaves_nothing_behind_and_its_error_is_the_last_line(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    publish([Record(b"k", b"{}")], servers.kafka.extra, topic)
    file, cwd, shared = tmp_path / "orders.yaml", tmp_path / "cwd", tmp_path / "shared"
    file.write_text(PIPELINE.format(topic=topic))
    cwd.mkdir()
    shared.mkdir()

    killed = ingest(file, cwd, shared, f"{Failpoint.AFTER_CLAIM}=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    (left,) = shared.glob("offset-ledger-spark-*")
    assert left.stat().st_mode & 0o777 == 0o700
    assert list(cwd.iterdir()) == []

    failed = ingest(file, cwd, shared, f"{Failpoint.SLICE_COPIED}=fail")
    lines = failed.stderr.splitlines()
    assert failed.returncode == 75  # worth another try
    assert lines[-1].startswith("offset-ledger: TransientError: failpoint slice_copied")
    assert [line for line in lines if line.startswith(("\tat ", "Caused by:"))] == []
    assert (list(shared.iterdir()), list(cwd.iterdir())) == ([], [])
