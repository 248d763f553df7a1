"""Completion, asked for by the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = str(Path(sys.executable).parent)
# What bash does at a press of the key: the function of the command fills COMPREPLY.
PRESS = """
eval "$(offset-ledger completion bash)"
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=9
read -ra COMP_WORDS <<< "$LINE"
[[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete offset-ledger
printf '%s\\n' "${COMPREPLY[@]}"
"""


def shell(line: list[str], folder: Path, **more: str) -> list[str]:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), **more}
    done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return [answer.partition("\t")[0].strip() for answer in done.stdout.splitlines() if answer.strip()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pipelines = tmp_path / "dags/pipelines"
    pipelines.mkdir(parents=True)
    for name in ("flights", "flying", "orders"):
        (pipelines / f"{name}.yaml").write_text(f"pipeline: {name}\n")
    return tmp_path


LINES = [
    ("offset-ledger sta", {"stack", "status"}),
    ("offset-ledger batch a", {"approve", "abandon"}),
    ("offset-ledger batch list --li", {"--limit"}),
    ("offset-ledger stack up --spark ", {"connect", "standalone", "none"}),
    ("offset-ledger status fl", {"flights", "flying"}),
]


@pytest.mark.parametrize(("line", "completed"), LINES)
def test_bash_completes(line: str, completed: set[str], folder: Path) -> None:
    assert set(shell(["bash", "-c", PRESS], folder, LINE=line)) == completed


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "completed"), LINES)
def test_fish_completes(line: str, completed: set[str], folder: Path) -> None:
    asked = 'offset-ledger completion fish | source; complete -C "$LINE"'
    assert set(shell(["fish", "-c", asked], folder, LINE=line)) == completed


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(folder: Path) -> None:
    asked = 'autoload -U compinit; compinit -u; eval "$(offset-ledger completion zsh)"; print $_comps[offset-ledger]'
    assert shell(["zsh", "-f", "-c", asked], folder) == ["_python_argcomplete"]
