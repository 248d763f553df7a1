"""Hostile and rule-breaking events, from Kafka through Spark: each in quarantine with its reason, or in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.run.ingest import ingest, run_batch
from offset_ledger.steps.run.redrive import plan_redrive
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.topic_bench import quiet

PIPELINE = """
pipeline: events
source: {{connection: kafka_default, topic: {topic}}}
record:
  event_id: $.id
  publish_at: $.at
  columns:
    state: text
    amount: {{type: "numeric(12,2)", nullable: true}}
    doc: {{type: jsonb, nullable: true}}
target: {{connection: postgres_default, table: public.events}}
quality: {{suite: events, max_quarantined_share: 1.0}}
limits: {{value_bytes: 300000}}
stage: {{engine: process}}
"""
RULE = "expect_column_values_to_be_in_set"


def event(more: str = "", event_id: str = "x", state: str = "new") -> bytes:
    text = f'{{"id":"{event_id}","at":"2026-01-01T12:00:00Z","state":"{state}"{more}}}'
    return text.encode("utf-8", "surrogatepass")


HOSTILE: list[tuple[bytes | None, list[str]]] = [
    *((value, ["syntax"]) for value in (b"", b" ", b"NaN", b"{", b"\x00")),
    (b"null", ["tombstone"]),
    *((value, ["type"]) for value in (b"true", b"1", b'"text"', b"[]", b"[{}]", b"[" * 100_000)),
    (None, ["tombstone"]),
    (b"{}", ["missing", "missing", "missing"]),
    (b'{"id":true,"at":1,"state":[]}', ["type", "type", "type"]),
    *((event()[:cut], ["syntax"]) for cut in (20, 40, -1)),
    *((event() + tail, ["syntax"]) for tail in (b"}", b"\x00", event())),
    (b"\xef\xbb\xbf" + event(), ["syntax"]),
    *((value, ["encoding"]) for value in (b"\xff\xfe" + event(), event().decode().encode("utf-16"))),
    *((event(more), ["syntax"]) for more in (',"amount":NaN', ',"amount":-Infinity', ",'z':1", ',"z":01', ',"z":tru')),
    *((event(f',"amount":{number}'), ["range"]) for number in ("1e400", "1e99999999999", "9" * 5000)),
    *((event(f',"doc":{number}'), ["range"]) for number in ("9" * 200_000, "1e200000", "[1e-16384]")),
    *((event(more), ["duplicate_key"]) for more in (',"id":"y"', ',"doc":{"a":1,"a":2}', ',"doc":{"b":1,"\\u0062":2}')),
    *((event(f',"{name}":' + "[" * deep + "]" * deep), ["depth"]) for name, deep in (("doc", 600), ("z", 100_000))),
    (b'{"a":' * 50_000, ["depth"]),
    *((event(f',"{name}":"\\ud800"'), ["encoding"]) for name in ("doc", "z")),
    (event(',"doc":"\ud800"'), ["encoding"]),
    (event(',"doc":"\\u0000"'), ["nul"]),
    (event(f',"doc":"{"x" * 300_000}"'), ["too_large"]),
    (event(',"amount":1.005'), ["precision"]),
    (event(',"amount":"1"'), ["type"]),
    (event("", "e", "lost"), [RULE]),
]
FIXED = [(event(',"doc":{"deep":[1,2]}', f"f{n}", "paid"), [RULE]) for n in range(3)]
GOOD = [
    event(more, f"g{n}") for n, more in enumerate(("", ',"z":"\\u0000"', ',"Id":"y"', ',"doc":[[[]]],"amount":1e2'))
]

Place = tuple[int, int]


def quarantine(session: Session) -> dict[Place, tuple[bytes | None, list[str]]]:
    query = 'SELECT partition, "offset", value, reasons FROM offset_ledger.quarantine WHERE resolved_by IS NULL'
    return {
        (r[0], r[1]): (None if r[2] is None else bytes(r[2]), [each["code"] for each in r[3]])
        for r in rows(session, query)
    }


def table(session: Session) -> Counter[Place]:
    return Counter((row[0], row[1]) for row in rows(session, "SELECT _partition, _offset FROM public.events"))


def test_every_produced_record_is_in_the_table_or_in_quarantine_for_its_own_reason(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, me = topic_name(), Origin("test")
    create_topic(dict(servers.kafka.extra), topic, 2, 1)
    produced: dict[Place, tuple[bytes | None, list[str]]] = {}
    reasons = dict([*HOSTILE, *FIXED, *((value, []) for value in GOOD)])
    records = [Record(b"k", value, partition=n % 2) for n, value in enumerate(reasons)]
    publish(
        records,
        dict(servers.kafka.extra),
        topic,
        on_ack=lambda record, p, offset: produced.update({(p, offset): (record.value, reasons[record.value])}),
    )
    (tmp_path / "events.yaml").write_text(PIPELINE.format(topic=topic))
    pipeline = parse_pipeline(tmp_path / "events.yaml")
    write_suite(tmp_path, in_set("quarantine", "state", "new"), name="events")
    refused = {place: found for place, found in produced.items() if found[1]}
    with connect(servers.postgres) as session:
        (done,) = ingest(pipeline, me, True, quiet)
        assert len(produced) == len(reasons) == len(HOSTILE) + len(FIXED) + len(GOOD)
        assert quarantine(session) == refused
        assert table(session) == Counter(produced.keys() - refused.keys())
        assert (done.committed.total.quarantined, done.committed.total.gap) == (len(refused), 0)

        write_suite(tmp_path, in_set("quarantine", "state", "new", "paid"), name="events")
        redriven = run_batch(pipeline, plan_redrive(pipeline, RedriveChoice(), me), me, quiet).committed
        fixed = {place for place, (value, _) in refused.items() if value in [each for each, _ in FIXED]}
        assert quarantine(session) == {place: found for place, found in refused.items() if place not in fixed}
        assert table(session) == Counter((produced.keys() - refused.keys()) | fixed)
        assert (redriven.total.inserted, redriven.total.quarantined) == (len(FIXED), len(refused) - len(FIXED))
        assert verify(pipeline)[0] == []
        docs = rows(session, "SELECT doc FROM public.events WHERE _batch_id = %s", [redriven.batch.batch_id])
        assert [row[0] for row in docs] == [{"deep": [1, 2]}] * len(FIXED)
