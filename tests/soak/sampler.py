"""What is measured every few seconds: processes, sessions, the ledger's relations, files, and how long queries take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.soak.series import DISK, FILES, MEMORY, SECONDS, SESSIONS, TUPLES, Rule

MB = 1_000_000
Pids = Callable[[], int | None]
LEDGER = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes,
           coalesce(sum(s.n_dead_tup), 0)::bigint AS dead,
           (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()) AS sessions
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE n.nspname IN ('offset_ledger', 'offset_ledger_staging', 'public') AND c.relkind = 'r'"""


@dataclass
class Sampler:
    """Samples in a thread of its own until it is stopped; a server that is being restarted leaves its values out."""

    processes: Mapping[str, Pids]
    query: Callable[[str], list[tuple[int, int, int]]]
    folder: Path
    looks: Mapping[str, Callable[[], object]]
    seconds: float = 5.0
    samples: list[dict[str, float]] = field(default_factory=list)
    timed: dict[str, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def rules(self) -> dict[str, Rule]:
        """Every series that is judged."""
        of_processes = {f"{name} {what}": rule for name in self.processes for what, rule in _OF_A_PROCESS.items()}
        of_ledger = {"sessions": SESSIONS, "ledger": DISK, "dead tuples": TUPLES, "work folder": DISK}
        return of_processes | of_ledger | dict.fromkeys([*self.looks, *self.timed], SECONDS)

    def start(self) -> None:
        """Begin to sample."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sample no more."""
        self._over.set()
        if self._thread:
            self._thread.join(60)

    def note(self, name: str, seconds: float) -> None:
        """A duration that was measured elsewhere goes into the next sample."""
        self.timed[name] = seconds

    def take(self) -> dict[str, float]:
        """One sample."""
        sample = {"at": time.monotonic(), **self.timed, **self._ledger(), "work folder": _size(self.folder) / MB}
        for name, pid_of in self.processes.items():
            if pid := pid_of():
                sample |= _process(name, pid)
        for name, look in self.looks.items():
            began = time.monotonic()
            with suppress(Exception):  # a fault: the other samples have it
                look()
                sample[name] = time.monotonic() - began
        return sample

    def _run(self) -> None:
        while not self._over.wait(self.seconds):
            self.samples.append(self.take())

    def _ledger(self) -> dict[str, float]:
        with suppress(Exception):  # a fault
            size, dead, sessions = self.query(LEDGER)[0]
            return {"ledger": size / MB, "dead tuples": dead, "sessions": sessions}
        return {}


_OF_A_PROCESS = {"memory": MEMORY, "open files": FILES}


def _process(name: str, pid: int) -> dict[str, float]:
    """Of a process and what it started; shared pages are divided among those that share them."""
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        memory, files = 0, 0
        for each in [first, *first.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                memory += each.memory_full_info().pss
                files += each.num_fds()
        return {f"{name} memory": memory / MB, f"{name} open files": files}
    return {}


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
