"""Python's cycle collector, where millions of objects live and none is part of a cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the cycle collector run seldom: a million records make no cycles, and searching for them takes a fifth."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
