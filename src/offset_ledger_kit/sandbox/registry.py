"""Apicurio Registry on the loopback: a schema registry with Confluent's API, its schemas in a file of the stack."""

import http.client
import os
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offset_ledger.base.local_files import cache_root, only_one
from offset_ledger.errors import StackError
from offset_ledger.outside.connections import Connection, without_secrets
from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.sandbox.jars import Artifact, pinned_name, retrieve
from offset_ledger_kit.sandbox.java import LIGHT
from offset_ledger_kit.sandbox.layout import HOST, require_free
from offset_ledger_kit.sandbox.process import Daemon, Launch, Server

APICURIO_VERSION = "2.6.13.Final"
API = "/apis/ccompat/v7"
_APP = Artifact("io.apicurio", "apicurio-registry-app", APICURIO_VERSION, "all", "tar.gz")
_JVM = ("-Xmx256m", *LIGHT, "-Djava.net.preferIPv4Stack=true")
_READY_SECONDS = 120
# Python 3.11.2 and 3.11.3 have no filters.
_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@dataclass(frozen=True, slots=True)
class Registry(Server):
    """One registry; its schemas survive a restart."""

    directory: Path
    port: int

    @property
    def daemon(self) -> Daemon:
        """The process and its state, in the folder of the server."""
        return Daemon("registry", self.directory)

    @property
    def address(self) -> str:
        """The address of Confluent's API."""
        return f"http://{HOST}:{self.port}{API}"

    def connection(self) -> Connection:
        """The Airflow connection ``registry_default`` that leads here."""
        return Connection("registry_default", "http", self.address)

    def up(self, java: JavaRuntime, launch: Launch) -> None:
        """Start the registry if it does not run, and return when it answers.

        Raises:
            StackError: it could not be fetched, its port is taken, or it did not come up.
        """
        if self.daemon.pid() is None:
            program = registry_program(java, launch.say)
            require_free("the schema registry", self.port)
            settings = {
                "quarkus.http.host": HOST,
                "quarkus.http.port": self.port,
                "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self.directory / 'schemas'};WRITE_DELAY=0",
                "quarkus.datasource.jdbc.initial-size": 1,
                "quarkus.datasource.jdbc.min-size": 1,
            }
            options = [f"-D{name}={value}" for name, value in settings.items()]
            command = [java.executable, *_JVM, *options, "-jar", str(program)]
            launch.start(self.daemon, command, without_secrets(os.environ))
        launch.wait([self.daemon], self.ready, _READY_SECONDS)

    def ready(self) -> bool:
        """Return whether it answers."""
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=5)) as client:
            try:
                client.request("GET", f"{API}/subjects")
                return client.getresponse().status == http.client.OK
            except (OSError, http.client.HTTPException):
                return False


def registry_program(java: JavaRuntime, say: Callable[[str], None]) -> Path:
    """The jar to run, from the cache or fetched and unpacked into it.

    Raises:
        StackError: it could not be fetched, or has not our checksum.
    """
    folder = cache_root() / "apicurio" / pinned_name(APICURIO_VERSION, _APP.file)
    if not folder.exists():
        with only_one("apicurio"):
            if not folder.exists():
                say(f"fetching Apicurio Registry {APICURIO_VERSION}, 136 MiB (once)")
                folder.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name:
                    draft = Path(name)
                    (archive,) = retrieve([_APP], (), java, draft, draft / "ivy").iterdir()
                    try:
                        with tarfile.open(archive) as packed:
                            packed.extractall(draft / "app", **_FILTER)
                    except (tarfile.TarError, EOFError, OSError) as error:
                        raise StackError(
                            f"{archive.name} cannot be unpacked ({error}); run the command again"
                        ) from None
                    (draft / "app").rename(folder)
    return folder / f"{_APP.name}-{APICURIO_VERSION}-runner.jar"
