"""The program ``offset-ledger`` looks for garbage seldom, and not once more at its end; other processes as before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 10_000))
before = gc.get_threshold()
from offset_ledger_kit.cli.main import main
try:
    main({arguments})
finally:
    print(gc.get_threshold() > before)
"""


@pytest.mark.parametrize(("arguments", "ours"), [("", "True"), ("['--version']", "False")])
def test_a_program_that_soon_ends_collects_rarely(arguments: str, ours: str) -> None:
    as_python_begins = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(arguments=arguments), "--version"],
        env=as_python_begins, capture_output=True, text=True, check=True, timeout=120)  # fmt: skip
    assert done.stdout.split("\n")[1:3] == [ours, ours]
