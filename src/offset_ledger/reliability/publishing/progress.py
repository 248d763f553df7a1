"""Progress of a long run: a bar at a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

OnProgress = Callable[[int], None]
"""Called with how many records were acknowledged since the last call."""

PLAIN_SECONDS = 5.0


@contextmanager
def progress(total: int | None, what: str, out: TextIO | None = None) -> Iterator[OnProgress]:
    """Show how many of ``total`` are done, on standard error unless ``out`` is given."""
    stream = out or sys.stderr
    if stream.isatty():
        with tqdm(total=total, desc=what, unit=" records", unit_scale=True, file=stream) as bar:

            def advance(done: int) -> None:
                bar.update(done)

            yield advance
    else:
        yield PlainLines(total, what, stream)


class PlainLines:
    """``published 120,000 of 1,000,000 (24,000/s)``, at most every ``PLAIN_SECONDS``."""

    def __init__(self, total: int | None, what: str, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._what = what
        self._out = out
        self._clock = clock
        self._done = 0
        self._began = self._said = clock()

    def __call__(self, done: int) -> None:
        self._done += done
        now = self._clock()
        if now - self._said < PLAIN_SECONDS:
            return
        self._said = now
        of = "" if self._total is None else f" of {self._total:,}"
        print(
            f"{self._what} {self._done:,}{of} ({self._done / (now - self._began):,.0f}/s)", file=self._out, flush=True
        )
