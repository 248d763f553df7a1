"""Who gets what from the ledger page inside Airflow's own API server, with its own logins and rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.audited import audited
from tests.fixtures.servers import Servers
from tests.fixtures.staged import NOON, a_pipeline, planned
from tests.paths import ROOT

SECRET = "hunter2-of-the-broker"
USERS = {"reader": "viewer", "worker": "user", "boss": "admin", "limited": "user"}
PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: orders}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
"""
BUTTONS = ("trigger", "audit now")
ESCAPES = (
    "..%2fsecret.html",
    "orders%2f..%2f..%2fsecret.html",
    "%2e%2e/secret.html",
    "orders/link.html",
    "%2fetc/passwd",
)


@dataclass(frozen=True)
class Asked:
    """The answers by user and path, and all that the process wrote."""

    status: dict[str, dict[str, int]]
    text: dict[str, dict[str, str]]
    views: list[dict[str, Any]]
    written: str


@pytest.fixture
def asked(servers: Servers, tmp_path: Path) -> Asked:
    with connect(servers.postgres) as session:
        batch_id = planned(session, a_pipeline(), [OffsetRange(0, 0, 5)])
        audited(session, "orders", "orders", NOON, {"a": "error"})
        (audit_id,) = rows(session, "SELECT audit_id FROM offset_ledger.topic_audit")[0]
    _files(tmp_path, batch_id)
    site = "/offset-ledger"
    paths = [
        *("/", "/static/page.js", "/api/pipelines", "/api/pipelines/orders", "/api/pipelines/orders/batches"),
        *(f"/api/pipelines/orders/batches/{batch_id}", "/api/pipelines/orders/history", "/reports/orders/1.html"),
        *("/api/pipelines/orders/completeness", "/api/pipelines/orders/quarantine"),
        *("/audit", "/static/audit.js", "/api/audits", "/api/pipelines/orders/audits"),
        *(f"/api/pipelines/orders/audits/{audit_id}", "/api/pipelines/orders/audits?own=false"),
        *(f"/reports/{path}" for path in ESCAPES),
    ]
    wanted = [["GET", site + path, None] for path in paths]
    trigger, audit = (f"/api/v2/dags/{dag_id}/dagRuns" for dag_id in ("ingest_orders", "audit_topics"))
    body, nothing = ({"logical_date": None, "conf": conf} for conf in ({"action": "next"}, {}))
    asked = {
        "connections": [_postgres(servers.postgres)],
        "users": list(USERS),
        "requests": [*wanted, ["POST", trigger, body], ["POST", audit, nothing]],
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.fixtures.airflow_app", str(tmp_path / "answers.json")],
        cwd=ROOT,
        env=_environment(tmp_path),
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "answers.json").read_text())
    names = [*paths, *BUTTONS]
    by_user = {user: dict(zip(names, each, strict=True)) for user, each in found["answers"].items()}
    status = {user: {path: answer["status"] for path, answer in each.items()} for user, each in by_user.items()}
    text = {user: {path: answer["text"] for path, answer in each.items()} for user, each in by_user.items()}
    return Asked(status, text, found["views"], done.stdout + done.stderr + json.dumps(found))


def _files(folder: Path, batch_id: int) -> None:
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "orders.yaml").write_text(PIPELINE)
    (folder / "reports" / "orders").mkdir(parents=True)
    (folder / "reports" / "orders" / "1.html").write_text(f"<p>batch {batch_id}</p>")
    (folder / "secret.html").write_text("a file outside the reports")
    (folder / "reports" / "orders" / "link.html").symlink_to(folder / "secret.html")
    (folder / "passwords.json").write_text(json.dumps({user: f"password of {user}" for user in USERS}))


def _postgres(connection: Connection) -> dict[str, Any]:
    """The ledger's connection as Airflow's own metadata keep it."""
    names = ("conn_id", "conn_type", "host", "port", "schema", "login", "password")
    return {**{name: getattr(connection, name) for name in names}, "extra": json.dumps(dict(connection.extra))}


def _kafka() -> Connection:
    """A broker that is away, with a secret."""
    extra = {
        "bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": SECRET,
    }
    return Connection("kafka_default", "kafka", extra=extra)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {
        **kept,
        environment_name("kafka_default"): _kafka().to_json(),
        "OFFSET_LEDGER_PIPELINES": str(folder / "pipelines"),
        "OFFSET_LEDGER_REPORTS": str(folder / "reports"),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.fixtures.limited_auth.LimitedAuthManager",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "long enough for the signature " * 3,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "PYTHONWARNINGS": "ignore",
    }


@pytest.mark.full
def test_the_page_gives_each_user_what_airflow_allows_them(asked: Asked) -> None:
    """One test, for the application takes seconds to make."""
    paths = [path for path in asked.status["nobody"] if path not in BUTTONS]
    of_orders = [path for path in paths if "orders" in path and "%" not in path and "link" not in path]
    escapes = [f"/reports/{path}" for path in ESCAPES]
    # Nobody without a login, whatever the path.
    assert {path: asked.status["nobody"][path] for path in paths} == dict.fromkeys(paths, 401)
    assert {path: asked.status["forged"][path] for path in paths} == dict.fromkeys(paths, 403)
    # Rows only of DAGs that the user may read.
    for user in ("reader", "worker", "boss"):
        assert {path: asked.status[user][path] for path in of_orders} == dict.fromkeys(of_orders, 200), asked.text[user]
    assert {path: asked.status["limited"][path] for path in of_orders} == dict.fromkeys(of_orders, 404)
    for path in ("/api/pipelines", "/api/audits"):
        assert json.loads(asked.text["limited"][path])["pipelines"] == []
    # What a quarantined record says is for those who may edit the DAG.
    masked = {
        user: json.loads(asked.text[user]["/api/pipelines/orders/quarantine"])["masked"]
        for user in USERS
        if user != "limited"
    }
    assert masked == {"reader": True, "worker": False, "boss": False}
    # No way out of the reports, for anybody.
    for user in USERS:
        assert {path: asked.status[user][path] for path in escapes} == dict.fromkeys(escapes, 404)
    # A button is offered to whom Airflow would let press it, and Airflow itself refuses the others.
    blocked_reasons = {user: _blocked_reasons(asked.text[user]) for user in ("reader", "worker", "boss")}
    refused = tuple(f"you may not trigger {dag_id}" for dag_id in ("ingest_orders", "audit_topics"))
    assert blocked_reasons == {"reader": refused, "worker": (None, None), "boss": (None, None)}
    reason = json.loads(asked.text["limited"]["/api/audits"])["action"]["blocked_reason"]
    assert reason.startswith("Airflow has no DAG audit_topics: ")
    for button in BUTTONS:
        assert {user: asked.status[user][button] for user in ("nobody", "reader", "limited")} == {
            "nobody": 401,
            "reader": 403,
            "limited": 403,
        }
        assert asked.status["worker"][button] not in (401, 403)
    # The ledger's connection came from Airflow's metadata, the broker's from the environment; no secret is shown.
    (pipeline,) = json.loads(asked.text["boss"]["/api/pipelines"])["pipelines"]
    assert (pipeline["ledger_problem"], pipeline["broker_problem"] is None) == (None, False)
    assert SECRET not in asked.written
    # Registered where the plugin says.
    assert [(view["destination"], view["href"]) for view in asked.views] == [
        ("nav", "offset-ledger/"),
        ("nav", "offset-ledger/audit"),
        ("dag", "offset-ledger/?dag_id={DAG_ID}"),
        ("dag_run", "offset-ledger/?dag_id={DAG_ID}&run_id={RUN_ID}"),
    ]


def _blocked_reasons(answers: dict[str, str]) -> tuple[str | None, str | None]:
    """Of the ingest DAG and of the audit."""
    (pipeline,) = json.loads(answers["/api/pipelines"])["pipelines"]
    return pipeline["actions"]["ingest"]["blocked_reason"], json.loads(answers["/api/audits"])["action"][
        "blocked_reason"
    ]
