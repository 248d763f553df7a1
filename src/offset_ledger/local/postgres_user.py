"""Whom PostgreSQL runs as: the user of this process, or for root one of its own, because it refuses to run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from offset_ledger.errors import StackError
from offset_ledger.local.layout import only_one

SYSTEM_USER = "pgserver"


def system_user() -> str | None:
    """The user to change to, made if it is missing; None for everybody but root.

    Raises:
        StackError: it could not be made.
    """
    if os.geteuid() != 0:
        return None
    if not _has_user():
        with only_one("user"):  # of several stacks that start at once
            if not _has_user():
                _add_user()
    return SYSTEM_USER


def server_uid() -> int:
    """The number of the user that the server runs as.

    Raises:
        StackError: as :func:`system_user`.
    """
    user = system_user()
    return pwd.getpwnam(user).pw_uid if user else os.geteuid()


def give(path: Path) -> None:
    """Make it that user's."""
    if user := system_user():
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def may_run(program: str) -> bool:
    """Whether that user can reach the program; the folders above it may be closed to others."""
    user = system_user()
    if user is None:
        return True
    return subprocess.run(["test", "-x", program], check=False, user=user, group=user, extra_groups=[]).returncode == 0


def superusers() -> list[str]:
    """The users of the system that the socket lets in as the superuser of Postgres: this one and the server's."""
    return sorted({pwd.getpwuid(uid).pw_name for uid in (os.geteuid(), server_uid())})


def _has_user() -> bool:
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return False
    return True


def _add_user() -> None:
    try:
        subprocess.run(["useradd", "--system", SYSTEM_USER], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(
            f"PostgreSQL does not run as root and the user {SYSTEM_USER} could not be made ({error}); "
            "make it, or run this as another user than root"
        ) from None
