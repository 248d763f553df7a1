"""docs/add-to-airflow.md, followed from its own code blocks: an Airflow that has the wheel, and no checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.airflow_world import until
from tests.fixtures.servers import execute, kill, new_database
from tests.fixtures.wheel import Environment, build_wheel, install
from tests.integration.interfaces.airflow.conftest import copy_database
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(3), pytest.mark.timeout(2700)]

PAGE = (ROOT / "docs/add-to-airflow.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
TOPIC = "shop.orders"


def block(beginning: str) -> str:
    """The one code block of the page that has a line with this beginning."""
    (found,) = [text for _, text in BLOCKS if re.search(rf"^{re.escape(beginning)}", text, re.M)]
    return found


@dataclass
class Reader:
    """Somebody who copies from the page into a shell beside that Airflow."""

    environment: Environment
    airflow: Airflow
    exports: str

    def types(self, text: str) -> str:
        """What the shell prints; every command has to succeed."""
        settings = self.airflow.environment()
        done = self.environment.run("bash", "-ec", f"{self.exports}\n{text}", **settings)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr[-3000:]}"
        return done.stdout

    def connections(self) -> dict[str, str]:
        """The variables of the page's block."""
        names = re.findall(r"^export (\w+)=", self.exports, re.M)
        look = f"import json, os; print(json.dumps({{name: os.environ[name] for name in {names}}}))"
        found: dict[str, str] = json.loads(self.types(f"python -c {json.dumps(look)}"))
        return found

    def asks(self, path: str) -> Callable[[], tuple[int, object]]:
        """A question to Airflow as its admin, by path."""
        token = self.airflow.token()
        return lambda: self.airflow.request("GET", path, None, token)


@pytest.fixture(scope="module")
def database(stack: Stack) -> Iterator[Connection]:
    with new_database(stack, "template0") as made:
        yield made


@pytest.fixture(scope="module")
def reader(
    stack: Stack, database: Connection, template_airflow: Airflow, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    (asked,) = re.findall(r'^pip install "\$\(ls dist/.+\)\[(.+)\]"', block('pip install "$(ls dist/'), re.M)
    environment = install(build_wheel(folder), folder, *asked.split(","))
    (environment.folder / "bin/airflow").write_text(f'#!/bin/sh\nexec {environment.python} -m airflow "$@"\n')
    (environment.folder / "bin/airflow").chmod(0o755)
    (environment.folder / "bin/bash").symlink_to("/bin/bash")
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-reader-"))
    port = free_ports(1)[0]
    airflow = Airflow(home, home, port, stack.postgres, "reader_airflow", str(environment.python))
    copy_database(template_airflow, airflow)
    yield Reader(environment, airflow, exports(stack, database))
    kill(airflow.daemons)
    shutil.rmtree(home)
    execute(stack.postgres.connection("postgres"), "DROP DATABASE reader_airflow WITH (FORCE)")


def exports(stack: Stack, database: Connection) -> str:
    """The page's connections, with the servers of the tests in place of those that it names."""
    text = block("export ")
    assert database.host
    for theirs, ours in (
        ('"kafka-1:9092"', f'"{stack.kafka.bootstrap}"'),
        ('"host": "db"', f'"host": "{database.host}"'),
        ("5432", str(database.port)),
        ('"shop"', f'"{database.schema}"'),
        ('"ledger"', f'"{database.login}", "password": "{database.password}"'),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    return text


@pytest.fixture(scope="module")
def followed(reader: Reader, stack: Stack) -> Reader:
    """All of the page's steps, up to the end of the run that it triggers."""
    kafka = {"bootstrap.servers": stack.kafka.bootstrap}
    create_topic(kafka, TOPIC, 2, 1)
    orders = [{"id": f"o-{n}", "at": f"2026-03-01T10:00:{n:02}Z", "state": "new"} for n in range(20)]
    publish([Record(each["id"].encode(), json.dumps(each).encode(), (), None) for each in orders], kafka, TOPIC)
    airflow = reader.airflow
    (airflow.directory / "dags").mkdir()
    airflow.up({**os.environ, **reader.connections()}, Launch(print))
    reader.types(block("offset-ledger migrate"))
    reader.types(block("offset-ledger init"))
    (airflow.directory / "dags/ledger.py").write_text(block("from offset_ledger import all_dags"))
    (airflow.directory / "dags/pipeline_files.py").write_text(block("from offset_ledger import parse_all"))
    dag = reader.asks("/api/v2/dags/ingest_orders")
    until(lambda: dag()[0] == 200, "the DAG", lambda: str(problems(reader)))
    for name in ("redrive_orders", "audit_topics", "daily_quality_report"):  # those that the ledger page needs
        assert reader.asks(f"/api/v2/dags/{name}")()[0] == 200
    reader.types(block("airflow dags trigger"))
    runs = reader.asks("/api/v2/dags/ingest_orders/dagRuns")
    until(lambda: states(runs) and states(runs) <= {"success", "failed"}, "the run", lambda: str(problems(reader)))
    return reader


def states(runs: Callable[[], tuple[int, object]]) -> set[str]:
    _, answer = runs()
    assert isinstance(answer, dict)
    return {run["state"] for run in answer["dag_runs"]}


def problems(reader: Reader) -> object:
    return reader.asks("/api/v2/importErrors")()


def test_the_run_has_committed_every_record(followed: Reader, database: Connection) -> None:
    assert states(followed.asks("/api/v2/dags/ingest_orders/dagRuns")) == {"success"}
    with connect(database) as session:
        found = [tuple(row) for row in rows(session, "SELECT event_id, state FROM public.orders ORDER BY 1")]
    assert found == sorted((f"o-{n}", "new") for n in range(20))


def test_what_the_page_says_to_look_at_agrees(followed: Reader) -> None:
    text = block("offset-ledger status")
    followed.types(f'cd "$AIRFLOW_HOME"\n{text}')


# Both in one process: most of the time of each is the import of Airflow.
LISTS = """python - <<'END'
import sys
from airflow.__main__ import main
for asked in ("plugins", "providers list"):
    sys.argv = ["airflow", *asked.split(), "--output", "plain"]
    main()
    print("that was all")
END
"""


def test_airflow_lists_plugin_and_provider(followed: Reader) -> None:
    plugins, providers, _ = followed.types(LISTS).split("that was all\n")
    assert "offset_ledger" in plugins
    assert "offset-ledger" in providers


def test_the_ledger_page_shows_the_pipeline(followed: Reader) -> None:
    status, answer = followed.asks("/offset-ledger/api/pipelines")()
    assert (status, [each["name"] for each in answer["pipelines"]]) == (200, ["orders"])  # type: ignore[index]
    assert answer["problems"] == []  # type: ignore[index]
    (orders,) = answer["pipelines"]  # type: ignore[index]
    blocked = {name: each["blocked_reason"] for name, each in orders["actions"].items()}
    assert blocked == {"ingest": None, "redrive": None}


def test_tasks_ran_from_the_wheel(followed: Reader) -> None:
    logs = [file.read_text(errors="replace") for file in (followed.airflow.directory / "logs").rglob("*.log")]
    assert logs
    assert [text for text in logs if f"{ROOT}/src" in text] == []


def test_a_pipeline_file_with_mistakes_is_an_import_error(followed: Reader) -> None:
    assert problems(followed) == (200, {"import_errors": [], "total_entries": 0})
    (followed.airflow.directory / "dags/pipelines/broken.yaml").write_text("pipeline: broken\n")
    (followed.airflow.directory / "dags/pipeline_files.py").touch()
    until(lambda: "broken.yaml:1: source is missing" in str(problems(followed)), "the import error")
    assert followed.asks("/api/v2/dags/ingest_orders")()[0] == 200
