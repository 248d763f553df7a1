"""Python's cycle collector, where millions of objects live and none is part of a cycle."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (50_000, 20, 50)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the cycle collector run seldom: a million records make no cycles, and searching for them takes a fifth."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_rarely() -> None:
    """Let the collector of this program run seldom, and not at its end.

    What a program imports stays: to look for garbage in it, at last once more, takes a third of a start.
    """
    gc.set_threshold(*_RARELY)
    atexit.register(gc.freeze)
