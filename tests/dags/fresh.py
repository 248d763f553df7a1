"""A program in a process that has imported nothing of Airflow, with a home of its own, as Airflow's parser is one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fixtures.forked import run_forked
from tests.paths import ROOT


def answer_of(
    program: str,
    home: Path,
    *arguments: str,
    flags: tuple[str, ...] = (),
    as_task: bool = False,
    **environment: str,
) -> Any:
    """What the program prints as the JSON of its last line; nothing else of this environment reaches it.

    ``as_task``: it is no parser but what a task does, so its process is forked from one that has imported Airflow.
    """
    bare = {"PATH": "/usr/bin:/bin", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    whole = {**bare, **environment, "AIRFLOW_HOME": str(home)}
    if flags:
        command = [sys.executable, *flags, "-c", program, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=whole, capture_output=True, text=True, check=False)
    else:
        done = run_forked(program, *arguments, environment=whole, as_task=as_task)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
