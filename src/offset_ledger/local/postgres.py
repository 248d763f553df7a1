"""A real PostgreSQL on the loopback: 18 of a package, or the one whose programs OFFSET_LEDGER_POSTGRES_BIN names."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
from psycopg2 import sql

from offset_ledger.connections import Connection
from offset_ledger.errors import StackError
from offset_ledger.local.launch import Launch
from offset_ledger.local.layout import HOST, only_one, require_free
from offset_ledger.local.postgres_binaries import binary, locale_options
from offset_ledger.local.process import Daemon, Server, run, silent

ROLE = "offset_ledger"
DATA_DATABASE = "offset_ledger"
AIRFLOW_DATABASE = "airflow"
_SYSTEM_USER = "pgserver"
_SUPERUSER = "postgres"
_READY_SECONDS = 60
_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # a socket's path has a length limit that a deep checkout exceeds
    "shared_buffers": f"{min(max(_MEMORY >> 23, 128), 4096)}MB",  # an eighth: staging that fits is not written to disk
    "wal_buffers": "64MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


@dataclass(frozen=True, slots=True)
class Postgres(Server):
    """One server with the role ``offset_ledger`` and a database each for the data and for Airflow."""

    directory: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """The server's settings over those above."""

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        return Daemon("postgres", self.directory)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def url(self, database: str = DATA_DATABASE) -> str:
        """A libpq URL of that database, for psql and psycopg2."""
        return f"postgresql://{ROLE}@{self.address}/{database}"

    def connection(self, database: str = DATA_DATABASE) -> Connection:
        """The same as an Airflow connection, ``postgres_default``."""
        return Connection("postgres_default", "postgres", HOST, self.port, database, ROLE)

    def up(self, launch: Launch) -> None:
        """Start the server if it does not run, and return when it has its role and databases.

        Raises:
            StackError: the port is taken, or the server did not come up.
        """
        if self.daemon.pid() is None:
            require_free("Postgres", self.port)
            self._initialise()
            self.start(launch)
        self.wait(launch)
        self._create_databases()

    def start(self, launch: Launch | None = None) -> None:
        """Start it on the data it has; returns before it is ready."""
        launch = launch or Launch(silent)
        wanted = {**_SETTINGS, "port": str(self.port), **self.settings}
        settings = [f"--{name}={value}" for name, value in wanted.items()]
        user = _system_user()
        self._open_folders(user)
        launch.start(self.daemon, [binary("postgres"), "-D", str(self._data), *settings], os.environ, user)

    def wait(self, launch: Launch | None = None) -> None:
        """Return when it answers.

        Raises:
            StackError: it ended, or did not answer in time.
        """
        (launch or Launch(silent)).wait([self.daemon], self.ready, _READY_SECONDS)

    def stop(self, immediate: bool = False) -> bool:
        """A fast shutdown, or an immediate one that leaves recovery to the next start; False if it did not run."""
        return self.daemon.stop(how=signal.SIGQUIT if immediate else signal.SIGINT)

    def restart(self, immediate: bool = False) -> None:
        """Stop and start it, and return when it answers."""
        self.stop(immediate)
        self.start()
        self.wait()

    def ready(self) -> bool:
        """Whether it accepts a session."""
        try:
            psycopg2.connect(self._superuser_url(), connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _superuser_url(self) -> str:
        return f"postgresql://{_SUPERUSER}@{self.address}/postgres"

    def _initialise(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        # Made under another name: an interrupted initdb must not pass for a server's data.
        draft = self.directory / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        user = _system_user()
        if user:
            shutil.chown(draft, user, user)
        self._open_folders(user)
        locale = ["--encoding=UTF8", *locale_options()]
        command = [binary("initdb"), "-D", str(draft), "-U", _SUPERUSER, "--auth=trust", "--no-sync", *locale]
        run(command, os.environ, self.directory / "initdb.log", "initdb", user)
        draft.rename(self._data)

    def _open_folders(self, user: str | None) -> None:
        if user:
            _open_folders_above(self._data)
            _open_folders_above(Path(binary("postgres")))

    def _create_databases(self) -> None:
        connection = psycopg2.connect(self._superuser_url())
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT rolname FROM pg_roles UNION ALL SELECT datname || '/db' FROM pg_database")
                existing = {name for (name,) in cursor.fetchall()}
                if ROLE not in existing:
                    # CREATEDB: tests make a database each from a template.
                    cursor.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(sql.Identifier(ROLE)))
                for name in (DATA_DATABASE, AIRFLOW_DATABASE):
                    if f"{name}/db" not in existing:
                        statement = sql.SQL("CREATE DATABASE {} OWNER {}")
                        cursor.execute(statement.format(sql.Identifier(name), sql.Identifier(ROLE)))
        finally:
            connection.close()


def _system_user() -> str | None:
    """The user to run as: PostgreSQL refuses to run as root, so root has one made."""
    if os.geteuid() != 0:
        return None
    if not _has_user():
        with only_one("user"):  # of several stacks that start at once
            if not _has_user():
                _add_user()
    return _SYSTEM_USER


def _has_user() -> bool:
    try:
        pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        return False
    return True


def _add_user() -> None:
    try:
        subprocess.run(["useradd", "--system", _SYSTEM_USER], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(
            f"PostgreSQL does not run as root and the user {_SYSTEM_USER} could not be made ({error}); "
            "make it, or run this as another user than root"
        ) from None


def _open_folders_above(path: Path) -> None:
    """Let that user pass (not list) the folders above ``path``."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)
