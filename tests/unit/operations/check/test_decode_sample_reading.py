"""Which records a sample reads: fair shares of the partitions, also where most offsets hold no record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check import decode_sample
from offset_ledger.operations.check.decode_sample import Choice, Start
from offset_ledger.outside.connections import environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Limits, Pipeline, Quality, RecordShape, Target
from offset_ledger.pipeline_file.source import Source

PIPELINE = Pipeline("orders", Source("kafka_default", "orders"), RecordShape(None, None, ()),
    Target("postgres_default", "public", "orders"), Quality(), Limits(), Path("orders.yaml"), "hash")  # fmt: skip


@pytest.mark.parametrize(
    ("offsets", "ends", "records", "read"),
    [
        ({0: range(100)}, {0: 100}, 3, [(0, 0), (0, 1), (0, 2)]),
        ({0: range(100), 1: range(100)}, {0: 100, 1: 100}, 3, [(0, 0), (0, 1), (1, 0)]),
        ({0: [0], 1: range(100)}, {0: 1, 1: 100}, 4, [(0, 0), (1, 0), (1, 1), (1, 2)]),
        ({0: [70_000, 80_000, 90_000]}, {0: 100_000}, 2, [(0, 70_000), (0, 80_000)]),
        ({0: [], 1: [5]}, {0: 1_000, 1: 10}, 2, [(1, 5)]),
        ({0: []}, {0: 0}, 2, []),
    ],
    ids=str,
)
def test_the_first_records_are_read_and_no_more(
    offsets: Mapping[int, Any],
    ends: Mapping[int, int],
    records: int,
    read: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[OffsetRange] = []

    def read_records(_connection: object, _topic: str, wanted: OffsetRange, _isolation: str) -> Iterator[Any]:
        asked.append(wanted)
        for offset in offsets[wanted.partition]:
            if wanted.from_offset <= offset < wanted.until_offset:
                place = {"partition": wanted.partition, "offset": offset}
                yield SimpleNamespace(**place, key=b"k", value=b"{}", timestamp=0, headers=[])

    monkeypatch.setenv(environment_name("kafka_default"), '{"conn_type": "kafka"}')
    monkeypatch.setattr(decode_sample, "read_records", read_records)
    batches = decode_sample._read(PIPELINE, Start({p: (0, end) for p, end in ends.items()}, "", False), records)
    found = [place for each in batches for place in zip(*(each.column(n).to_pylist() for n in (2, 3)), strict=True)]

    assert sorted(found) == read
    assert len(asked) < 20


def test_a_timestamp_beyond_what_python_has_is_shown_as_any_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "orders.yaml").write_text(
        "pipeline: orders\nsource: {topic: orders}\ntarget: {table: orders}\n"
        "record: {event_id: $.id, publish_at: kafka_timestamp, columns: {}}\n"
    )
    far = SimpleNamespace(partition=0, offset=0, key=None, value=b'{"id": "a"}', timestamp=9 * 10**15, headers=[])
    monkeypatch.setenv(environment_name("kafka_default"), '{"conn_type": "kafka"}')
    monkeypatch.setattr(decode_sample, "read_records", lambda *_: [far])
    monkeypatch.setattr(decode_sample, "find_start", lambda *_: Start({0: (0, 1)}, "", False))
    (refusal,) = decode_sample.decode_sample(parse_pipeline(path), Choice(), 1).refusals
    assert [each["path"] for each in refusal.reasons] == ["_timestamp"]


def test_a_choice_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give --partition with --from-offset"):
        Choice(from_offset=3)
