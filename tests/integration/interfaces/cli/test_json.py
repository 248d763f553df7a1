"""The shape of ``--json``: keys and types of each verb that reads; a key that is there stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers, execute
from tests.paths import ROOT

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{amount: integer}}}}
target: {{connection: postgres_default, table: public.orders}}
"""
VALUE = b'{"id": "%s", "at": "2026-01-31T12:00:00Z", "amount": %s}'


def shape(value: Any) -> Any:
    """Its keys and types; of a list the first element, of a mapping by partition or pipeline any."""
    match value:
        case dict():
            return {("*" if key.isdecimal() else key): shape(each) for key, each in value.items()}
        case list():
            return [shape(each) for each in value[:1]]
        case str() if len(value) > 18 and value[10] == "T" and datetime.fromisoformat(value).tzinfo:
            return "time"
    return None if value is None else type(value).__name__


HEAD = {
    "id": "int",
    "kind": "str",
    "state": "str",
    "epoch": "int",
    "offsets": "int",
    "planned_at": "time",
    "decisions": ["str"],
    "reasons": ["str"],
}
STATUS = {
    "pipeline": "str",
    "partitions": [
        {
            **dict.fromkeys(
                ("partition", "log_start", "cursor", "last_stable", "high_watermark", "lag", "lost"), "int"
            ),
            "cut_off": "bool",
        }
    ],
    "open_batch": "str",
    "dead_letters_waiting": "int",
    "waits_for": "str",
    "remerge": None,
    "retired": None,
    "state": "str",
    "lag": "int",
    "head": HEAD,
}
OVERVIEW = {
    "pipeline": "str",
    "state": "str",
    "lag": "int",
    "newest_record": None,
    "open_batch": "str",
    "quarantined": "int",
    "blocked_by": "str",
    "error": None,
    "retired": None,
    "lost": "int",
    "head": HEAD,
}
PREVIEW = {
    **{"pipeline": "str", "topic": "str", "note": "str", "from": {"*": "int"}, "records": "int", "skipped": "int"},
    "notes": [],
    "rows": [
        {"partition": "int", "offset": "int", "event_id": "str", "publish_at": "time", "schema_id": None}
        | {"key": {"event_id": "str"}, "deleted": "bool", "columns": {"amount": "int"}}
    ],
    "refusals": [
        {"partition": "int", "offset": "int", "schema_id": None, "value_base64": "str"}
        | {"reasons": [{"path": "str", "code": "str", "detail": "str"}]}
    ],
}
DRY_RUN = {
    **{"kind": "str", "notes": "str", "offsets": "int", "committed": "int"},
    "ranges": [
        dict.fromkeys(("partition", "from", "until", "offsets", "committed"), "int") | {"batches": []},
    ],
}
COUNTS = dict.fromkeys(
    ("inserted", "updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap"), "int"
)
INGESTED = {
    **{"batch_id": "int", "pipeline": "str", "kind": "str", "state": "str", "engine": "str"},
    **{"counts": COUNTS, "partitions": {"*": COUNTS}},
    "seconds": dict.fromkeys(("plan", "validate", "commit", "mirror", "report"), "float"),
}
BATCH = {
    **{"batch_id": "int", "kind": "str", "state": "str", "epoch": "int", "engine": "str", "engine_reason": "str"},
    **{"offsets": "int", "planned_at": "time", "ended_at": "time", **COUNTS},
}
VERIFIED = {
    **{"violations": [], "violated": [], "topic_violated": [], "checked": "int", "notes": []},
    **{"gaps": [], "gap_ranges": [], "unreadable": [], "records": "int", "read_again": [["int"]]},
}
AUDIT = {
    **{"pipeline": "str", "topic": "str", "audited_at": "time", "previous_at": None, "changes": []},
    "findings": [dict.fromkeys(("rule", "severity", "found", "risk", "remedy"), "str")],
}
DIFF = {
    **{"pipeline": "str", "differs": "bool", "schemas": [], "notes": ["str"]},
    "lines": [dict.fromkeys(("path", "schema", "column", "file", "table"), "str") | {"marks": []}],
}
FINDING = dict.fromkeys(("subject", "level", "found", "remedy"), "str")


def test_the_page_of_the_command_line_has_every_key() -> None:
    _, _, page = (ROOT / "docs/command-line.md").read_text().partition("## JSON\n")
    shapes = (HEAD, STATUS, OVERVIEW, PREVIEW, DRY_RUN, INGESTED, BATCH, VERIFIED, AUDIT, DIFF, FINDING)
    assert {key for each in shapes for key in each if f"`{key}`" not in page} <= set(COUNTS)


def test_keys_and_types(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    publish([Record(None, VALUE % (b"a", b"1")), Record(None, VALUE % (b"b", b'"x"'))], servers.kafka.extra, topic)
    (tmp_path / "dags/pipelines").mkdir(parents=True)
    (tmp_path / "dags/pipelines/orders.yaml").write_text(PIPELINE.format(topic=topic))
    monkeypatch.chdir(tmp_path)

    def asked(*arguments: str, code: int | None = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json"]) in ((0, 1) if code is None else (code,))
        return json.loads(capsys.readouterr().out)

    checked = dict.fromkeys(("pipeline", "config_hash", "topic", "table"), "str")
    assert shape(asked("check", "orders")) == checked | {"notes": []}
    assert shape(asked("check", "orders", "--data")) == PREVIEW
    assert shape(asked("ingest", "orders", "--dry-run")) == DRY_RUN
    assert shape(asked("ingest", "orders", code=3)) == {"error": "str", "message": "str"}

    status = asked("status", "orders")
    assert shape(status) == STATUS
    assert (status["head"]["id"], status["head"]["state"], status["lag"]) == (1, "rejected", 2)
    assert status["head"]["decisions"] == ["approve", "abandon"]
    assert shape(asked("status")) == [OVERVIEW]
    rejected = asked("quarantine", "list", "orders")["rejected"]
    assert set(rejected) == {"batch", "waits_for", "refused", "head"}
    assert shape(rejected["head"]) == HEAD

    assert shape(asked("batch", "approve", "1", "--why", "as they are")) == {"batch_id": "int", "state": "str"}
    assert shape(asked("ingest", "orders")) == [INGESTED]
    assert asked("ingest", "orders") == []
    assert shape(asked("batch", "list", "orders")) == [BATCH]
    shown = asked("batch", "show", "1")
    assert (shown["batch_id"], shown["state"], shown["ranges"][0]["quarantined"]) == (1, "committed", 1)
    assert [each["to_state"] for each in shown["events"]][-3:] == ["rejected", "validated", "committed"]
    assert shape(asked("verify", "orders", "--deep", "--against-topic")) == VERIFIED
    execute(servers.postgres, "UPDATE public.orders SET amount = 2")
    verified = asked("verify", "orders", "--against-topic", code=1)
    assert (verified["violated"], verified["topic_violated"]) == ([], [2])
    execute(servers.postgres, "DELETE FROM public.orders")
    verified = asked("verify", "orders", "--against-topic", code=1)
    assert (verified["violated"], verified["topic_violated"]) == ([11], [1])
    assert shape(asked("check", "orders", "--schema")) == DIFF
    assert shape(asked("kafka", "audit", "orders")) == AUDIT
    doctor = asked("check", "orders", "--system", code=None)  # 1 where this machine lacks something
    assert {each["level"] for each in doctor} <= {"ok", "warning", "problem", "skipped"}
    assert shape([each for each in doctor if each["remedy"]]) == [FINDING]
