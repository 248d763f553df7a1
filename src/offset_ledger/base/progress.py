"""Progress of a long run: a bar at a terminal, a plain line every few seconds elsewhere, nothing for a short run."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from shutil import get_terminal_size
from threading import Lock
from typing import TextIO

from offset_ledger.base.units import show_duration

log = logging.getLogger(__name__)

OnProgress = Callable[[int], None]
"""Called with how many were done since the last call, from any thread."""

PLAIN_SECONDS = 5.0
_BAR_AFTER = 1.0  # seconds


_CLEAR = "\r\x1b[K"


def live(line: str) -> None:
    """Show what a run does now: at a terminal in place of the last line, elsewhere as a line; on standard error."""
    if rewrites(sys.stderr):
        print(f"{_CLEAR}{line[: get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def clear() -> None:
    """Remove the live line before anything that stays is printed."""
    if rewrites(sys.stderr):
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def rewrites(stream: TextIO) -> bool:
    """Return whether a line of the stream can be replaced: it is a terminal."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(total: int | None, what: str, out: TextIO | None = None, unit: str = "records") -> Iterator[OnProgress]:
    """Show how many of ``total`` are done, how fast, and how long the rest takes at that rate.

    A bar is on standard error unless ``out`` is given; lines are in the log, where that takes them.
    """
    stream = out or sys.stderr
    if stream.isatty():
        from tqdm import tqdm

        clear()
        unit, after = f" {unit}", _BAR_AFTER
        with tqdm(total=total, desc=what, unit=unit, unit_scale=True, delay=after, leave=False, file=stream) as bar:
            yield _one_at_a_time(bar.update)
    else:
        in_log = out is None and log.isEnabledFor(logging.INFO)
        say = log.info if in_log else partial(print, file=stream, flush=True)
        yield _one_at_a_time(PlainLines(total, what, say, unit=unit))


def _one_at_a_time(advance: Callable[[int], object]) -> OnProgress:
    lock = Lock()

    def locked(done: int) -> None:
        with lock:
            advance(done)

    return locked


class PlainLines:
    """``staged 120,000 of 1,000,000 offsets (24,000/s, 37 s left)``, at most every ``PLAIN_SECONDS``."""

    def __init__(
        self,
        total: int | None,
        what: str,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        unit: str = "records",
    ) -> None:
        self._total = total
        self._what = what
        self._say = say
        self._clock = clock
        self._unit = unit
        self._done = 0
        self._began = self._said = clock()

    def __call__(self, done: int) -> None:
        """Add ``done`` records, and log the total if the last line is old enough."""
        self._done += done
        now = self._clock()
        if now - self._said >= PLAIN_SECONDS:
            self._said = now
            rate = self._done / (now - self._began)
            rest = None if self._total is None or not rate else max(0, self._total - self._done) / rate
            left = "" if rest is None else f", {show_duration(ceil(rest))} left"
            of = "" if self._total is None else f" of {self._total:,}"
            self._say(f"{self._what} {self._done:,}{of} {self._unit} ({rate:,.0f}/s{left})")
