"""pyarrow goes without pandas in processes of this package, and only there."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from offset_ledger.base import without_pandas as pandas_later
{ours}
import offset_ledger.steps.stage.slices
import pyarrow as pa
pa.array(["a", None])
print("pandas" in sys.modules)
import pandas
print(pa.table({{"a": [1]}}).to_pandas().shape, pa.Table.from_pandas(pandas.DataFrame({{"a": [1.5]}})).num_rows)
"""


@pytest.mark.parametrize(("ours", "imported"), [("pandas_later.this_process_is_ours()", "False"), ("", "True")])
def test_pandas_waits_until_it_is_needed(ours: str, imported: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(ours=ours)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split("\n")[:2] == [imported, "(1, 1) 1"]
