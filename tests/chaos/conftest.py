"""The laboratory that the tests of this folder share: its workers start once, with one warm Spark session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger_kit.sandbox.stack import Stack
from tests.chaos.lab import Lab
from tests.fixtures.servers import own_stack


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """Most tests of this folder kill, stop or restart their servers."""
    with own_stack() as made:
        yield made


@pytest.fixture(scope="package")
def lab(stack: Stack) -> Iterator[Lab]:
    """Workers for all tests of this folder."""
    folder = Path(tempfile.mkdtemp(prefix="offset-ledger-chaos-"))
    made = Lab(stack, folder / "lab")
    yield made
    made.close()
    shutil.rmtree(folder)
