"""Files and folders with secrets: for their owner alone, and a file whole or absent."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from offset_ledger.errors import StackError


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


def make_private(folder: Path, owner: int) -> None:
    """Make the folder for that user alone, unless it is there.

    Raises:
        StackError: as :func:`check_private`, of a folder that was there.
    """
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        check_private(folder, owner)
    else:
        os.chown(folder, owner, -1, follow_symlinks=False)


def check_private(folder: Path, owner: int) -> None:
    """Return if it is a folder that only that user may enter: where everybody may write, another one can have made it.

    Raises:
        StackError: it is not.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
        raise StackError(
            f"{folder} should be a folder of user {owner} with mode 0700, found {stat.filemode(status.st_mode)} of "
            f"user {status.st_uid}; stop the stack, remove that and start again"
        )
