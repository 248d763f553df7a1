"""Python's cycle collector, where millions of objects live and none is part of a cycle."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (50_000, 20, 50)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the cycle collector rarely: a million records make no cycles, and a search takes a fifth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_rarely() -> None:
    """Run the cycle collector of this program rarely, and not at exit.

    Imported modules stay: collecting them at exit takes a third of the start-up time.
    """
    gc.set_threshold(*_RARELY)
    atexit.register(gc.freeze)
