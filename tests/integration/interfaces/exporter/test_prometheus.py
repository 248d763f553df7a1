"""The exposition, the alert rules and the dashboard, as promtool and a real Prometheus read them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from offset_ledger.interfaces.exporter import serve
from offset_ledger_kit.sandbox.layout import HOST, free_ports
from tests.fixtures.exporter_bench import Bench, behind
from tests.fixtures.expressions import RULES, RULES_TEST, alerts, queries, selectors

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus")), reason="apt-get install prometheus"
)


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """The process, once it is ready; ended afterwards."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ)
        try:
            wait_until(ready, lambda: log.read_text())
            yield
        finally:
            process.terminate()
            process.wait(60)


def wait_until(ready: Callable[[], bool], about: Callable[[], str]) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < deadline, about()
        time.sleep(0.2)


def answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=30).status_code == 200
    return False


@needs_prometheus
def test_promtool_accepts_the_rules_their_tests_and_an_exposition(bench: Bench) -> None:
    behind(bench)
    for command, given in (
        (["check", "rules", str(RULES)], ""),
        (["test", "rules", str(RULES_TEST)], ""),
        (["check", "metrics"], serve.exposition(bench.folder)),
    ):
        done = subprocess.run(["promtool", *command], input=given, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


STUCK = 'offset_ledger_open_batch_timestamp_seconds{state!="rejected"}'
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: offset-ledger
    static_configs: [{{targets: ["{exporter}"]}}]
"""


@needs_prometheus
def test_prometheus_answers_every_query_of_dashboard_and_rules_and_fires(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind(bench)
    monkeypatch.setenv("OFFSET_LEDGER_PIPELINES", str(bench.folder))
    exporter, prometheus = (f"{HOST}:{port}" for port in free_ports(2))
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(rules=RULES, exporter=exporter))
    exporting = [sys.executable, "-m", "offset_ledger_kit.cli", "serve", "metrics", "--listen", exporter]
    scraping = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={prometheus}",
    ]

    def ask(expression: str) -> Any:
        asked = {"query": expression.replace("$__rate_interval", "1m").replace("$pipeline", "orders")}
        found = httpx.get(f"http://{prometheus}/api/v1/query", params=asked, timeout=30).json()
        assert found["status"] == "success", (expression, found)
        return found["data"]["result"]

    with (
        running(exporting, tmp_path / "exporter.log", lambda: answers(f"http://{exporter}/metrics")),
        running(scraping, tmp_path / "prometheus.log", lambda: answers(f"http://{prometheus}/-/ready")),
    ):
        twice = "min(count_over_time(offset_ledger_offsets_total[1m])) > 1"
        wait_until(lambda: bool(ask(twice)), lambda: (tmp_path / "prometheus.log").read_text())
        assert [query for query in queries() if not ask(query)] == []
        asked = {"".join(each) for alert in alerts() for each in selectors(alert["expr"])}
        assert [each for each in asked if not ask(each)] == [
            'offset_ledger_open_batch_timestamp_seconds{state!="rejected"}'
        ]
        waiting = 'ALERTS{alertname="OffsetLedgerDecisionRequired", pipeline="orders", alertstate="pending"}'
        wait_until(lambda: bool(ask(waiting)), lambda: str(ask("ALERTS")))
        lag = {each["metric"]["partition"]: each["value"][1] for each in ask("offset_ledger_lag_offsets")}
        assert lag == {"0": "2", "1": "1"}
