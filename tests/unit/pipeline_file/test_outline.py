"""What Airflow keeps of a pipeline file: after a way through JSON the same topics, tables and connections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offset_ledger.pipeline_file.outline import from_outline, outline
from offset_ledger.pipeline_file.parse import parse_pipeline

FILE = """
pipeline: orders
source: {{connection: kafka_shop, {topics}}}
record:
  event_id: key
  publish_at: kafka_timestamp
  columns: {{state: {{type: text, nullable: true}}}}
  tombstone: {tombstone}
target: {{connection: postgres_shop, table: shop.orders}}
quality: {{dead_letter_topic: {dead_letters}}}
notify:
- email: {{connection: smtp_shop, to: [ada@example.com]}}
- class: alerts.Pager
  arguments: {{text: '{{{{ text }}}}', teams: [a, b]}}
  on: [freshness_missed]
"""


@pytest.mark.parametrize("topics", ["topic: orders", "topics: [a, b]", "topic_pattern: 'orders[.].+'"])
@pytest.mark.parametrize(("tombstone", "dead_letters"), [("delete", "null"), ("skip", "refused")])
def test_what_reads_and_writes_is_kept(topics: str, tombstone: str, dead_letters: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(topics=topics, tombstone=tombstone, dead_letters=dead_letters))
    pipeline = parse_pipeline(file)
    kept = from_outline(json.loads(json.dumps(outline(pipeline))))
    assert (kept.name, kept.source, kept.target) == (pipeline.name, pipeline.source, pipeline.target)
    assert kept.quality.dead_letter_topic == pipeline.quality.dead_letter_topic
    assert kept.record.tombstone is pipeline.record.tombstone
    assert kept.record.topic_names is pipeline.record.topic_names
    assert (kept.notify, len(kept.notify)) == (pipeline.notify, 2)


def test_it_is_text_alone_and_names_no_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(topics="topic: orders", tombstone="skip", dead_letters="null"))
    assert str(tmp_path) not in json.dumps(outline(parse_pipeline(file)))
