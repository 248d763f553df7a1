"""Which file a path under the reports folder names, if it may be served."""

from __future__ import annotations

from pathlib import Path

_SERVED = {".html": "text/html", ".json": "application/json"}


def find_report(folder: Path, path: str) -> tuple[str, Path, str] | None:
    """The first folder below ``folder``, the file and its media type; None if it is no report that exists.

    The path is resolved before it is checked, so neither ``..`` nor a symbolic link leads out of the folder, nor from
    one pipeline's reports to another's: the first folder returned is that of the file that is served.
    """
    root = folder.resolve()
    try:
        file = (root / path.lstrip("/")).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # absent, a NUL byte, a loop of links
        return None
    if not file.is_relative_to(root) or not file.is_file():
        return None
    parts = file.relative_to(root).parts
    if len(parts) < 2 or any(part.startswith(".") for part in parts) or file.suffix not in _SERVED:
        return None
    return parts[0], file, _SERVED[file.suffix]
