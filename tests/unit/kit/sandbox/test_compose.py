"""docker-compose.yml and Dockerfile, held against the Compose schema, the local stack and the programs they name.

No container is started here: the parts run as the local stack in the integration tests.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from cryptography.fernet import Fernet
from jsonschema import Draft202012Validator

from offset_ledger.outside.connections import parse_connection
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.outside.schema_registry.connection import registry_settings
from offset_ledger.outside.spark.home import SUPPORTED_JAVA
from offset_ledger.outside.spark.remote_session import address, is_remote
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger_kit.cli.main import build_parser
from offset_ledger_kit.sandbox import postgres
from offset_ledger_kit.sandbox.jars import KAFKA_VERSION
from offset_ledger_kit.sandbox.registry import API, APICURIO_VERSION
from tests.paths import ROOT

SCHEMA = json.loads((ROOT / "tests/fixtures/compose-spec/compose-spec.json").read_text())
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
ONE_SHOTS = {"migrate", "airflow-init", "publish-flights"}
OURS = "offset-ledger:local"


def resolved(text: str) -> str:
    """The text as Compose reads it with .env.example for .env."""
    return VARIABLE.sub(lambda values: EXAMPLE[values[1]], text)


def commands(program: str) -> Iterator[list[str]]:
    """The arguments of each call of the program in a command or health check."""
    for service in SERVICES.values():
        calls = [service.get("command", []), service.get("healthcheck", {}).get("test", ["CMD"])[1:]]
        calls += [line.split() for part in service.get("command", []) for line in part.splitlines()]
        yield from (call[1:] for call in calls if call[:1] == [program] and len(call) > 1)


def environment(service: str) -> dict[str, str]:
    return {name: resolved(value) for name, value in SERVICES[service].get("environment", {}).items()}


def test_the_file_follows_the_compose_schema() -> None:
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(COMPOSE)] == []


def test_every_variable_is_in_the_example_with_the_same_default() -> None:
    used = {name: default for name, kind, default in VARIABLE.findall(TEXT) if kind == "-"}
    assert {name for name, _, _ in VARIABLE.findall(TEXT)} == set(EXAMPLE)
    assert used == {name: EXAMPLE[name] for name in used}


def test_no_variable_is_without_default_and_without_a_message() -> None:
    assert [name for name, kind, default in VARIABLE.findall(TEXT) if not kind or not default] == []


def test_the_fernet_key_of_the_example_is_one() -> None:
    assert Fernet(EXAMPLE["AIRFLOW_FERNET_KEY"].encode())


def test_ports_are_on_the_loopback_only() -> None:
    published = [resolved(port) for service in SERVICES.values() for port in service.get("ports", [])]
    assert [port for port in published if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)] == []
    hosts = [port.split(":")[1] for port in published]
    assert len(hosts) == len(set(hosts)) == 6


# -- versions --------------------------------------------------------------------------------------------------


def test_kafka_is_the_version_of_the_local_stack() -> None:
    images = {SERVICES[f"kafka-{node}"]["image"] for node in (1, 2, 3)}
    assert images == {f"apache/kafka:{KAFKA_VERSION}"}


def test_postgres_is_the_major_version_of_the_local_stack() -> None:
    (local,) = re.findall(r"pginstall(\d+)", inspect.getsource(postgres))
    assert SERVICES["postgres"]["image"] == f"postgres:{local}"


def test_the_registry_is_the_version_of_the_local_stack() -> None:
    assert SERVICES["registry"]["image"] == f"apicurio/apicurio-registry-sql:{APICURIO_VERSION}"


def test_spark_is_the_locked_pyspark_in_our_own_image() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"^pyspark==(\S+)", lock, re.MULTILINE) == [pyspark.__version__]
    assert {SERVICES[name]["image"] for name in ("spark-connect", "airflow-scheduler")} == {OURS}


def test_the_image_has_a_python_and_a_java_that_are_supported() -> None:
    wanted = re.search(r'requires-python = ">=([\d.]+),', (ROOT / "pyproject.toml").read_text())
    assert wanted
    assert re.findall(r"^FROM python:([\d.]+)-", DOCKERFILE, re.MULTILINE) == [wanted[1]]
    (java,) = re.findall(r"openjdk-(\d+)-jre", DOCKERFILE)
    assert int(java) in SUPPORTED_JAVA


# -- starting --------------------------------------------------------------------------------------------------


def test_a_service_waits_until_another_is_healthy_or_has_ended_well() -> None:
    wanted = {
        (name, other): "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
        for name, service in SERVICES.items()
        for other in service.get("depends_on", {})
    }
    values = {
        (name, other): how["condition"]
        for name, service in SERVICES.items()
        for other, how in service.get("depends_on", {}).items()
    }
    assert values == wanted


def test_every_service_has_a_health_check_or_ends_by_itself() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == ONE_SHOTS
    assert {name for name, service in SERVICES.items() if service.get("restart", "no") == "no"} == ONE_SHOTS


def test_our_image_is_built_once_and_before_anything_else_uses_it() -> None:
    ours = {name for name, service in SERVICES.items() if service["image"] == OURS}
    assert {name for name, service in SERVICES.items() if "build" in service} == {"migrate"}
    at_start = {name for name in ours - {"migrate", "publish-flights"} if not reaches(name, "migrate")}
    assert at_start == set()


def reaches(name: str, other: str) -> bool:
    return any(near == other or reaches(near, other) for near in SERVICES[name].get("depends_on", {}))


def test_every_named_volume_is_declared_and_used() -> None:
    used = {mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_volumes_of_our_image_are_folders_that_its_user_owns() -> None:
    owned = re.search(r"install --directory .*?\n((?:.*\\\n)*.*)", DOCKERFILE)
    assert owned
    mounted = {m.split(":")[1] for s in SERVICES.values() if s["image"] == OURS for m in s.get("volumes", [])}
    assert mounted - set(owned[0].split()) == set()


# -- settings --------------------------------------------------------------------------------------------------


def test_kafka_is_replicated_three_times_with_two_in_sync() -> None:
    for node in (1, 2, 3):
        values = environment(f"kafka-{node}")
        assert values["KAFKA_NODE_ID"] == str(node)
        assert (values["KAFKA_DEFAULT_REPLICATION_FACTOR"], values["KAFKA_MIN_INSYNC_REPLICAS"]) == ("3", "2")
        (port,) = SERVICES[f"kafka-{node}"]["ports"]
        host = resolved(port).removesuffix(":9092")
        assert values["KAFKA_ADVERTISED_LISTENERS"] == f"INTERNAL://kafka-{node}:19092,HOST://{host}"


def test_the_connections_lead_to_the_services() -> None:
    for name in ("migrate", "publish-flights", "airflow-init", "airflow-scheduler", "airflow-api-server"):
        values = environment(name)
        kafka = parse_connection("kafka_default", values["AIRFLOW_CONN_KAFKA_DEFAULT"])
        assert bootstrap_servers(kafka) == "kafka-1:19092,kafka-2:19092,kafka-3:19092"
        database = parse_connection("postgres_default", values["AIRFLOW_CONN_POSTGRES_DEFAULT"])
        wanted = environment("postgres")
        assert postgres_arguments(database) == {
            "host": "postgres", "port": 5432, "dbname": wanted["POSTGRES_DB"], "user": wanted["POSTGRES_USER"],
            "password": wanted["POSTGRES_PASSWORD"],
        }  # fmt: skip
        registry = parse_connection("registry_default", values["AIRFLOW_CONN_REGISTRY_DEFAULT"])
        (port,) = SERVICES["registry"]["ports"]
        assert registry_settings(registry).urls == (f"http://registry:{port.split(':')[-1]}{API}",)
        spark = parse_connection("spark_default", values["AIRFLOW_CONN_SPARK_DEFAULT"])
        assert (is_remote(spark), address(spark)) == (True, "sc://spark-connect:15002")
    server = build_parser().parse_args(SERVICES["spark-connect"]["command"][1:])
    assert (server.host, server.port, "ports" in SERVICES["spark-connect"]) == ("0.0.0.0", 15002, False)


def test_the_registry_keeps_its_schemas_in_a_database_that_postgres_has() -> None:
    values, wanted = environment("registry"), environment("postgres")
    server, _, database = values["REGISTRY_DATASOURCE_URL"].removeprefix("jdbc:postgresql://").partition("/")
    assert server == "postgres:5432"
    assert f"CREATE DATABASE {database};" in COMPOSE["configs"]["databases"]["content"]
    assert values["REGISTRY_DATASOURCE_USERNAME"] == wanted["POSTGRES_USER"]
    assert values["REGISTRY_DATASOURCE_PASSWORD"] == wanted["POSTGRES_PASSWORD"]


def test_every_airflow_setting_is_one_that_airflow_knows() -> None:
    airflow = find_spec("airflow")
    assert airflow
    assert airflow.origin
    known = yaml.safe_load((Path(airflow.origin).parent / "config_templates" / "config.yml").read_text())
    names = {name for service in SERVICES for name in environment(service)}
    names |= set(re.findall(r"AIRFLOW__\w+", DOCKERFILE))
    settings = [name.lower().split("__")[1:] for name in names if name.startswith("AIRFLOW__")]
    assert [s for s in settings if s[1] not in known.get(s[0], {"options": {}})["options"]] == []


# -- programs --------------------------------------------------------------------------------------------------


def test_the_commands_of_offset_ledger_exist() -> None:
    calls = list(commands("offset-ledger"))
    assert [build_parser().parse_args(call).verb for call in calls] == ["migrate", "serve"]


def test_the_commands_of_airflow_exist(tmp_path: Path) -> None:
    calls = list(commands("airflow"))
    assert {call[0] for call in calls} == {"db", "api-server", "scheduler", "dag-processor", "triggerer", "jobs"}
    program = (
        "import json, sys\nfrom airflow.cli import cli_parser\n"
        "parser = cli_parser.get_parser()\nfor call in json.loads(sys.argv[1]): parser.parse_args(call)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, json.dumps(calls)],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)}, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("service", [name for name in SERVICES if "python" in SERVICES[name].get("command", [])])
def test_the_names_that_inline_python_imports_exist(service: str) -> None:
    for node in ast.walk(ast.parse(SERVICES[service]["command"][-1])):
        if isinstance(node, ast.ImportFrom):
            assert node.module
            spec = find_spec(node.module)
            assert spec
            assert spec.origin
            defined = Path(spec.origin).read_text()
            for alias in node.names:
                assert re.search(rf"^(def {alias.name}\(|{alias.name} = )", defined, re.MULTILINE)


def test_what_the_image_is_built_from_is_let_through() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set(re.findall(r"^COPY --from=build /build/(?!cache)(\w+)", DOCKERFILE, re.MULTILINE))
    assert copied == {"dags", "expectations", "jobs", "plugins"}
    assert copied - allowed == set()
    folders = re.findall(r"AIRFLOW__CORE__(\w+)_FOLDER=/opt/offset-ledger/(\w+)", DOCKERFILE)
    assert folders == [("DAGS", "dags"), ("PLUGINS", "plugins")]
    locks = {"requirements.lock", "requirements-image.lock", "requirements-uv.lock"}
    assert {"pyproject.toml", "src", "README.md", "LICENSE", *locks} - allowed == set()


def test_the_image_has_the_versions_of_the_tests_and_none_of_their_tools() -> None:
    tested, image = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-image.lock")
    )
    assert image.items() <= tested.items()
    assert image.keys() & {"pytest", "mypy", "ruff", "playwright", "hypothesis", "mkdocs", "oxlint"} == set()
