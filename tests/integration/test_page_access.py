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

from offset_ledger.connections import Connection, environment_name
from offset_ledger.core.ranges import OffsetRange
from offset_ledger.ledger.database import connect
from offset_ledger.local.layout import free_ports
from tests.fixtures.servers import Servers
from tests.fixtures.staged import a_pipeline, planned

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2-of-the-broker"
USERS = {"reader": "viewer", "worker": "user", "boss": "admin", "limited": "user"}
PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: orders}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
"""
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
    _files(tmp_path, batch_id)
    site = "/offset-ledger"
    paths = [
        *("/", "/static/page.js", "/api/pipelines", "/api/pipelines/orders", "/api/pipelines/orders/batches"),
        *(f"/api/pipelines/orders/batches/{batch_id}", "/api/pipelines/orders/history", "/reports/orders/1.html"),
        *(f"/reports/{path}" for path in ESCAPES),
    ]
    wanted = [["GET", site + path, None] for path in paths]
    trigger = "/api/v2/dags/ingest_orders/dagRuns"
    body = {"logical_date": None, "conf": {"action": "next"}}
    asked = {
        "connections": [_postgres(servers.postgres)],
        "users": list(USERS),
        "requests": [*wanted, ["POST", trigger, body]],
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
    names = [*paths, "trigger"]
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
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.fixtures.limited_auth.LimitedAuthManager",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "long enough for the signature " * 3,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "PYTHONWARNINGS": "ignore",
    }


def test_the_page_gives_each_user_what_airflow_allows_them(asked: Asked) -> None:
    """One test, for the application takes seconds to make."""
    paths = [path for path in asked.status["nobody"] if path != "trigger"]
    rows = [path for path in paths if "orders" in path and "%" not in path and "link" not in path]
    escapes = [f"/reports/{path}" for path in ESCAPES]
    # Nobody without a login, whatever the path.
    assert {path: asked.status["nobody"][path] for path in paths} == dict.fromkeys(paths, 401)
    assert {path: asked.status["forged"][path] for path in paths} == dict.fromkeys(paths, 403)
    # Rows only of DAGs that the user may read.
    for user in ("reader", "worker", "boss"):
        assert {path: asked.status[user][path] for path in rows} == dict.fromkeys(rows, 200), asked.text[user]
    assert {path: asked.status["limited"][path] for path in rows} == dict.fromkeys(rows, 404)
    assert json.loads(asked.text["limited"]["/api/pipelines"])["pipelines"] == []
    # No way out of the reports, for anybody.
    for user in USERS:
        assert {path: asked.status[user][path] for path in escapes} == dict.fromkeys(escapes, 404)
    # A button is offered to whom Airflow would let press it, and Airflow itself refuses the others.
    hindrances = {user: _hindrance(asked.text[user]["/api/pipelines"]) for user in ("reader", "worker", "boss")}
    assert hindrances == {"reader": "you may not trigger ingest_orders", "worker": None, "boss": None}
    assert {user: asked.status[user]["trigger"] for user in ("nobody", "reader", "limited")} == {
        "nobody": 401,
        "reader": 403,
        "limited": 403,
    }
    assert asked.status["worker"]["trigger"] not in (401, 403)
    # The ledger's connection came from Airflow's metadata, the broker's from the environment; no secret is told.
    (pipeline,) = json.loads(asked.text["boss"]["/api/pipelines"])["pipelines"]
    assert (pipeline["ledger_problem"], pipeline["broker_problem"] is None) == (None, False)
    assert SECRET not in asked.written
    # Registered where the plugin says.
    assert [(view["destination"], view["href"]) for view in asked.views] == [
        ("nav", "offset-ledger/"),
        ("dag", "offset-ledger/?dag_id={DAG_ID}"),
        ("dag_run", "offset-ledger/?dag_id={DAG_ID}&run_id={RUN_ID}"),
    ]


def _hindrance(overview: str) -> str | None:
    (pipeline,) = json.loads(overview)["pipelines"]
    found: str | None = pipeline["actions"]["ingest"]["hindrance"]
    return found
