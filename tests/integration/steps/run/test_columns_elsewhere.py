"""Columns of keys, headers, constants, defaults and changed texts, from Kafka to the table and to quarantine and back.

The pipeline file takes its topic from the environment and the rest from its folder.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures.formats import AVRO
from tests.fixtures.topic_bench import TopicBench, quiet

DEFAULTS = """
source: {key_format: json}
record:
  columns:
    source: {type: text, header: source, transform: lower}
    shop: {type: text, value: web}
quality: {max_quarantined_share: 1.0}
"""
ME = Origin("test")
COLUMNS = "event_id, source, shop, customer, amount, paid_at, tags, status, tries"


class Bench(TopicBench):
    """A topic of one partition, and a file whose engine and format a test may change."""

    TEMPLATE = """
pipeline: orders
source: {{topic: '${{ORDERS_TOPIC}}'{source}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  tombstone: skip
  delete_when: {{path: $.note, equals: gone}}
  columns:
    customer: {{type: bigint, key: $.customer}}
    amount: {{type: "numeric(12,2)", coerce: true, transform: trim, nullable: true}}
    paid_at: {{type: timestamptz, encoding: epoch_ms, coerce: true, nullable: true}}
    tags: {{type: jsonb, split: ",", nullable: true}}
    status: {{type: text, default: new}}
    tries: {{type: smallint, header: tries, default: {tries}}}
target: {{table: orders}}
stage: {{engine: {engine}}}
"""
    DEFAULTS = MappingProxyType({"source": "", "engine": "process", "tries": "1"})

    def send(self, *records: tuple[bytes | None, bytes | None, dict[str, bytes]]) -> None:
        self.publish(
            *(
                Record(key, value, tuple(headers.items()), 1000 + n, 0)
                for n, (key, value, headers) in enumerate(records)
            )
        )


@pytest.fixture
def bench(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    (tmp_path / "_defaults.yaml").write_text(DEFAULTS)
    monkeypatch.setenv("ORDERS_TOPIC", bench.topic)
    return bench


def order(event_id: str, **more: Any) -> bytes:
    return json.dumps({"id": event_id, **more}).encode()


WEB = {"source": b"WEB"}
KEY = b'{"customer": 7}'


@pytest.mark.parametrize("engine", ["process", pytest.param("spark", marks=pytest.mark.full)])
def test_rows_have_what_is_not_in_their_value_and_a_refused_record_keeps_it(bench: Bench, engine: str) -> None:
    bench.settings["engine"] = engine
    bench.send(
        (KEY, order("a", amount=" 12.5", paid_at="1767268800123", tags="x,y", status="paid"), {**WEB, "tries": b"3"}),
        (KEY, order("b", amount=7), WEB),
        (KEY, order("c", amount="1,50"), WEB),
        (KEY, order("d"), {}),
        (b"no JSON", order("e"), WEB),
        (None, order("f"), WEB),
        (KEY, order("g"), {**WEB, "tries": b"many"}),
        (None, order("b", note="gone"), {}),
        (b"x", None, {}),
    )
    bench.ingest()

    paid = datetime(2026, 1, 1, 12, 0, 0, 123_000, UTC)
    known = {
        "a": ("web", "web", 7, 12.5, paid, ["x", "y"], "paid", 3),
        "b": (None, None, None, None, None, None, None, None),
    }
    assert {row[0]: row[1:] for row in bench.rows(COLUMNS)} == known
    reasons = rows(
        bench.session,
        "SELECT q.value, r->>'path', r->>'code' FROM offset_ledger.quarantine AS q, jsonb_array_elements(reasons) AS r",
    )
    assert {(json.loads(bytes(row[0]))["id"], row[1], row[2]) for row in reasons} == {
        ("c", "$.amount", "format"),
        ("d", "_headers.source", "missing"),
        ("e", "_key", "syntax"),
        ("f", "_key", "missing"),
        ("g", "_headers.tries", "format"),
    }
    bench.agree()

    text = bench.TEMPLATE.replace("smallint, header: tries", "text, header: tries").replace("{tries}", '"1"')
    bench.session.cursor().execute("ALTER TABLE public.orders ALTER tries TYPE text")
    bench.session.commit()
    type(bench).TEMPLATE, before = text, bench.TEMPLATE
    try:
        planned = plan_redrive(bench.pipeline, parse_choice(reason="format"), ME, "tries are words")
        run_batch(bench.pipeline, planned, ME, quiet)
    finally:
        type(bench).TEMPLATE = before
    assert ("g", "web", "web", 7, None, None, None, "new", "many") in bench.rows(COLUMNS)


def test_a_key_in_avro_has_columns(bench: Bench, registry_connection: Connection) -> None:
    registry = connect_registry(registry_connection)
    key_schema = '{"type": "record", "name": "K", "fields": [{"name": "customer", "type": "long"}]}'
    of_key = registry.register(f"{bench.topic}-key", AVRO.language, key_schema)
    of_value = registry.register(f"{bench.topic}-value", AVRO.language, AVRO.schema(1))
    bench.settings["source"] = ", key_format: avro, format: avro, registry: registry_default"
    value = b"\0" + of_value.to_bytes(4, "big") + AVRO.encode(1, {"id": "a", "amount": 5})
    bench.send((b"\0" + of_key.to_bytes(4, "big") + b"\x0e", value, WEB), (b"\0\0", value, WEB))
    bench.ingest()
    assert bench.rows("event_id, customer, amount, status") == [("a", 7, 5, "new")]
    assert compare_with_topic(bench.pipeline).violations == ()
