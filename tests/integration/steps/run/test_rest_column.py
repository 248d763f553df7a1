"""Values under earlier names and ``_rest``, from Kafka to the table: merged, redriven and compared with the topic."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from offset_ledger.model.batch import Origin
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures.formats import AVRO
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
AT = 1_767_268_800_000  # milliseconds


class Bench(TopicBench):
    """A topic of one partition, and a file whose columns, format and rest a test may change."""

    TEMPLATE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}{source}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  rest: {rest}
  columns:
    amount: {amount}
target: {{connection: postgres_default, table: public.orders, evolve: add_columns}}
quality: {{max_quarantined_share: 1.0}}
"""
    DEFAULTS = MappingProxyType({"source": "", "rest": "true", "amount": "{type: bigint, nullable: true}"})

    def send(self, *values: bytes) -> None:
        self.publish(*(Record(None, value, (), AT + n, 0) for n, value in enumerate(values)))

    def table(self) -> dict[str, tuple[Any, Any]]:
        return {event_id: (amount, rest) for event_id, amount, rest in self.rows("event_id, amount, _rest")}


def order(event_id: str, **more: Any) -> bytes:
    return json.dumps({"id": event_id, **more}).encode()


def test_documents_of_before_and_after_a_rename_with_all_that_is_left(bench: Bench) -> None:
    bench.settings |= {"rest": "false", "amount": "{type: bigint, path: $.total}"}
    bench.send(order("a", total=1, note="first"))
    bench.ingest()
    bench.settings |= {"rest": "true", "amount": "{type: bigint, path: $.amount, aliases: [$.total]}"}
    late = order("e", place={"zip": 1, "city": "\0"}, amount=5)
    bench.send(
        order("b", total=2, note="old"),
        order("c", amount=3, total=9, place={"zip": 1, "lines": [1.50, None]}),
        order("d", amount=4),
        late,
        order("f", sum=7),
    )
    bench.ingest()

    place = {"zip": 1, "lines": [1.5, None]}
    known = {
        "a": (1, None),
        "b": (2, {"note": "old"}),
        "c": (3, {"total": 9, "place": place}),
        "d": (4, None),
    }
    assert bench.table() == known
    reasons = rows(
        bench.session, "SELECT value, reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine"
    )
    assert {(bytes(row[0]), row[1], row[2]) for row in reasons} == {
        (late, "$.place", "nul"),
        (order("f", sum=7), "$.amount", "missing"),
    }
    changes = rows(bench.session, "SELECT clause FROM offset_ledger.target_change")
    assert [row[0] for row in changes] == ["ADD COLUMN _rest jsonb"]

    bench.settings["amount"] = "{type: bigint, path: $.amount, aliases: [$.total, $.sum]}"
    planned = plan_redrive(bench.pipeline, parse_choice(reason="missing"), ME, "a third name")
    run_batch(bench.pipeline, planned, ME, quiet)
    assert bench.table() == known | {"f": (7, None)}


def test_everything_equals_the_topic_and_a_newer_record_replaces_the_rest(bench: Bench) -> None:
    bench.settings["amount"] = "{type: bigint, path: $.amount, aliases: [$.total]}"
    bench.send(order("a", total=1, x=1), order("b", amount=2, y={"deep": [1e3, "é"]}), order("c", amount=3, z=None))
    bench.ingest()
    bench.send(order("a", amount=4), order("b", total=5, amount=6))
    bench.ingest()
    assert bench.table() == {"a": (4, None), "b": (6, {"total": 5}), "c": (3, {"z": None})}
    bench.agree()


def test_avro_records_of_two_schemas(bench: Bench, registry_connection: Connection) -> None:
    registry = connect_registry(registry_connection)
    first, second = (registry.register(f"{bench.topic}-value", AVRO.language, AVRO.schema(n)) for n in (1, 2))
    bench.settings |= {
        "source": ", format: avro, registry: registry_default",
        "amount": "{type: text, nullable: true, path: $.note, aliases: [$.kind]}",
    }
    bench.send(
        b"\0" + first.to_bytes(4, "big") + AVRO.encode(1, {"id": "a", "amount": 1}),
        b"\0" + second.to_bytes(4, "big") + AVRO.encode(2, {"id": "b", "amount": None, "note": "x"}),
    )
    bench.ingest()
    assert bench.table() == {"a": (None, {"amount": 1}), "b": ("x", {"amount": None})}
    bench.agree()
