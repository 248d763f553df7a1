"""The package as a zip for spark-submit's --py-files, which takes no wheels."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def package_zip(folder: Path | None = None) -> Path:
    """``offset_ledger-<hash>.zip`` in ``folder`` (default: a temporary one), made once for each content."""
    files = sorted(p for p in ROOT.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    place = folder or Path(tempfile.gettempdir())
    made = place / f"offset_ledger-{digest.hexdigest()[:16]}.zip"
    if not made.exists():
        with tempfile.NamedTemporaryFile(dir=place, delete=False) as draft, zipfile.ZipFile(draft, "w") as archive:
            for file in files:
                archive.write(file, Path("offset_ledger") / file.relative_to(ROOT))
        Path(draft.name).replace(made)
    return made
