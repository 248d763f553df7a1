"""Archives of the classes of a Java program, which its JVM maps instead of reading them from jars.

Java's class data sharing (JEP 350). An archive that does not fit, for another Java or class path, is left aside by the
JVM; one that is cut short would crash it, so it is made under another name and renamed.
"""

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from offset_ledger.base.local_files import only_one
from offset_ledger.errors import StackError


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """One archive, which may not have been made yet."""

    place: Path

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which a JVM maps the archive; none where there is none yet."""
        if not self.place.exists():
            return ()
        # Unless it is silenced, a JVM that does not use the archive says so in the middle of the program's output.
        return (f"-XX:SharedArchiveFile={self.place}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

    def make(self, record: Callable[[str], None]) -> bool:
        """Have it made, unless it is there; False where this Java cannot, or the folder cannot be written.

        ``record`` runs the program with the JVM option that it gets, and returns when the program has ended.
        """
        if self.place.exists():
            return True
        draft = self.place.with_name(f".{self.place.name}.{uuid4().hex}")
        with only_one(self.place.name):
            if self.place.exists():
                return True
            try:
                self.place.parent.mkdir(parents=True, exist_ok=True)
                record(f"-XX:ArchiveClassesAtExit={draft}")
                draft.rename(self.place)
            except (OSError, subprocess.SubprocessError, StackError):
                draft.unlink(missing_ok=True)
                return False
        return True


def class_archive(folder: Path, name: str, java_home: Path | None, program: str) -> ClassArchive | None:
    """The archive in that folder for this Java and ``program``, its class path or version.

    None where this Java can have none: one without an archive of its own classes cannot add others to it.
    """
    base = java_home / "lib" / "server" / "classes.jsa" if java_home else None
    if base is None or not base.exists():
        return None
    identity = f"{base.resolve()} {base.stat().st_mtime_ns} {program}"
    return ClassArchive(folder / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa")
