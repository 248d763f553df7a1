"""What every Spark driver that stages a batch runs with: its settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

# Of pandas nothing is used; pyspark imports it.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# A Kafka value goes through Arrow as it is; 20,000 records a batch was the fastest measured.
SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Of wide records fewer: a worker holds a batch, its columns and what is copied of them.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
    # The Kafka source prefers one executor for all slices of a partition: the others would wait instead of helping.
    "spark.locality.wait": "0s",
    # A batch is one short job in a new JVM: the optimising compiler and G1's threads cost it more than they give back
    # (half of the JVM's CPU at 10,000 records, a third at 500,000). A session that stays is better off without it.
    JAVA_OPTIONS: "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    # Spark hides only (?i)url by default; SASL secrets travel in kafka.sasl.jaas.config and kafka.ssl.*.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore|truststore|token",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|AIRFLOW_CONN",
}

# More of them on a local master, whose workers run where the package is installed.
LOCAL_SETTINGS: Mapping[str, str] = {"spark.python.daemon.module": "offset_ledger.stage.worker_daemon"}


def spark_jars() -> str:
    """No jar is needed."""
    return ""
