"""Daemons: found again by their pid file, never confused with another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from offset_ledger.errors import StackError
from offset_ledger_kit.sandbox.process import Daemon, Launch, run, silent


def python(program: str) -> list[str]:
    return [sys.executable, "-c", f"import signal, subprocess, sys, time; {program}; time.sleep(300)"]


SLEEP = python("pass")
DEAF = python("signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)")
POLITE = python("signal.signal(15, lambda *_: sys.exit(print('asked to end', flush=True))); print('ready', flush=True)")
PARENT = python("subprocess.Popen(['sleep', '300']); print('born', flush=True)")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon("server", tmp_path)
    yield made
    made.kill()


def until_logged(daemon: Daemon, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in daemon.log.read_text():
        assert time.monotonic() < deadline, daemon.log.read_text()
        time.sleep(0.02)


def test_a_started_daemon_is_found_by_another_reader_of_its_folder(daemon: Daemon, tmp_path: Path) -> None:
    pid = daemon.start(SLEEP, os.environ)
    assert Daemon("server", tmp_path).pid() == pid


def test_it_has_a_session_of_its_own(daemon: Daemon) -> None:
    assert os.getsid(daemon.start(SLEEP, os.environ)) == daemon.pid()


def test_a_pid_that_belongs_to_another_process_is_neither_reported_nor_killed(daemon: Daemon, tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP, start_new_session=True) as stranger:
        try:
            (tmp_path / "server.pid").write_text(f"{stranger.pid}\n")
            (tmp_path / "server.started").write_text("1.0\n")
            assert daemon.pid() is None
            assert daemon.stop() is False
            daemon.kill()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_pid_file_is_what_kill_takes(daemon: Daemon, tmp_path: Path) -> None:
    pid = daemon.start(SLEEP, os.environ)
    subprocess.run(f'kill $(cat "{tmp_path / "server.pid"}")', shell=True, check=True)
    psutil.wait_procs([psutil.Process(pid)], timeout=10)
    assert daemon.pid() is None


@pytest.mark.parametrize(("pid", "started"), [("", "1"), ("{", "1"), ("x", "1"), (None, "1"), ("7", ""), ("7", None)])
def test_a_damaged_pid_file_means_not_running(
    daemon: Daemon, tmp_path: Path, pid: str | None, started: str | None
) -> None:
    for name, content in (("pid", pid), ("started", started)):
        if content is not None:
            (tmp_path / f"server.{name}").write_text(content)
    assert daemon.pid() is None


def test_a_daemon_that_nobody_reaps_has_stopped(daemon: Daemon, tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from offset_ledger_kit.sandbox.process import Daemon;"
        "print(Daemon('server', Path(sys.argv[1])).start(['sleep', '300'], os.environ), flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout
            pid = int(parent.stdout.readline())
            began = time.monotonic()
            assert daemon.stop(grace=10) is True
            assert time.monotonic() - began < 10
            assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        finally:
            parent.kill()


def test_a_daemon_that_ended_by_itself_is_not_running(daemon: Daemon) -> None:
    pid = daemon.start([sys.executable, "-c", ""], os.environ)
    psutil.wait_procs([psutil.Process(pid)], timeout=10)
    assert daemon.pid() is None


def test_stop_returns_whether_it_ran(daemon: Daemon) -> None:
    daemon.start(SLEEP, os.environ)
    assert (daemon.stop(), daemon.stop()) == (True, False)


def test_stop_kills_what_ignores_sigterm_after_the_grace(daemon: Daemon) -> None:
    pid = daemon.start(DEAF, os.environ)
    until_logged(daemon, "deaf")
    daemon.stop(grace=0.2)
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_children_end_with_it(daemon: Daemon, end: str) -> None:
    pid = daemon.start(PARENT, os.environ)
    until_logged(daemon, "born")
    (child,) = psutil.Process(pid).children()
    getattr(daemon, end)()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_stop_ends_children_whose_parent_was_killed_from_outside(daemon: Daemon) -> None:
    pid = daemon.start(PARENT, os.environ)
    until_logged(daemon, "born")
    (child,) = psutil.Process(pid).children()
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)], timeout=10)
    assert daemon.pid() is None
    assert daemon.stop() is True
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_pause_and_resume(daemon: Daemon) -> None:
    process = psutil.Process(daemon.start(SLEEP, os.environ))
    daemon.pause()
    deadline = time.monotonic() + 5
    while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (process.status(), daemon.pid()) == (psutil.STATUS_STOPPED, process.pid)
    daemon.resume()
    assert process.status() != psutil.STATUS_STOPPED


def test_a_paused_daemon_can_be_stopped_gracefully(daemon: Daemon) -> None:
    process = psutil.Process(daemon.start(POLITE, os.environ))
    until_logged(daemon, "ready")
    daemon.pause()
    assert daemon.stop(grace=20) is True
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    # SIGKILL would have ended it too, and a paused process hears no other signal but the one to go on.
    assert daemon.log.read_text().splitlines() == ["ready", "asked to end"]


def test_a_program_that_does_not_exist_is_one_line(daemon: Daemon) -> None:
    with pytest.raises(StackError, match=r"^server cannot be started: .*; check that /no/such may be run$"):
        daemon.start(["/no/such"], os.environ)


def test_waiting_for_a_daemon_that_ends_shows_the_end_of_its_log(daemon: Daemon) -> None:
    launch = Launch(silent)
    launch.start(daemon, [sys.executable, "-c", "print('first', flush=True); raise SystemExit('no disk')"], os.environ)
    with pytest.raises(StackError) as raised:
        launch.wait([daemon], lambda: False, 30)
    assert str(raised.value) == f"server ended while it started; end of {daemon.log}:\n  first\n  no disk"


def test_a_found_daemon_that_is_not_ready_in_time_says_what_to_do(daemon: Daemon) -> None:
    pid = daemon.start(SLEEP, os.environ)
    with pytest.raises(StackError) as raised:
        Launch(silent).wait([daemon], lambda: False, 0.2)
    assert str(raised.value).startswith(
        f"server (pid {pid}) runs but was not ready within 0 s; run `offset-ledger stack down`"
    )


def test_undo_stops_what_this_launch_started_and_nothing_else(tmp_path: Path) -> None:
    mine, found = Daemon("mine", tmp_path), Daemon("found", tmp_path)
    launch = Launch(silent)
    try:
        found.start(SLEEP, os.environ)
        launch.start(mine, SLEEP, os.environ)
        launch.undo()
        assert (mine.pid(), found.pid() is None) == (None, False)
        with pytest.raises(StackError, match="another part of the stack failed"):
            launch.start(mine, SLEEP, os.environ)
    finally:
        mine.kill()
        found.kill()


def test_a_failed_command_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"^trying failed with exit code 1; end of .*try.log:\n  no room$"):
        run([sys.executable, "-c", "raise SystemExit('no room')"], os.environ, tmp_path / "try.log", "trying")
