"""What the ledger page may show: rights, report files, pipeline files, and brokers that never make a page wait."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from offset_ledger.errors import BrokerUnavailable
from offset_ledger.interfaces.page.app import _visible, create_app, find_report, router
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.pipeline import BrokerAnswer, BrokerSnapshot
from offset_ledger.operations.status.reader import pipelines_folder, read_pipelines
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.pipeline import Pipeline
from tests.fixtures.asgi import Client
from tests.fixtures.staged import a_pipeline
from tests.paths import ROOT
from tests.unit.operations.status.snapshots import a_snapshot

# -- rights ----------------------------------------------------------------------------------------------------


def test_a_pipeline_is_seen_by_those_who_may_read_its_ingest_dag() -> None:
    rights = Rights(readable=frozenset({"ingest_orders", "redrive_flights"}))
    assert {name: rights.sees(name) for name in ("orders", "flights")} == {"orders": True, "flights": False}


def test_the_daily_reports_are_for_those_who_may_read_all_that_is_in_them() -> None:
    everything = frozenset({"ingest_orders", "ingest_flights", "daily_quality_report"})
    both = ("orders", "flights")
    assert Rights(readable=everything).sees_report("_daily", both)
    for dag_id in everything:
        assert not Rights(readable=everything - {dag_id}).sees_report("_daily", both)


def test_the_blocked_reason_names_what_is_in_the_way() -> None:
    dags = frozenset({"ingest_a", "ingest_b", "ingest_c"})
    rights = Rights(dags, frozenset({"ingest_a", "ingest_b"}), dags, paused=frozenset({"ingest_b", "ingest_c"}))
    assert {dag: rights.blocked_reason(dag) for dag in (*sorted(dags), "ingest_d")} == {
        "ingest_a": None,
        "ingest_b": "ingest_b is paused: a run would not start until the DAG is unpaused",
        "ingest_c": "you may not trigger ingest_c",
        "ingest_d": "Airflow has no DAG ingest_d: dags/ledger.py of docs/add-to-airflow.md builds it, with all_dags",
    }


# -- routes ----------------------------------------------------------------------------------------------------


def test_without_a_dependency_for_rights_every_route_is_refused(tmp_path: Path) -> None:
    app = create_app(Rights, partial(read_pipelines, tmp_path))
    app.dependency_overrides.clear()
    values = {
        "name": "orders", "batch_id": "1", "audit_id": "1", "record_id": "1", "partition": "0", "offset": "1",
        "path": "orders/1.html",
    }  # fmt: skip
    paths = [route.path.replace(":path", "").format(**values) for route in router.routes]  # type: ignore[attr-defined]
    assert {"/", "/api/pipelines/orders/batches/1", "/api/pipelines/orders/audits/1", "/reports/orders/1.html"} < set(
        paths
    )
    assert {path: Client(app).get(path).status_code for path in paths} == dict.fromkeys(paths, 401)


@pytest.mark.parametrize("path", ["/", "/audit"])
def test_the_files_of_a_page_are_its_own(tmp_path: Path, path: str) -> None:
    client = Client(create_app(Rights, partial(read_pipelines, tmp_path)))
    page = client.get(path)
    assert (page.status_code, "script-src 'self'" in page.headers["content-security-policy"]) == (200, True)
    used = re.findall(r'(?:href|src)="(static/[^"]+)"', page.text)
    scripts = [name for name in used if name.endswith(".js")]
    for name in scripts:  # grows while it is walked: what a script imports is used too
        scripts += {f"static/{found}" for found in re.findall(r'from "\./([^"]+)"', client.get(f"/{name}").text)} - {
            *scripts
        }
    assert {name: client.get(f"/{name}").status_code for name in (*used, *scripts)} == dict.fromkeys(
        (*used, *scripts), 200
    )
    for name in ("absent.js", "..%2fapp.py", "__init__.py"):
        assert client.get(f"/static/{name}").status_code == 404
    for hidden in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(hidden).status_code == 404


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for path in (ROOT / "src" / "offset_ledger" / "interfaces" / "page" / "static").rglob("*.*"):
        # The library's comments say where its algorithms come from; they load nothing.
        code = re.sub(r"/\*.*?\*/|(?<!:)//[ \t].*?$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        foreign = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"]*", code)
        assert set(foreign) <= {"http://www.w3.org/2000/svg"}, path.name


def test_the_charts_library_is_served_with_its_licence_beside_it(tmp_path: Path) -> None:
    vendor = ROOT / "src" / "offset_ledger" / "interfaces" / "page" / "static" / "vendor"
    (script,) = vendor.glob("uPlot-*.esm.js")
    version = script.name.removeprefix("uPlot-").removesuffix(".esm.js")
    assert f"uPlot (v{version})" in script.read_text()[:300]
    assert "Permission is hereby granted" in (vendor / "uPlot-LICENSE").read_text()
    answer = Client(create_app(Rights, partial(read_pipelines, tmp_path))).get(f"/static/vendor/{script.name}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


def test_values_are_for_those_who_may_edit_the_dag_that_they_see() -> None:
    dag = frozenset({"ingest_orders"})
    readers = [Rights(), Rights(readable=dag), Rights(editable=dag), Rights(readable=dag, editable=dag)]
    assert [rights.reads_values("orders") for rights in readers] == [False, False, False, True]


# -- reports ---------------------------------------------------------------------------------------------------


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    for name in ("orders/1.html", "orders/1.json", "secret/1.html", "orders/.1.html", "orders/x.env", "top.html"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "outside.html").write_text("outside")
    (folder / "orders" / "out.html").symlink_to(tmp_path / "outside.html")
    (folder / "orders" / "other.html").symlink_to(folder / "secret" / "1.html")
    (folder / "orders" / "loop.html").symlink_to(folder / "orders" / "loop.html")
    return folder


@pytest.mark.parametrize("path", ["orders/1.html", "orders/1.json", "/orders/1.html", "orders//1.html"])
def test_reports_are_found(reports: Path, path: str) -> None:
    found = find_report(reports, path)
    assert found is not None
    assert (found[0], found[1].parent.name) == ("orders", "orders")


@pytest.mark.parametrize(
    "path",
    [
        *("", "orders", "orders/", "orders/2.html", "top.html", "orders/.1.html", "orders/x.env", "orders/1.html\0"),
        *("../outside.html", "orders/../../outside.html", "orders/out.html", "orders/loop.html", "/etc/hostname"),
        *("orders/" + "a" * 300 + ".html",),
    ],
)
def test_nothing_else_is_a_report(reports: Path, path: str) -> None:
    assert find_report(reports, path) is None


def test_an_absolute_path_is_taken_below_the_folder(reports: Path, tmp_path: Path) -> None:
    assert find_report(reports, str(tmp_path / "outside.html")) is None


@pytest.mark.parametrize("path", ["orders/../secret/1.html", "orders/other.html"])
def test_the_folder_is_that_of_the_file_which_is_served(reports: Path, path: str) -> None:
    found = find_report(reports, path)
    assert found is not None
    assert found[0] == "secret"


# -- pipeline files --------------------------------------------------------------------------------------------


def test_a_file_with_mistakes_does_not_hide_the_others_and_is_read_again_when_fixed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "dags" / "pipelines" / "flights.yaml", tmp_path)
    broken = tmp_path / "orders.yaml"
    broken.write_text("pipeline: orders\n")
    found = read_pipelines(tmp_path)
    assert list(found.pipelines) == ["flights"]
    assert [line.split(":")[0] for line in found.problems] == [str(broken)] * len(found.problems) != []
    text = (tmp_path / "flights.yaml").read_text()
    broken.write_text(text.replace("pipeline: flights", "pipeline: orders").replace("public.flights", "public.orders"))
    os.utime(broken, ns=(1, 1))
    assert list(read_pipelines(tmp_path).pipelines) == ["flights", "orders"]


def test_of_several_topics_each_is_a_pipeline_of_the_same_dag(tmp_path: Path) -> None:
    text = (ROOT / "dags" / "pipelines" / "flights.yaml").read_text()
    (tmp_path / "flights.yaml").write_text(text.replace("topic: flights.events", "topics: [flights.us, flights.eu]"))
    known = read_pipelines(tmp_path)
    assert {name: each.source.topic for name, each in known.pipelines.items()} == {
        "flights@flights.eu": "flights.eu",
        "flights@flights.us": "flights.us",
    }
    readable = Rights(readable=frozenset({"ingest_flights"}))
    assert [each.name for each in _visible(known, readable)] == ["flights@flights.eu", "flights@flights.us"]
    assert _visible(known, Rights()) == ()


def test_a_pattern_of_topics_does_not_wait_for_a_ledger_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "dags" / "pipelines" / "flights.yaml").read_text()
    (tmp_path / "flights.yaml").write_text(text.replace("topic: flights.events", r"topic_pattern: flights\..*"))
    shutil.copy(ROOT / "dags" / "pipelines" / "flights.yaml", tmp_path / "one_topic.yaml")
    away = Connection("postgres_default", "postgres", host="127.0.0.1", port=1, schema="x", login="x")
    monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "60")
    began = time.monotonic()
    found = read_pipelines(tmp_path)
    assert time.monotonic() - began < 30
    assert list(found.pipelines) == ["flights"]
    (problem,) = found.problems
    assert problem.startswith(
        f"{tmp_path / 'flights.yaml'}: the topics that match are not known: Postgres of connection"
    )


def test_a_missing_folder_is_a_problem_and_not_an_error(tmp_path: Path) -> None:
    found = read_pipelines(tmp_path / "absent")
    assert (found.pipelines, len(found.problems)) == ({}, 1)


def test_the_variable_comes_before_the_dags_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSET_LEDGER_PIPELINES", raising=False)
    assert pipelines_folder(Path("d")) == Path("d/pipelines")
    monkeypatch.setenv("OFFSET_LEDGER_PIPELINES", "/elsewhere")
    assert pipelines_folder(Path("d")) == Path("/elsewhere")


# -- brokers ---------------------------------------------------------------------------------------------------


def cache_of(answer: Callable[[], BrokerSnapshot], **settings: float) -> tuple[BrokerCache, list[str]]:
    asked: list[str] = []

    def ask(pipeline: Pipeline) -> BrokerSnapshot:
        asked.append(pipeline.name)
        return answer()

    return BrokerCache(ask, **{"timeout": 30.0, **settings}), asked  # type: ignore[arg-type]


def test_a_broker_is_asked_once_while_its_answer_is_fresh() -> None:
    cache, asked = cache_of(a_snapshot, max_age=3600)
    pipeline = a_pipeline()
    assert [cache.answers([pipeline]) for _ in range(3)] == [{"orders": BrokerAnswer(a_snapshot())}] * 3
    assert asked == ["orders"]


def test_a_broker_is_asked_again_when_its_answer_is_old() -> None:
    cache, asked = cache_of(a_snapshot, max_age=0)
    for _ in range(3):
        cache.answers([a_pipeline()])
    assert asked == ["orders"] * 3


def test_a_broker_that_is_unavailable_is_reported_with_its_error() -> None:
    def away() -> BrokerSnapshot:
        raise BrokerUnavailable("Kafka at x did not answer")

    assert cache_of(away)[0].answers([a_pipeline()]) == {"orders": BrokerAnswer(problem="Kafka at x did not answer")}


def test_the_message_of_an_unknown_error_may_contain_secrets_and_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def wrong() -> BrokerSnapshot:
        raise ValueError("sasl_plain_password=hunter2")

    (answer,) = cache_of(wrong)[0].answers([a_pipeline()]).values()
    assert answer == BrokerAnswer(problem="asking about topic orders failed: ValueError")
    assert "hunter2" not in caplog.text


def test_a_page_does_not_wait_for_a_broker_that_does_not_answer() -> None:
    answered = Event()

    def slow() -> BrokerSnapshot:
        answered.wait(60)
        return a_snapshot()

    cache, asked = cache_of(slow, max_age=3600, timeout=0)
    assert cache.answers([a_pipeline()]) == {"orders": BrokerAnswer(problem="the broker has not answered yet")}
    answered.set()
    pending, _ = cache._asked._requests[("kafka_default", "orders")]
    assert pending.result(60) == BrokerAnswer(a_snapshot())
    assert cache.answers([a_pipeline()]) == {"orders": BrokerAnswer(a_snapshot())}
    assert asked == ["orders"]
