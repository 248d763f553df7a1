"""What Kafka Connect writes without an envelope is loaded by the file that init proposes for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from offset_ledger.operations.init.changes import changes_of, key_members, rows_of
from offset_ledger.operations.init.propose import Wanted, propose
from offset_ledger.operations.init.run import check_proposal
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.source import Source
from offset_ledger.postgres.ledger.database import Session, rows
from offset_ledger.postgres.table.infer import Sample, SampledRecord
from tests.fixtures.raw import Raw, commit_raw, recorded
from tests.fixtures.staged import NOON


def loaded(session: Session, folder: Path, table: str, records: list[Raw]) -> tuple[str, list[dict[str, Any]]]:
    """The proposed file, and the rows that it makes of the records, none of which is quarantined."""
    sample = Sample(table, tuple(SampledRecord(each.key, each.value, NOON) for each in records))
    found = changes_of(sample) or rows_of(sample)
    assert found is not None
    source = found.source(Source("kafka_default", table))
    members = key_members(sample, source.envelope is not None)
    proposal = propose(Wanted(table, f"public.{table}", False), source, found.sample, found.columns, members=members)
    check_proposal(proposal)
    path = folder / f"{table}.yaml"
    path.write_text(proposal.text)
    pipeline = parse_pipeline(path)
    done = commit_raw(session, pipeline, records)
    assert done.total.quarantined == 0, rows(session, "SELECT reasons FROM offset_ledger.quarantine")
    names = ", ".join(f'"{each.name}"' for each in pipeline.record.all_columns)
    stored = rows(session, f"SELECT to_jsonb(t) FROM (SELECT {names} FROM public.{table} ORDER BY 1, 2) AS t")
    return proposal.text, [each[0] for each in stored]


def test_rows_in_the_wrapper_of_a_plain_source_are_exact(session: Session, tmp_path: Path) -> None:
    text, stored = loaded(session, tmp_path, "orders", recorded("connect/rows_wrapped", "shop.orders"))
    for line in (
        "id: {type: bigint, key: $.payload.id}",
        "tiny: {type: smallint, path: $.payload.tiny}",
        "day: {type: date, path: $.payload.day, nullable: true, encoding: epoch_days}",
        "at: {type: time, path: $.payload.at, nullable: true, encoding: ms}",
        "changed: {type: timestamptz, path: $.payload.changed, encoding: epoch_ms}",
        'price: {type: "numeric(12,2)", path: $.payload.price, encoding: unscaled(2)}',
        "rate: {type: numeric, path: $.payload.rate, nullable: true, encoding: unscaled(4)}",
        'days: {type: "date[]", path: $.payload.days, nullable: true, encoding: epoch_days}',
        "labels: {type: jsonb, path: $.payload.labels, nullable: true}",
        "home_no: {type: integer, path: $.payload.home.no, nullable: true}",
        "work_street: {type: text, path: $.payload.work.street, nullable: true}",
    ):
        assert f"    {line}\n" in text, (line, text)
    full = {
        **{"id": 1, "tiny": -7, "small": 300, "name": 'Zürich "x"', "day": "2026-01-01", "at": "12:00:00.123"},
        **{"changed": "2026-01-01T12:00:00.123+00:00", "price": 1234.50, "rate": -0.0001, "raw": "\\x00ff"},
        **{"ratio": 0.1, "active": True, "tags": ["a", "b"], "days": ["1970-01-02"], "prices": [1.0, -2.25]},
        **{"labels": {"x": 1}, "home_street": "Main", "home_no": 5, "work_street": None, "work_no": None},
    }
    empty = dict.fromkeys(full) | {"id": 2**53 + 1, "tiny": 0, "changed": "1970-01-01T00:00:00+00:00", "price": 0}
    assert stored == [full, empty | {"ratio": 1, "active": False}]


@pytest.mark.parametrize("file", ["rewritten_wrapped", "tombstones_wrapped", "rewritten", "tombstones"])
def test_unwrapped_events_give_the_table_that_the_events_give(session: Session, tmp_path: Path, file: str) -> None:
    _, expected = loaded(session, tmp_path, "events", recorded("postgresql_wrapped", "shop.public.customers")[:-1])
    text, stored = loaded(session, tmp_path, "unwrapped", recorded(f"connect/{file}", "shop.public.customers"))
    assert "  publish_at: log\n" in text
    assert "  bookkeeping: beside\n" in text
    assert '  unavailable: "__debezium_unavailable_value"\n' in text
    tombstone = "delete" if file.startswith("tombstones") else "skip"
    assert f"  tombstone: {tombstone}\n" in text
    assert len(stored) == len(expected) > 0
    by_sample = {"id", "region", "email", "credit", "notes", "tags", "ref"}  # what needs no schema
    names = expected[0].keys() if file.endswith("wrapped") else by_sample
    assert [{name: each[name] for name in names} for each in stored] == [
        {name: each[name] for name in names} for each in expected
    ]
