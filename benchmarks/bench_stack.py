"""The servers of a benchmark: on free ports, in a folder of their own, with a ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import PortChoice
from offset_ledger_kit.sandbox.stack import Stack


@contextmanager
def bench_stack(home: Path, **options: Any) -> Iterator[Stack]:
    """One broker, Postgres, and what the options of ``up`` ask for, stopped in the end; the environment has their
    connections.
    """
    stack = local.up(**{"brokers": 1, "ports": PortChoice.any_free(), "project": Path.cwd(), **options}, home=home)
    try:
        os.environ.update(stack.environment())
        with connect(stack.postgres.connection()) as session:
            migrate(session)
        yield stack
    finally:
        local.down(home)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed in the end."""
    with TemporaryDirectory(prefix="offset-ledger-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
