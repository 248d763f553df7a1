"""The demo, small: three brokers, Airflow and its real scheduler, from publishing to the proof."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger.local import stack as local
from tests.paths import ROOT


@pytest.fixture
def home() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
    yield made
    local.down(made)
    shutil.rmtree(made)


@pytest.mark.timeout(600)
def test_the_main_job_runs_through_airflow_and_proves_its_result(home: Path) -> None:
    ports = {f"OFFSET_LEDGER_{part}_PORT": "0" for part in ("KAFKA", "POSTGRES", "AIRFLOW")}
    outside = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-m", "offset_ledger.cli", "demo", "--flights", "1000", "--json"],
        env={**outside, **ports, "OFFSET_LEDGER_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    claims = json.loads(done.stdout)
    assert [claim["text"] for claim in claims if claim["expected"] != claim["found"]] == []
    assert {"rows", "a second run changed no row"} <= {claim["text"] for claim in claims}
    assert (home / "reports" / "flights" / "index.html").exists()
