"""One small stack for the tests that start, break and mend one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import PortChoice
from offset_ledger_kit.sandbox.stack import Stack


@pytest.fixture(scope="package")
def small() -> Iterator[Stack]:
    """One broker and Postgres; each test leaves it running."""
    # Not pytest's: as root, each session that starts closes that to Postgres's user again.
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-")).resolve()
    yield local.up(ports=PortChoice.any_free(), home=home, project=home)
    local.down(home)
    shutil.rmtree(home)
