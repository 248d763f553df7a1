"""Wide records are read and decoded in batches of bounded size, however many of them a slice has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.producer.settings import read_settings
from offset_ledger.steps.stage.record_batches import MAX_BYTES, _Librdkafka
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers

RECORDS, WIDTH = 160, 900_000


def test_no_batch_is_larger_than_its_bound(servers: Servers, topic_name: Callable[[], str]) -> None:
    extra, topic = dict(servers.kafka.extra), topic_name()
    create_topic(extra, topic, 1, 1)
    compressed = read_settings(extra, {"compression.type": "zstd"})
    publish((Record(b"%d" % n, b" " * WIDTH) for n in range(RECORDS)), extra, topic, settings=compressed)
    with ExitStack() as opened:
        reader = _Librdkafka(servers.kafka, topic, opened)
        batches = list(reader.read(OffsetRange(0, 0, RECORDS), lambda: None))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(RECORDS))
    assert [batch.nbytes for batch in batches if batch.nbytes > MAX_BYTES + 2 * WIDTH] == []
