"""A Spark session as staging needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# A Kafka value goes through Arrow as it is; 20,000 records a batch was the fastest measured.
SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
    # A batch is one short job in a new JVM: the optimising compiler and G1's threads cost it more than they give back
    # (a sixth of a batch of 100,000 records on 2 cores, and nothing lost at 2,000,000).
    JAVA_OPTIONS: "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    # Spark hides only (?i)url by default; SASL secrets travel in kafka.sasl.jaas.config and kafka.ssl.*.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore|truststore|token",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|AIRFLOW_CONN",
}


def spark_jars() -> str:
    """The Kafka connector's jars, comma-separated: ``$OFFSET_LEDGER_SPARK_JARS``, else fetched once."""
    if configured := os.environ.get("OFFSET_LEDGER_SPARK_JARS"):
        return configured
    from offset_ledger.local.jars import spark_kafka_jars

    return ",".join(map(str, spark_kafka_jars()))


def local_session(cores: int = 2, memory: str = "1g") -> SparkSession:
    """The session of this process, on ``cores`` cores, made at the first call."""
    from pyspark.sql import SparkSession

    from offset_ledger.spark.classes import with_archive

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(f"local[{cores},3]").appName("offset-ledger").config("spark.jars", spark_jars())
    )
    builder = builder.config("spark.driver.memory", memory)
    for key, value in with_archive(SETTINGS).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
