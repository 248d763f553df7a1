"""Wide records reach a worker in batches of bounded size, however many of them a slice has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from offset_ledger.stage.reader import read_ranges

from offset_ledger.config.parse import parse_pipeline
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.reliability.publishing.producer import publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings_reader import read_settings
from offset_ledger.reliability.publishing.topics import create_topic
from tests.fixtures.servers import Servers

PIPELINE = """
pipeline: wide
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.wide}}
"""
RECORDS, WIDTH = 160, 900_000
BOUND = (64 << 20) + 2 * WIDTH


def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([len(batch)]), pa.array([batch.nbytes])], names=["records", "bytes"])


def test_no_batch_is_larger_than_its_bound(
    servers: Servers, spark: Any, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    extra, topic = dict(servers.kafka.extra), topic_name()
    create_topic(extra, topic, 1, 1)
    compressed = read_settings(extra, {"compression.type": "zstd"})
    publish((Record(b"%d" % n, b" " * WIDTH) for n in range(RECORDS)), extra, topic, settings=compressed)
    file = tmp_path / "wide.yaml"
    file.write_text(PIPELINE.format(topic=topic))
    records = read_ranges(spark, servers.kafka, parse_pipeline(file), [OffsetRange(0, 0, RECORDS)])
    found = records.mapInArrow(sizes, "records bigint, bytes bigint").collect()
    assert sum(batch.records for batch in found) == RECORDS
    assert [batch.bytes for batch in found if batch.bytes > BOUND] == []
