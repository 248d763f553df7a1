"""The bench as a fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.exporter_bench import PIPELINE, WEEK, Bench
from tests.fixtures.servers import Servers


@pytest.fixture
def bench(servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    topic, folder = topic_name(), tmp_path / "pipelines"
    create_topic(dict(servers.kafka.extra), topic, 2, 1, {"retention.ms": str(int(WEEK.total_seconds() * 1000))})
    folder.mkdir()
    (folder / "orders.yaml").write_text(PIPELINE.format(topic=topic))
    with connect(servers.postgres) as session:
        yield Bench(servers, session, parse_pipeline(folder / "orders.yaml"), folder)
