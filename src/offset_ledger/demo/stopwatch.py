"""Where the time of a demo goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Stopwatch:
    """Seconds by part of the demo, and by task of its DAG runs."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.tasks: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block as a part of that name, or as more of it."""
        began = time.monotonic()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.monotonic() - began

    def add(self, tasks: Mapping[str, float]) -> None:
        """Add what the tasks of one run took."""
        for name, seconds in tasks.items():
            self.tasks[name] = self.tasks.get(name, 0.0) + seconds
