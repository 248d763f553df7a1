"""Rows travel to Postgres as CSV on a machine that pgpq has no wheel for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pgpq"] = None
import pyarrow as pa
from offset_ledger.steps.stage.copy_rows import copy_form
form, pieces = copy_form({"n": "integer"}, pa.table({"n": [1, None, 2]}))
print(form, b"".join(pieces))
"""


def test_rows_travel_as_csv_without_pgpq() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "csv b'1\\n\\n2\\n'\n")
