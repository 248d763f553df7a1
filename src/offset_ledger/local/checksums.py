"""Our own checksums of what is fetched, beside those that its repository publishes: ``fetched.sha256``.

It has every file of the versions that the package names, as ``sha256sum`` writes them in their folders of the cache. A
version that somebody has chosen may be missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from offset_ledger.errors import StackError

_LIST = Path(__file__).with_name("fetched.sha256")


@cache
def known() -> Mapping[str, str]:
    """File name to SHA-256."""
    lines = (line.split() for line in _LIST.read_text().splitlines())
    return {name: digest for digest, name in lines}


def pinned_name(folder: str, file: str) -> str:
    """The name of the cache folder for what comes with that file; one filled without our checksums has another."""
    return f"{folder}-{known()[file][:8]}" if file in known() else folder


def unpinned_line(file: str) -> str:
    """What is said before a file is fetched that has no checksum of ours."""
    return f"the package has no checksum of this version: the one that the repository publishes for {file} is trusted"


def check_fetched(files: Iterable[Path], first: str) -> None:
    """Return if each file has our checksum; where the ``first`` has none, the others may have none either.

    Raises:
        StackError: a file has another content, or nobody expected it.
    """
    for file in files:
        expected = known().get(file.name)
        if expected is None and first not in known():
            continue
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != expected:
            raise StackError(
                f"{file.name} should have the SHA-256 {expected or 'of no file: it is not needed'}, found {digest}; it "
                "was not used; ask whoever runs the repository that it came from"
            )
