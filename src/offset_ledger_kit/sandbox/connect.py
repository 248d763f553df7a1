"""Kafka Connect on the loopback with Debezium's connector for Postgres, and a Postgres whose log it can read."""

import http.client
import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from offset_ledger.base.local_files import write_private
from offset_ledger.errors import StackError
from offset_ledger.outside.connections import Connection, without_secrets
from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger_kit.sandbox.jars import Artifact, Bundle, fetch
from offset_ledger_kit.sandbox.java import LIGHT
from offset_ledger_kit.sandbox.layout import HOST, require_free
from offset_ledger_kit.sandbox.postgres import ROLE, Postgres
from offset_ledger_kit.sandbox.process import Daemon, Launch, Server

DEBEZIUM_VERSION = "3.6.1.Final"
CONNECT_VERSION = "4.3.0"  # what this Debezium is built with; its clients talk to any broker of 4.x
CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_PUBLICATION = "everything"
_READY_SECONDS = 120
_BUNDLE = Bundle(
    (
        Artifact("org.apache.kafka", "connect-runtime", CONNECT_VERSION),
        Artifact("io.debezium", "debezium-connector-postgres", DEBEZIUM_VERSION),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),
    )
)


@dataclass(frozen=True, slots=True)
class Connect(Server):
    """A standalone worker, without connectors at first."""

    directory: Path
    port: int

    @property
    def daemon(self) -> Daemon:
        """The process and its state, in the folder of the server."""
        return Daemon("connect", self.directory)

    def up(self, bootstrap: str, java: JavaRuntime, launch: Launch) -> None:
        """Start a worker that writes to these brokers, and return when it answers.

        Raises:
            StackError: it could not be fetched, its port is taken, or it did not come up.
        """
        jars = fetch(_BUNDLE, java, launch.say)
        require_free("Kafka Connect", self.port)
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "bootstrap.servers": bootstrap,
            "listeners": f"http://{HOST}:{self.port}",
            "plugin.discovery": "service_load",
            "offset.storage.file.filename": self.directory / "offsets",
            "offset.flush.interval.ms": 500,
            "key.converter": CONVERTER,
            "value.converter": CONVERTER,
            "config.providers": "private",
            "config.providers.private.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        }
        file = self.directory / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["-Xmx384m", *LIGHT, "-Dorg.apache.logging.log4j.level=WARN", "-cp", ":".join(map(str, jars))]
        main = ["org.apache.kafka.connect.cli.ConnectStandalone", str(file)]
        launch.start(self.daemon, [java.executable, *options, *main], without_secrets(os.environ))
        launch.wait([self.daemon], lambda: self._asked("/") is not None, _READY_SECONDS)

    def add(self, name: str, source: Connection, settings: Mapping[str, str]) -> None:
        """Start a connector, whose topics and slot are named like it."""
        password = self.directory / f"{name}.password"  # the API shows the settings of connectors to everybody
        write_private(password, str(source.password))
        own = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": source.host,
            "database.port": source.port,
            "database.user": source.login,
            "database.password": f"${{private:{password.parent.resolve()}:{password.name}}}",
            "database.dbname": source.schema,
            "plugin.name": "pgoutput",
            "publication.name": _PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "slot.name": name,
            "topic.prefix": name,
            "poll.interval.ms": 50,
        }
        config = {key: str(value) for key, value in {**own, **settings}.items()}
        self._asked("/connectors", {"name": name, "config": config})

    def check(self, name: str) -> None:
        """Return if nothing of the connector has failed.

        Raises:
            StackError: it has, and the message begins as the worker's does; or the worker does not run.
        """
        status = self._asked(f"/connectors/{name}/status")
        for each in [status["connector"], *status["tasks"]] if status else []:
            if each["state"] == "FAILED":
                raise StackError(f"the connector {name} failed: {each['trace'][:2000]}; see {self.daemon.log}")
        if self.daemon.pid() is None:
            raise StackError(f"Kafka Connect has ended; end of {self.daemon.log}:\n{self.daemon.last_lines()}")

    def _asked(self, path: str, document: object = None) -> Any:
        """What the REST API answers, to a document that is posted if there is one; None while it has no answer."""
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=60)) as client:
            try:
                body = None if document is None else json.dumps(document)
                client.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
                answer = client.getresponse()
                text = answer.read()
            except OSError:
                return None
        if answer.status == http.client.NOT_FOUND:
            return None
        if answer.status >= http.client.BAD_REQUEST:
            raise StackError(
                f"Kafka Connect answered {answer.status} to {path}: {text.decode(errors='replace')[:2000]}"
            )
        return json.loads(text)


def start_source(directory: Path, port: int, launch: Launch) -> Postgres:
    """A server of which connectors read all tables: those of the stack write a shorter log.

    Raises:
        StackError: the port is taken, or it did not come up.
    """
    server = Postgres(directory, port, {"wal_level": "logical", "shared_buffers": "64MB"})
    server.up(launch)
    database = str(server.connection().schema)
    with closing(psycopg2.connect(**postgres_arguments(server.superuser(database)))) as session:
        session.autocommit = True
        session.cursor().execute(f"ALTER ROLE {ROLE} REPLICATION; CREATE PUBLICATION {_PUBLICATION} FOR ALL TABLES")
    return server
