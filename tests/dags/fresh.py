"""A program in a fresh interpreter with an Airflow home of its own, as Airflow's parser starts one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.paths import ROOT


def answer_of(program: str, home: Path, *arguments: str, flags: tuple[str, ...] = (), **environment: str) -> Any:
    """What the program prints as the JSON of its last line; nothing else of this environment reaches it."""
    bare = {"PATH": "/usr/bin:/bin", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, *flags, "-c", program, *arguments],
        cwd=ROOT,
        env={**bare, **environment, "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
