"""A real Airflow on the loopback: API server, scheduler, DAG processor and triggerer, as four processes.

``airflow standalone`` would start the same four, but lets their log servers listen on every interface.
The login is ``admin`` with the password of ``<directory>/passwords.json``: one POST of it to ``/auth/token`` gives a
token for the REST API. A second one, ``viewer``, may read and change nothing.
"""

import http.client
import json
import os
import secrets
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg2
from cryptography.fernet import Fernet

from offset_ledger.base.local_files import write_private
from offset_ledger.errors import StackError
from offset_ledger.postgres.connection import postgres_arguments, postgres_url
from offset_ledger_kit.sandbox.layout import HOST, require_free
from offset_ledger_kit.sandbox.postgres import AIRFLOW_DATABASE, Postgres
from offset_ledger_kit.sandbox.process import Daemon, Launch, run

USER = "admin"
VIEWER = "viewer"
_READY_SECONDS = 180
_MUST_BE_HEALTHY = ("metadatabase", "scheduler", "dag_processor")
# Not `airflow standalone`, which starts log servers on every interface, and chooses login and number of workers itself.
_COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("--workers", "1"),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
_LOCAL_SETTINGS = """from offset_ledger.interfaces.airflow.preload import preload

preload()
"""
# The command ``airflow``, which collects rarely before it imports anything.
_AIRFLOW = """from offset_ledger.base.garbage_collection import collect_rarely
collect_rarely()
from airflow.__main__ import main
main()
"""
_SETTINGS = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{VIEWER}:viewer",
    "AIRFLOW__API__HOST": HOST,
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
    # A file that changes is parsed at once; this is for those that did not, whose pipeline files may have.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "20",
    # A supervisor often misses the end of its task, and then looks after this interval: four slots wait for it.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True, slots=True)
class Airflow:
    """The four components, on a database of the stack's Postgres."""

    directory: Path
    project: Path
    port: int
    postgres: Postgres
    database: str = AIRFLOW_DATABASE
    python: str = sys.executable

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """The four processes."""
        return tuple(Daemon(name, self.directory) for name in _COMPONENTS)

    @property
    def address(self) -> str:
        """The address of the UI and of the REST API."""
        return f"http://{HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Airflow's configuration, secrets included."""
        generated, plugins = self._secrets(), self.project / "plugins"
        return {
            **_SETTINGS,
            **({"AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)} if plugins.is_dir() else {}),
            "AIRFLOW_HOME": str(self.directory),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__CORE__FERNET_KEY": generated["fernet_key"],
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__SECRET_KEY": generated["secret_key"],
            "AIRFLOW__API_AUTH__JWT_SECRET": generated["jwt_secret"],
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres_url(self.postgres.connection(self.database)),
        }

    def up(self, connections: Mapping[str, str], launch: Launch) -> None:
        """Migrate the metadata, start the components that do not run, and return when Airflow is healthy.

        Raises:
            StackError: the port is taken, the migration failed, or a component did not come up.
        """
        missing = [daemon for daemon in self.daemons if daemon.pid() is None]
        if "api-server" in (daemon.name for daemon in missing):
            require_free("Airflow", self.port)
        env = self.migrate(connections, launch)
        for daemon in missing:
            command = [self.python, "-c", _AIRFLOW, daemon.name, *_COMPONENTS[daemon.name]]
            launch.start(daemon, command, env, cwd=self.project)
        launch.wait(self.daemons, self.ready, _READY_SECONDS)

    def migrate(self, connections: Mapping[str, str], launch: Launch) -> dict[str, str]:
        """Migrate the metadata and return the environment of the components.

        Raises:
            StackError: the migration failed.
        """
        # Without the settings of another Airflow, and with the programs beside this Python first.
        outer = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
        outer["PATH"] = os.pathsep.join((str(Path(self.python).parent), os.environ.get("PATH", os.defpath)))
        env = {**outer, **connections, **self.environment()}
        settings = self.directory / "config" / "airflow_local_settings.py"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(_LOCAL_SETTINGS)
        # Unless the database is where the last migration by this version left it.
        release = version("apache-airflow")  # importing Airflow would take seconds and set up logging
        marker = self.directory / "migrated"
        if not marker.exists() or marker.read_text() != f"{release} {self._revision()}":
            launch.say("migrating the Airflow database")
            migrate = [self.python, "-c", _AIRFLOW, "db", "migrate"]
            run(migrate, env, self.directory / "migrate.log", "airflow db migrate")
            marker.write_text(f"{release} {self._revision()}")
        return env

    def down(self) -> bool:
        """Stop the components; False if none ran."""
        with ThreadPoolExecutor(len(self.daemons)) as pool:
            return True in list(pool.map(Daemon.stop, self.daemons))

    def ready(self) -> bool:
        """Return whether database, scheduler and DAG processor are healthy."""
        try:
            status, answer = self.request("GET", "/api/v2/monitor/health", seconds=10)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and all(answer[name]["status"] == "healthy" for name in _MUST_BE_HEALTHY)

    def token(self, user: str = USER) -> str:
        """A bearer token of a user for the REST API.

        Raises:
            StackError: Airflow refused the login.
        """
        login = {"username": user, "password": self.password(user)}
        status, answer = self.request("POST", "/auth/token", login)
        if status != 201:
            raise StackError(
                f"expected a token from {self.address}/auth/token, found status {status}; is it this stack?"
            )
        return str(answer["access_token"])

    def password(self, user: str = USER) -> str:
        """The password of the admin, or of the viewer."""
        self._secrets()
        return str(json.loads(self.passwords.read_text())[user])

    def request(
        self, method: str, path: str, body: object = None, token: str | None = None, seconds: float = 60
    ) -> tuple[int, Any]:
        """One REST call: the status, and the JSON of the answer (None if it has none).

        Raises:
            OSError: Airflow is not there, or sent nothing for ``seconds``.
        """
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=seconds)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if text else None

    @property
    def passwords(self) -> Path:
        """The file with the logins and their passwords."""
        return self.directory / "passwords.json"

    def _secrets(self) -> dict[str, str]:
        path = self.directory / "secrets.json"
        if not path.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            keys = {name: secrets.token_urlsafe(64) for name in ("jwt_secret", "secret_key")}
            logins = {user: secrets.token_urlsafe(24) for user in (USER, VIEWER)}
            write_private(self.passwords, json.dumps(logins, indent=2) + "\n")
            write_private(path, json.dumps({**keys, "fernet_key": Fernet.generate_key().decode()}))
        return dict(json.loads(path.read_text()))

    def _revision(self) -> str | None:
        with closing(psycopg2.connect(**postgres_arguments(self.postgres.connection(self.database)))) as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT version_num FROM alembic_version")
                    row = cursor.fetchone()
                    return str(row[0]) if row else None
            except psycopg2.errors.UndefinedTable:
                return None
