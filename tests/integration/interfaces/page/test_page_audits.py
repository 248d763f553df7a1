"""The routes of the audits on a real ledger; the audits are written down by the audit itself, rights are given."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.batch import Origin
from offset_ledger.operations.audit.rules import RULES
from offset_ledger.operations.audit.run import audit_pipeline
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.asgi import Client
from tests.fixtures.audited import audited
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAGS = frozenset({"ingest_orders", "ingest_flights", "audit_topics"})
FULL = Rights(readable=DAGS, triggerable=DAGS, existing=DAGS, import_errors=True)
RUN = Origin("airflow:audit_topics.audit_orders", "audit_topics", "scheduled__1")
PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {name}.events}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{dead_letter_topic: {name}.dead}}
"""


def at(days: float) -> datetime:
    return NOON + timedelta(days=days)


@dataclass
class Bench:
    """The pipelines orders and flights, and what the page answers about their audits."""

    session: Session
    folder: Path

    def client(self, rights: Rights = FULL) -> Client:
        return Client(create_app(lambda: rights, partial(read_pipelines, self.folder)))

    def get(self, path: str, rights: Rights = FULL) -> Any:
        answer = self.client(rights).get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()

    def audited(self, days: float, origin: Origin = ME, /, **said: str) -> None:
        """One audit of orders' own topic, so many days after noon."""
        audited(self.session, "orders", "orders.events", at(days), said, origin)

    def newest(self, query: str = "") -> Any:
        """All that the newest audit of a topic of orders said."""
        found = self.get(f"/api/pipelines/orders/audits?limit=1{query}")["audits"][0]
        return self.get(f"/api/pipelines/orders/audits/{found['audit_id']}")

    def times(self, query: str = "") -> tuple[list[datetime], str | None]:
        """When the audits of a page were made, and what to ask below."""
        found = self.get(f"/api/pipelines/orders/audits?{query}")
        return [datetime.fromisoformat(each["audited_at"]) for each in found["audits"]], found["before"]


@pytest.fixture
def bench(postgres: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bench]:
    monkeypatch.setenv(environment_name(postgres.conn_id), postgres.to_json())
    for name in ("orders", "flights"):
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    with connect(postgres) as session:
        yield Bench(session, tmp_path)


def results(audit: Any) -> dict[str, tuple[Any, ...]]:
    """By rule: severity, change, what it was, and the days since which it is so."""
    days = {
        each["rule"]: each["since"] and (datetime.fromisoformat(each["since"]) - NOON).days for each in audit["rules"]
    }
    return {r["rule"]: (r["severity"], r["change"], r["was"], days[r["rule"]]) for r in audit["rules"]}


def test_each_finding_is_new_still_there_since_or_gone(bench: Bench) -> None:
    bench.audited(0, a="ok", b="error", c="warning", d="warning", e="info")
    bench.audited(1, RUN, a="error", b="ok", c="warning", d="error", f="ok")
    second = bench.newest()
    assert results(second) == {
        "a": ("error", "new", "ok", 1),
        "d": ("error", "worse", "warning", 0),
        "c": ("warning", "still", "warning", 0),
        "b": ("ok", "gone", "error", 1),
        "f": ("ok", None, None, 1),
        "e": (None, "gone", "info", None),
    }
    assert list(results(second)) == ["a", "d", "c", "b", "f", "e"]  # the worst first
    shown = {name: second["rules"][0][name] for name in ("found", "risk", "remedy")}
    assert shown == {"found": "a is error", "risk": "the risk of a", "remedy": "mend a"}
    assert (second["who"], second["dag_id"], second["run_id"]) == (RUN.who, RUN.dag_id, RUN.run_id)
    assert (second["topic"], second["own"]) == ("orders.events", True)
    one, two = reversed(bench.get("/api/pipelines/orders/audits")["audits"])
    assert (one["changes"], one["who"], one["run_id"]) == (None, "test", None)
    assert one["counts"] == {"error": 1, "warning": 2, "info": 1, "ok": 1}
    assert two["changes"] == {"new": ["a"], "worse": ["d"], "still": ["c"], "gone": ["b", "e"]}
    first = results(bench.get(f"/api/pipelines/orders/audits/{one['audit_id']}"))
    assert {rule: (change, days) for rule, (_, change, _, days) in first.items()} == dict.fromkeys("abcde", (None, 0))


def test_an_audit_of_a_real_topic_is_shown_with_the_run_that_made_it(
    bench: Bench, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"p{uuid.uuid4().hex[:12]}"
    (bench.folder / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    create_topic(dict(servers.kafka.extra), f"{name}.events", 1, 1, {"retention.bytes": "1000000000"})
    run = {"DAG_ID": "audit_topics", "DAG_RUN_ID": "manual__1", "TASK_ID": f"audit_{name}"}
    for key, value in run.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{key}", value)
    done = audit_pipeline(parse_pipeline(bench.folder / f"{name}.yaml"))
    rights = replace(FULL, readable=frozenset({f"ingest_{name}"}))
    (shown,) = bench.get("/api/audits", rights)["pipelines"]
    newest = shown["topics"][0]["newest"]
    assert (newest["dag_id"], newest["run_id"], newest["changes"]) == ("audit_topics", "manual__1", None)
    rules = bench.get(f"/api/pipelines/{name}/audits/{newest['audit_id']}", rights)["rules"]
    names = ("rule", "severity", "found", "risk", "remedy")
    assert {tuple(each[name] for name in names) for each in rules} == {
        (f.rule, f.severity.value, f.found, f.risk, f.remedy) for f in done.findings
    }
    assert {each["rule"] for each in rules} == {rule.name for rule in RULES}


def test_a_rule_is_so_since_the_first_audit_in_a_row_that_said_so(bench: Bench) -> None:
    draw = random.Random(7)
    said = [{rule: draw.choice(["ok", "ok", "warning", "error"]) for rule in "abcdefgh"} for _ in range(12)]
    for day, each in enumerate(said):
        bench.audited(day, **each)

    def since(rule: str, day: int) -> int:
        fine = said[day][rule] == "ok"
        return day + 1 - len(list(takewhile(lambda d: (said[d][rule] == "ok") is fine, range(day, -1, -1))))

    for day, audit in enumerate(reversed(bench.get("/api/pipelines/orders/audits")["audits"])):
        whole = results(bench.get(f"/api/pipelines/orders/audits/{audit['audit_id']}"))
        assert {rule: days for rule, (_, _, _, days) in whole.items()} == {
            rule: since(rule, day) for rule in "abcdefgh"
        }


def test_a_thousand_audits_come_in_pages_and_by_severity_and_rule(bench: Bench) -> None:
    wrong = {day: "error" if day % 3 else "warning" for day in range(0, 1000, 7)}
    for day in range(1000):
        bench.audited(day, RUN, a=wrong.get(day, "ok"), b="ok" if day % 2 else "info")
    listed: list[datetime] = []
    below: str | None = ""
    while below is not None:
        found, before = bench.times(f"limit=200{below}")
        listed += found
        below = f"&before={before.replace('+', '%2B')}" if before else None
    assert listed == [at(day) for day in reversed(range(1000))]

    def days(query: str) -> set[int]:
        return {(found - NOON).days for found in bench.times(f"limit=200&{query}")[0]}

    assert days("rule=a") == set(wrong)
    assert days("rule=a&severity=error") == {day for day, severity in wrong.items() if severity == "error"}
    assert days("severity=error") == days("rule=a&severity=error")
    assert days("rule=b&severity=error") == set()
    fine = [day for day in range(1000) if day not in wrong]
    assert days("rule=a&severity=ok") == set(fine[-200:])
    # What changed is told from the audit just before, which the filter leaves out, and not from the next one shown.
    (one,) = bench.get("/api/pipelines/orders/audits?limit=1&rule=a&severity=error")["audits"]
    assert (one["audited_at"], one["changes"]) == (at(994).isoformat().replace("+00:00", "Z"), {"new": ["a", "b"]})


def test_the_topics_of_a_pipeline_are_distinguished(bench: Bench) -> None:
    (flights, orders) = bench.get("/api/audits")["pipelines"]
    assert [(each["topic"], each["own"], each["newest"]) for each in orders["topics"]] == [
        ("orders.events", True, None)
    ]
    bench.audited(0, a="ok")
    for pipeline, topic, rule in (
        (None, "orders.events", "alone"),
        (None, "orders.dead", "dead"),
        ("orders", "orders.before", "before"),
        ("flights", "flights.events", "theirs"),
        (None, "strange", "strange"),
    ):
        audited(bench.session, pipeline, topic, at(1), {rule: "error"})
    (flights, orders) = bench.get("/api/audits")["pipelines"]
    series = [(each["topic"], each["own"]) for each in orders["topics"]]
    assert series == [
        ("orders.events", True),
        ("orders.events", False),
        ("orders.dead", False),
        ("orders.before", True),
    ]
    assert [(each["topic"], each["own"]) for each in flights["topics"]] == [("flights.events", True)]
    said = [list(results(bench.newest(f"&topic={topic}&own={own}"))) for topic, own in series]
    assert said == [["a"], ["alone"], ["dead"], ["before"]]


def test_the_button_is_for_those_who_may_trigger_the_audit(bench: Bench) -> None:
    assert bench.get("/api/audits")["action"] == {"dag_id": "audit_topics", "blocked_reason": None}
    looking = replace(FULL, triggerable=frozenset({"ingest_orders"}))
    assert bench.get("/api/audits", looking)["action"]["blocked_reason"] == "you may not trigger audit_topics"


def test_a_user_sees_only_audits_of_pipelines_whose_dag_they_may_read(bench: Bench) -> None:
    bench.audited(0, a="error")
    ids: dict[str | None, int] = {}
    for pipeline, topic in ((None, "orders.events"), ("flights", "flights.events"), (None, "flights.events")):
        audited(bench.session, pipeline, topic, at(0), {"a": "error"})
    for audit_id, pipeline, topic in rows(
        bench.session, "SELECT audit_id, pipeline, topic FROM offset_ledger.topic_audit"
    ):
        ids[f"{pipeline} {topic}"] = audit_id
    theirs = replace(FULL, readable=frozenset({"ingest_flights"}), import_errors=False)

    def status(path: str, rights: Rights) -> int:
        return bench.client(rights).get(path).status_code

    paths = [
        "/api/pipelines/orders/audits",
        "/api/pipelines/orders/audits?own=false",
        f"/api/pipelines/orders/audits/{ids['orders orders.events']}",
        f"/api/pipelines/orders/audits/{ids['None orders.events']}",
    ]
    assert {path: status(path, FULL) for path in paths} == dict.fromkeys(paths, 200)
    assert {path: status(path, theirs) for path in paths} == dict.fromkeys(paths, 404)
    assert [each["name"] for each in bench.get("/api/audits", theirs)["pipelines"]] == ["flights"]
    # Nor does a pipeline that one may read lead to the audits of another, or of a topic that is not the pipeline's.
    for path in (
        f"/api/pipelines/orders/audits/{ids['flights flights.events']}",
        f"/api/pipelines/orders/audits/{ids['None flights.events']}",
        "/api/pipelines/orders/audits?own=false&topic=flights.events",
    ):
        assert (path, status(path, FULL)) == (path, 404)
    assert bench.times("topic=flights.events") == ([], None)


@pytest.mark.parametrize(
    "query",
    ["topic=a%00b", "topic=", "rule=A%20b", "severity=bad", "before=2026-11-21T12:00:00", "limit=0", "limit=201"],
)
def test_what_is_asked_wrongly_is_refused_in_words(bench: Bench, query: str) -> None:
    answer = bench.client().get(f"/api/pipelines/orders/audits?{query}")
    assert (answer.status_code, [each["loc"][1] for each in answer.json()["detail"]]) == (422, [query.split("=")[0]])


def test_without_the_ledger_the_page_says_what_is_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads(os.environ[environment_name("postgres_default")])
    away = {**known, "host": "127.0.0.1", "port": free_ports(1)[0], "password": "hunter2"}
    monkeypatch.setenv(environment_name("postgres_default"), json.dumps(away))
    found = bench.get("/api/audits")["pipelines"]
    assert {each["name"]: each["topics"] for each in found} == {"orders": [], "flights": []}
    assert all("is not available" in each["ledger_problem"] for each in found)
    answer = bench.client().get("/api/pipelines/orders/audits")
    assert (answer.status_code, answer.json()["error"]) == (503, "DatabaseUnavailable")
    assert "hunter2" not in answer.text + json.dumps(found)


def test_nothing_can_be_written(bench: Bench) -> None:
    paths = ("/audit", "/api/audits", "/api/pipelines/orders/audits", "/api/pipelines/orders/audits/1")
    asked = [(method, path) for method in ("POST", "PUT", "PATCH", "DELETE") for path in paths]
    assert {bench.client().request(method, path).status_code for method, path in asked} == {405}
