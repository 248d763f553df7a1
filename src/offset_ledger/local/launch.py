"""One start of servers: what it started itself, so that a failure stops that and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from offset_ledger.errors import StackError
from offset_ledger.local.process import Daemon


class Launch:
    """One ``up``; ``say`` takes a line for each thing it does."""

    def __init__(self, say: Callable[[str], None]) -> None:
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

    def started(self, daemon: Daemon) -> bool:
        """Whether this launch started it (else it was found running)."""
        return daemon in self._started

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
            for daemon in daemons:
                if daemon.pid() is None:
                    raise StackError(
                        f"{daemon.name} ended while it started; end of {daemon.log}:\n{daemon.last_lines()}"
                    )
            if time.monotonic() > deadline:
                raise self._timed_out(daemons, timeout)
            time.sleep(0.1)

    def _timed_out(self, daemons: tuple[Daemon, ...], timeout: float) -> StackError:
        names = ", ".join(f"{daemon.name} (pid {daemon.pid()})" for daemon in daemons)
        own = all(self.started(daemon) for daemon in daemons)
        advice = "it was stopped again" if own else "run `offset-ledger stack down`, then `offset-ledger stack up`"
        return StackError(
            f"{names} runs but was not ready within {timeout:.0f} s; {advice}; "
            f"end of {daemons[0].log}:\n{daemons[0].last_lines()}"
        )
