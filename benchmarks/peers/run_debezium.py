"""Debezium's JDBC sink on a standalone worker of Kafka Connect, upserting by primary key: the last write wins.

The clock runs from the creation of the connector until the last record of each partition is visible in the table.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg2
from benchmarks.peers.task import Task, answer

from offset_ledger_kit.sandbox.layout import free_ports

KINDS = {"integer": "int32", "bigint": "int64", "boolean": "boolean", "numeric(12,2)": "double"}
# Connect's own are used: Hibernate looks for Jackson's modules and finds those of Connect, of another class loader.
SHARED = ("jackson-core", "jackson-annotations", "jackson-databind")


def _schema(task: Task) -> str:
    fields = [
        {"field": name, "type": KINDS.get(kind, "string")} for name, kind in task.columns.items() if name != "city"
    ]
    city = {"field": "city", "type": "string"}
    return json.dumps({"type": "struct", "fields": [*fields, {"field": "address", "type": "struct", "fields": [city]}]})


def _worker(task: Task, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": task.bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": f"{task.scratch}/offsets",
        "plugin.path": f"{task.scratch}/plugins",
        "plugin.discovery": "service_load",  # looking through every class takes longer than a small batch
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "consumer.auto.offset.reset": "earliest",
        "consumer.max.poll.records": "10000",
        "consumer.max.partition.fetch.bytes": "4194304",
    }


def _connector(task: Task) -> dict[str, str]:
    # Named after the table: the offsets of its consumer group would outlive it.
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "2",
        "topics": task.topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "value.converter.schema.content": _schema(task),
        "transforms": "flat,name",
        "transforms.flat.type": "org.apache.kafka.connect.transforms.Flatten$Value",
        "transforms.flat.delimiter": "_",
        "transforms.name.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.name.renames": "address_city:city",
        # A text becomes a timestamptz and a numeric in the server.
        "connection.url": f"{task.jdbc}&stringtype=unspecified",
        "connection.username": task.postgres["user"],
        "connection.password": task.postgres["password"],
        "collection.name.format": task.table,
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "event_id",
        "schema.evolution": "none",
        "batch.size": "10000",
        "use.reduction.buffer": "true",
    }


def _ask(port: int, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method="PUT" if data else "GET"
    )
    with urllib.request.urlopen(asked, timeout=30) as response:
        return json.loads(response.read())


def _start(task: Task, port: int) -> subprocess.Popen[bytes]:
    scratch = Path(task.scratch)
    plugin = scratch / "plugins" / "debezium"
    plugin.mkdir(parents=True)
    for jar in map(Path, task.jars["debezium"]):
        if not jar.name.startswith(SHARED):
            (plugin / jar.name).symlink_to(jar)
    (scratch / "worker.properties").write_text("".join(f"{k}={v}\n" for k, v in _worker(task, port).items()))
    command = [f"{task.java}/bin/java", "-Xmx1g", "-Duser.timezone=UTC", "-cp", ":".join(task.jars["connect"])]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(scratch / "worker.properties")]
    log = (scratch / "connect.log").open("wb")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _wait_until_up(worker: subprocess.Popen[bytes], port: int) -> None:
    while worker.poll() is None:
        with suppress(urllib.error.URLError, ConnectionError):
            _ask(port, "/connectors")
            return
        time.sleep(0.1)
    raise SystemExit(f"Kafka Connect ended with {worker.returncode}")


def _check_running(task: Task, port: int) -> None:
    with suppress(urllib.error.HTTPError):  # not there yet
        status = _ask(port, f"/connectors/{task.name}/status")
        for part in [status["connector"], *status["tasks"]]:
            if part["state"] == "FAILED":
                causes = [line for line in part["trace"].splitlines() if not line.startswith("\tat ")]
                raise SystemExit(f"the connector failed: {' '.join(causes)}")


def _wait_until_visible(task: Task, port: int) -> None:
    query = f"SELECT count(*) FROM {task.table} JOIN (VALUES {', '.join(['(%s, %s::timestamptz)'] * len(task.last))})"
    query += " AS last (event_id, publish_at) USING (event_id, publish_at)"
    values = [value for pair in task.last for value in pair]
    session = psycopg2.connect(task.dsn)
    session.autocommit = True
    with session.cursor() as cursor:
        while True:
            cursor.execute(query, values)
            if cursor.fetchone() == (len(task.last),):
                return
            _check_running(task, port)
            time.sleep(0.1)


def work(task: Task) -> Callable[[], None]:
    """Start the worker; the rest is timed."""
    (port,) = free_ports(1)
    worker = _start(task, port)
    _wait_until_up(worker, port)

    def run() -> None:
        try:
            _ask(port, f"/connectors/{task.name}/config", _connector(task))
            _wait_until_visible(task, port)
        finally:
            worker.terminate()
        # The rest is not timed by much: the worker's end is needed for its CPU seconds.

    return run


if __name__ == "__main__":
    answer(work)
