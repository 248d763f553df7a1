"""The package as a zip for spark-submit's --py-files, which takes no wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def package_zip(folder: Path) -> Path:
    """``offset_ledger.zip``, made in ``folder``, which nobody else may write: executors run what is in it."""
    made = folder / "offset_ledger.zip"
    with zipfile.ZipFile(made, "x") as archive:
        for file in sorted(p for p in ROOT.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            archive.write(file, Path("offset_ledger") / file.relative_to(ROOT))
    return made
