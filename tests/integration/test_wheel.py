"""The wheel alone, as people install it: nothing of the checkout is there, and no extra that was not asked for."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger.outside.connections import Connection, environment_name, parse_connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import new_database
from tests.fixtures.wheel import Environment, build_wheel, install
from tests.paths import ROOT

pytestmark = pytest.mark.minutes(1)

PIPELINE = """
pipeline: parcels
source: {{connection: kafka_default, topic: parcels}}
record: {{event_id: $.id, publish_at: kafka_timestamp, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.parcels}}
quality: {{suite: {suite}}}
stage: {{engine: {engine}}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheel, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def in_airflow(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheel, tmp_path_factory.mktemp("airflow"), "airflow")


@pytest.fixture(scope="module")
def connections(stack: Stack) -> Iterator[dict[str, str]]:
    """Kafka, and a database without a ledger."""
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
    create_topic(dict(kafka.extra), "parcels", 1, 1)
    with new_database(stack, "template0") as postgres:
        yield {environment_name(each.conn_id): each.to_json() for each in (kafka, postgres)}


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {file for file in files if "__pycache__" not in file}


def test_nothing_of_the_checkout_is_imported(base: Environment) -> None:
    look = "import json, sys, offset_ledger; print(json.dumps([*sys.path, offset_ledger.__file__]))"
    places = json.loads(base.run("python", "-c", look).stdout)
    assert [place for place in places if place.startswith(str(ROOT))] == []
    assert base.run("offset-ledger", "--help").returncode == 0


def test_the_base_alone_commits_a_batch(base: Environment, connections: dict[str, str]) -> None:
    write(base.cwd / "parcels.yaml")
    send(connections, "a", "b")
    assert base.run("offset-ledger", "migrate", **connections).returncode == 0
    done = base.run("offset-ledger", "ingest", "parcels.yaml", "--until-drained", **connections)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 batch committed"), done.stderr
    assert committed(connections) == [("a", "new"), ("b", "new")]
    assert base.run("offset-ledger", "verify", "parcels.yaml", "--against-topic", **connections).returncode == 0


def test_the_quickstart_of_the_readme(wheel: Path, stack: Stack, tmp_path: Path) -> None:
    """Its code block, with the servers of the tests in place of those that it names."""
    readme = (ROOT / "README.md").read_text()
    ((extra, text),) = re.findall(r'^```bash\npip install "\$\(ls dist/.+\)\[(\w+)\]"\n(.+?)^```$', readme, re.M | re.S)
    reader = install(wheel, tmp_path, extra)
    (reader.folder / "bin/bash").symlink_to("/bin/bash")
    kafka = {"bootstrap.servers": stack.kafka.bootstrap}
    create_topic(kafka, "quick.orders", 2, 1)
    values = [{"id": f"o-{n}", "at": f"2026-03-01T10:00:{n:02}Z", "state": "new"} for n in range(20)]
    publish([Record(None, json.dumps(each).encode(), (), None) for each in values], kafka, "quick.orders")
    with new_database(stack, "template0") as database:
        for theirs, ours in (
            ("kafka-1:9092", stack.kafka.bootstrap),
            ('"host": "db"', f'"host": "{database.host}", "port": {database.port}'),
            ('"shop"', f'"{database.schema}"'),
            ('"ledger", "password": "…"', f'"{database.login}", "password": "{database.password}"'),
            ("shop.orders", "quick.orders"),
        ):
            assert theirs in text
            text = text.replace(theirs, ours)
        done = reader.run("bash", "-ec", text)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"^all \d+ invariants hold$", done.stdout, re.M), done.stdout
        with connect(database) as session, session.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM public.orders")
            assert cursor.fetchone()[0] == 20


@pytest.mark.parametrize(
    ("extra", "more"), [("spark", {"engine": "spark"}), ("gx", {"suite": "parcels"})], ids=["spark", "gx"]
)
def test_a_missing_extra_is_named(
    extra: str, more: dict[str, str], base: Environment, connections: dict[str, str]
) -> None:
    (base.cwd / "expectations").mkdir(exist_ok=True)
    (base.cwd / "expectations/parcels.json").write_text('{"name": "parcels", "expectations": []}')
    write(base.cwd / "parcels.yaml", **more)
    send(connections, extra)
    planned = base.run("offset-ledger", "batch", "list", "parcels.yaml", "--json", **connections).stdout
    failed = base.run("offset-ledger", "ingest", "parcels.yaml", **connections)
    assert failed.returncode != 0
    assert failed.stderr.splitlines()[-1].startswith("offset-ledger: ConfigurationError: ")
    assert failed.stderr.rstrip().endswith(f"which is not installed; run pip install 'offset-ledger[{extra}]'")
    assert base.run("offset-ledger", "batch", "list", "parcels.yaml", "--json", **connections).stdout == planned


def test_the_doctor_takes_a_missing_extra_for_no_defect(base: Environment, connections: dict[str, str]) -> None:
    write(base.cwd / "parcels.yaml")
    told = base.run("offset-ledger", "check", "--system", "parcels.yaml", "--json", **connections)
    findings = json.loads(told.stdout)
    assert [each for each in findings if "report it" in (each["remedy"] or "")] == []


def test_the_local_stack_is_an_extra(base: Environment) -> None:
    failed = base.run("offset-ledger", "stack", "up")
    assert failed.stderr.rstrip().endswith("run pip install 'offset-ledger[local]'")


def test_airflow_finds_plugin_provider_and_dags_without_spark(in_airflow: Environment) -> None:
    dags = in_airflow.cwd / "dags"
    (dags / "pipelines").mkdir(parents=True)
    write(dags / "pipelines/parcels.yaml")
    (dags / "ingest.py").write_text((ROOT / "dags/ingest.py").read_text())
    home = {"AIRFLOW_HOME": str(in_airflow.cwd), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    found = in_airflow.run("python", "-c", FOUND, str(dags / "ingest.py"), **home)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout.splitlines()[-1]) == {
        "plugin": ["offset_ledger"],
        "provider": "Offset ledger",
        "stage": "StageOperator",
    }


FOUND = """
import json, runpy, sys
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins_manager.ensure_plugins_loaded()
stage = runpy.run_path(sys.argv[1])["ingest_parcels"].get_task("stage")
print(json.dumps({
    "plugin": [each["name"] for each in plugins_manager.get_plugin_info() if each["name"] == "offset_ledger"],
    "provider": ProvidersManager().providers["offset-ledger"].data["name"],
    "stage": type(stage).__name__,
}))
"""


def write(file: Path, suite: str = "null", engine: str = "process") -> None:
    file.write_text(PIPELINE.format(suite=suite, engine=engine))


def send(connections: dict[str, str], *event_ids: str) -> None:
    extra = json.loads(connections[environment_name("kafka_default")])["extra"]
    values = [json.dumps({"id": each, "state": "new"}).encode() for each in event_ids]
    publish([Record(None, value, (), None, 0) for value in values], extra, "parcels")


def committed(connections: dict[str, str]) -> list[tuple[object, ...]]:
    postgres = parse_connection("postgres_default", connections[environment_name("postgres_default")])
    with connect(postgres) as session, session.cursor() as cursor:
        cursor.execute("SELECT event_id, state FROM public.parcels ORDER BY 1")
        return list(cursor.fetchall())
