"""The settings of every Spark driver that stages a batch, and a check that Spark is installed once."""

import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from offset_ledger.errors import SparkMismatch
from offset_ledger.extras import require

# Of pandas nothing is used; pyspark imports it.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A batch is one short job in a new JVM: the optimising compiler and G1's threads cost it more than they give back.
    # A session that stays is better off without the first option.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # As by default, and connections in the environment.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|AIRFLOW_CONN",
}

# More of them on a local master, whose workers run where the package is installed.
LOCAL_SETTINGS: Mapping[str, str] = {"spark.python.daemon.module": "offset_ledger.stage.worker_daemon"}


def check_spark() -> None:
    """Return if Spark is installed, and pyspark and pyspark-client, where both are, have one version.

    Raises:
        ConfigurationError: it is not installed.
        SparkMismatch: files of two versions are mixed.
    """
    require("spark", "a batch that Spark reads")
    whole, client = _installed("pyspark"), _installed("pyspark-client")
    if whole and client and whole != client:
        raise SparkMismatch(
            f"pyspark {whole} and pyspark-client {client} share one folder, so they have to be of one version; nothing "
            f"was staged; run pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
