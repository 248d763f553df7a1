"""Folders of Spark sessions: those of living processes stay, those of dead ones go, and nothing else is touched."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offset_ledger.outside.spark.scratch import PREFIX, scratch

_HOLD = """
import sys
from offset_ledger.outside.spark.scratch import scratch
with scratch() as folder:
    (folder / "blockmgr-1").mkdir()
    print(folder, flush=True)
    sys.stdin.readline()
"""


@contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a folder until it is sent a line."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_start_removes_the_folders_of_dead_processes_and_never_those_of_living_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    elsewhere = tmp_path / "kept"
    elsewhere.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("x")
    with holder() as (dead, left), holder() as (alive, held):
        dead.kill()
        dead.wait()
        assert left.exists()
        with scratch() as mine:
            assert mine.stat().st_mode & 0o777 == 0o700
            assert {p.name for p in tmp_path.iterdir()} == {
                *(held.name, mine.name, "kept", f"{PREFIX}link", f"{PREFIX}file")
            }
            assert (held / "blockmgr-1").is_dir()
        assert not mine.exists()
        alive.communicate("\n")
        assert not held.exists()
