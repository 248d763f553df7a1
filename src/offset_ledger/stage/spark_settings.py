"""What every Spark driver that stages a batch runs with: its settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

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
