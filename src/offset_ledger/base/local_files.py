"""Files of this machine: whole ones, secrets for their owner alone, and the folder of files made once for it."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces the one at ``path`` when the block ends; an error leaves that one as it was."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as out:
            yield out
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Replace the file as one step; nobody else may read it at any moment."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(path)


def kept_secret(path: Path) -> str:
    """The secret in the file; the first call creates it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text()


def cache_root() -> Path:
    """The folder that outlives a clone (fetched jars): OFFSET_LEDGER_CACHE, else ``~/.cache/offset-ledger``."""
    return Path(os.environ.get("OFFSET_LEDGER_CACHE") or "~/.cache/offset-ledger").expanduser().resolve()


@contextmanager
def only_one(what: str) -> Iterator[None]:
    """Run the block in one process of this machine at a time."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / f".{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
