"""Spark by its own means: the Kafka source, from_json, JDBC into a staging table, and one merge statement."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import psycopg2
from benchmarks.peers.task import Task, answer, merge_statement

SCHEMA = (
    "event_id STRING, publish_at TIMESTAMP, customer STRING, status STRING, quantity INT, account BIGINT, "
    "amount DECIMAL(12,2), paid BOOLEAN, address STRUCT<city: STRING>, pad STRING"
)
CORES = 2


def work(task: Task) -> Callable[[], None]:
    """Start the session; the rest is timed."""
    from pyspark.sql import SparkSession

    os.environ.update(JAVA_HOME=task.java, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    settings = {
        "spark.jars": ",".join(task.jars["spark"] + task.jars["jdbc"]),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * CORES),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": f"{task.scratch}/warehouse",
        "spark.local.dir": f"{task.scratch}/local",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("peer")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    run = _streaming if task.variant == "streaming" else _batch
    return lambda: run(spark, task)


def _options(task: Task) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": task.bootstrap,
        "subscribe": task.topic,
        "startingOffsets": "earliest",
        "kafka.max.poll.records": "20000",
    }


def _decoded(records: Any, task: Task) -> Any:
    from pyspark.sql import functions as f

    event = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("e"))
    names = [f.col("e.address.city") if name == "city" else f.col(f"e.{name}") for name in task.columns]
    return event.select(*names)


def _to_staging(rows: Any, task: Task, staging: str) -> None:
    rows.write.format("jdbc").option("url", task.jdbc).option("dbtable", staging).option("batchsize", 10_000).option(
        "driver", "org.postgresql.Driver"
    ).mode("append").save()


def _execute(task: Task, *statements: str) -> None:
    session = psycopg2.connect(task.dsn)
    with session, session.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '256MB'")
        for statement in statements:
            cursor.execute(statement)
    session.close()


def _batch(spark: Any, task: Task) -> None:
    staging = f"{task.table}_staging"
    _execute(task, f"CREATE UNLOGGED TABLE {staging} (LIKE {task.table})")
    _to_staging(_decoded(spark.read.format("kafka").options(**_options(task)).load(), task), task, staging)
    _execute(task, f"ANALYZE {staging}", merge_statement(task, staging), f"DROP TABLE {staging}")


def _streaming(spark: Any, task: Task) -> None:
    def write(rows: Any, number: int) -> None:
        staging = f"{task.table}_staging_{number}"
        _execute(task, f"DROP TABLE IF EXISTS {staging}", f"CREATE UNLOGGED TABLE {staging} (LIKE {task.table})")
        _to_staging(rows, task, staging)
        _execute(task, f"ANALYZE {staging}", merge_statement(task, staging), f"DROP TABLE {staging}")

    stream = spark.readStream.format("kafka").options(**_options(task), maxOffsetsPerTrigger="2000000").load()
    query = (
        _decoded(stream, task)
        .writeStream.option("checkpointLocation", f"{task.scratch}/checkpoint")
        .trigger(availableNow=True)
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    answer(work)
