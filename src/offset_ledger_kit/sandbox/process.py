"""Server processes that outlive this one: each in a session of its own, found again by its pid file.

The file ``started`` beside it keeps the moment: a pid that the system has given to another process is not signalled.
"""

import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from offset_ledger.errors import StackError

_LOG_LINES = 8
# Children of this process by pid, kept so that they are reaped when they end.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Daemon:
    """One server process: ``<directory>/<name>.pid`` says which, ``<directory>/<name>.log`` has its output."""

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        """The file of its standard output and error."""
        return self.directory / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.directory / f"{self.name}.pid"

    @property
    def _started_file(self) -> Path:
        return self.directory / f"{self.name}.started"

    def pid(self) -> int | None:
        """The pid of the running process, or None."""
        process = self._process()
        return process.pid if process else None

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], user: str | None = None, cwd: Path | None = None
    ) -> int:
        """Start the process and return its pid; it keeps running after this process ends."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                how = _surroundings(env, log, user, cwd or self.directory)
                child = subprocess.Popen(argv, start_new_session=True, **how)
            except OSError as error:
                raise StackError(f"{self.name} cannot be started: {error}; check that {argv[0]} may be run") from None
        _children[child.pid] = child
        self._started_file.write_text(f"{_started(psutil.Process(child.pid))}\n")
        self._pid_file.write_text(f"{child.pid}\n")
        return child.pid

    def stop(self, grace: float = 15, how: signal.Signals = signal.SIGTERM) -> bool:
        """Ask it to end with ``how``, SIGKILL what is left after ``grace`` seconds; False if nothing ran."""
        process = self._process()
        members = self._members()
        if process:
            _signal(members, signal.SIGCONT)  # a paused process would not see the next signal
            _signal([process], how)
            _wait([process], grace)
        _signal(members, signal.SIGKILL)
        _wait(members, grace)
        self._pid_file.unlink(missing_ok=True)
        return bool(members)

    def kill(self) -> None:
        """SIGKILL it and everything it started, as when the machine fails."""
        members = self._members()
        _signal(members, signal.SIGKILL)
        _wait(members, 10)
        self._pid_file.unlink(missing_ok=True)

    def pause(self) -> None:
        """SIGSTOP it and everything it started: alive, sockets open, no answers."""
        _signal(self._members(), signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after ``pause``."""
        _signal(self._members(), signal.SIGCONT)

    def memory_bytes(self) -> int:
        """Memory of it and everything it started; where the system reports it, each shared page counts in part."""
        total = 0
        for member in self._members():
            with suppress(psutil.NoSuchProcess):
                memory = member.memory_full_info()
                total += getattr(memory, "pss", memory.rss)
        return total

    def last_lines(self) -> str:
        """The end of its log, one indented line each."""
        if not self.log.exists():
            return "  (no log)"
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (the log is empty)"

    def _recorded(self) -> tuple[int, float] | None:
        try:
            return int(self._pid_file.read_text()), float(self._started_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _process(self) -> psutil.Process | None:
        recorded = self._recorded()
        if recorded is None:
            return None
        pid, started = recorded
        if pid in _children and _children[pid].poll() is not None:
            _children.pop(pid, None)
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if abs(_started(process) - started) < 0.05 and _lives(process):
                return process
        return None

    def _members(self) -> list[psutil.Process]:
        recorded = self._recorded()
        if recorded is None:
            return []
        leader = self._process()
        if leader is None and psutil.pid_exists(recorded[0]):
            return []  # another process has the pid now, and its session has the same number
        session = []
        for each in psutil.process_iter():
            with suppress(OSError):
                if os.getsid(each.pid) == recorded[0]:
                    session.append(each)
        members = {each.pid: each for each in session}
        for each in session:
            with suppress(psutil.NoSuchProcess):
                members |= {child.pid: child for child in each.children(recursive=True)}
        return list(members.values())


class Server(ABC):
    """A server that is one daemon, for those who make it fail."""

    __slots__ = ()

    @property
    @abstractmethod
    def daemon(self) -> Daemon:
        """Its process."""

    def stop(self, grace: float = 15) -> bool:
        """SIGTERM, and SIGKILL after ``grace`` seconds; False if it did not run."""
        return self.daemon.stop(grace)

    def kill(self) -> None:
        """SIGKILL to it and all its children: no shutdown, no flush."""
        self.daemon.kill()

    def pause(self) -> None:
        """SIGSTOP to it and all its children: its sockets stay open and nothing answers."""
        self.daemon.pause()

    def resume(self) -> None:
        """SIGCONT after ``pause``."""
        self.daemon.resume()


def silent(line: str) -> None:
    """Say nothing, the default of every ``say``."""
    del line


def run(
    argv: Sequence[str], env: Mapping[str, str], log: Path, what: str, user: str | None = None, cwd: Path | None = None
) -> None:
    """Run a command to its end, its output appended to ``log``.

    Raises:
        StackError: it failed; the message has the last lines of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        code = subprocess.run(argv, check=False, **_surroundings(env, output, user, cwd or log.parent)).returncode
    if code:
        lines = Daemon(log.stem, log.parent).last_lines()
        raise StackError(f"{what} failed with exit code {code}; end of {log}:\n{lines}")


def _surroundings(env: Mapping[str, str], output: IO[bytes], user: str | None, cwd: Path) -> dict[str, Any]:
    """The arguments of Popen that a server and a command of its user share."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
    return {"env": dict(env), **streams, "cwd": cwd, "user": user, "group": user, "extra_groups": [] if user else None}


def _started(process: psutil.Process) -> float:
    # Seconds after boot: setting the clock does not change it.
    return float(process.create_time() - psutil.boot_time())


def _signal(processes: Iterable[psutil.Process], which: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(which)


def _wait(processes: list[psutil.Process], timeout: float) -> None:
    """Return when they have ended: a zombie has, though the init of a container may take seconds to reap an orphan."""
    deadline = time.monotonic() + timeout
    while any(map(_lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        child = _children.get(process.pid)
        if child is not None and child.poll() is not None:
            _children.pop(process.pid, None)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1))
    except psutil.NoSuchProcess:
        return False


class Launch:
    """One ``up``; ``say`` takes a line for each thing it does."""

    def __init__(self, say: Callable[[str], None] = silent) -> None:
        self.say = say
        self._started: list[Daemon] = []
        self._cancelled = threading.Event()
        self._lock = threading.Lock()

    def start(
        self,
        daemon: Daemon,
        argv: Sequence[str],
        env: Mapping[str, str],
        user: str | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start a daemon, and remember that this launch did."""
        with self._lock:
            self.check()
            self._started.append(daemon)
            daemon.start(argv, env, user, cwd)

    def check(self) -> None:
        """Return unless another part has failed meanwhile."""
        if self._cancelled.is_set():
            raise StackError("not started: another part of the stack failed")

    def undo(self) -> None:
        """Stop what was started, the last first, and let nothing more start."""
        with self._lock:
            self._cancelled.set()
        for daemon in reversed(self._started):
            daemon.stop(grace=5)

    def wait(self, daemons: Iterable[Daemon], ready: Callable[[], bool], timeout: float) -> None:
        """Return when ``ready()``.

        Raises:
            StackError: one of the daemons ended, or they were not ready in time.
        """
        daemons = tuple(daemons)
        deadline = time.monotonic() + timeout
        while not ready():
            self.check()
            if ended := next((daemon for daemon in daemons if daemon.pid() is None), None):
                raise StackError(f"{ended.name} ended while it started; end of {ended.log}:\n{ended.last_lines()}")
            if time.monotonic() > deadline:
                names = ", ".join(f"{daemon.name} (pid {daemon.pid()})" for daemon in daemons)
                own = all(daemon in self._started for daemon in daemons)
                advice = (
                    "it was stopped again" if own else "run `offset-ledger stack down`, then `offset-ledger stack up`"
                )
                raise StackError(
                    f"{names} runs but was not ready within {timeout:.0f} s; {advice}; "
                    f"end of {daemons[0].log}:\n{daemons[0].last_lines()}"
                )
            time.sleep(0.1)
