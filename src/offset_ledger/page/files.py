"""The pages' own files and the quality reports, each with what a browser may do with it, if it may be served."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import HTTPException, Response
from fastapi.responses import FileResponse

_MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
# Same origin, so that links between reports carry the session; no script in any case.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox allow-same-origin"
)


def static_file(name: str) -> Response:
    """A file of ``static/`` by its path there."""
    root = Path(str(files("offset_ledger").joinpath("page", "static")))
    known = {file.relative_to(root).as_posix(): file for file in root.rglob("*") if file.is_file()}
    path = known.get(name)
    if path is None or path.suffix not in _MEDIA:
        raise HTTPException(404, "there is no such file")
    return _file(path, _MEDIA[path.suffix], _PAGE_POLICY)


def report_file(path: Path, media_type: str) -> Response:
    """A quality report, which runs no script."""
    return _file(path, media_type, _REPORT_POLICY)


def _file(path: Path, media_type: str, policy: str) -> Response:
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
    }
    return FileResponse(path, media_type=media_type, headers=headers)


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
