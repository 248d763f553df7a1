"""A pipeline file whose records are appended: rows without key and order."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Merge
from tests.unit.pipeline_file.files import problems, schema_accepts, written

FILE = """\
pipeline: clicks
source:
  topic: clicks
record:
  columns:
    a: text
    b: {type: integer, nullable: true}
target:
  table: clicks
  merge: append
"""
NO_KEY = "with merge: append a row is known by topic, partition and offset alone; drop it"
NO_DELETE = "with merge: append no record deletes a row"
MISTAKES = {
    "  columns:\n": {"  event_id: $.id\n  columns:\n": f"5: record.event_id: {NO_KEY}",
        "  event_id: key\n  columns:\n": f"5: record.event_id: {NO_KEY}",
        "  key: {id: bigint}\n  columns:\n": f"5: record.key: {NO_KEY}",
        "  delete_when: {path: $.op, equals: d}\n  columns:\n": f"5: record.delete_when: {NO_DELETE}; drop it",
        "  tombstone: delete\n  columns:\n": f"5: record.tombstone: {NO_DELETE}; write quarantine or skip"},
    "  merge: append\n": {"  merge: append\n  deletes: refuse\n": f"11: target.deletes: {NO_DELETE}; drop it",
        "  merge: append\n  on_conflict: quarantine\n": (
            "11: target.on_conflict: with merge: append no row gives its values up to another; write fail, or merge: "
            "skip_existing with the values as record.key")},
    "  topic: clicks\n": {"  topic: clicks\n  envelope: debezium\n": (
        "4: source.envelope: with merge: append no row changes, and a change event says how one does; write merge: "
        "newest_wins, or drop envelope and read paths such as $.after.id")},
}  # fmt: skip
PARSER_ONLY = {
    "  columns:\n": {"  publish_at: log\n  columns:\n": (
        "5: record.publish_at: with merge: append no row is newer than another; write kafka_timestamp, or drop it")},
    "\n    a: text\n    b: {type: integer, nullable: true}\n": {
        " {}\n": ("5: record.columns: with merge: append a row has no key, only its columns; declare one, or auto")},
    "nullable: true}": {"nullable: true, absent: keep}": (
        "7: record.columns.b: with merge: append no record leaves a row as it is; write merge: newest_wins, or "
        "drop absent and group")},
    "  topic: clicks\n": {"  topic: clicks\n  key_format: json\n": (
        "4: source.key_format: the keys are not read: record.columns read none; drop it, or read a column of the key")},
}  # fmt: skip


def cases(of: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(old, new, says) for old, edits in of.items() for new, says in edits.items()]


@pytest.mark.parametrize("more", ["", "  bookkeeping: beside\n", "  bookkeeping: {_offset: kafka_offset}\n"])
def test_a_file_without_key_and_publish_at(tmp_path: Path, more: str) -> None:
    pipeline = parse_pipeline(written(tmp_path, FILE + more))
    assert pipeline.target.merge is Merge.APPEND
    record = pipeline.record
    assert (record.key_columns, record.key_names, record.publish_at) == ((), ["_partition", "_offset"], None)
    assert (pipeline.bookkeeping is pipeline, pipeline.has_coordinates) == (True, not more)
    assert schema_accepts(FILE + more)


def test_publish_at_may_be_said_and_several_topics_be_read(tmp_path: Path) -> None:
    text = FILE.replace(
        "  columns:\n", "  publish_at: {path: $.ts, encoding: epoch_ms}\n  tombstone: skip\n  columns:\n"
    )
    text = text.replace("topic: clicks", "topics: [clicks, taps]")
    record = parse_pipeline(written(tmp_path, text)).record
    assert (record.publish_at, record.key_names) == (("ts",), ["_topic", "_partition", "_offset"])
    assert schema_accepts(text)


@pytest.mark.parametrize(("old", "new", "says"), [*cases(MISTAKES), *cases(PARSER_ONLY)])
def test_what_is_about_keys_and_deletes_is_a_mistake(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = FILE.replace(old, new)
    assert problems(written(tmp_path, text)) == [says]
    assert schema_accepts(text) == ((old, new, says) in cases(PARSER_ONLY))


def test_without_append_a_key_and_a_moment_are_missing(tmp_path: Path) -> None:
    text = FILE.replace("  merge: append\n", "")
    assert problems(written(tmp_path, text)) == [
        "4: record.event_id is missing; add it, for example event_id: $.event_id",
        "4: record.publish_at is missing; add it, for example publish_at: $.publish_at",
    ]
    assert not schema_accepts(text)
